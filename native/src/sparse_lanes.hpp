// Between rows and lanes: arrays that are contiguous in a vector's elements, and lane groups that
// hold the same element of several vectors side by side.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse {

// x[i][j] and x[j][i] change places.
SLICEKIT_INLINE void transpose(Vector<float> *x) {
  using V = Vector<float>;
  V y[8], z[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    y[2 * i] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[2 * i + 1] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int k = i / 2 * 4 + i % 2;
    z[k] = __builtin_shufflevector(y[k], y[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    z[k + 2] = __builtin_shufflevector(y[k], y[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = __builtin_shufflevector(z[i], z[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    x[i + 4] = __builtin_shufflevector(z[i], z[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

SLICEKIT_INLINE void transpose(Vector<double> *x) {
  using V = Vector<double>;
  V y[4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    y[2 * i] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 0, 4, 2, 6);
    y[2 * i + 1] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 1, 5, 3, 7);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    x[i] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 4, 5);
    x[i + 2] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 6, 7);
  }
}

// WIDTH rows of `from`, each of WIDTH contiguous numbers, become the columns of `to`.
template <class Real>
SLICEKIT_INLINE void transpose_tile(const Real *from, ptrdiff_t from_row, Real *to,
                                    ptrdiff_t to_row) {
  constexpr int W = WIDTH<Real>;
  Vector<Real> x[W];
#pragma GCC unroll 8
  for (int i = 0; i < W; ++i) x[i] = load(from + i * from_row);
  transpose(x);
#pragma GCC unroll 8
  for (int i = 0; i < W; ++i) store(to + i * to_row, x[i]);
}

// Vectors in an array: number l begins at `first` + l * lane, its elements are `element` apart.
template <class Real>
struct Rows {
  Real *first;
  ptrdiff_t lane, element;
};

// A batch-first array (batch, steps, size, columns) and the vectors of `size` elements in it.
struct Field {
  int64_t steps, size, columns;

  // Vectors of consecutive sequences at one step.
  template <class Real>
  SLICEKIT_INLINE Rows<Real> over_sequences(Real *array, int64_t sequence, int64_t step,
                                            int64_t column) const {
    return {at(array, sequence, step, column), steps * size * columns, columns};
  }

  // Vectors of consecutive steps of one sequence.
  template <class Real>
  SLICEKIT_INLINE Rows<Real> over_steps(Real *array, int64_t sequence, int64_t step,
                                        int64_t column) const {
    return {at(array, sequence, step, column), size * columns, columns};
  }

  template <class Real>
  SLICEKIT_INLINE Real *at(Real *array, int64_t sequence, int64_t step, int64_t column) const {
    return array + (sequence * steps + step) * size * columns + column;
  }
};

// to[e * row + l] = element e of vector l, for one lane group; zero from vector `lanes` on.
template <class Real>
inline void gather(Rows<const Real> from, int64_t lanes, int64_t elements, Real *to,
                   ptrdiff_t row) {
  constexpr int W = WIDTH<Real>;
  for (int64_t half = 0; half < LANES<Real>; half += W) {
    int64_t e = 0;
    if (from.element == 1 && half + W <= lanes) {
      for (; e + W <= elements; e += W) {
        transpose_tile(from.first + half * from.lane + e, from.lane, to + e * row + half, row);
      }
    }
    for (; e < elements; ++e) {
      for (int64_t l = half; l < half + W; ++l) {
        to[e * row + l] = l < lanes ? from.first[l * from.lane + e * from.element] : Real(0);
      }
    }
  }
}

// Element e of vector l (+)= from[e * row + l] for the first `lanes` vectors of a lane group.
template <class Real>
inline void scatter(const Real *from, ptrdiff_t row, int64_t lanes, int64_t elements,
                    Rows<Real> to, bool add) {
  constexpr int W = WIDTH<Real>;
  for (int64_t half = 0; half < least<int64_t>(lanes, LANES<Real>); half += W) {
    int64_t e = 0;
    if (to.element == 1 && half + W <= lanes && !add) {
      for (; e + W <= elements; e += W) {
        transpose_tile(from + e * row + half, row, to.first + half * to.lane + e, to.lane);
      }
    }
    for (; e < elements; ++e) {
      for (int64_t l = half; l < least<int64_t>(half + W, lanes); ++l) {
        Real &x = to.first[l * to.lane + e * to.element];
        x = add ? x + from[e * row + l] : from[e * row + l];
      }
    }
  }
}

}  // namespace sparse
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
