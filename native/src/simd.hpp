// Short vectors: 32 bytes each, written once and compiled for every instruction set.
//
// A *lane group* is 64 bytes, one cache line: LANES numbers, or two vectors of WIDTH.
// Headers that are compiled for several instruction sets keep everything in the namespace
// slicekit::SLICEKIT_ISA and use no inline function of the standard library, because the linker
// would merge its copies and might keep one that the processor can't run.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SLICEKIT_INLINE inline __attribute__((always_inline))
#define SLICEKIT_NOINLINE __attribute__((noinline))

namespace slicekit {
namespace SLICEKIT_ISA {

template <class Real>
struct VectorOf {
  typedef Real Type __attribute__((vector_size(32)));
  typedef Real Unaligned __attribute__((vector_size(32), aligned(sizeof(Real)), may_alias));
};

template <class Real>
using Vector = typename VectorOf<Real>::Type;

template <class Real>
constexpr int WIDTH = 32 / sizeof(Real);

template <class Real>
constexpr int LANES = 64 / sizeof(Real);

template <class Real>
SLICEKIT_INLINE Vector<Real> load(const Real *from) {
  return *reinterpret_cast<const typename VectorOf<Real>::Unaligned *>(from);
}

template <class Real>
SLICEKIT_INLINE void store(Real *to, Vector<Real> x) {
  *reinterpret_cast<typename VectorOf<Real>::Unaligned *>(to) = x;
}

template <class Real>
SLICEKIT_INLINE Vector<Real> zero() {
  return Vector<Real>{};
}

template <class Real>
SLICEKIT_INLINE Vector<Real> broadcast(Real x) {
  return x - Vector<Real>{};  // not 0 + x, which is not x for x = -0 and so costs an addition
}

// The sum of a vector's numbers.
SLICEKIT_INLINE float sum(Vector<float> x) {
  Vector<float> a = x + __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
  Vector<float> b = a + __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
  return b[0] + b[1];
}

SLICEKIT_INLINE double sum(Vector<double> x) {
  Vector<double> a = x + __builtin_shufflevector(x, x, 2, 3, 0, 1);
  return a[0] + a[1];
}

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
