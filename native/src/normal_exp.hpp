// e^x of a vector of numbers where speed counts: one multiplication for each power of x.
//
// With x = k log 2 + r and |r| <= log(2) / 2, e^x = 2^k p(r), where p is a Taylor polynomial. k is
// kept where 2^k is zero, a normal number or infinity: what would be below the least normal number
// is zero, and what is above the greatest power of two by more than a square root may be infinite.
// In between the error is at most two units in the last place. expm1.hpp has no such limits.
#pragma once

#include "expm1.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace slicekit {
namespace SLICEKIT_ISA {

template <class Real>
struct NormalExp;

template <>
struct NormalExp<float> {
  static constexpr int DEGREE = 7;
  static constexpr float SMALLEST = -87.9f, LARGEST = 88.5f;
};

template <>
struct NormalExp<double> {
  static constexpr int DEGREE = 13;
  static constexpr double SMALLEST = -708.9, LARGEST = 709.6;
};

// a where that is larger, else b: b if either is NaN.
template <class Real>
SLICEKIT_INLINE Vector<Real> larger(Vector<Real> a, Vector<Real> b) {
  return a > b ? a : b;
}

template <class Real>
SLICEKIT_INLINE Vector<Real> smaller(Vector<Real> a, Vector<Real> b) {
  return a < b ? a : b;
}

// The same, in the one instruction that GCC does not find.
#if defined(__AVX512F__)
// All lanes: without a mask, GCC 12 warns of what it has not set.
#define SLICEKIT_EXTREME(which, type) _mm512_maskz_##which##_##type(-1, a, b)
#elif defined(__AVX__)
#define SLICEKIT_EXTREME(which, type) _mm256_##which##_##type(a, b)
#elif defined(__SSE2__)
#define SLICEKIT_EXTREME(which, type) _mm_##which##_##type(a, b)
#endif
#if defined(SLICEKIT_EXTREME)
template <>
SLICEKIT_INLINE Vector<float> larger<float>(Vector<float> a, Vector<float> b) {
  return SLICEKIT_EXTREME(max, ps);
}
template <>
SLICEKIT_INLINE Vector<float> smaller<float>(Vector<float> a, Vector<float> b) {
  return SLICEKIT_EXTREME(min, ps);
}
template <>
SLICEKIT_INLINE Vector<double> larger<double>(Vector<double> a, Vector<double> b) {
  return SLICEKIT_EXTREME(max, pd);
}
template <>
SLICEKIT_INLINE Vector<double> smaller<double>(Vector<double> a, Vector<double> b) {
  return SLICEKIT_EXTREME(min, pd);
}
#undef SLICEKIT_EXTREME
#endif

constexpr double factorial(int n) { return n ? n * factorial(n - 1) : 1; }

// In place. N vectors advance side by side, because each waits long for its own last result.
template <class Real, int N>
SLICEKIT_INLINE void normal_exp(Vector<Real> (&x)[N]) {
  using F = Format<Real>;
  using Bits = typename F::Bits;
  using Limits = NormalExp<Real>;
  // Adding this rounds a number to an integer, which then stands in the lowest bits.
  constexpr Real ROUNDER = Real(3) * (int64_t(1) << (F::FRACTION_BITS - 1));
  Vector<Real> power[N], total[N];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    x[i] = larger<Real>(broadcast<Real>(Limits::SMALLEST), x[i]);
    x[i] = smaller<Real>(broadcast<Real>(Limits::LARGEST), x[i]);
    const Vector<Real> shifted = x[i] * Real(1.4426950408889634) + ROUNDER;
    const Vector<Real> k = shifted - ROUNDER;
    x[i] = (x[i] - k * F::LOG2_HIGH) - k * F::LOG2_LOW;
    Bits bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + F::BIAS) << F::FRACTION_BITS;
    memcpy(&power[i], &bits, sizeof bits);
    total[i] = broadcast<Real>(Real(1 / factorial(Limits::DEGREE)));
  }
#pragma GCC unroll 16
  for (int n = Limits::DEGREE - 1; n >= 0; --n) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) total[i] = total[i] * x[i] + Real(1 / factorial(n));
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) x[i] = total[i] * power[i];
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
