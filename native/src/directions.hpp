// A state taken apart into its direction and the logarithm of its norm, as `normalise` of
// src/slicekit/scans/projective.py does.
#pragma once

#include <float.h>
#include <math.h>

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// The largest modulus, but for NaN; 1 for zeros.
template <class Real>
SLICEKIT_INLINE Real largest_modulus(int64_t n, const Real *x) {
  constexpr int64_t V = WIDTH<Real>;
  const int64_t whole = n / V * V;
  Vector<Real> most_of = {};
  for (int64_t i = 0; i < whole; i += V) {
    const Vector<Real> numbers = load(x + i), moduli = numbers < 0 ? -numbers : numbers;
    most_of = most_of < moduli ? moduli : most_of;
  }
  Real largest = 0;
  for (int64_t l = 0; l < V; ++l) largest = most(largest, Real(most_of[l]));
  for (int64_t i = whole; i < n; ++i) largest = most(largest, x[i] < 0 ? -x[i] : x[i]);
  return largest == 0 ? Real(1) : largest;
}

// to = from / divisor; the sum of its squares.
template <class Real>
SLICEKIT_INLINE Real divided(int64_t n, const Real *from, Real divisor, Real *to) {
  constexpr int64_t V = WIDTH<Real>;
  const int64_t whole = n / V * V;
  Vector<Real> squares = {};
  for (int64_t i = 0; i < whole; i += V) {
    const Vector<Real> x = load(from + i) / broadcast(divisor);
    store(to + i, x);
    squares += x * x;
  }
  Real total = sum(squares);
  for (int64_t i = whole; i < n; ++i) {
    to[i] = from[i] / divisor;
    total += to[i] * to[i];
  }
  return total;
}

// to = from / |from|, and log |from|; `to` may be `from`. Zeros stay zero, with the logarithm of
// the smallest normal number; where a number is not finite, no number is.
template <class Real>
SLICEKIT_INLINE Real take_apart(int64_t n, const Real *from, Real *to) {
  const Real largest = largest_modulus(n, from);
  const Real norm = Real(sqrt(divided(n, from, largest, to)));
  if (norm == 0) return Real(log(sizeof(Real) == 4 ? double(FLT_MIN) : DBL_MIN));
  divided(n, to, norm, to);
  return Real(log(double(norm)) + log(double(largest)));
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
