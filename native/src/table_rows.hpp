// A table of dense matrices as products read them: forwards in panels, backwards row by row.
#pragma once

#include "lanes.hpp"
#include "slicekit_table.h"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace table {

// Sizes of a matrix whose rows are padded to lane groups.
template <class Real>
struct Shape {
  explicit Shape(int64_t dim) : dim(dim), padded(round_up(dim, LANES<Real>)) {}

  int64_t groups() const { return padded / LANES<Real>; }
  int64_t panel() const { return dim * LANES<Real>; }
  int64_t numbers() const { return padded * dim; }
  bool fills() const { return padded == dim; }

  int64_t dim, padded;
};

// panels[g, j, l] = matrix[g LANES + l, j]: products with few rows read them faster than whole rows.
template <class Real>
inline void pack_panels(const Shape<Real> &shape, const Real *matrix, Real *panels) {
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

// to[i, j] = matrix[i, j].
template <class Real>
inline void pack(const Shape<Real> &shape, const Real *matrix, Real *to) {
  for (int64_t i = 0; i < shape.dim; ++i, matrix += shape.dim, to += shape.padded) {
    for (int64_t j = 0; j < shape.dim; ++j) to[j] = matrix[j];
    for (int64_t j = shape.dim; j < shape.padded; ++j) to[j] = 0;
  }
}

// matrix[i, j] = from[i, j].
template <class Real>
inline void unpack(const Shape<Real> &shape, const Real *from, Real *matrix) {
  for (int64_t i = 0; i < shape.dim; ++i, matrix += shape.dim, from += shape.padded) {
    for (int64_t j = 0; j < shape.dim; ++j) matrix[j] = from[j];
  }
}

}  // namespace table
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
