// Products and linear combinations of small square matrices, one matrix in each lane.
//
// A batch is Real[b * b * LANES]: element (i, j) of all lanes stands at (i * b + j) * LANES.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace lanes {

// One term of a linear combination of batches.
template <class Real>
struct Term {
  Real scale;
  const Real *batch;
};

// Terms of which `multiply` learns the number at run time, so that one copy of it serves them all.
template <class Real>
struct Terms {
  const Term<Real> *first;
  int count;
};

// Two batches whose product is wanted.
template <class Real>
struct Factors {
  const Real *left, *right;
};

// How many products `multiply` sums at most; their number is known when it is compiled.
constexpr int MOST_PRODUCTS = 2;

// z = Σ terms, of `size` numbers; z may be one of the terms.
template <int TERMS, class Real>
inline void combine(int64_t size, const Term<Real> (&terms)[TERMS], Real *z) {
  for (int64_t at = 0; at < size; at += WIDTH<Real>) {
    Vector<Real> total = zero<Real>();
#pragma GCC unroll 8
    for (int n = 0; n < TERMS; ++n) total += terms[n].scale * load(terms[n].batch + at);
    store(z + at, total);
  }
}

// z = Σ left right + Σ terms for ROWS x COLUMNS elements and the vector of lanes from `half` on.
//
// left's first row begins at `row`, and z's and the terms' first element stands at row + column.
// right is a panel: it begins at its first column, and its rows are right_row apart.
template <int ROWS, int COLUMNS, int PRODUCTS, class Real>
SLICEKIT_INLINE void tile(int64_t b, const Factors<Real> *factors, ptrdiff_t right_row,
                          Terms<Real> terms, ptrdiff_t row, ptrdiff_t column, ptrdiff_t half,
                          Real *z) {
  using V = Vector<Real>;
  constexpr int L = LANES<Real>;
  const ptrdiff_t corner = row + column + half;
  V total[ROWS][COLUMNS] = {};
  for (int n = 0; n < terms.count; ++n) {
    const Real *from = terms.first[n].batch + corner;
    const Real scale = terms.first[n].scale;
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < COLUMNS; ++c) total[r][c] += scale * load(from + (r * b + c) * L);
    }
  }
#pragma GCC unroll 2
  for (int n = 0; n < PRODUCTS; ++n) {
    const Real *left = factors[n].left + row + half, *right = factors[n].right + half;
    for (int64_t k = 0; k < b; ++k) {
      V x[ROWS];
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; ++r) x[r] = load(left + (r * b + k) * L);
#pragma GCC unroll 8
      for (int c = 0; c < COLUMNS; ++c) {
        const V y = load(right + k * right_row + c * L);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r) total[r][c] += x[r] * y;
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < COLUMNS; ++c) store(z + corner + (r * b + c) * L, total[r][c]);
  }
}

// Enough sums to keep the multipliers busy, and few enough to stay in registers.
constexpr int TILE_COLUMNS = LANE_TILE_COLUMNS;
constexpr int tile_rows(int columns) {
  return columns == TILE_COLUMNS ? LANE_TILE_ROWS : LANE_TILE_ROWS + 1;
}

// From this b on, a panel's rows are so far apart that they push each other out of the cache.
constexpr int64_t PACKED_FROM = 16;

// Numbers of work space that `multiply` needs.
template <class Real>
constexpr int64_t packed_size(int64_t b) {
  return b < PACKED_FROM ? 0 : MOST_PRODUCTS * b * TILE_COLUMNS * LANES<Real>;
}

// COLUMNS columns of b rows, side by side.
template <int COLUMNS, class Real>
SLICEKIT_INLINE void pack(int64_t b, const Real *from, Real *to) {
  constexpr int L = LANES<Real>;
  for (int64_t k = 0; k < b; ++k) {
    for (int at = 0; at < COLUMNS * L; at += WIDTH<Real>) {
      store(to + k * COLUMNS * L + at, load(from + k * b * L + at));
    }
  }
}

// The same for all lanes of ROWS rows from the i-th.
template <int ROWS, int COLUMNS, int PRODUCTS, class Real>
SLICEKIT_INLINE void tiles(int64_t b, const Factors<Real> *factors, ptrdiff_t right_row,
                           Terms<Real> terms, int64_t i, int64_t j, Real *z) {
  constexpr int L = LANES<Real>;
#pragma GCC unroll 1
  for (int half = 0; half < L; half += WIDTH<Real>) {
    tile<ROWS, COLUMNS, PRODUCTS>(b, factors, right_row, terms, i * b * L, j * L, half, z);
  }
}

// The same for all rows of COLUMNS columns from the j-th: a panel that stays in the nearest cache.
template <int COLUMNS, int PRODUCTS, class Real>
SLICEKIT_INLINE void panel(int64_t b, const Factors<Real> *factors, Terms<Real> terms, int64_t j,
                           Real *z, Real *packed) {
  constexpr int L = LANES<Real>, ROWS = tile_rows(COLUMNS);
  Factors<Real> own[PRODUCTS];
  for (int n = 0; n < PRODUCTS; ++n) {
    own[n] = {factors[n].left, factors[n].right + j * L};
    if (b < PACKED_FROM) continue;
    Real *const to = packed + n * b * COLUMNS * L;
    pack<COLUMNS>(b, own[n].right, to);
    own[n].right = to;
  }
  const ptrdiff_t right_row = (b < PACKED_FROM ? b : COLUMNS) * L;
  int64_t i = 0;
  for (; i + ROWS <= b; i += ROWS) {
    tiles<ROWS, COLUMNS, PRODUCTS>(b, own, right_row, terms, i, j, z);
  }
  for (; i < b; ++i) tiles<1, COLUMNS, PRODUCTS>(b, own, right_row, terms, i, j, z);
}

// z = Σ left right + Σ terms; z may be one of the terms, but no factor.
//
// B is b where the compiler should know it, else 0; `packed` has packed_size numbers.
template <int B, int PRODUCTS, class Real>
__attribute__((noinline)) void multiply(int64_t size, const Factors<Real> *factors,
                                        Terms<Real> terms, Real *z, Real *packed) {
  const int64_t b = B ? B : size;
  int64_t j = 0;
  for (; j + TILE_COLUMNS <= b; j += TILE_COLUMNS) {
    panel<TILE_COLUMNS, PRODUCTS>(b, factors, terms, j, z, packed);
  }
  switch (b - j) {
    case 3: return panel<3, PRODUCTS>(b, factors, terms, j, z, packed);
    case 2: return panel<2, PRODUCTS>(b, factors, terms, j, z, packed);
    case 1: return panel<1, PRODUCTS>(b, factors, terms, j, z, packed);
    default: return;
  }
}

}  // namespace lanes
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
