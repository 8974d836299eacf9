// One step through block-diagonal A: h + A h, and its adjoint.
//
// Panels of a lane group hold the columns of its blocks, so a step is a sum of panels, each times
// one number of every block. The adjoint needs sums along the rows of the panels instead.
#pragma once

#include "lanes.hpp"
#include "layout.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Number J of every block, over the lanes of half a lane group (0 or 1) of blocks of W lanes.
template <int W, int J, class Real>
SLICEKIT_INLINE Vector<Real> spread_from(const Real *h, int half) {
  constexpr int V = WIDTH<Real>;
  if constexpr (W <= V) {
    return spread<W, J>(load(h + half * V));
  } else {
    return broadcast(h[J]);
  }
}

template <int W, class Real>
SLICEKIT_INLINE void step_groups(int64_t groups, int b, const Real *m, ptrdiff_t panel,
                                 const Real *h, Real *out) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  for (int64_t g = 0; g < groups; ++g, h += N, out += N, m += b * panel) {
    Vector<Real> low[2] = {load(h), zero<Real>()}, high[2] = {load(h + V), zero<Real>()};
    unrolled<W>([&](auto column) {
      constexpr int j = decltype(column)::value;
      if (j < b) {
        const Real *from = m + j * panel;
        low[j % 2] += load(from) * spread_from<W, j>(h, 0);
        high[j % 2] += load(from + V) * spread_from<W, j>(h, 1);
      }
    });
    store(out, low[0] + low[1]);
    store(out + V, high[0] + high[1]);
  }
}

// next += g + A^T g, and in_m (+)= g h^T in every block; in_m may be m.
template <int W, bool ADD, class Real>
SLICEKIT_INLINE void adjoint_groups(int64_t groups, int b, const Real *m, Real *in_m,
                                    ptrdiff_t panel, ptrdiff_t in_panel, const Real *g,
                                    const Real *h, Real *next) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  for (int64_t q = 0; q < groups; ++q, g += N, h += N, next += N, m += b * panel) {
    const Vector<Real> g_low = load(g), g_high = load(g + V);
    Vector<Real> low[W], high[W];
    unrolled<W>([&](auto column) {
      constexpr int j = decltype(column)::value;
      if (j < b) {
        const Real *from = m + j * panel;
        Real *to = in_m + (q * b + j) * in_panel;
        low[j] = load(from) * g_low;
        high[j] = load(from + V) * g_high;
        Vector<Real> d_low = g_low * spread_from<W, j>(h, 0);
        Vector<Real> d_high = g_high * spread_from<W, j>(h, 1);
        if (ADD) {
          d_low += load(to);
          d_high += load(to + V);
        }
        store(to, d_low);
        store(to + V, d_high);
      } else {
        low[j] = high[j] = zero<Real>();
      }
    });
    Vector<Real> sums_low, sums_high;
    if constexpr (W <= V) {
      sums_low = block_sums<W, Real>(low);
      sums_high = block_sums<W, Real>(high);
    } else {
      unrolled<W>([&](auto column) { low[decltype(column)::value] += high[decltype(column)::value]; });
      sums_low = block_sums<V, Real>(low);
      sums_high = block_sums<V, Real>(low + V);
    }
    store(next, load(next) + g_low + sums_low);
    store(next + V, load(next + V) + g_high + sums_high);
  }
}

// Blocks of more than one lane group of rows: panels (row group, column).
template <class Real>
SLICEKIT_INLINE void step_large(const Part &part, const Real *m, ptrdiff_t panel, const Real *h,
                                Real *out) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  const int64_t b = part.size;
  for (int64_t k = 0; k < part.blocks; ++k, h += part.width) {
    for (int64_t i = 0; i < part.width; i += N, out += N) {
      Vector<Real> low[2] = {load(h + i), zero<Real>()}, high[2] = {load(h + i + V), zero<Real>()};
      for (int64_t j = 0; j < b; ++j, m += panel) {
        const Vector<Real> x = broadcast(h[j]);
        low[j % 2] += load(m) * x;
        high[j % 2] += load(m + V) * x;
      }
      store(out, low[0] + low[1]);
      store(out + V, high[0] + high[1]);
    }
  }
}

template <bool ADD, class Real>
SLICEKIT_INLINE void adjoint_large(const Part &part, const Real *m, Real *in_m, ptrdiff_t panel,
                                   ptrdiff_t in_panel, const Real *g, const Real *h, Real *next) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  const int64_t b = part.size, row_groups = part.width / N;
  for (int64_t k = 0; k < part.blocks; ++k) {
    for (int64_t j0 = 0; j0 < b; j0 += V) {
      Vector<Real> sums[V];
      for (int v = 0; v < V; ++v) {
        sums[v] = zero<Real>();
        if (j0 + v >= b) continue;
        const Vector<Real> x = broadcast(h[j0 + v]);
        for (int64_t r = 0; r < row_groups; ++r) {
          const Vector<Real> g_low = load(g + r * N), g_high = load(g + r * N + V);
          const int64_t p = (k * row_groups + r) * b + j0 + v;
          const Real *from = m + p * panel;
          Real *to = in_m + p * in_panel;
          sums[v] += load(from) * g_low;
          sums[v] += load(from + V) * g_high;
          store(to, ADD ? load(to) + g_low * x : g_low * x);
          store(to + V, ADD ? load(to + V) + g_high * x : g_high * x);
        }
      }
      store(next + j0, load(next + j0) + load(g + j0) + block_sums<V, Real>(sums));
    }
    g += part.width, h += part.width, next += part.width;
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

template <bool ADD, class Real>
SLICEKIT_NOINLINE void adjoint_blocks(const Part &part, const Real *m, Real *in_m, ptrdiff_t panel,
                           ptrdiff_t in_panel, const Real *g, const Real *h, Real *next) {
  if (part.size > LANES<Real>) {
    return adjoint_large<ADD>(part, m, in_m, panel, in_panel, g, h, next);
  }
  with_width<Real>(part, [&](auto width, int b) {
    adjoint_groups<decltype(width)::value, ADD>(part.padded / LANES<Real>, b, m, in_m, panel,
                                                in_panel, g, h, next);
  });
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
