// The scales of projective states; src/slicekit/scans/projective.py says why they are as they are.
//
// Rows that no step mixes form a group. Before every `rescale`-th step but the first a group is
// divided by the power of two just below its largest modulus, and in the backward pass so is its
// adjoint, where what is too small to matter is set to zero.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

template <class Real>
struct Scales;

template <>
struct Scales<float> {
  using Bits = uint32_t;
  using Integer = int32_t;
  static constexpr int FRACTION_BITS = 23;
  static constexpr Integer BIAS = 127;
  static constexpr Bits EXPONENT = Bits(0xFF) << FRACTION_BITS;
  static constexpr float FLOOR = 0x1p-90f, UNSEEN = 0x1p-90f, QUIET = 0x1p-110f;
};

template <>
struct Scales<double> {
  using Bits = uint64_t;
  using Integer = int64_t;
  static constexpr int FRACTION_BITS = 52;
  static constexpr Integer BIAS = 1023;
  static constexpr Bits EXPONENT = Bits(0x7FF) << FRACTION_BITS;
  static constexpr double FLOOR = 0x1p-900, UNSEEN = 0x1p-900, QUIET = 0x1p-990;
};

// The largest power of two that is at most x >= 0; 1 for zero.
template <class Real>
SLICEKIT_INLINE Real power_of_two(Real x) {
  typename Scales<Real>::Bits bits;
  __builtin_memcpy(&bits, &x, sizeof(Real));
  bits &= Scales<Real>::EXPONENT;
  __builtin_memcpy(&x, &bits, sizeof(Real));
  return x == 0 ? Real(1) : x;
}

// The exponent of a normal number that is not negative; beyond all of them for infinity and NaN.
template <class Real>
SLICEKIT_INLINE typename Scales<Real>::Integer exponent_of(Real x) {
  using Integer = typename Scales<Real>::Integer;
  typename Scales<Real>::Bits bits;
  __builtin_memcpy(&bits, &x, sizeof(Real));
  return Integer(bits >> Scales<Real>::FRACTION_BITS) - Scales<Real>::BIAS;
}

// The power of two with an exponent of a normal number.
template <class Real>
SLICEKIT_INLINE Real power_of_two_at(typename Scales<Real>::Integer exponent) {
  using Bits = typename Scales<Real>::Bits;
  const Bits bits = Bits(exponent + Scales<Real>::BIAS) << Scales<Real>::FRACTION_BITS;
  Real x;
  __builtin_memcpy(&x, &bits, sizeof(Real));
  return x;
}

// Zero for numbers of an adjoint that are too small to matter.
template <class Real>
SLICEKIT_INLINE Real without_tiny(Real x) {
  return (x < 0 ? -x : x) < Scales<Real>::FLOOR ? Real(0) : x;
}

// Whether a state is divided before step t, and the number of the window that begins there.
SLICEKIT_INLINE bool divides_before(int64_t t, int64_t rescale) {
  return rescale && t > 0 && t % rescale == 0;
}

SLICEKIT_INLINE int64_t windows_of(int64_t length, int64_t rescale) {
  return (length + rescale - 1) / rescale;
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
