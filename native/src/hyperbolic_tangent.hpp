// tanh of a vector of numbers.
#pragma once

#include "expm1.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// tanh x = E / (E + 2) with E = e^2x - 1; beyond 20 it is 1 to the last digit.
template <class Real>
SLICEKIT_INLINE Vector<Real> hyperbolic_tangent(Vector<Real> x) {
  x = x > Real(20) ? broadcast<Real>(20) : x;
  x = x < Real(-20) ? broadcast<Real>(-20) : x;
  const Vector<Real> e = Exponential<Real>(x + x).minus_one();
  return e / (e + 2);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
