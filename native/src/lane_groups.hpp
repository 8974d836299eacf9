// Between contiguous arrays, one after another, and a lane group for each of their elements.
#pragma once

#include "lanes.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace lanes {

// WIDTH rows of WIDTH numbers become columns.
template <class Real>
SLICEKIT_INLINE void transpose_rows(const Real *from, ptrdiff_t from_row, Real *to,
                                    ptrdiff_t to_row) {
  constexpr int W = WIDTH<Real>;
  Vector<Real> x[W];
#pragma GCC unroll 16
  for (int r = 0; r < W; ++r) x[r] = load(from + r * from_row);
  transpose<WIDTH<Real>, Real>(x);
#pragma GCC unroll 16
  for (int r = 0; r < W; ++r) store(to + r * to_row, x[r]);
}

// Whether the arrays can be moved WIDTH elements of WIDTH lanes at a time; the last elements are
// then moved twice where WIDTH does not divide their number.
template <class Real>
SLICEKIT_INLINE bool in_squares(int64_t lanes, int64_t elements) {
  return lanes == LANES<Real> && elements >= WIDTH<Real>;
}

// batch[e, l] = arrays[l, e] for `lanes` arrays; the other lanes are zero.
template <class Real>
inline void to_lanes(const Real *arrays, int64_t lanes, int64_t elements, Real *batch) {
  constexpr int L = LANES<Real>, W = WIDTH<Real>;
  if (in_squares<Real>(lanes, elements)) {
    for (int64_t next = 0; next < elements; next += W) {
      const int64_t e = least(next, elements - W);
      for (int l = 0; l < L; l += W) {
        transpose_rows(arrays + l * elements + e, elements, batch + e * L + l, L);
      }
    }
    return;
  }
  for (int64_t e = 0; e < elements; ++e) {
    for (int64_t l = 0; l < L; ++l) batch[e * L + l] = l < lanes ? arrays[l * elements + e] : 0;
  }
}

// arrays[l, e] = batch[e, l] for the first `lanes` lanes.
template <class Real>
inline void from_lanes(const Real *batch, int64_t lanes, int64_t elements, Real *arrays) {
  constexpr int L = LANES<Real>, W = WIDTH<Real>;
  if (in_squares<Real>(lanes, elements)) {
    for (int64_t next = 0; next < elements; next += W) {
      const int64_t e = least(next, elements - W);
      for (int l = 0; l < L; l += W) {
        transpose_rows(batch + e * L + l, L, arrays + l * elements + e, elements);
      }
    }
    return;
  }
  for (int64_t l = 0; l < lanes; ++l) {
    for (int64_t e = 0; e < elements; ++e) arrays[l * elements + e] = batch[e * L + l];
  }
}

}  // namespace lanes
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
