// Numbers, real or complex, one at a time or a vector of them: the same formula serves all four.
//
// A *pack* is what a loop handles at once: Vector<Real>, or Complex<Vector<Real>>, whose real and
// imaginary parts are apart although they alternate in memory. Where fewer numbers are left than a
// pack holds, the loop's body runs on single numbers.
#pragma once

#include "simd.hpp"

#define SLICEKIT_INLINE_LAMBDA __attribute__((always_inline))

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

// Real and imaginary parts of two vectors in which they alternate, and back.
SLICEKIT_INLINE Complex<Vector<float>> part(Vector<float> a, Vector<float> b) {
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
}

SLICEKIT_INLINE Complex<Vector<double>> part(Vector<double> a, Vector<double> b) {
  return {__builtin_shufflevector(a, b, 0, 2, 4, 6), __builtin_shufflevector(a, b, 1, 3, 5, 7)};
}

SLICEKIT_INLINE void alternate(Complex<Vector<float>> x, Vector<float> &a, Vector<float> &b) {
  a = __builtin_shufflevector(x.re, x.im, 0, 8, 1, 9, 2, 10, 3, 11);
  b = __builtin_shufflevector(x.re, x.im, 4, 12, 5, 13, 6, 14, 7, 15);
}

SLICEKIT_INLINE void alternate(Complex<Vector<double>> x, Vector<double> &a, Vector<double> &b) {
  a = __builtin_shufflevector(x.re, x.im, 0, 4, 1, 5);
  b = __builtin_shufflevector(x.re, x.im, 2, 6, 3, 7);
}

template <class Real>
struct ComplexLanes {
  using V = Complex<Vector<Real>>;
  static constexpr int COUNT = WIDTH<Real>;
  static SLICEKIT_INLINE V load(const Complex<Real> *from) {
    const Real *parts = reinterpret_cast<const Real *>(from);
    return part(SLICEKIT_ISA::load(parts), SLICEKIT_ISA::load(parts + COUNT));
  }
  static SLICEKIT_INLINE Vector<Real> load_real(const Real *from) {
    return SLICEKIT_ISA::load(from);
  }
  static SLICEKIT_INLINE void store(Complex<Real> *to, V x) {
    Real *parts = reinterpret_cast<Real *>(to);
    Vector<Real> a, b;
    alternate(x, a, b);
    SLICEKIT_ISA::store(parts, a);
    SLICEKIT_ISA::store(parts + COUNT, b);
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
  for (int r = 0; r < 4; ++r) sums[r] = Lanes<Pack<Number>>::sum(x[r]);
}

template <>
SLICEKIT_INLINE void sum_four<float>(const Vector<float> *x, float *sums) {
  const Vector<float> a = __builtin_shufflevector(x[0], x[1], 0, 8, 2, 10, 4, 12, 6, 14) +
                          __builtin_shufflevector(x[0], x[1], 1, 9, 3, 11, 5, 13, 7, 15);
  const Vector<float> b = __builtin_shufflevector(x[2], x[3], 0, 8, 2, 10, 4, 12, 6, 14) +
                          __builtin_shufflevector(x[2], x[3], 1, 9, 3, 11, 5, 13, 7, 15);
  const Vector<float> c = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
                          __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  const auto d = __builtin_shufflevector(c, c, 0, 1, 2, 3) +
                 __builtin_shufflevector(c, c, 4, 5, 6, 7);
  for (int r = 0; r < 4; ++r) sums[r] = d[r];
}

template <>
SLICEKIT_INLINE void sum_four<double>(const Vector<double> *x, double *sums) {
  const Vector<double> a = __builtin_shufflevector(x[0], x[1], 0, 4, 2, 6) +
                           __builtin_shufflevector(x[0], x[1], 1, 5, 3, 7);
  const Vector<double> b = __builtin_shufflevector(x[2], x[3], 0, 4, 2, 6) +
                           __builtin_shufflevector(x[2], x[3], 1, 5, 3, 7);
  const Vector<double> c =
      __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  for (int r = 0; r < 4; ++r) sums[r] = c[r];
}

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
