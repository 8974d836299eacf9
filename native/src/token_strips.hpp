// Steps by the rows of a table (tokens) through small blocks, one strip of the state at a time.
//
// Blocks of a lane group know nothing of the others, so that all steps of all sequences can be run
// through a strip, some neighbouring lane groups, before the next. What the table holds of it stays
// in the second-level cache then, and so do its gradients. States stream past them, in the order in
// which they lie in memory, and are asked for ahead of time into that cache too: the first-level one
// has no room for them. States in half precision are widened, and rounded, one by one.
#pragma once

#include "halves.hpp"
#include "panels.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// What the table and its gradients may take of the cache for a strip, and its most lane groups.
constexpr int64_t STRIP_BYTES = 512 << 10, STRIP_GROUPS = 32;

// In a strip of fewer lane groups a few sequences take turns: the steps of one wait for each other.
constexpr int64_t NARROW_STRIP = 4, TURNS = 4;

// Steps ahead of time that memory is asked for.
constexpr int64_t AHEAD = 8;

// Some lane groups of one part, and the arrays of the sequences in them.
template <class Real>
struct TokenStrip {
  static constexpr int64_t N = LANES<Real>;

  const Pass<Real> &pass;
  const slicekit_panels &q;
  const Part &part;
  Panels<Real> table, gradients;  // from the first panel of the strip on; backwards, table is transposed
  int64_t at, groups;             // in a state

  // The strip after step t, or its gradient, in an array of all states; widened into `to` if need be.
  SLICEKIT_INLINE const Real *read(const void *states, int64_t b, int64_t t, Real *to) const {
    const int64_t place = (b * q.length + t) * q.dim + at;
    if (!q.half) return static_cast<const Real *>(states) + place;
    widen(static_cast<const Half *>(states) + place, width(), to);
    return to;
  }
  const Real *start(int64_t b) const { return static_cast<const Real *>(q.state) + b * q.dim + at; }
  Real *after(int64_t b, int64_t t) const {
    return static_cast<Real *>(q.states) + (b * q.length + t) * q.dim + at;
  }
  int64_t token(int64_t b, int64_t t) const { return pass.token(b, t); }

  int64_t turns() const { return groups < NARROW_STRIP ? TURNS : 1; }
  int64_t width() const { return groups * N; }
  int64_t blocks() const { return width() / part.width; }

  // Asks for the strip of one of all sequences' states, counted through them, if there is one.
  SLICEKIT_INLINE void ask_for_strip(const void *states, int64_t row) const {
    if (row < 0 || row >= q.batch * q.length) return;
    if (q.half) return ask_for(static_cast<const Half *>(states) + row * q.dim + at, width());
    ask_for(static_cast<const Real *>(states) + row * q.dim + at, width());
  }

  void norms_of(const Real *h, Real *norms) const {
    for (int64_t k = 0; k < blocks(); ++k) {
      norms[k] = 0;
      for (int64_t i = 0; i < part.size; ++i) norms[k] += h[k * part.width + i] * h[k * part.width + i];
    }
  }

  // Sequences first, ..., stop - 1, which are turns() at most.
  template <int W>
  SLICEKIT_INLINE void run(int b_size, int64_t first, int64_t stop) const {
    const bool rotates = q.restore && part.kind == SLICEKIT_SKEW;
    Real norms[STRIP_GROUPS * N], carried[2][STRIP_GROUPS * N];
    const Real *before[TURNS];
    for (int64_t b = first; b < stop; ++b) {
      before[b - first] = start(b);
      if (rotates) norms_of(start(b), norms + (b - first) * blocks());
    }
    for (int64_t t = 0; t < q.length; ++t) {
      const bool restores = rotates && (t + 1) % q.restore == 0;
      for (int64_t b = first; b < stop; ++b) {
        const int64_t turn = b - first;
        ask_for_strip(q.states, b * q.length + t + AHEAD);
        Real *to = q.half ? carried[t % 2] + turn * width() : after(b, t);
        step_groups<W>(groups, b_size, table.of(0, token(b, t)), table.panel, before[turn], to);
        for (int64_t k = 0; restores && k < blocks(); ++k) {
          restore_block(to + k * part.width, part.size, norms[turn * blocks() + k]);
        }
        if (q.half) narrow(to, width(), static_cast<Half *>(q.states) + (b * q.length + t) * q.dim + at);
        before[turn] = to;
      }
    }
    for (int64_t b = first; q.last && b < stop; ++b) {
      Real *last = static_cast<Real *>(q.last) + b * q.dim + at;
      __builtin_memcpy(last, before[b - first], width() * sizeof(Real));
    }
  }

  template <int W, Taken TAKEN>
  SLICEKIT_INLINE void run_back(int b_size, int64_t first, int64_t stop) const {
    static const Real nothing[STRIP_GROUPS * N] = {};
    Real carried[2][STRIP_GROUPS * N], states[STRIP_GROUPS * N], in_states[STRIP_GROUPS * N];
    for (int64_t b = first; b < stop; ++b) {
      const Real *own = read(q.in_states, b, q.length - 1, in_states);
      const Real *last = q.in_last ? static_cast<const Real *>(q.in_last) + b * q.dim + at : nullptr;
      Real *carry = carried[0] + (b - first) * width();
      for (int64_t l = 0; l < width(); ++l) carry[l] = last ? own[l] + last[l] : own[l];
    }
    int now = 0;
    for (int64_t t = q.length - 1; t >= 0; --t, now = 1 - now) {
      for (int64_t b = stop - 1; b >= first; --b) {
        ask_for_strip(q.states, b * q.length + t - 1 - AHEAD);
        ask_for_strip(q.in_states, b * q.length + t - 1 - AHEAD);
        const int64_t v = token(b, t), turn = (b - first) * width();
        const Real *before = t ? read(q.states, b, t - 1, states) : start(b);
        const Real *earlier = t ? read(q.in_states, b, t - 1, in_states) : nothing;
        if constexpr (W <= WIDTH<Real>) {
          adjoint_transposed<W, TAKEN>(groups, table.of(0, v), gradients.of(0, v), table.panel,
                                       gradients.panel, carried[now] + turn, before, earlier,
                                       carried[1 - now] + turn);
        } else {
          adjoint_groups<W, TAKEN>(groups, b_size, table.of(0, v), gradients.of(0, v), table.panel,
                                   gradients.panel, carried[now] + turn, before, earlier,
                                   carried[1 - now] + turn);
        }
      }
    }
    for (int64_t b = first; b < stop; ++b) {
      Real *to = static_cast<Real *>(q.in_state) + b * q.dim + at;
      const Real *carry = carried[now] + (b - first) * width();
      for (int64_t l = 0; l < width(); ++l) to[l] = carry[l];
    }
  }
};

// Lane groups of a part that make up a strip, all of about the same width.
template <class Real>
inline int64_t groups_of_strip(const Part &part, int64_t rows_of_group) {
  const int64_t groups = part.padded / LANES<Real>;
  const int64_t bytes = rows_of_group * part.size * LANES<Real> * int64_t(sizeof(Real));
  const int64_t fit = most<int64_t>(1, least(STRIP_GROUPS, STRIP_BYTES / bytes));
  const int64_t strips = (groups + fit - 1) / fit;
  return (groups + strips - 1) / strips;
}

// Calls f(TokenStrip) for every strip; the table and its gradients are panels of all tokens.
template <class Real, class F>
inline void each_token_strip(const Pass<Real> &pass, const Panels<Real> &table,
                             const Panels<Real> &gradients, F &&f) {
  const Layout &layout = pass.plan.layout[0];
  const int64_t rows = (1 + pass.q.vocabulary) * (gradients.at ? 2 : 1);
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    const int64_t groups = part.padded / LANES<Real>, step = groups_of_strip<Real>(part, rows);
    for (int64_t g = 0; g < groups; g += step) {
      const int64_t panel = part.panels_at + g * part.size;
      TokenStrip<Real> strip = {pass,      pass.q, part, table, gradients, part.padded_at + g * LANES<Real>,
                                least(step, groups - g)};
      strip.table.at = table.of(panel, 0);
      if (gradients.at) strip.gradients.at = gradients.of(panel, 0);
      f(strip);
    }
  }
}

template <class Real>
SLICEKIT_NOINLINE void run_token_strips(const Pass<Real> &pass, const Panels<Real> &table,
                                        int64_t first, int64_t stop) {
  each_token_strip<Real>(pass, table, {}, [&](const TokenStrip<Real> &strip) {
    with_width<Real>(strip.part, [&](auto width, int b) SLICEKIT_INLINE_LAMBDA {
      for (int64_t s = first; s < stop; s += strip.turns()) {
        strip.template run<decltype(width)::value>(b, s, least(s + strip.turns(), stop));
      }
    });
  });
}

template <Taken TAKEN, class Real>
SLICEKIT_NOINLINE void run_token_strips_back(const Pass<Real> &pass, const Panels<Real> &table,
                                             const Panels<Real> &gradients, int64_t first,
                                             int64_t stop) {
  each_token_strip<Real>(pass, table, gradients, [&](const TokenStrip<Real> &strip) {
    with_width<Real>(strip.part, [&](auto width, int b) SLICEKIT_INLINE_LAMBDA {
      for (int64_t s = stop; s > first; s -= strip.turns()) {
        strip.template run_back<decltype(width)::value, TAKEN>(b, most(s - strip.turns(), first), s);
      }
    });
  });
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
