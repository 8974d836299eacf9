// Numbers, real or complex, one at a time or a vector of them: the same formula serves all four.
//
// A *pack* is what a loop handles at once: Vector<Real>, or Complex<Vector<Real>>, whose real and
// imaginary parts are apart although they alternate in memory. Where fewer numbers are left than a
// pack holds, the loop's body runs on single numbers.
#pragma once

#include "lanes.hpp"
#include "scales.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace given {

template <class T>
struct Complex {
  T re, im;
};

template <class T>
SLICEKIT_INLINE Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}

template <class T>
SLICEKIT_INLINE Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class T>
SLICEKIT_INLINE Complex<T> operator/(Complex<T> a, T b) {
  return {a.re / b, a.im / b};
}

template <class T>
SLICEKIT_INLINE Complex<T> &operator+=(Complex<T> &a, Complex<T> b) {
  return a = a + b;
}

// The complex conjugate if CONJUGATE; real numbers are their own.
template <bool CONJUGATE, class T>
SLICEKIT_INLINE T conj(T x) {
  return x;
}

template <bool CONJUGATE, class T>
SLICEKIT_INLINE Complex<T> conj(Complex<T> x) {
  return {x.re, CONJUGATE ? -x.im : x.im};
}

SLICEKIT_INLINE float modulus(float x) { return __builtin_fabsf(x); }
SLICEKIT_INLINE double modulus(double x) { return __builtin_fabs(x); }

// Scaled by the larger part, so that squares neither overflow nor underflow.
template <class Real>
SLICEKIT_INLINE Real modulus(Complex<Real> x) {
  const Real a = modulus(x.re), b = modulus(x.im);
  const Real large = most(a, b), ratio = large > 0 ? least(a, b) / large : Real(0);
  return large * Real(__builtin_sqrt(1 + double(ratio) * double(ratio)));
}

using SLICEKIT_ISA::without_tiny;

// As of a real number, part by part.
template <class Real>
SLICEKIT_INLINE Complex<Real> without_tiny(Complex<Real> x) {
  return {without_tiny(x.re), without_tiny(x.im)};
}

template <class Number>
struct Parts {
  using Real = Number;
  using Pack = Vector<Number>;
};

template <class T>
struct Parts<Complex<T>> {
  using Real = T;
  using Pack = Complex<Vector<T>>;
};

template <class Number>
using RealOf = typename Parts<Number>::Real;

template <class Number>
using Pack = typename Parts<Number>::Pack;

template <class Number>
constexpr bool IS_REAL = sizeof(Number) == sizeof(RealOf<Number>);

// How V, a number or a pack, is read, written, filled and summed.
template <class V>
struct Lanes {
  static constexpr int COUNT = 1;
  static SLICEKIT_INLINE V load(const V *from) { return *from; }
  static SLICEKIT_INLINE RealOf<V> load_real(const RealOf<V> *from) { return *from; }
  static SLICEKIT_INLINE void store(V *to, V x) { *to = x; }
  static SLICEKIT_INLINE V broadcast(V x) { return x; }
  static SLICEKIT_INLINE RealOf<V> broadcast_real(RealOf<V> x) { return x; }
  static SLICEKIT_INLINE V sum(V x) { return x; }
};

template <class Real>
struct RealLanes {
  using V = Vector<Real>;
  static constexpr int COUNT = WIDTH<Real>;
  static SLICEKIT_INLINE V load(const Real *from) { return SLICEKIT_ISA::load(from); }
  static SLICEKIT_INLINE V load_real(const Real *from) { return SLICEKIT_ISA::load(from); }
  static SLICEKIT_INLINE void store(Real *to, V x) { SLICEKIT_ISA::store(to, x); }
  static SLICEKIT_INLINE V broadcast(Real x) { return SLICEKIT_ISA::broadcast(x); }
  static SLICEKIT_INLINE V broadcast_real(Real x) { return SLICEKIT_ISA::broadcast(x); }
  static SLICEKIT_INLINE Real sum(V x) { return SLICEKIT_ISA::sum(x); }
};

template <>
struct Lanes<Vector<float>> : RealLanes<float> {};
template <>
struct Lanes<Vector<double>> : RealLanes<double> {};

// Real and imaginary parts of two vectors in which they alternate, and back: every second lane from
// FIRST on, and half of the lanes of two vectors by turns.
template <int FIRST>
struct EverySecond {
  static constexpr int at(int l, int) { return 2 * l + FIRST; }
};

template <int HALF>
struct ByTurns {
  static constexpr int at(int l, int width) { return l % 2 * width + HALF * width / 2 + l / 2; }
};

template <class Real>
struct ComplexLanes {
  using V = Complex<Vector<Real>>;
  static constexpr int COUNT = WIDTH<Real>;
  static SLICEKIT_INLINE V load(const Complex<Real> *from) {
    const Real *parts = reinterpret_cast<const Real *>(from);
    const Vector<Real> a = SLICEKIT_ISA::load(parts), b = SLICEKIT_ISA::load(parts + COUNT);
    return {shuffle<EverySecond<0>>(a, b), shuffle<EverySecond<1>>(a, b)};
  }
  static SLICEKIT_INLINE Vector<Real> load_real(const Real *from) {
    return SLICEKIT_ISA::load(from);
  }
  static SLICEKIT_INLINE void store(Complex<Real> *to, V x) {
    Real *parts = reinterpret_cast<Real *>(to);
    SLICEKIT_ISA::store<Real>(parts, shuffle<ByTurns<0>>(x.re, x.im));
    SLICEKIT_ISA::store<Real>(parts + COUNT, shuffle<ByTurns<1>>(x.re, x.im));
  }
  static SLICEKIT_INLINE V broadcast(Complex<Real> x) {
    return {SLICEKIT_ISA::broadcast(x.re), SLICEKIT_ISA::broadcast(x.im)};
  }
  static SLICEKIT_INLINE Vector<Real> broadcast_real(Real x) { return SLICEKIT_ISA::broadcast(x); }
  static SLICEKIT_INLINE Complex<Real> sum(V x) {
    return {SLICEKIT_ISA::sum(x.re), SLICEKIT_ISA::sum(x.im)};
  }
};

template <>
struct Lanes<Complex<Vector<float>>> : ComplexLanes<float> {};
template <>
struct Lanes<Complex<Vector<double>>> : ComplexLanes<double> {};

// body(zero, i) for packs of numbers i, i + 1, ..., then for single ones; zero tells which.
template <class Number, class Body>
SLICEKIT_INLINE void for_packs(int64_t count, Body body) {
  constexpr int64_t STEP = Lanes<Pack<Number>>::COUNT;
  int64_t i = 0;
  for (; i + STEP <= count; i += STEP) body(Pack<Number>{}, i);
  for (; i < count; ++i) body(Number{}, i);
}

// The same from the last to the first: a pass that takes steps backwards should read their rows
// backwards too, because processors foresee what comes next only where all goes one way.
template <class Number, class Body>
SLICEKIT_INLINE void for_packs_backwards(int64_t count, Body body) {
  constexpr int64_t STEP = Lanes<Pack<Number>>::COUNT;
  int64_t i = count;
  for (; i % STEP; --i) body(Number{}, i - 1);
  for (; i; i -= STEP) body(Pack<Number>{}, i - STEP);
}

// The sums of four packs.
template <class Number>
SLICEKIT_INLINE void sum_four(const Pack<Number> *x, Number *sums) {
  if constexpr (IS_REAL<Number> && WIDTH<RealOf<Number>> >= 4) {
    sum_fourths(block_sums<4, Number>(x), sums);
  } else {
    for (int r = 0; r < 4; ++r) sums[r] = Lanes<Pack<Number>>::sum(x[r]);
  }
}

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
