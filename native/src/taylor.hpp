// Taylor polynomials of exp - I, with few products.
//
// They are those of Bader, Blanes and Casas, "Computing the matrix exponential with an optimized
// Taylor polynomial approximation" (2019): 2 products for degree 4, 3 for degree 8 and 5 for degree
// 18. Here their identity is split off, so that small matrices lose no digits.
#pragma once

#include "dual_algebra.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace lanes {

// Up to which norm a polynomial of degree n, and its derivative, are exact: norm^n / n! < epsilon.
template <class Real>
struct Reach;

template <>
struct Reach<float> {
  static constexpr float DEGREE_4 = 0.041f, DEGREE_8 = 0.51f, LARGEST = DEGREE_8;
};

template <>
struct Reach<double> {
  static constexpr double DEGREE_4 = 2.7e-4, DEGREE_8 = 0.041, DEGREE_18 = 1.0, LARGEST = DEGREE_18;
};

// How many batches a polynomial needs, its argument among them.
template <class Real>
constexpr int TAYLOR_BATCHES = sizeof(Real) == sizeof(float) ? 4 : 7;

// Σ_{1..4} a^n / n!, written over a; `last` if nothing is multiplied with it.
template <class Algebra, class Real>
void taylor_4(const Algebra &algebra, Real *a, Real *buffers, bool last) {
  Real *a2 = buffers, *factor = a2 + algebra.size();
  algebra.multiply(a, a, a2);
  algebra.combine({{Real(1.0 / 6), a}, {Real(1.0 / 24), a2}}, factor);
  algebra.multiply(a2, factor, {{1, a}, {Real(0.5), a2}}, a, last);
}

// Σ_{1..8} a^n / n!: with f = a² (x1 a + x2 a²) + x3 a²,
// a + y2 a² + f (x4 + x5 a + (x6 - x3 x7) a² + x7 f).
template <class Algebra, class Real>
void taylor_8(const Algebra &algebra, Real *a, Real *buffers, bool last) {
  constexpr double ROOT = 13.304134695650070;  // of 177
  constexpr double X3 = 2.0 / 3, X1 = X3 * (1 + ROOT) / 88, X2 = X3 * (1 + ROOT) / 352,
                   X4 = (-271 + 29 * ROOT) / (315 * X3), X5 = 11 * (-1 + ROOT) / (1260 * X3),
                   X6 = 11 * (-9 + ROOT) / (5040 * X3), X7 = (89 - ROOT) / (5040 * X3 * X3),
                   Y2 = (857 - 58 * ROOT) / 630;
  Real *a2 = buffers, *factor = a2 + algebra.size(), *f = factor + algebra.size();
  algebra.multiply(a, a, a2);
  algebra.combine({{Real(X1), a}, {Real(X2), a2}}, factor);
  algebra.multiply(a2, factor, {{Real(X3), a2}}, f);
  algebra.combine({{Real(X5), a}, {Real(X6 - X3 * X7), a2}, {Real(X7), f}}, factor);
  algebra.multiply(f, factor, {{1, a}, {Real(Y2), a2}, {Real(X4), f}}, a, last);
}

// Σ_{1..18} a^n / n!: with n = B1 B5 + B4 and p = B3 + n, B2 + p n less the identity, where B1 to B5
// are combinations of a, a², a³, a⁶ and the identity: that of B3 is C0, that of B4 is D0.
template <class Algebra>
void taylor_18(const Algebra &algebra, double *a, double *buffers, bool last) {
  constexpr double C0 = -1.09676396052962061844e+01, D0 = -9.04316832390810593223e-02;
  const int64_t size = algebra.size();
  double *a2 = buffers, *a3 = a2 + size, *a6 = a3 + size;
  double *p = a6 + size, *q = p + size, *n = q + size;
  algebra.multiply(a, a, a2);
  algebra.multiply(a2, a, a3);
  algebra.multiply(a3, a3, a6);
  algebra.combine({{-1.00365581030144618291e-01, a},
                   {-8.02924648241156932449e-03, a2},
                   {-8.92138498045729985177e-04, a3}},
                  p);
  algebra.combine({{-9.23364619367118555360e-02, a2},
                   {-1.69364939002081722752e-02, a3},
                   {-1.40086798182036094347e-05, a6}},
                  q);
  algebra.multiply(p, q,
                   {{-6.76404519071381882256e-02, a},
                    {6.75961301770459654925e-02, a2},
                    {2.95552570429315521194e-02, a3},
                    {-1.39180257516060693404e-05, a6}},
                   n);
  algebra.combine({{1.68015813878906206114e+00, a},
                   {5.71779846478865511061e-02, a2},
                   {-6.98210122488052056106e-03, a3},
                   {3.34975017086070470649e-05, a6},
                   {1, n}},
                  p);
  algebra.multiply(p, n,
                   {{3.97849749499645077844e-01, a},
                    {1.36783778460411720168e+00, a2},
                    {4.98289622525382669416e-01, a3},
                    {-6.37898194594723280150e-04, a6},
                    {C0 + D0, n},
                    {D0, p}},
                   a, last);
}

// exp(a) - I, written over a, by the lowest degree that is exact for norms up to `norm`.
template <class Algebra, class Real>
void taylor(const Algebra &algebra, Real norm, Real *a, Real *buffers, bool last) {
  if (norm <= Reach<Real>::DEGREE_4) return taylor_4(algebra, a, buffers, last);
  if constexpr (Reach<Real>::LARGEST > Reach<Real>::DEGREE_8) {
    if (norm > Reach<Real>::DEGREE_8) return taylor_18(algebra, a, buffers, last);
  }
  taylor_8(algebra, a, buffers, last);
}

}  // namespace lanes
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
