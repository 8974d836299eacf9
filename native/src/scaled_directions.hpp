// Directions of projective states, whose groups were each divided by powers of two of their own, and
// gradients of these states from those of directions.
//
// src/slicekit/scans/projective.py has the mathematics: the state is 2^e m, x = 2^(e - p) m is of
// moderate size, and its direction is x / |x|.
#pragma once

#include "directions.hpp"
#include "scales.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Norms up to this, and down to its inverse, lose nothing to a peak that is not quite theirs.
constexpr double MODERATE = 0x1p40;

// to = from * by; the sum of its squares.
template <class Real>
SLICEKIT_INLINE Real multiplied(int64_t n, const Real *from, const Real *by, Real *to) {
  constexpr int64_t V = WIDTH<Real>;
  const int64_t whole = n / V * V;
  Vector<Real> squares = {};
  for (int64_t i = 0; i < whole; i += V) {
    const Vector<Real> x = load(from + i) * load(by + i);
    store(to + i, x);
    squares += x * x;
  }
  Real total = sum(squares);
  for (int64_t i = whole; i < n; ++i) {
    to[i] = from[i] * by[i];
    total += to[i] * to[i];
  }
  return total;
}

// Goes along the states of one sequence, from window to window of divisions.
template <class Real>
class ScaledDirections {
 public:
  using Integer = typename Scales<Real>::Integer;

  // exponents: e of all numbers where it begins; weights, scaled: room for as many numbers each.
  ScaledDirections(int64_t count, Integer *exponents, Real *weights, Real *scaled)
      : n_(count), exponents_(exponents), weights_(weights), scaled_(scaled) {
    begin_window();
  }

  // To the window that begins with a division by these factors, or back from it.
  void enter(const Real *factors) {
    for (int64_t i = 0; i < n_; ++i) exponents_[i] += exponent_of(factors[i]);
    begin_window();
  }
  void leave(const Real *factors) {
    for (int64_t i = 0; i < n_; ++i) exponents_[i] -= exponent_of(factors[i]);
    begin_window();
  }

  void direction(const Real *state, Real *to) {
    const Real norm = norm_of(state);
    divided(n_, scaled_, norm, to);
  }

  // The gradient of a state, in place of that of its direction d: 2^(e - p) (g - d <d, g>) / |x|.
  void pull(const Real *state, Real *gradient) {
    const Real norm = norm_of(state);
    divided(n_, scaled_, norm, scaled_);
    const Real inner = inner_product(n_, scaled_, gradient), inverse = 1 / norm;
    for (int64_t i = 0; i < n_; ++i) {
      const Real x = (gradient[i] - scaled_[i] * inner) * inverse * weights_[i];
      const bool seen = weights_[i] >= Scales<Real>::UNSEEN;
      gradient[i] = seen && !((x < 0 ? -x : x) <= Scales<Real>::QUIET) ? x : Real(0);
    }
  }

 private:
  void begin_window() {
    usual_ = exponents_[0];
    for (int64_t i = 1; i < n_; ++i) usual_ = most(usual_, exponents_[i]);
    weigh(usual_);
  }

  // weights = 2^(e - p), zero where that is no normal number, and finite.
  void weigh(Integer peak) {
    peak_ = peak;
    for (int64_t i = 0; i < n_; ++i) {
      const Integer shift = exponents_[i] - peak, least_shift = 1 - Scales<Real>::BIAS;
      const Real power = power_of_two_at<Real>(most(least_shift, least<Integer>(shift, -least_shift)));
      weights_[i] = shift < least_shift ? Real(0) : power;
    }
  }

  // x in `scaled`, and its norm; 1 for zero. Peaks are those of the window where that will do.
  Real norm_of(const Real *state) {
    if (peak_ != usual_) weigh(usual_);
    Real norm = Real(sqrt(multiplied(n_, state, weights_, scaled_)));
    if (!(norm < Real(MODERATE) && norm > Real(1 / MODERATE))) {
      weigh(peak_of(state));
      norm = Real(sqrt(multiplied(n_, state, weights_, scaled_)));
    }
    return norm == 0 ? Real(1) : norm;
  }

  // The exponent of the largest modulus of 2^e m, but for what is not finite; 0 for zeros.
  Integer peak_of(const Real *state) const {
    bool any = false;
    Integer peak = 0;
    for (int64_t i = 0; i < n_; ++i) {
      const Real modulus = state[i] < 0 ? -state[i] : state[i];
      const Integer exponent = exponent_of(modulus);
      if (modulus == 0 || exponent > Scales<Real>::BIAS) continue;
      peak = any ? most(peak, exponent + exponents_[i]) : exponent + exponents_[i];
      any = true;
    }
    return peak;
  }

  int64_t n_;
  Integer *exponents_;
  Real *weights_, *scaled_;
  Integer usual_, peak_;  // of the window, and of the weights
};

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
