// Short vectors of VECTOR_BYTES each, written once and compiled for every instruction set.
//
// A *lane group* is 64 bytes, one cache line: LANES numbers, or VECTORS vectors of WIDTH.
// Headers that are compiled for several instruction sets keep everything in the namespace
// slicekit::SLICEKIT_ISA and use no inline function of the standard library, because the linker
// would merge its copies and might keep one that the processor can't run.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "settings.hpp"

#define SLICEKIT_INLINE inline __attribute__((always_inline))
#define SLICEKIT_NOINLINE __attribute__((noinline))
#define SLICEKIT_INLINE_LAMBDA __attribute__((always_inline))

namespace slicekit {
namespace SLICEKIT_ISA {

template <class Real>
struct VectorOf {
  typedef Real Type __attribute__((vector_size(VECTOR_BYTES)));
  typedef Real Unaligned
      __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(Real)), may_alias));
};

template <class Real>
using Vector = typename VectorOf<Real>::Type;

template <class Real>
constexpr int WIDTH = VECTOR_BYTES / sizeof(Real);

template <class Real>
constexpr int LANES = 64 / sizeof(Real);

constexpr int VECTORS = 64 / VECTOR_BYTES;

template <class Real>
SLICEKIT_INLINE Vector<Real> load(const Real *from) {
  return *reinterpret_cast<const typename VectorOf<Real>::Unaligned *>(from);
}

template <class Real>
SLICEKIT_INLINE void store(Real *to, Vector<Real> x) {
  *reinterpret_cast<typename VectorOf<Real>::Unaligned *>(to) = x;
}

// Asks for numbers that are read soon, where the processor would not guess them. Not inlined it would
// be left out, as a function that does nothing.
template <class Real>
SLICEKIT_INLINE void ask_for(const Real *numbers, int64_t count) {
  for (int64_t i = 0; i < count; i += LANES<Real>) __builtin_prefetch(numbers + i, 0, 2);
}

template <class Real>
SLICEKIT_INLINE Vector<Real> zero() {
  return Vector<Real>{};
}

template <class Real>
SLICEKIT_INLINE Vector<Real> broadcast(Real x) {
  return x - Vector<Real>{};  // not 0 + x, which is not x for x = -0 and so costs an addition
}

template <int I>
struct Constant {
  static constexpr int value = I;
};

// Calls f with 0, 1, ..., COUNT - 1 as compile-time constants.
template <int COUNT, int I = 0, class F>
SLICEKIT_INLINE void unrolled(F &&f) {
  if constexpr (I < COUNT) {
    f(Constant<I>{});
    unrolled<COUNT, I + 1>(f);
  }
}

// 0, 1, ..., COUNT - 1 as arguments of a template.
template <int... L>
struct Indices {};

template <int COUNT, int... L>
struct UpTo {
  using Type = typename UpTo<COUNT - 1, COUNT - 1, L...>::Type;
};

template <int... L>
struct UpTo<0, L...> {
  using Type = Indices<L...>;
};

// The sum of vectors.
template <class Real, int COUNT>
SLICEKIT_INLINE Vector<Real> added(const Vector<Real> (&x)[COUNT]) {
  Vector<Real> total = x[0];
#pragma GCC unroll 4
  for (int v = 1; v < COUNT; ++v) total += x[v];
  return total;
}

// Half of a vector, from lane FROM on, as a vector of half the length.
template <int FROM, class V, int... L>
SLICEKIT_INLINE auto half_from(V x, Indices<L...>) {
  return __builtin_shufflevector(x, x, (FROM + L)...);
}

// The sum of a vector's COUNT numbers.
template <int COUNT, class V>
SLICEKIT_INLINE auto sum_of(V x) {
  if constexpr (COUNT == 2) {
    return x[0] + x[1];
  } else if constexpr (sizeof(V) == 16) {
    const V y = x + __builtin_shufflevector(x, x, 2, 3, 0, 1);
    return y[0] + y[1];
  } else {
    using Half = typename UpTo<COUNT / 2>::Type;
    return sum_of<COUNT / 2>(half_from<0>(x, Half{}) + half_from<COUNT / 2>(x, Half{}));
  }
}

// sums[l] = the sum of lanes l, l + 4, l + 8, ...
template <class V, class Real>
SLICEKIT_INLINE void sum_fourths(V x, Real *sums) {
  constexpr int COUNT = sizeof(V) / sizeof(Real);
  if constexpr (COUNT == 4) {
    for (int l = 0; l < 4; ++l) sums[l] = x[l];
  } else {
    using Half = typename UpTo<COUNT / 2>::Type;
    sum_fourths(half_from<0>(x, Half{}) + half_from<COUNT / 2>(x, Half{}), sums);
  }
}

SLICEKIT_INLINE float sum(Vector<float> x) { return sum_of<WIDTH<float>>(x); }
SLICEKIT_INLINE double sum(Vector<double> x) { return sum_of<WIDTH<double>>(x); }

template <class T>
SLICEKIT_INLINE T least(T a, T b) {
  return b < a ? b : a;
}

template <class T>
SLICEKIT_INLINE T most(T a, T b) {
  return a < b ? b : a;
}

// Smallest multiple of `step` that is at least n.
SLICEKIT_INLINE int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
