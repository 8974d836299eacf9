// One step of sLSTM units, a vector of them at a time, and its adjoint.
//
// With y = c / n and N = log n + m a step is y_t = a y_{t-1} + b z and N_t = logaddexp(log σ(f) +
// N_{t-1}, i), where a = f' n_{t-1} / n_t, b = i' / n_t and a + b = 1. So the adjoint is that of two
// numbers, dy and dN, in which neither exponentials nor the stabiliser appear. What a loss sees of
// m_T besides N_T follows the gates that were the maximum.
#pragma once

#include "normal_exp.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace slstm {

template <class Real>
SLICEKIT_INLINE Vector<Real> size_of(Vector<Real> x) {
  return larger<Real>(x, -x);
}

// Whether the sign bit is set, also that of zero.
template <class Real>
SLICEKIT_INLINE auto marked(Vector<Real> x) {
  typename Format<Real>::Bits bits;
  memcpy(&bits, &x, sizeof bits);
  return bits < 0;
}

// log(1 + u) for u from 0 to 1, as 2 artanh(u / (2 + u)).
template <class Real>
SLICEKIT_INLINE Vector<Real> log_one_plus(Vector<Real> u) {
  constexpr int TERMS = sizeof(Real) == 4 ? 8 : 17;
  const Vector<Real> s = u / (u + Real(2)), square = s * s;
  Vector<Real> total = broadcast<Real>(Real(1) / (2 * TERMS - 1));
#pragma GCC unroll 17
  for (int n = TERMS - 2; n >= 0; --n) total = total * square + Real(1) / (2 * n + 1);
  return Real(2) * s * total;
}

template <class Real>
SLICEKIT_INLINE Vector<Real> hyperbolic_tangent(Vector<Real> z) {
  const Vector<Real> less = Exponential<Real>(Real(-2) * size_of<Real>(z)).minus_one();
  const Vector<Real> size = -less / (less + Real(2));
  return z < zero<Real>() ? -size : size;
}

// What the backward pass needs of a step. Two numbers of [0, 1] have a sign that says more: `share`
// is b, or -a where a is the smaller one; `slope`, 1 - σ(f), is negative where i was the maximum.
template <class Real>
struct Kept {
  using V = Vector<Real>;
  V share, slope, z, o, y;

  SLICEKIT_INLINE V b() const { return marked<Real>(share) ? Real(1) + share : share; }
  SLICEKIT_INLINE V a() const { return marked<Real>(share) ? -share : Real(1) - share; }

  // `apart` numbers lie between one of the five and the next.
  SLICEKIT_INLINE void put(Real *to, ptrdiff_t apart) const {
    store(to, share);
    store(to + apart, slope);
    store(to + 2 * apart, z);
    store(to + 3 * apart, o);
    store(to + 4 * apart, y);
  }

  static SLICEKIT_INLINE Kept get(const Real *from, ptrdiff_t apart) {
    return {load(from), load(from + apart), load(from + 2 * apart), load(from + 3 * apart),
            load(from + 4 * apart)};
  }
};

// c, n and m.
template <class Real>
struct Memory {
  Vector<Real> c, n, m;
};

// A step with the pre-activations i, f, z, o; the hidden state is o y of what is returned.
template <class Real>
SLICEKIT_INLINE Kept<Real> step(Vector<Real> i, Vector<Real> f, Vector<Real> z, Vector<Real> o,
                                Memory<Real> &memory) {
  using V = Vector<Real>;
  const V none = zero<Real>(), one = broadcast<Real>(1);
  V e[2] = {-size_of<Real>(f), -size_of<Real>(o)};
  normal_exp<Real>(e);
  const V log_sigmoid = smaller<Real>(none, f) - log_one_plus<Real>(e[0]);
  const V held = log_sigmoid + memory.m, lead = i - held;
  V less[1] = {-size_of<Real>(lead)};
  normal_exp<Real>(less);
  const V gain = lead >= none ? one : less[0], decay = lead >= none ? less[0] : one;
  const V slope = (f >= none ? e[0] : one) / (e[0] + one);

  Kept<Real> kept;
  kept.z = hyperbolic_tangent<Real>(z);
  kept.o = (o >= none ? one : e[1]) / (e[1] + one);
  const V c = decay * memory.c + gain * kept.z, from_n = decay * memory.n, n = from_n + gain;
  const V inverse = one / n;
  const V a = from_n * inverse, b = gain * inverse;
  kept.share = b <= broadcast<Real>(Real(0.5)) ? b : -a;
  kept.slope = lead >= none ? -slope : slope;
  kept.y = c * inverse;
  memory = {c, n, lead >= none ? i : held};
  return kept;
}

// The gradients of y_t, of N_t, and of m_t apart from them.
template <class Real>
struct Carried {
  Vector<Real> y, norm, maximum;
};

// The gradients of the pre-activations, and of what is carried into the step in place of what is
// carried out of it.
template <class Real>
SLICEKIT_INLINE void pull(const Kept<Real> &kept, Vector<Real> y_before, Vector<Real> in_hidden,
                          Carried<Real> &carried, Vector<Real> (&in_gates)[4]) {
  using V = Vector<Real>;
  const V none = zero<Real>(), a = kept.a(), b = kept.b(), z = kept.z, o = kept.o;
  const auto input_won = marked<Real>(kept.slope);
  const V in_y = carried.y + o * in_hidden;
  const V in_odds = a * b * (y_before - z) * in_y;  // of log(a / b) = log σ(f) + N_{t-1} - i
  const V in_norm = a * carried.norm + in_odds;
  const V to_forget = input_won ? none : carried.maximum;
  in_gates[0] = b * carried.norm - in_odds + (carried.maximum - to_forget);
  in_gates[1] = size_of<Real>(kept.slope) * (in_norm + to_forget);
  in_gates[2] = b * in_y * (Real(1) - z * z);
  in_gates[3] = o * kept.y * (Real(1) - o) * in_hidden;
  carried = {a * in_y, in_norm, to_forget};
}

}  // namespace slstm
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
