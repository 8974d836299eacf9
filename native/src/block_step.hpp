// One step through block-diagonal A: h + A h, and its adjoint.
//
// Panels of a lane group hold the columns of its blocks, so a step is a sum of panels, each times
// one number of every block. The adjoint needs sums along the rows of the panels instead.
#pragma once

#include "lanes.hpp"
#include "layout.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Number J of every block, over the lanes of vector V of a lane group of blocks of W lanes.
template <int W, int J, int V, class Real>
SLICEKIT_INLINE Vector<Real> spread_from(const Real *h) {
  constexpr int AT = V * WIDTH<Real>;
  if constexpr (W <= WIDTH<Real>) {
    const Vector<Real> x = load(h + AT);
    return shuffle<Spread<W, J>>(x, x);
  } else {
    return broadcast(h[AT / W * W + J]);
  }
}

template <int W, class Real>
SLICEKIT_INLINE void step_groups(int64_t groups, int b, const Real *m, ptrdiff_t panel,
                                 const Real *h, Real *out) {
  constexpr int N = LANES<Real>;
  for (int64_t g = 0; g < groups; ++g, h += N, out += N, m += b * panel) {
    unrolled<VECTORS>([&](auto vector) {
      constexpr int v = decltype(vector)::value, AT = v * WIDTH<Real>;
      Vector<Real> total[2] = {load(h + AT), zero<Real>()};
      unrolled<W>([&](auto column) {
        constexpr int j = decltype(column)::value;
        if (j < b) total[j % 2] += load(m + j * panel + AT) * spread_from<W, j, v>(h);
      });
      store(out + AT, total[0] + total[1]);
    });
  }
}

// in_m (+)= g h^T for one vector of one column.
template <Taken TAKEN, class Real>
SLICEKIT_INLINE void put(Real *in_m, Vector<Real> x) {
  if constexpr (TAKEN != LEFT) store(in_m, TAKEN == ADDED ? load(in_m) + x : x);
}

// next = add + g + A^T g, and in_m (+)= g h^T in every block; in_m may be m, and add next.
template <int W, Taken TAKEN, class Real>
SLICEKIT_INLINE void adjoint_groups(int64_t groups, int b, const Real *m, Real *in_m,
                                    ptrdiff_t panel, ptrdiff_t in_panel, const Real *g,
                                    const Real *h, const Real *add, Real *next) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  for (int64_t q = 0; q < groups; ++q) {
    if constexpr (W <= V) {
      unrolled<VECTORS>([&](auto vector) {
        constexpr int v = decltype(vector)::value, AT = v * V;
        const Vector<Real> own = load(g + AT);
        Vector<Real> x[W];
        unrolled<W>([&](auto column) {
          constexpr int j = decltype(column)::value;
          x[j] = zero<Real>();
          if (j < b) {
            x[j] = load(m + j * panel + AT) * own;
            put<TAKEN, Real>(in_m + j * in_panel + AT, own * spread_from<W, j, v>(h));
          }
        });
        store(next + AT, load(add + AT) + own + block_sums<W, Real>(x));
      });
    } else {
      unrolled<N / V>([&](auto vector) {
        // WIDTH columns at a time of the block that this vector of `next` belongs to.
        constexpr int AT = decltype(vector)::value * V, BLOCK = AT / W * W, FIRST = AT - BLOCK;
        Vector<Real> x[V];
        unrolled<V>([&](auto column) {
          constexpr int i = decltype(column)::value, j = FIRST + i;
          x[i] = zero<Real>();
          if (j < b) {
            const Vector<Real> factor = broadcast(h[BLOCK + j]);
            unrolled<W / V>([&](auto part) {
              constexpr int at = BLOCK + decltype(part)::value * V;
              const Vector<Real> own = load(g + at);
              x[i] += load(m + j * panel + at) * own;
              put<TAKEN, Real>(in_m + j * in_panel + at, own * factor);
            });
          }
        });
        store(next + AT, load(add + AT) + load(g + AT) + block_sums<V, Real>(x));
      });
    }
    g += N, h += N, add += N, next += N, m += b * panel, in_m += b * in_panel;
  }
}

// The same where blocks of W lanes fill lane groups, and t has them transposed.
template <int W, Taken TAKEN, class Real>
SLICEKIT_INLINE void adjoint_transposed(int64_t groups, const Real *t, Real *in_m, ptrdiff_t panel,
                                        ptrdiff_t in_panel, const Real *g, const Real *h,
                                        const Real *add, Real *next) {
  constexpr int N = LANES<Real>;
  for (int64_t q = 0; q < groups; ++q) {
    unrolled<VECTORS>([&](auto vector) {
      constexpr int v = decltype(vector)::value, AT = v * WIDTH<Real>;
      const Vector<Real> own = load(g + AT);
      Vector<Real> total[2] = {load(add + AT), own};
      unrolled<W>([&](auto column) {
        constexpr int j = decltype(column)::value;
        total[j % 2] += load(t + j * panel + AT) * spread_from<W, j, v>(g);
        put<TAKEN, Real>(in_m + j * in_panel + AT, own * spread_from<W, j, v>(h));
      });
      store(next + AT, total[0] + total[1]);
    });
    g += N, h += N, add += N, next += N, t += W * panel, in_m += W * in_panel;
  }
}

// Columns of a large block that are summed side by side, so that additions need not wait.
constexpr int LARGE_COLUMNS = 4;

// Blocks of more than one lane group of rows: panels (row group, column).
template <class Real>
SLICEKIT_INLINE void step_large(const Part &part, const Real *m, ptrdiff_t panel, const Real *h,
                                Real *out) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>, COLUMNS = LARGE_COLUMNS / VECTORS + 1;
  const int64_t b = part.size;
  for (int64_t k = 0; k < part.blocks; ++k, h += part.width) {
    for (int64_t i = 0; i < part.width; i += N, out += N) {
      Vector<Real> total[COLUMNS][VECTORS] = {};
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) total[0][v] = load(h + i + v * V);
      int64_t j = 0;
      for (; j + COLUMNS <= b; j += COLUMNS, m += COLUMNS * panel) {
#pragma GCC unroll 8
        for (int s = 0; s < COLUMNS; ++s) {
          const Vector<Real> x = broadcast(h[j + s]);
#pragma GCC unroll 4
          for (int v = 0; v < VECTORS; ++v) total[s][v] += load(m + s * panel + v * V) * x;
        }
      }
      for (; j < b; ++j, m += panel) {
        const Vector<Real> x = broadcast(h[j]);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; ++v) total[0][v] += load(m + v * V) * x;
      }
#pragma GCC unroll 8
      for (int s = 1; s < COLUMNS; ++s) {
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; ++v) total[0][v] += total[s][v];
      }
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) store(out + v * V, total[0][v]);
    }
  }
}

template <Taken TAKEN, class Real>
SLICEKIT_INLINE void adjoint_large(const Part &part, const Real *m, Real *in_m, ptrdiff_t panel,
                                   ptrdiff_t in_panel, const Real *g, const Real *h, const Real *add,
                                   Real *next) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  const int64_t b = part.size, row_groups = part.width / N;
  for (int64_t k = 0; k < part.blocks; ++k) {
    for (int64_t j0 = 0; j0 < b; j0 += V) {
      Vector<Real> sums[V];
      for (int v = 0; v < V; ++v) {
        sums[v] = zero<Real>();
        if (j0 + v >= b) continue;
        const Vector<Real> x = broadcast(h[j0 + v]);
        Vector<Real> total[VECTORS] = {};
        for (int64_t r = 0; r < row_groups; ++r) {
          const int64_t p = (k * row_groups + r) * b + j0 + v;
#pragma GCC unroll 4
          for (int part_of_group = 0; part_of_group < VECTORS; ++part_of_group) {
            const int at = part_of_group * V;
            const Vector<Real> own = load(g + r * N + at);
            total[part_of_group] += load(m + p * panel + at) * own;
            put<TAKEN, Real>(in_m + p * in_panel + at, own * x);
          }
        }
        sums[v] = added<Real>(total);
      }
      store(next + j0, load(add + j0) + load(g + j0) + block_sums<V, Real>(sums));
    }
    g += part.width, h += part.width, add += part.width, next += part.width;
  }
}

// Chooses the width of the blocks, and lets the compiler know it where blocks fill their width.
template <class Real, class F>
SLICEKIT_INLINE void with_width(const Part &part, F &&f) {
  const int b = static_cast<int>(part.size);
  switch (part.width) {
    case 1: return f(Constant<1>{}, 1);
    case 2: return f(Constant<2>{}, 2);
    case 4: return b == 4 ? f(Constant<4>{}, 4) : f(Constant<4>{}, b);
    case 8: return b == 8 ? f(Constant<8>{}, 8) : f(Constant<8>{}, b);
    case 16:
      if constexpr (LANES<Real> == 16) return b == 16 ? f(Constant<16>{}, 16) : f(Constant<16>{}, b);
  }
}

template <class Real>
SLICEKIT_NOINLINE void step_blocks(const Part &part, const Real *m, ptrdiff_t panel, const Real *h,
                        Real *out) {
  if (part.size > LANES<Real>) return step_large(part, m, panel, h, out);
  with_width<Real>(part, [&](auto width, int b) {
    step_groups<decltype(width)::value>(part.padded / LANES<Real>, b, m, panel, h, out);
  });
}

template <Taken TAKEN, class Real>
SLICEKIT_NOINLINE void adjoint_blocks(const Part &part, const Real *m, Real *in_m, ptrdiff_t panel,
                           ptrdiff_t in_panel, const Real *g, const Real *h, const Real *add,
                           Real *next) {
  if (part.size > LANES<Real>) {
    return adjoint_large<TAKEN>(part, m, in_m, panel, in_panel, g, h, add, next);
  }
  with_width<Real>(part, [&](auto width, int b) {
    adjoint_groups<decltype(width)::value, TAKEN>(part.padded / LANES<Real>, b, m, in_m, panel,
                                                in_panel, g, h, add, next);
  });
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
