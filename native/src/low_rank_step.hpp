// One step through A = diag(d) + Σ_k u_k v_k^T: h + A h, and its adjoint.
#pragma once

#include "layout.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

constexpr int64_t MAX_RANK = 256;

// dots[k] = <panel k of every lane group, x>, for COUNT panels; lane groups are `stride` apart.
template <int COUNT, class Real>
SLICEKIT_INLINE void some_dots(int64_t groups, const Real *m, ptrdiff_t panel, ptrdiff_t stride,
                               const Real *x, Real *dots) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  Vector<Real> total[COUNT][VECTORS] = {};
  for (int64_t g = 0; g < groups; ++g, m += stride, x += N) {
    unrolled<COUNT>([&](auto number) {
      constexpr int k = decltype(number)::value;
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) total[k][v] += load(m + k * panel + v * V) * load(x + v * V);
    });
  }
  for (int k = 0; k < COUNT; ++k) dots[k] = sum(added<Real>(total[k]));
}

// dots[k] = <panel first + k of every lane group, x>, for `rank` panels.
template <class Real>
SLICEKIT_INLINE void low_rank_dots(const Part &part, int64_t first, const Real *m, ptrdiff_t panel,
                                   const Real *x, Real *dots) {
  const int64_t rank = part.size, stride = (1 + 2 * rank) * panel, groups = part.padded / LANES<Real>;
  int64_t k = 0;
  const Real *from = m + first * panel;
  for (; k + 4 <= rank; k += 4) some_dots<4>(groups, from + k * panel, panel, stride, x, dots + k);
  if (k + 2 <= rank) some_dots<2>(groups, from + k * panel, panel, stride, x, dots + k), k += 2;
  if (k < rank) some_dots<1>(groups, from + k * panel, panel, stride, x, dots + k);
}

template <class Real>
SLICEKIT_NOINLINE void step_low_rank(const Part &part, const Real *m, ptrdiff_t panel, const Real *h,
                          Real *out) {
  constexpr int V = WIDTH<Real>;
  const int64_t rank = part.size;
  Real inner[MAX_RANK];
  low_rank_dots(part, 1 + rank, m, panel, h, inner);
  for (int64_t i = 0; i < part.padded; i += LANES<Real>, m += (1 + 2 * rank) * panel) {
    for (int64_t half = 0; half < LANES<Real>; half += V) {
      const Vector<Real> x = load(h + i + half);
      Vector<Real> y = x + load(m + half) * x;
      for (int64_t k = 0; k < rank; ++k) y += load(m + (1 + k) * panel + half) * inner[k];
      store(out + i + half, y);
    }
  }
}

// next = add + g + A^T g; in_m (+)= gradients of d, u and v; in_m may be m.
template <Taken TAKEN, class Real>
SLICEKIT_NOINLINE void adjoint_low_rank(const Part &part, const Real *m, Real *in_m, ptrdiff_t panel,
                             ptrdiff_t in_panel, const Real *g, const Real *h, const Real *add,
                             Real *next) {
  constexpr int V = WIDTH<Real>;
  const int64_t rank = part.size, count = 1 + 2 * rank;
  Real inner[MAX_RANK], outer[MAX_RANK];
  if (TAKEN != LEFT) low_rank_dots(part, 1 + rank, m, panel, h, inner);
  low_rank_dots(part, 1, m, panel, g, outer);
  auto put = [](Real *to, Vector<Real> x) {
    if (TAKEN != LEFT) store(to, TAKEN == ADDED ? load(to) + x : x);
  };
  for (int64_t i = 0; i < part.padded; i += LANES<Real>, m += count * panel, in_m += count * in_panel) {
    for (int64_t half = 0; half < LANES<Real>; half += V) {
      const Vector<Real> x = load(h + i + half), y = load(g + i + half);
      Vector<Real> z = load(add + i + half) + y + load(m + half) * y;
      put(in_m + half, y * x);
      for (int64_t k = 0; k < rank; ++k) {
        z += load(m + (1 + rank + k) * panel + half) * outer[k];
        put(in_m + (1 + k) * in_panel + half, y * inner[k]);
        put(in_m + (1 + rank + k) * in_panel + half, x * outer[k]);
      }
      store(next + i + half, z);
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
