// bfloat16 in memory: the upper halves of floats, widened exactly and rounded to the nearest, ties to
// even. Written as loops that compilers turn into vectors.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

typedef uint16_t Half;

SLICEKIT_INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

template <class Real>
SLICEKIT_NOINLINE void widen(const Half *from, int64_t count, Real *to) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    to[i] = x;
  }
}

template <class Real>
SLICEKIT_NOINLINE void narrow(const Real *from, int64_t count, Half *to) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = bits_of(static_cast<float>(from[i]));
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    // Rounding might carry a NaN into its sign.
    to[i] = static_cast<Half>(from[i] != from[i] ? 0x7fc0 : rounded);
  }
}

// Some numbers of an array that has halves or not, from place `at` on.
template <class Real>
SLICEKIT_INLINE void read_numbers(bool half, const void *array, int64_t at, int64_t count, Real *to) {
  if (half) return widen(static_cast<const Half *>(array) + at, count, to);
  __builtin_memcpy(to, static_cast<const Real *>(array) + at, count * sizeof(Real));
}

template <class Real>
SLICEKIT_INLINE void write_numbers(bool half, const Real *from, int64_t count, void *array, int64_t at) {
  if (half) return narrow(from, count, static_cast<Half *>(array) + at);
  __builtin_memcpy(static_cast<Real *>(array) + at, from, count * sizeof(Real));
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
