// A table of dense matrices in panels, in the order in which products read them.
//
// A matrix has a panel for each lane group of its rows (or, transposed, of its columns), with a lane
// group of numbers for each of its columns (or rows).
#pragma once

#include "lanes.hpp"
#include "slicekit_table.h"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace table {

// Sizes of a matrix in panels.
template <class Real>
struct Shape {
  explicit Shape(int64_t dim) : dim(dim), padded(round_up(dim, LANES<Real>)) {}

  int64_t groups() const { return padded / LANES<Real>; }
  int64_t panel() const { return dim * LANES<Real>; }
  int64_t numbers() const { return padded * dim; }

  int64_t dim, padded;
};

// panels[g, j, l] = matrix[g LANES + l, j].
template <class Real>
inline void pack_rows(const Shape<Real> &shape, const Real *matrix, Real *panels) {
  constexpr int64_t N = LANES<Real>;
  const int64_t dim = shape.dim;
  for (int64_t g = 0; g < shape.groups(); ++g, panels += shape.panel()) {
    const int64_t rows = least(N, dim - g * N);
    int64_t j = 0;
    if (rows == N) {
      for (; j + N <= dim; j += N) {
        transpose_square<Real>(matrix + g * N * dim + j, dim, panels + j * N, N);
      }
    }
    for (; j < dim; ++j) {
      for (int64_t l = 0; l < N; ++l) {
        panels[j * N + l] = l < rows ? matrix[(g * N + l) * dim + j] : Real(0);
      }
    }
  }
}

// panels[g, i, l] = matrix[i, g LANES + l].
template <class Real>
inline void pack_columns(const Shape<Real> &shape, const Real *matrix, Real *panels) {
  constexpr int64_t N = LANES<Real>;
  const int64_t dim = shape.dim;
  for (int64_t g = 0; g < shape.groups(); ++g, panels += shape.panel()) {
    const int64_t columns = least(N, dim - g * N);
    for (int64_t i = 0; i < dim; ++i) {
      const Real *from = matrix + i * dim + g * N;
      for (int64_t l = 0; l < N; ++l) panels[i * N + l] = l < columns ? from[l] : Real(0);
    }
  }
}

// matrix[i, g LANES + l] = panels[g, i, l].
template <class Real>
inline void unpack_columns(const Shape<Real> &shape, const Real *panels, Real *matrix) {
  constexpr int64_t N = LANES<Real>;
  const int64_t dim = shape.dim;
  for (int64_t g = 0; g < shape.groups(); ++g, panels += shape.panel()) {
    const int64_t columns = least(N, dim - g * N);
    for (int64_t i = 0; i < dim; ++i) {
      Real *to = matrix + i * dim + g * N;
      for (int64_t l = 0; l < columns; ++l) to[l] = panels[i * N + l];
    }
  }
}

}  // namespace table
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
