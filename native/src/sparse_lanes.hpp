// Between rows and lanes: arrays that are contiguous in a vector's elements, and lane groups that
// hold the same element of several vectors side by side.
#pragma once

#include "lane_groups.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse {

// Vectors in an array: number l begins at `first` + l * lane, its elements are `element` apart.
template <class Real>
struct Rows {
  Real *first;
  ptrdiff_t lane, element;
};

// A batch-first array (batch, steps, size, columns) and the vectors of `size` elements in it.
struct Field {
  int64_t steps, size, columns;

  // Vectors of consecutive sequences at one step.
  template <class Real>
  SLICEKIT_INLINE Rows<Real> over_sequences(Real *array, int64_t sequence, int64_t step,
                                            int64_t column) const {
    return {at(array, sequence, step, column), steps * size * columns, columns};
  }

  // Vectors of consecutive steps of one sequence.
  template <class Real>
  SLICEKIT_INLINE Rows<Real> over_steps(Real *array, int64_t sequence, int64_t step,
                                        int64_t column) const {
    return {at(array, sequence, step, column), size * columns, columns};
  }

  template <class Real>
  SLICEKIT_INLINE Real *at(Real *array, int64_t sequence, int64_t step, int64_t column) const {
    return array + (sequence * steps + step) * size * columns + column;
  }
};

// to[e * row + l] = element e of vector l, for one lane group; zero from vector `lanes` on.
template <class Real>
inline void gather(Rows<const Real> from, int64_t lanes, int64_t elements, Real *to,
                   ptrdiff_t row) {
  constexpr int W = WIDTH<Real>;
  for (int64_t half = 0; half < LANES<Real>; half += W) {
    int64_t e = 0;
    if (from.element == 1 && half + W <= lanes) {
      for (; e + W <= elements; e += W) {
        lanes::transpose_rows(from.first + half * from.lane + e, from.lane, to + e * row + half, row);
      }
    }
    for (; e < elements; ++e) {
      for (int64_t l = half; l < half + W; ++l) {
        to[e * row + l] = l < lanes ? from.first[l * from.lane + e * from.element] : Real(0);
      }
    }
  }
}

// Element e of vector l (+)= from[e * row + l] for the first `lanes` vectors of a lane group.
template <class Real>
inline void scatter(const Real *from, ptrdiff_t row, int64_t lanes, int64_t elements,
                    Rows<Real> to, bool add) {
  constexpr int W = WIDTH<Real>;
  for (int64_t half = 0; half < least<int64_t>(lanes, LANES<Real>); half += W) {
    int64_t e = 0;
    if (to.element == 1 && half + W <= lanes && !add) {
      for (; e + W <= elements; e += W) {
        lanes::transpose_rows(from + e * row + half, row, to.first + half * to.lane + e, to.lane);
      }
    }
    for (; e < elements; ++e) {
      for (int64_t l = half; l < least<int64_t>(half + W, lanes); ++l) {
        Real &x = to.first[l * to.lane + e * to.element];
        x = add ? x + from[e * row + l] : from[e * row + l];
      }
    }
  }
}

}  // namespace sparse
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
