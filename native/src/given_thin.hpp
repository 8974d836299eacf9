// Products of a small row-major matrix A (rows, width) with vectors: y = A x, x = A^* y, A = y x^*.
//
// They serve blocks (width is the block) and low-rank factors (width is the rank) where states are
// vectors. Small widths are known to the compiler; for others the rows of A are those of a matrix
// state. What the backward pass needs runs from the last row to the first, as it takes the steps.
#pragma once

#include "given_matrix.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace given {

template <class Real>
struct FourOf {
  typedef Real Type __attribute__((vector_size(4 * sizeof(Real))));
  typedef Real Unaligned
      __attribute__((vector_size(4 * sizeof(Real)), aligned(sizeof(Real)), may_alias));
};

template <class Real>
using Four = typename FourOf<Real>::Type;

template <class Real>
SLICEKIT_INLINE Four<Real> load_four(const Real *from) {
  return *reinterpret_cast<const typename FourOf<Real>::Unaligned *>(from);
}

template <class Real>
SLICEKIT_INLINE void store_four(Real *to, Four<Real> x) {
  *reinterpret_cast<typename FourOf<Real>::Unaligned *>(to) = x;
}

// A of a width that is a constant.
template <class Number, int N>
struct Narrow {
  static constexpr int64_t width = N;

  static SLICEKIT_INLINE void act(int64_t rows, const Number *A, const Number *x, Number *y,
                                  bool add) {
    for (int64_t i = 0; i < rows; ++i, A += N) {
      Number sum = add ? y[i] : Number{};
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) sum += A[j] * x[j];
      y[i] = sum;
    }
  }

  template <bool BACKWARDS>
  static SLICEKIT_INLINE void adjoint(int64_t rows, const Number *A, const Number *y, Number *x) {
    Number sums[N] = {};
    for (int64_t n = 0; n < rows; ++n) {
      const int64_t i = BACKWARDS ? rows - 1 - n : n;
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) sums[j] += A[i * N + j] * y[i];
    }
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) x[j] = sums[j];
  }

  static SLICEKIT_INLINE void outer(int64_t rows, const Number *y, const Number *x, Number *A) {
    for (int64_t i = rows - 1; i >= 0; --i) {
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) A[i * N + j] = y[i] * x[j];
    }
  }
};

// Width 4: a row is one short vector, and four rows are summed together.
template <class Real>
struct Narrow<Real, 4> {
  using V = Four<Real>;
  static constexpr int64_t width = 4;

  static SLICEKIT_INLINE void act(int64_t rows, const Real *A, const Real *x, Real *y, bool add) {
    const V factor = load_four(x);
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4, A += 16) {
      const V a = load_four(A) * factor, b = load_four(A + 4) * factor;
      const V c = load_four(A + 8) * factor, d = load_four(A + 12) * factor;
      const V low = __builtin_shufflevector(a, b, 0, 4, 2, 6) +
                    __builtin_shufflevector(a, b, 1, 5, 3, 7);
      const V high = __builtin_shufflevector(c, d, 0, 4, 2, 6) +
                     __builtin_shufflevector(c, d, 1, 5, 3, 7);
      const V sums = __builtin_shufflevector(low, high, 0, 1, 4, 5) +
                     __builtin_shufflevector(low, high, 2, 3, 6, 7);
      store_four<Real>(y + i, add ? load_four(y + i) + sums : sums);
    }
    for (; i < rows; ++i, A += 4) {
      const V a = load_four(A) * factor;
      y[i] = (add ? y[i] : Real(0)) + ((a[0] + a[1]) + (a[2] + a[3]));
    }
  }

  template <bool BACKWARDS>
  static SLICEKIT_INLINE void adjoint(int64_t rows, const Real *A, const Real *y, Real *x) {
    V sums[4] = {};
    const int64_t whole = rows / 4 * 4;
    for (int64_t i = whole; i < rows; ++i) sums[0] += load_four(A + 4 * i) * y[i];
    for (int64_t n = 0; n < whole; n += 4) {
      const int64_t i = BACKWARDS ? whole - 4 - n : n;
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) sums[r] += load_four(A + 4 * (i + r)) * y[i + r];
    }
    store_four<Real>(x, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

  static SLICEKIT_INLINE void outer(int64_t rows, const Real *y, const Real *x, Real *A) {
    const V factor = load_four(x);
    for (int64_t i = rows - 1; i >= 0; --i) store_four<Real>(A + 4 * i, y[i] * factor);
  }
};

// A of any other width.
template <class Number>
struct Broad {
  int64_t width;

  void act(int64_t rows, const Number *A, const Number *x, Number *y, bool add) const {
    MatrixState<Number>{width, width}.times(rows, A, x, y, add);
  }

  template <bool BACKWARDS>
  void adjoint(int64_t rows, const Number *A, const Number *y, Number *x) const {
    MatrixState<Number>{width, width}.template contract<BACKWARDS>(rows, 1, y, A, x);
  }

  void outer(int64_t rows, const Number *y, const Number *x, Number *A) const {
    const Terms<Number> product{rows, nullptr, nullptr, 0, nullptr, nullptr, {nullptr, y, x}};
    MatrixState<Number>{width, width}.template update<true>(product, A);
  }
};

// body(products) with the products for matrices of this width.
template <class Number, class Body>
SLICEKIT_INLINE void with_width(int64_t width, Body body) {
  switch (width) {
    case 2: return body(Narrow<Number, 2>{});
    case 3: return body(Narrow<Number, 3>{});
    case 4: return body(Narrow<Number, 4>{});
    case 5: return body(Narrow<Number, 5>{});
    case 6: return body(Narrow<Number, 6>{});
    case 7: return body(Narrow<Number, 7>{});
    default: return body(Broad<Number>{width});
  }
}

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
