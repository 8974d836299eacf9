// Steps by the rows of a table (tokens) through small blocks, one lane group of the state at a time.
//
// Blocks of a lane group know nothing of the others, so that all steps of all sequences can be run
// through one lane group before the next. What the table holds of it stays in the first-level cache
// then, and so do its gradients. A few sequences take turns: the steps of one wait for each other.
#pragma once

#include "panels.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Sequences that take turns.
constexpr int64_t TURNS = 4;

// Steps ahead of time that memory is asked for: one lane group of a state is one line of the cache.
constexpr int64_t AHEAD = 8;

// Whether all steps of a pass can be run like that.
inline bool by_lane_groups(const slicekit_panels &q, const Plan &plan) {
  if (!q.vocabulary || q.columns > 1 || q.rescale || q.inputs || q.product) return false;
  const Layout &layout = plan.layout[0];
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    if (!part.is_blocks() || part.size * q.real > 64) return false;
  }
  return layout.direct;
}

// One lane group of one part, and the arrays of the sequences in it.
template <class Real>
struct TokenGroup {
  const Pass<Real> &pass;
  const slicekit_panels &q;
  const Part &part;
  Panels<Real> table, gradients;  // from the first panel of the lane group on
  int64_t at;                     // in a state

  const Real *before(int64_t b, int64_t t) const {
    return t ? static_cast<const Real *>(q.states) + (b * q.length + t - 1) * q.dim + at
             : static_cast<const Real *>(q.state) + b * q.dim + at;
  }
  Real *after(int64_t b, int64_t t) const {
    return static_cast<Real *>(q.states) + (b * q.length + t) * q.dim + at;
  }
  const Real *in_states(int64_t b, int64_t t) const {
    return static_cast<const Real *>(q.in_states) + (b * q.length + t) * q.dim + at;
  }
  int64_t token(int64_t b, int64_t t) const { return pass.token(b, t); }

  int64_t blocks() const { return LANES<Real> / part.width; }

  void norms_of(const Real *h, Real *norms) const {
    for (int64_t k = 0; k < blocks(); ++k) {
      norms[k] = 0;
      for (int64_t i = 0; i < part.size; ++i) norms[k] += h[k * part.width + i] * h[k * part.width + i];
    }
  }

  // Sequences first, ..., stop - 1, which are TURNS at most.
  template <int W>
  void run(int b_size, int64_t first, int64_t stop) const {
    const bool rotates = q.restore && part.kind == SLICEKIT_SKEW;
    Real norms[TURNS][LANES<Real>];
    for (int64_t b = first; rotates && b < stop; ++b) norms_of(before(b, 0), norms[b - first]);
    for (int64_t t = 0; t < q.length; ++t) {
      for (int64_t b = first; b < stop; ++b) {
        if (t + AHEAD < q.length) __builtin_prefetch(after(b, t + AHEAD), 1);
        step_groups<W>(1, b_size, table.of(0, token(b, t)), table.panel, before(b, t), after(b, t));
      }
      if (!rotates || (t + 1) % q.restore) continue;
      for (int64_t b = first; b < stop; ++b) {
        for (int64_t k = 0; k < blocks(); ++k) {
          restore_block(after(b, t) + k * part.width, part.size, norms[b - first][k]);
        }
      }
    }
  }

  template <int W, Taken TAKEN>
  void run_back(int b_size, int64_t first, int64_t stop) const {
    constexpr int64_t N = LANES<Real>;
    Real carried[2][TURNS][N];
    for (int64_t b = first; b < stop; ++b) {
      const Real *own = in_states(b, q.length - 1);
      const Real *last = q.in_last ? static_cast<const Real *>(q.in_last) + b * q.dim + at : nullptr;
      for (int64_t l = 0; l < N; ++l) carried[0][b - first][l] = last ? own[l] + last[l] : own[l];
    }
    int now = 0;
    for (int64_t t = q.length - 1; t >= 0; --t, now = 1 - now) {
      for (int64_t b = first; b < stop; ++b) {
        if (t > AHEAD) {
          __builtin_prefetch(before(b, t - AHEAD));
          __builtin_prefetch(in_states(b, t - 1 - AHEAD));
        }
        const Real *own = t ? in_states(b, t - 1) : nullptr;
        Real *next = carried[1 - now][b - first];
        for (int64_t l = 0; l < N; ++l) next[l] = own ? own[l] : Real(0);
        const int64_t v = token(b, t);
        adjoint_groups<W, TAKEN>(1, b_size, table.of(0, v), gradients.of(0, v), table.panel,
                                 gradients.panel, carried[now][b - first], before(b, t), next);
      }
    }
    for (int64_t b = first; b < stop; ++b) {
      Real *to = static_cast<Real *>(q.in_state) + b * q.dim + at;
      for (int64_t l = 0; l < N; ++l) to[l] = carried[now][b - first][l];
    }
  }
};

// Calls f(TokenGroup) for every lane group; the table and its gradients are panels of all tokens.
template <class Real, class F>
inline void each_token_group(const Pass<Real> &pass, const Panels<Real> &table,
                             const Panels<Real> &gradients, F &&f) {
  const Layout &layout = pass.plan.layout[0];
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    for (int64_t g = 0; g < part.padded / LANES<Real>; ++g) {
      const int64_t panel = part.panels_at + g * part.size;
      TokenGroup<Real> group = {pass, pass.q, part, table, gradients, part.padded_at + g * LANES<Real>};
      group.table.at = table.of(panel, 0);
      if (gradients.at) group.gradients.at = gradients.of(panel, 0);
      f(group);
    }
  }
}

template <class Real>
SLICEKIT_NOINLINE void run_token_groups(const Pass<Real> &pass, const Panels<Real> &table,
                                        int64_t first, int64_t stop) {
  each_token_group<Real>(pass, table, {}, [&](const TokenGroup<Real> &group) {
    with_width<Real>(group.part, [&](auto width, int b) {
      for (int64_t s = first; s < stop; s += TURNS) {
        group.template run<decltype(width)::value>(b, s, least(s + TURNS, stop));
      }
    });
  });
}

template <Taken TAKEN, class Real>
SLICEKIT_NOINLINE void run_token_groups_back(const Pass<Real> &pass, const Panels<Real> &table,
                                             const Panels<Real> &gradients, int64_t first,
                                             int64_t stop) {
  each_token_group<Real>(pass, table, gradients, [&](const TokenGroup<Real> &group) {
    with_width<Real>(group.part, [&](auto width, int b) {
      for (int64_t s = first; s < stop; s += TURNS) {
        group.template run_back<decltype(width)::value, TAKEN>(b, s, least(s + TURNS, stop));
      }
    });
  });
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
