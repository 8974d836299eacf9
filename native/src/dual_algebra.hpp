// Matrices, one in each lane, that may carry a derivative with them.
//
// With ε² = 0, (X + ε X') (Y + ε Y') = X Y + ε (X' Y + X Y'): what computes a polynomial of X
// computes its derivative in the direction X' as well.
#pragma once

#include "lane_product.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace lanes {

// The algebra of b x b matrices X, or with DUAL of X + ε X' where ε² = 0; X' follows X in memory.
template <int B, bool DUAL, class Real>
class Algebra {
 public:
  Algebra(int64_t b, Real *packed) : b_(B ? B : b), packed_(packed) {}

  int64_t rows() const { return b_; }
  int64_t part() const { return b_ * b_ * LANES<Real>; }
  int64_t size() const { return DUAL ? 2 * part() : part(); }

  template <int TERMS>
  void combine(const Term<Real> (&terms)[TERMS], Real *z) const {
    lanes::combine(size(), terms, z);
  }

  void multiply(const Real *x, const Real *y, Real *z) const { product(x, y, {}, z, true); }

  // z = x y + Σ terms; where this is the last product, dual numbers need only the tangent of it.
  template <int TERMS>
  void multiply(const Real *x, const Real *y, const Term<Real> (&terms)[TERMS], Real *z,
                bool last = false) const {
    product(x, y, {terms, TERMS}, z, !(DUAL && last));
  }

 private:
  void product(const Real *x, const Real *y, Terms<Real> terms, Real *z, bool value) const {
    if (DUAL) {
      const Factors<Real> leibniz[] = {{x + part(), y}, {x, y + part()}};
      Term<Real> tangents[MOST_TERMS] = {};
      for (int n = 0; n < terms.count; ++n) {
        tangents[n] = {terms.first[n].scale, terms.first[n].batch + part()};
      }
      lanes::multiply<B, 2, Real>(b_, leibniz, {tangents, terms.count}, z + part(), packed_);
    }
    const Factors<Real> factors[] = {{x, y}};
    if (value) lanes::multiply<B, 1, Real>(b_, factors, terms, z, packed_);
  }

  static constexpr int MOST_TERMS = 6;
  int64_t b_;
  Real *packed_;
};

}  // namespace lanes
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
