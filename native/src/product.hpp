// Products with lane groups of columns: the tile that every kernel's matrix products are made of.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// c[r, g, :] (+)= Σ_{o, k} a[o, r, k] b[g, (o, k), :], where g counts lane groups of columns.
//
// Where there is a `start`, the sum starts from it: a lane group for each g, as far apart as b's.
//
// a[o, r, k] stands at a + o * a_outer + r * a_row + k * a_inner. Of each group, b has a lane group for
// each (o, k), b_inner apart (next to each other unless it is said), and c's rows are c_row apart; groups
// are b_group and c_group apart. Tiles that ask for memory do so `soon` after where they read b.
template <class Real>
struct Product {
  int64_t rows, outer, inner;
  const Real *a;
  ptrdiff_t a_outer, a_row, a_inner;
  const Real *b;
  ptrdiff_t b_group;
  Real *c;
  ptrdiff_t c_row, c_group;
  bool add;
  const Real *start = nullptr;
  ptrdiff_t b_inner = LANES<Real>, soon = 0;

  Product from_group(int64_t g) const {
    Product rest = *this;
    rest.b += g * b_group;
    rest.c += g * c_group;
    if (start) rest.start += g * b_group;
    return rest;
  }
};

// Rows of a tile of so many lane groups: few groups leave registers for more rows.
constexpr int tile_rows(int groups) { return groups == TILE_GROUPS ? TILE : NARROW_TILE; }

// HEIGHT rows from the r-th, and GROUPS lane groups of columns.
template <int HEIGHT, int GROUPS, bool ASKS = false, class Real>
SLICEKIT_INLINE void tile(const Product<Real> &p, int64_t r) {
  using V = Vector<Real>;
  constexpr int W = WIDTH<Real>, COLUMNS = GROUPS * VECTORS;
  const ptrdiff_t a_row = p.a_row, a_inner = p.a_inner, b_group = p.b_group, b_inner = p.b_inner;
  const Real *b = p.b;
  Real *c = p.c + r * p.c_row;
  auto c_at = [&](int row, int n) { return c + row * p.c_row + n / VECTORS * p.c_group + n % VECTORS * W; };
  V total[HEIGHT][COLUMNS];
#pragma GCC unroll 16
  for (int x = 0; x < HEIGHT; ++x) {
#pragma GCC unroll 4
    for (int n = 0; n < COLUMNS; ++n) {
      total[x][n] = p.add     ? load(c_at(x, n))
                    : p.start ? load(p.start + n / VECTORS * b_group + n % VECTORS * W)
                              : zero<Real>();
    }
  }
  for (int64_t o = 0; o < p.outer; ++o) {
    const Real *a = p.a + o * p.a_outer + r * a_row;
    for (int64_t k = 0; k < p.inner; ++k) {
      V y[COLUMNS];
#pragma GCC unroll 4
      for (int n = 0; n < COLUMNS; ++n) {
        const Real *at = b + n / VECTORS * b_group + n % VECTORS * W;
        y[n] = load(at);
        if constexpr (ASKS) {
          if (n % VECTORS == 0) ask_for(at + p.soon, 1);
        }
      }
      b += b_inner;
#pragma GCC unroll 16
      for (int x = 0; x < HEIGHT; ++x) {
        const V factor = broadcast(a[x * a_row]);
#pragma GCC unroll 4
        for (int n = 0; n < COLUMNS; ++n) total[x][n] += factor * y[n];
      }
      a += a_inner;
    }
  }
#pragma GCC unroll 16
  for (int x = 0; x < HEIGHT; ++x) {
#pragma GCC unroll 4
    for (int n = 0; n < COLUMNS; ++n) store(c_at(x, n), total[x][n]);
  }
}

// The rows from the r-th on, in tiles of HEIGHT, and what is left in lower and lower ones.
template <int HEIGHT, int GROUPS, class Real>
SLICEKIT_INLINE void tiles(const Product<Real> &p, int64_t r) {
  for (; r + HEIGHT <= p.rows; r += HEIGHT) tile<HEIGHT, GROUPS>(p, r);
  if constexpr (HEIGHT > 1) {
    if (r < p.rows) tiles<(HEIGHT + 1) / 2, GROUPS>(p, r);
  }
}

// All rows of GROUPS lane groups.
template <int GROUPS, class Real>
SLICEKIT_NOINLINE void multiply_groups(const Product<Real> &p) {
  tiles<tile_rows(GROUPS), GROUPS>(p, 0);
}

// Calls f(Constant<GROUPS>, first) for `count` groups, as many at a time as a tile takes.
template <class F>
SLICEKIT_INLINE void each_tile_of_groups(int64_t count, F &&f) {
  int64_t g = 0;
  for (; g + TILE_GROUPS <= count; g += TILE_GROUPS) f(Constant<TILE_GROUPS>{}, g);
  if constexpr (TILE_GROUPS > 2) {
    for (; g + 2 <= count; g += 2) f(Constant<2>{}, g);
  }
  if constexpr (TILE_GROUPS > 1) {
    for (; g < count; ++g) f(Constant<1>{}, g);
  }
}

// All rows of `groups` lane groups.
template <class Real>
inline void multiply(int64_t groups, const Product<Real> &p) {
  each_tile_of_groups(groups, [&](auto count, int64_t g) {
    multiply_groups<decltype(count)::value>(p.from_group(g));
  });
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
