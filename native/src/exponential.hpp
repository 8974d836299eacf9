// exp(A) - I of small matrices, one in each lane, and its derivative.
//
// With m the mean of A's diagonal, exp(A) = e^m exp(A - m I), which keeps pure decay exact. The
// second factor is found by scaling A - m I with 2^-s, a Taylor polynomial and s squarings. What is
// squared is E = exp - I, by E <- 2 E + E E, so that matrices far smaller than the largest of the
// lanes lose no digits.
//
// Since the adjoint of a polynomial's derivative at A is its derivative at the transpose of A, the
// pull-back of G is the derivative at Aᵀ in the direction G. It comes from the same code, run with
// dual numbers.
#pragma once

#include "expm1.hpp"
#include "taylor.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace lanes {

constexpr int MAX_SQUARINGS = 64;

// The mean is left in where more than this remains without it: the exponential of the rest might
// overflow where that of A does not.
template <class Real>
constexpr Real LARGEST_REST = sizeof(Real) == sizeof(float) ? 64 : 600;

// What is taken out of the matrices before the polynomial.
template <class Real>
struct Reduction {
  Vector<Real> mean[VECTORS];  // of the diagonal, lane by lane; 0 where it is left in
  Real norm;                   // the largest of the lanes, after scaling
  Real scale;                  // 2^-squarings, common to the lanes
  int squarings;
};

template <class Real>
SLICEKIT_INLINE Vector<Real> magnitude(Vector<Real> x) {
  return x < 0 ? -x : x;
}

template <class Real>
SLICEKIT_INLINE Vector<Real> diagonal_mean(int64_t b, const Real *a) {
  Vector<Real> total = zero<Real>();
  for (int64_t i = 0; i < b; ++i) total += load(a + i * (b + 1) * LANES<Real>);
  return total / Real(b);
}

// Largest row sum of |A - m I|, lane by lane.
template <class Real>
SLICEKIT_INLINE Vector<Real> row_norm(int64_t b, const Real *a, Vector<Real> mean) {
  constexpr int L = LANES<Real>;
  Vector<Real> largest = zero<Real>();
  for (int64_t i = 0; i < b; ++i) {
    const Real *row = a + i * b * L;
    Vector<Real> total = magnitude<Real>(load(row + i * L) - mean);
    for (int64_t j = 0; j < i; ++j) total += magnitude<Real>(load(row + j * L));
    for (int64_t j = i + 1; j < b; ++j) total += magnitude<Real>(load(row + j * L));
    largest = total > largest ? total : largest;
  }
  return largest;
}

// The largest of a vector's COUNT numbers.
template <int COUNT, class V>
SLICEKIT_INLINE auto largest_of(V x) {
  if constexpr (COUNT == 2) {
    return most(x[0], x[1]);
  } else if constexpr (sizeof(V) == 16) {
    return most(most(x[0], x[1]), most(x[2], x[3]));
  } else {
    using Half = typename UpTo<COUNT / 2>::Type;
    const auto a = half_from<0>(x, Half{}), b = half_from<COUNT / 2>(x, Half{});
    return largest_of<COUNT / 2>(a < b ? b : a);
  }
}

// Lanes that are not finite have no say in how the others are scaled.
template <class Real>
SLICEKIT_INLINE Real largest_finite(Vector<Real> x) {
  return largest_of<WIDTH<Real>>(x - x == 0 ? x : zero<Real>());
}

template <class Real>
SLICEKIT_INLINE Reduction<Real> reduction(int64_t b, const Real *a) {
  Reduction<Real> found;
  found.norm = 0;
  for (int half = 0; half < VECTORS; ++half) {
    const Vector<Real> mean = diagonal_mean(b, a + half * WIDTH<Real>);
    const Vector<Real> norm = row_norm(b, a + half * WIDTH<Real>, mean);
    const auto shifted = norm <= LARGEST_REST<Real>;
    found.mean[half] = shifted ? mean : zero<Real>();
    const Vector<Real> left = shifted ? norm : norm + magnitude<Real>(mean);
    found.norm = most(found.norm, largest_finite<Real>(left));
  }
  found.scale = 1;
  found.squarings = 0;
  while (found.norm > Reach<Real>::LARGEST && found.squarings < MAX_SQUARINGS) {
    found.norm /= 2;
    found.scale /= 2;
    ++found.squarings;
  }
  return found;
}

// z = scale (A - m I), where A's rows and columns are `row` and `column` apart.
template <class Real>
SLICEKIT_INLINE void reduce(const Reduction<Real> &found, int64_t b, const Real *a, ptrdiff_t row,
                            ptrdiff_t column, Real *z) {
  constexpr int L = LANES<Real>, W = WIDTH<Real>;
  for (int64_t i = 0; i < b; ++i) {
    for (int64_t j = 0; j < b; ++j) {
      const Real *from = a + i * row + j * column;
      Real *to = z + (i * b + j) * L;
      for (int v = 0; v < VECTORS; ++v) store(to + v * W, load(from + v * W) * found.scale);
    }
    const Real *from = a + i * (row + column);
    Real *to = z + i * (b + 1) * L;
    for (int v = 0; v < VECTORS; ++v) {
      store(to + v * W, (load(from + v * W) - found.mean[v]) * found.scale);
    }
  }
}

// exp - I of the reduced batch that heads the work space, whose other batches are free.
// Returns where it is; of a dual batch, only the tangent is valid.
template <class Algebra, class Real>
inline Real *reduced_exponential(const Algebra &algebra, const Reduction<Real> &found,
                                 Real *batches) {
  Real *e = batches, *other = batches + algebra.size();
  taylor(algebra, found.norm, e, other, found.squarings == 0);
  for (int n = 1; n <= found.squarings; ++n) {
    algebra.multiply(e, e, {{2, e}}, other, n == found.squarings);
    Real *const squared = other;
    other = e;
    e = squared;
  }
  return e;
}

// z = x times one factor for each lane, for `count` elements; z may be x.
template <class Real>
SLICEKIT_INLINE void scale_lanes(int64_t count, const Vector<Real> (&factor)[VECTORS], const Real *x,
                                 Real *z) {
  for (int64_t at = 0; at < count * LANES<Real>; at += LANES<Real>) {
    for (int v = 0; v < VECTORS; ++v) {
      store(z + at + v * WIDTH<Real>, load(x + at + v * WIDTH<Real>) * factor[v]);
    }
  }
}

// Whether an exponential contains the identity.
enum class Identity { INCLUDED, EXCLUDED };

// y = e^m (E + I), with the identity taken out where it is to be excluded, without cancellation.
template <Identity IDENTITY, class Real>
SLICEKIT_INLINE void restore(const Vector<Real> (&mean)[VECTORS], int64_t b, const Real *e, Real *y) {
  Vector<Real> factor[VECTORS], diagonals[VECTORS];
  for (int v = 0; v < VECTORS; ++v) {
    const Exponential<Real> growth(mean[v]);
    factor[v] = growth.value();
    diagonals[v] = IDENTITY == Identity::INCLUDED ? factor[v] : growth.minus_one();
  }
  scale_lanes(b * b, factor, e, y);
  for (int half = 0; half < VECTORS; ++half) {
    const Vector<Real> diagonal = diagonals[half];
    for (int64_t i = 0; i < b; ++i) {
      Real *to = y + i * (b + 1) * LANES<Real> + half * WIDTH<Real>;
      store(to, load(to) + diagonal);
    }
  }
}

template <int B, Identity IDENTITY, class Real>
inline void exponential_of_size(int64_t size, const Real *a, Real *y, Real *scratch) {
  const Algebra<B, false, Real> algebra(size, scratch);
  Real *batches = scratch + packed_size<Real>(size);
  const int64_t b = algebra.rows();
  const Reduction<Real> found = reduction(b, a);
  reduce(found, b, a, b * LANES<Real>, LANES<Real>, batches);
  restore<IDENTITY>(found.mean, b, reduced_exponential(algebra, found, batches), y);
}

template <int B, class Real>
inline void pullback_of_size(int64_t size, const Real *a, const Real *in_y, Real *in_a,
                             Real *scratch) {
  const Algebra<B, true, Real> algebra(size, scratch);
  Real *batches = scratch + packed_size<Real>(size);
  const int64_t b = algebra.rows();
  const Reduction<Real> found = reduction(b, a);
  reduce(found, b, a, LANES<Real>, b * LANES<Real>, batches);
  const Term<Real> direction[] = {{found.scale, in_y}};
  combine(algebra.part(), direction, batches + algebra.part());
  const Real *e = reduced_exponential(algebra, found, batches);
  Vector<Real> factor[VECTORS];
  for (int v = 0; v < VECTORS; ++v) factor[v] = Exponential<Real>(found.mean[v]).value();
  scale_lanes(b * b, factor, e + algebra.part(), in_a);
}

// The same where b = 1.
template <Identity IDENTITY, class Real>
inline void exponential_of_numbers(const Real *a, Real *y) {
  for (int at = 0; at < LANES<Real>; at += WIDTH<Real>) {
    const Exponential<Real> e(load(a + at));
    store(y + at, IDENTITY == Identity::INCLUDED ? e.value() : e.minus_one());
  }
}

template <class Real>
inline void pullback_of_numbers(const Real *a, const Real *in_y, Real *in_a) {
  for (int at = 0; at < LANES<Real>; at += WIDTH<Real>) {
    store(in_a + at, load(in_y + at) * Exponential<Real>(load(a + at)).value());
  }
}

// exp(A), with or without the identity.
template <Identity IDENTITY, class Real>
inline void exponential(int64_t b, const Real *a, Real *y, Real *scratch) {
  switch (b) {
    case 1: return exponential_of_numbers<IDENTITY>(a, y);
    case 2: return exponential_of_size<2, IDENTITY>(b, a, y, scratch);
    case 3: return exponential_of_size<3, IDENTITY>(b, a, y, scratch);
    case 4: return exponential_of_size<4, IDENTITY>(b, a, y, scratch);
    case 8: return exponential_of_size<8, IDENTITY>(b, a, y, scratch);
    case 16: return exponential_of_size<16, IDENTITY>(b, a, y, scratch);
    default: return exponential_of_size<0, IDENTITY>(b, a, y, scratch);
  }
}

}  // namespace lanes

// How many numbers of work space the functions below need.
template <class Real>
inline int64_t exponential_workspace(int64_t b) {
  return lanes::packed_size<Real>(b) + 2 * lanes::TAYLOR_BATCHES<Real> * b * b * LANES<Real>;
}

// e = exp(a) - I; e may be a.
template <class Real>
inline void exponential(int64_t b, const Real *a, Real *e, Real *scratch) {
  lanes::exponential<lanes::Identity::EXCLUDED>(b, a, e, scratch);
}

// y = exp(a); y may be a. More than adding I to the above: e^-100 is not lost.
template <class Real>
inline void exponential_with_identity(int64_t b, const Real *a, Real *y, Real *scratch) {
  lanes::exponential<lanes::Identity::INCLUDED>(b, a, y, scratch);
}

// in_a, the gradient of <in_e, exp(a)> in a; in_a may be in_e.
template <class Real>
inline void exponential_pullback(int64_t b, const Real *a, const Real *in_e, Real *in_a,
                                 Real *scratch) {
  using namespace lanes;
  switch (b) {
    case 1: return pullback_of_numbers(a, in_e, in_a);
    case 2: return pullback_of_size<2>(b, a, in_e, in_a, scratch);
    case 3: return pullback_of_size<3>(b, a, in_e, in_a, scratch);
    case 4: return pullback_of_size<4>(b, a, in_e, in_a, scratch);
    case 8: return pullback_of_size<8>(b, a, in_e, in_a, scratch);
    case 16: return pullback_of_size<16>(b, a, in_e, in_a, scratch);
    default: return pullback_of_size<0>(b, a, in_e, in_a, scratch);
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
