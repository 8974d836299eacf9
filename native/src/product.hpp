// Products with one lane group of columns: the tile that every kernel's matrix products are made of.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// c[r, :] (+)= Σ_{o, k} a[o, r, k] b[(o, k), :] for ROWS rows and one lane group of columns.
//
// a[o, r, k] stands at a + o * a_outer + r * a_row + k * a_inner; b is contiguous, a lane group for
// each (o, k); c's rows are c_row apart.
template <int ROWS, class Real>
SLICEKIT_INLINE void tile(int64_t outer, ptrdiff_t a_outer, int64_t inner, const Real *a,
                          ptrdiff_t a_row, ptrdiff_t a_inner, const Real *b, Real *c,
                          ptrdiff_t c_row, bool add) {
  using V = Vector<Real>;
  constexpr int W = WIDTH<Real>;
  V low[ROWS], high[ROWS];
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; ++r) {
    low[r] = add ? load(c + r * c_row) : zero<Real>();
    high[r] = add ? load(c + r * c_row + W) : zero<Real>();
  }
  for (int64_t o = 0; o < outer; ++o) {
    const Real *x = a + o * a_outer;
    for (int64_t k = 0; k < inner; ++k) {
      const V b_low = load(b), b_high = load(b + W);
      b += 2 * W;
#pragma GCC unroll 6
      for (int r = 0; r < ROWS; ++r) {
        const V factor = broadcast(x[r * a_row]);
        low[r] += factor * b_low;
        high[r] += factor * b_high;
      }
      x += a_inner;
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; ++r) {
    store(c + r * c_row, low[r]);
    store(c + r * c_row + W, high[r]);
  }
}

constexpr int TILE = 6;

// The same for up to TILE rows.
template <class Real>
SLICEKIT_INLINE void some_rows(int rows, int64_t outer, ptrdiff_t a_outer, int64_t inner,
                               const Real *a, ptrdiff_t a_row, ptrdiff_t a_inner, const Real *b,
                               Real *c, ptrdiff_t c_row, bool add) {
  switch (rows) {
    case 6: return tile<6>(outer, a_outer, inner, a, a_row, a_inner, b, c, c_row, add);
    case 5: return tile<5>(outer, a_outer, inner, a, a_row, a_inner, b, c, c_row, add);
    case 4: return tile<4>(outer, a_outer, inner, a, a_row, a_inner, b, c, c_row, add);
    case 3: return tile<3>(outer, a_outer, inner, a, a_row, a_inner, b, c, c_row, add);
    case 2: return tile<2>(outer, a_outer, inner, a, a_row, a_inner, b, c, c_row, add);
    case 1: return tile<1>(outer, a_outer, inner, a, a_row, a_inner, b, c, c_row, add);
    default: return;
  }
}

// c (rows, LANES) (+)= a (rows, inner) b (inner, LANES).
template <class Real>
inline void product(int64_t rows, int64_t inner, const Real *a, ptrdiff_t a_row, ptrdiff_t a_inner,
                    const Real *b, Real *c, ptrdiff_t c_row, bool add) {
  int64_t r = 0;
  for (; r + TILE <= rows; r += TILE) {
    tile<TILE>(1, 0, inner, a + r * a_row, a_row, a_inner, b, c + r * c_row, c_row, add);
  }
  some_rows<Real>(rows - r, 1, 0, inner, a + r * a_row, a_row, a_inner, b, c + r * c_row, c_row,
                  add);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
