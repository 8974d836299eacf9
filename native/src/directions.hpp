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

template <class Real>
SLICEKIT_INLINE Real inner_product(int64_t n, const Real *x, const Real *y) {
  constexpr int64_t V = WIDTH<Real>;
  const int64_t whole = n / V * V;
  Vector<Real> products = {};
  for (int64_t i = 0; i < whole; i += V) products += load(x + i) * load(y + i);
  Real total = sum(products);
  for (int64_t i = whole; i < n; ++i) total += x[i] * y[i];
  return total;
}

// A norm that may be no number of its own: norm * largest, where the norm of zero is zero.
template <class Real>
struct Norm {
  Real norm, largest;
};

// to = from / |from|, and its norm; `to` may be `from`. Zeros stay zero; where a number is not finite,
// no number is.
template <class Real>
SLICEKIT_INLINE Norm<Real> direction_of(int64_t n, const Real *from, Real *to) {
  const Real largest = largest_modulus(n, from);
  const Real norm = Real(sqrt(divided(n, from, largest, to)));
  if (norm != 0) divided(n, to, norm, to);
  return {norm, largest};
}

// The same, and log |from|, of zeros that of the smallest normal number.
template <class Real>
SLICEKIT_INLINE Real take_apart(int64_t n, const Real *from, Real *to) {
  const Norm<Real> size = direction_of(n, from, to);
  if (size.norm == 0) return Real(log(sizeof(Real) == 4 ? double(FLT_MIN) : DBL_MIN));
  return Real(log(double(size.norm)) + log(double(size.largest)));
}

// The gradient of a state, in place of that of its direction d: (g - d <d, g>) / |h|. The state becomes
// its direction.
template <class Real>
SLICEKIT_INLINE void pull_direction(int64_t n, Real *state, Real *gradient) {
  const Norm<Real> size = direction_of(n, state, state);
  const Real inner = inner_product(n, state, gradient), norm = size.norm == 0 ? Real(1) : size.norm;
  for (int64_t i = 0; i < n; ++i) {
    gradient[i] = (gradient[i] - state[i] * inner) / norm / size.largest;
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
