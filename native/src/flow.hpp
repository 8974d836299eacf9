// From features to transitions of exponentiated parts, and back: exp(A) - I for LANES rows at once.
//
// Panels have features in their lanes; the exponential wants the same entry of LANES rows there. So
// squares of panels are transposed on the way in and on the way out.
#pragma once

#include "exponential_lanes.hpp"
#include "lanes.hpp"
#include "layout.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Where rows of panels stand.
template <class Real>
struct Panels {
  Real *at;
  ptrdiff_t panel, row;

  Real *of(int64_t p, int64_t r) const { return at + p * panel + r * row; }
};

template <class Real>
struct FlowScratch {
  Real *features;  // (features of a part, LANES)
  Real *blocks;    // (blocks of a lane group, b, b, LANES): transitions or their gradients
  Real *a;         // (b, b, LANES)
  Real *square;    // (LANES, LANES)
  Real *exponential;
};

template <class Real>
inline FlowScratch<Real> take_flow_scratch(const Part *parts, int64_t count,
                                           Workspace &workspace) {
  constexpr int64_t N = LANES<Real>;
  int64_t features = 0, blocks = 0, one = 0, work = 0;
  for (int64_t p = 0; p < count; ++p) {
    const Part &part = parts[p];
    if (!part.exponential) continue;
    const int64_t b = part.size, together = blocks_together<Real>(part);
    features = most(features, part.feature_panels * N);
    blocks = most(blocks, together * b * b);
    one = most(one, b * b);
    work = most(work, lanes_workspace(b, Real()));
  }
  if (!one) return {};
  return {workspace.take<Real>(features * N), workspace.take<Real>(blocks * N),
          workspace.take<Real>(one * N), workspace.take<Real>(N * N), workspace.take<Real>(work)};
}

// The square of one panel and LANES rows from `row` on, lanes becoming rows, which are `apart`;
// missing rows are zero.
template <class Real>
SLICEKIT_INLINE void panel_to_lanes(const Panels<Real> &from, int64_t p, int64_t row, int64_t rows,
                                    Real *to, ptrdiff_t apart, Real *square) {
  constexpr int64_t N = LANES<Real>;
  const int64_t count = least(N, rows - row);
  if (count == N) return transpose_square<Real>(from.of(p, row), from.row, to, apart);
  for (int64_t r = 0; r < N; ++r) {
    for (int64_t l = 0; l < N; ++l) square[r * N + l] = r < count ? from.of(p, row + r)[l] : Real(0);
  }
  transpose_square<Real>(square, N, to, apart);
}

template <class Real>
SLICEKIT_INLINE void lanes_to_panel(const Real *from, ptrdiff_t apart, int64_t p, int64_t row,
                                    int64_t rows, const Panels<Real> &to, Real *square) {
  constexpr int64_t N = LANES<Real>;
  const int64_t count = least(N, rows - row);
  if (count == N) return transpose_square<Real>(from, apart, to.of(p, row), to.row);
  transpose_square<Real>(from, apart, square, N);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t l = 0; l < N; ++l) to.of(p, row + r)[l] = square[r * N + l];
  }
}

// A, (b, b, LANES), from the features of one block.
template <class Real>
SLICEKIT_INLINE const Real *block_of_features(const Part &part, const Real *features, Real *a) {
  constexpr int64_t N = LANES<Real>;
  if (part.kind != SLICEKIT_SKEW) return features;
  const int64_t b = part.size;
  for (int64_t i = 0; i < b; ++i) {
    for (int64_t l = 0; l < N; ++l) a[(i * b + i) * N + l] = 0;
    for (int64_t j = i + 1; j < b; ++j, features += N) {
      for (int64_t l = 0; l < N; ++l) {
        a[(i * b + j) * N + l] = features[l];
        a[(j * b + i) * N + l] = -features[l];
      }
    }
  }
  return a;
}

template <class Real>
SLICEKIT_INLINE void features_of_block(const Part &part, const Real *a, Real *features) {
  constexpr int64_t N = LANES<Real>;
  const int64_t b = part.size;
  if (part.kind != SLICEKIT_SKEW) {
    for (int64_t e = 0; e < b * b * N; ++e) features[e] = a[e];
    return;
  }
  for (int64_t i = 0; i < b; ++i) {
    for (int64_t j = i + 1; j < b; ++j, features += N) {
      for (int64_t l = 0; l < N; ++l) features[l] = a[(i * b + j) * N + l] - a[(j * b + i) * N + l];
    }
  }
}

// Whether lanes of panels have no padding: then panel j of a lane group has column j of its blocks, in
// their order.
template <class Real>
SLICEKIT_INLINE bool fills_lanes(const Part &part) {
  return part.size == part.width && part.size <= LANES<Real>;
}

// Visits the panels of the blocks of one lane group (or of one large block): f(panel, row of blocks'
// entries), where entry(lane) is the number of the lane's entry in `blocks`, or -1 for padding.
template <class Real, class F>
SLICEKIT_INLINE void each_panel(const Part &part, int64_t group, F &&f) {
  constexpr int64_t N = LANES<Real>;
  const int64_t b = part.size, large = b > N;
  const int64_t row_groups = large ? part.width / N : 1;
  for (int64_t r = 0; r < row_groups; ++r) {
    for (int64_t j = 0; j < b; ++j) {
      f((group * row_groups + r) * b + j, [=](int64_t lane) -> int64_t {
        const int64_t k = large ? 0 : lane / part.width, i = large ? r * N + lane : lane % part.width;
        return i < b ? (k * b + i) * b + j : -1;
      });
    }
  }
}

// Transitions of `rows` rows from their features.
template <class Real>
SLICEKIT_NOINLINE void flow_part(const Part &part, int64_t rows, const Panels<Real> &x,
                      const FlowScratch<Real> &s) {
  constexpr int64_t N = LANES<Real>;
  const int64_t b = part.size, together = blocks_together<Real>(part);
  const bool filled = fills_lanes<Real>(part);
  for (int64_t row = 0; row < rows; row += N) {
    for (int64_t p = 0; p < part.feature_panels; ++p) {
      panel_to_lanes(x, part.features_at + p, row, rows, s.features + p * N * N, N, s.square);
    }
    for (int64_t k0 = 0, group = 0; k0 < part.blocks; k0 += together, ++group) {
      for (int64_t k = 0; k < together; ++k) {
        Real *e = s.blocks + k * b * b * N;
        if (k0 + k < part.blocks) {
          const Real *own = s.features + (k0 + k) * part.block_features() * N;
          lanes_exponential(b, block_of_features(part, own, s.a), e, s.exponential);
        } else {
          for (int64_t i = 0; i < b * b * N; ++i) e[i] = 0;
        }
      }
      each_panel<Real>(part, group, [&](int64_t p, auto entry) {
        const int64_t panel = part.panels_at + p;
        if (filled) return lanes_to_panel<Real>(s.blocks + p % b * N, b * N, panel, row, rows, x, s.square);
        Real gathered[N * N];
        for (int64_t l = 0; l < N; ++l) {
          const int64_t at = entry(l);
          for (int64_t r = 0; r < N; ++r) gathered[l * N + r] = at < 0 ? Real(0) : s.blocks[at * N + r];
        }
        lanes_to_panel<Real>(gathered, N, panel, row, rows, x, s.square);
      });
    }
  }
}

// The gradients of the features, among the `gradients` of the transitions; x holds the features.
template <class Real>
SLICEKIT_NOINLINE void pull_part(const Part &part, int64_t rows, const Panels<Real> &x,
                      const Panels<Real> &gradients, const FlowScratch<Real> &s) {
  constexpr int64_t N = LANES<Real>;
  const int64_t b = part.size, together = blocks_together<Real>(part);
  const bool filled = fills_lanes<Real>(part);
  for (int64_t row = 0; row < rows; row += N) {
    for (int64_t p = 0; p < part.feature_panels; ++p) {
      panel_to_lanes(x, part.features_at + p, row, rows, s.features + p * N * N, N, s.square);
    }
    for (int64_t k0 = 0, group = 0; k0 < part.blocks; k0 += together, ++group) {
      each_panel<Real>(part, group, [&](int64_t p, auto entry) {
        const int64_t panel = part.panels_at + p;
        if (filled) return panel_to_lanes(gradients, panel, row, rows, s.blocks + p % b * N, b * N, s.square);
        Real gathered[N * N];
        panel_to_lanes<Real>(gradients, panel, row, rows, gathered, N, s.square);
        for (int64_t l = 0; l < N; ++l) {
          const int64_t at = entry(l);
          if (at < 0) continue;
          for (int64_t r = 0; r < N; ++r) s.blocks[at * N + r] = gathered[l * N + r];
        }
      });
      for (int64_t k = 0; k < together && k0 + k < part.blocks; ++k) {
        Real *own = s.features + (k0 + k) * part.block_features() * N;
        Real *in_e = s.blocks + k * b * b * N;
        lanes_pullback(b, block_of_features(part, own, s.a), in_e, in_e, s.exponential);
        features_of_block(part, in_e, own);
      }
    }
    for (int64_t p = 0; p < part.feature_panels; ++p) {
      lanes_to_panel<Real>(s.features + p * N * N, N, part.features_at + p, row, rows, gradients, s.square);
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
