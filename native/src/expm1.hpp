// e^x and e^x - 1 of a vector of numbers.
//
// With x = k log 2 + r and |r| <= log(2) / 2, e^x = 2^k (1 + p) where p = e^r - 1 is a Taylor
// polynomial. 2^k is applied in two halves, because it may overflow where e^x does not.
#pragma once

#include <string.h>

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// How numbers are stored, and how far the exponential is worth computing.
template <class Real>
struct Format;

template <>
struct Format<float> {
  typedef int32_t Bits __attribute__((vector_size(VECTOR_BYTES)));
  static constexpr int FRACTION_BITS = 23, BIAS = 127, TAYLOR_DEGREE = 8;
  static constexpr float SMALLEST = -104, LARGEST = 89, LOG2_HIGH = 0x1.62e4p-1f,
                         LOG2_LOW = 0x1.7f7d1cp-20f;
};

template <>
struct Format<double> {
  typedef int64_t Bits __attribute__((vector_size(VECTOR_BYTES)));
  static constexpr int FRACTION_BITS = 52, BIAS = 1023, TAYLOR_DEGREE = 14;
  static constexpr double SMALLEST = -746, LARGEST = 710, LOG2_HIGH = 0x1.62e42fefap-1,
                          LOG2_LOW = 0x1.cf79abc9e3b3ap-40;
};

// e^x as (1 + fraction) * first * second, and e^x - 1 without loss for small x.
template <class Real>
class Exponential {
 public:
  using V = Vector<Real>;

  explicit SLICEKIT_INLINE Exponential(V x) {
    using F = Format<Real>;
    // NaN passes both comparisons and goes on to spoil the fraction, as it should.
    x = x < F::SMALLEST ? broadcast<Real>(F::SMALLEST) : x;
    x = x > F::LARGEST ? broadcast<Real>(F::LARGEST) : x;
    const V k = nearest_integer(x * Real(1.4426950408889634));
    const V half = nearest_integer(k * Real(0.5));
    fraction_ = taylor((x - k * F::LOG2_HIGH) - k * F::LOG2_LOW);
    first_ = power_of_two(half);
    second_ = power_of_two(k - half);
    second_inverse_ = power_of_two(half - k);
  }

  SLICEKIT_INLINE V value() const { return (first_ * fraction_ + first_) * second_; }

  SLICEKIT_INLINE V minus_one() const {
    return (first_ * fraction_ + (first_ - second_inverse_)) * second_;
  }

 private:
  using Bits = typename Format<Real>::Bits;

  // Adding and subtracting this rounds a number to an integer, which stands in the lowest bits.
  static constexpr Real ROUNDER = Real(3) * (int64_t(1) << (Format<Real>::FRACTION_BITS - 1));

  static SLICEKIT_INLINE V nearest_integer(V x) { return (x + ROUNDER) - ROUNDER; }

  static SLICEKIT_INLINE V power_of_two(V k) {
    const V shifted = k + (ROUNDER + Format<Real>::BIAS);
    Bits bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= Format<Real>::FRACTION_BITS;
    V power;
    memcpy(&power, &bits, sizeof power);
    return power;
  }

  // e^r - 1 = r (1 + r/2 (1 + r/3 (...))).
  static SLICEKIT_INLINE V taylor(V r) {
    V total = broadcast<Real>(1);
#pragma GCC unroll 16
    for (int n = Format<Real>::TAYLOR_DEGREE; n > 1; --n) total = total * (r * (Real(1) / n)) + 1;
    return r * total;
  }

  V fraction_, first_, second_, second_inverse_;
};

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
