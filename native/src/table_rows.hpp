// A table of dense matrices as products read them: rows that fill lane groups, one after the other.
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
  int64_t numbers() const { return padded * dim; }
  bool fills() const { return padded == dim; }

  int64_t dim, padded;
};

// to[j, i] = matrix[i, j].
template <class Real>
inline void pack_transposed(const Shape<Real> &shape, const Real *matrix, Real *to) {
  constexpr int64_t N = LANES<Real>;
  const int64_t dim = shape.dim, whole = dim / N * N;
  for (int64_t j = 0; j < whole; j += N) {
    for (int64_t i = 0; i < whole; i += N) {
      transpose_square<Real>(matrix + i * dim + j, dim, to + j * shape.padded + i, shape.padded);
    }
  }
  for (int64_t j = 0; j < dim; ++j) {
    for (int64_t i = j < whole ? whole : 0; i < shape.padded; ++i) {
      to[j * shape.padded + i] = i < dim ? matrix[i * dim + j] : Real(0);
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
