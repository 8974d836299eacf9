// The table of a problem of tokens: transitions of its rows, and gradients pulled back from them.
//
// Backwards, parameters are read, and their gradients written, where they stand. The gradients of
// the table, far fewer numbers, are put into the order of the parameters instead, once as rows of
// tokens and once with tokens in the lanes. Both products then go through some channels at a time:
// in_parameters[i, :] = Σ_v Δω_v^i in_features[v, :], and in_increments[:, i] = in_features A^i.
#pragma once

#include "token_strips.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Rows of a table that a thread exponentiates, or pulls back, at a time: whole lane groups of them.
constexpr int64_t TABLE_ROWS = 48;

// Panels of a stretch, whose gradients fit in the first-level cache.
constexpr int64_t LONGEST_STRETCH = 2 * LARGEST_SHEAF;

// Where a step reads all panels of one row, these follow each other; where lane groups are run one by
// one, so do the rows of a panel. Row -1 stands before the others.
template <class Real>
Panels<Real> rows_of_table(const Pass<Real> &pass, Real *at) {
  constexpr int64_t N = LANES<Real>;
  const bool by_groups = by_lane_groups(pass.q, pass.plan);
  const int64_t row = by_groups ? N : pass.plan.layout[0].panels * N;
  return {at + row, by_groups ? (1 + pass.q.vocabulary) * N : N, row};
}

// Neighbouring panels whose parameters follow each other in memory, `numbers` of each channel; or one
// panel with lanes that stand anywhere, where `at` is null.
template <class Real>
struct Stretch {
  int64_t first, panels;
  Real *at;
  int64_t stride;
  Sheaf<Real> sheaf;  // the first of those that it is made of, which are alike

  int64_t numbers() const { return panels * LANES<Real>; }
};

template <class Real>
inline Stretch<Real> stretch_of(const Layout &layout, int64_t first, int64_t stop, bool gradients) {
  const Sheaf<Real> sheaf = sheaf_of<Real>(layout, first, gradients);
  if (!sheaf.count) return {first, 1, nullptr, 0, sheaf};
  Stretch<Real> stretch = {first, sheaf.count, sheaf.at, sheaf.stride, sheaf};
  while (first + stretch.panels < least(first + LONGEST_STRETCH, stop)) {
    const Sheaf<Real> next = sheaf_of<Real>(layout, first + stretch.panels, gradients);
    const bool follows = next.at == stretch.at + stretch.numbers() && next.stride == stretch.stride;
    if (next.count != sheaf.count || !follows) break;
    stretch.panels += next.count;
  }
  return stretch;
}

template <class Real>
void pack_stretch(const Pass<Real> &pass, const Stretch<Real> &from, Real *rows) {
  const Sheaf<Real> &sheaf = from.sheaf;
  if (!from.at) return pack_panel(pass.plan.layout[0], from.first, pass.path, rows);
  const Real scale = static_cast<Real>(pass.path.scale());
  unravel_sheaves(sheaf, from.panels / sheaf.count, pass.path.channels, scale, rows);
}

template <class Real>
void make_table(const Pass<Real> &pass, const Scratch<Real> *scratch) {
  const slicekit_panels &q = pass.q;
  const Layout &layout = pass.plan.layout[0];
  const Panels<Real> table = rows_of_table(pass, pass.table);
  const int64_t bundles = bundles_of(layout);
  for (int64_t p = 0; p < layout.panels; ++p) clear(table.of(p, -1), LANES<Real>);
  each_part(bundles, pass.threads(), [&](int64_t number, int64_t worker) {
    Real *const packed = scratch[worker].packed;
    const Bundle bundle = bundle_of<Real>(layout, number);
    Panels<Real> panels = table;
    panels.at = panels.of(bundle.first, 0);
    for (int64_t p = bundle.first; p < bundle.stop;) {
      const auto stretch = stretch_of<Real>(layout, p, bundle.stop, false);
      pack_stretch(pass, stretch, packed + (p - bundle.first) * pass.packed_panel());
      p += stretch.panels;
    }
    make_features(bundle.count(), packed, pass.path, q.vocabulary, pass.increments(0), panels);
  });
  each_stretch_of(q.vocabulary, TABLE_ROWS, pass.threads(), [&](int64_t first, int64_t rows, int64_t worker) {
    Panels<Real> panels = table;
    panels.at = panels.of(0, first);
    pass.flow(layout, rows, panels, scratch[worker].flow);
  });
}

// What adjoint steps read where they go by lane groups: the table, with blocks transposed if they are
// no wider than a vector.
template <class Real>
void transpose_table(const Pass<Real> &pass) {
  constexpr int64_t N = LANES<Real>;
  const Layout &layout = pass.plan.layout[0];
  const Panels<Real> from = rows_of_table(pass, pass.table), to = rows_of_table(pass, pass.transposed);
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    const int64_t groups = part.padded / N;
    each_of(groups, pass.threads(), [&](int64_t g, int64_t) {
      with_width<Real>(part, [&](auto width, int) {
        constexpr int W = decltype(width)::value;
        const int64_t panel = part.panels_at + g * W;
        for (int64_t v = -1; v < pass.q.vocabulary; ++v) {
          for (int u = 0; u < VECTORS; ++u) {
            Vector<Real> x[W];
            for (int j = 0; j < W; ++j) x[j] = load(from.of(panel + j, v) + u * WIDTH<Real>);
            if constexpr (W <= WIDTH<Real>) transpose<W, Real>(x);
            for (int j = 0; j < W; ++j) store(to.of(panel + j, v) + u * WIDTH<Real>, x[j]);
          }
        }
      });
    });
  }
}

// Where the gradients of the table's transitions are summed, and then are those of its features.
template <class Real>
Panels<Real> table_gradients(const Pass<Real> &pass) {
  return {pass.in_panels, pass.q.vocabulary * LANES<Real>, LANES<Real>};
}

// Those of a slot to begin with; nothing is added to features that transitions are made from.
template <class Real>
void clear_gradients(const Pass<Real> &pass, int64_t slot) {
  constexpr int64_t N = LANES<Real>;
  const Layout &layout = pass.plan.layout[0];
  const Panels<Real> gradients = rows_of_table(pass, pass.in_table + slot * pass.table_numbers());
  for (int64_t p = 0; p < layout.panels; ++p) {
    if (p < layout.feature_panels && part_of_panel(layout, p).exponential) continue;
    for (int64_t v = -1; v < pass.q.vocabulary; ++v) clear(gradients.of(p, v), N);
  }
}

// The sum over slots of `count` panels' gradients, in the order of the parameters of a sheaf of them.
template <class Real>
SLICEKIT_NOINLINE void sum_slots(const Pass<Real> &pass, int64_t first, int64_t count) {
  constexpr int64_t V = WIDTH<Real>;
  const Panels<Real> from = rows_of_table(pass, pass.in_table), to = table_gradients(pass);
  const int64_t slots = pass.plan.slots, apart = pass.table_numbers();
  with_count(count, [&](auto number) {
    constexpr int COUNT = decltype(number)::value;
    for (int64_t v = 0; v < pass.q.vocabulary; ++v) {
      Vector<Real> x[COUNT * VECTORS], y[COUNT * VECTORS];
      for (int i = 0; i < COUNT * VECTORS; ++i) {
        const Real *at = from.of(first + i / VECTORS, v) + i % VECTORS * V;
        x[i] = load(at);
        for (int64_t slot = 1; slot < slots; ++slot) x[i] += load(at + slot * apart);
      }
      ravel<COUNT, Real>(x, y);
      for (int i = 0; i < COUNT * VECTORS; ++i) {
        store(to.of(first + i / VECTORS, v) + i % VECTORS * V, y[i]);
      }
    }
  });
}

template <class Real>
void sum_table(const Pass<Real> &pass) {
  const Layout &layout = pass.plan.layout[0];
  each_of(layout.panels, pass.threads(), [&](int64_t p, int64_t) {
    const bool feature = p < layout.feature_panels;
    if (feature && part_of_panel(layout, p).exponential) return;  // these come from the transitions
    const Sheaf<Real> sheaf = feature ? sheaf_of<Real>(layout, p, false) : Sheaf<Real>{};
    if (!sheaf.count || sheaf.first == p) sum_slots(pass, p, most<int64_t>(1, sheaf.count));
  });
}

// From gradients of transitions to those of features, times the path's scale, also with tokens in
// the lanes: turned (lane groups of tokens, features, LANES).
template <class Real>
void pull_table_flow(const Pass<Real> &pass, const Scratch<Real> *scratch) {
  constexpr int64_t N = LANES<Real>;
  const slicekit_panels &q = pass.q;
  const Layout &layout = pass.plan.layout[0];
  const Panels<Real> table = rows_of_table(pass, pass.table), gradients = table_gradients(pass);
  const Real scale = static_cast<Real>(pass.path.scale());
  each_stretch_of(q.vocabulary, TABLE_ROWS, pass.threads(), [&](int64_t first, int64_t rows, int64_t worker) {
    Panels<Real> own = gradients, features = table;
    own.at = own.of(0, first);
    features.at = features.of(0, first);
    pass.pull_flow(layout, rows, features, own, scratch[worker].flow);
    for (int64_t p = 0; p < layout.feature_panels; ++p) {
      Real *numbers = own.of(p, 0), square[N * N];
      for (int64_t i = 0; scale != 1 && i < rows * N; ++i) numbers[i] *= scale;
      for (int64_t row = 0; q.in_increments && row < rows; row += N) {
        Real *to = pass.turned + ((first + row) * layout.feature_panels + p * N) * N;
        panel_to_lanes(own, p, row, rows, to, N, square);
      }
    }
  });
}

// Some channels of a path, those in memory, and what is pulled back to them.
template <class Real>
struct TableChannels {
  static constexpr int64_t N = LANES<Real>;

  const Pass<Real> &pass;
  const Scratch<Real> &scratch;
  int64_t first, count;

  int64_t clock() const { return pass.path.clock(); }
  int64_t width() const { return pass.path.width(); }
  int64_t token_groups() const { return pass.tokens_padded() / N; }

  // in_parameters of a stretch; the clock's, whose increments are 1, are made with the first channels.
  void pull_parameters(const Stretch<Real> &to) const {
    const Panels<Real> gradients = table_gradients(pass);
    const Real *b = gradients.of(to.first, 0);
    Real *c = to.at ? to.at : scratch.packed;
    const int64_t row = to.at ? to.stride : N, rows = pass.q.vocabulary;
    const bool starts = clock() && first == 0;
    const int64_t before = to.at ? clock() + first : starts ? 1 : 0;
    const Real one = 1;
    if (starts) {
      multiply<Real>(to.panels, {1, 1, rows, &one, 0, 0, 0, b, gradients.panel, c, row, N, false});
    }
    multiply<Real>(to.panels, {count, 1, rows, pass.increments(0) + first, 0, 1, width(), b,
                               gradients.panel, c + before * row, row, N, false});
    if (to.at) return;
    const auto columns = panel_columns<Real>(pass.plan.layout[0], to.first, true);
    unpack_lanes(c, before + count, columns.from(starts ? 0 : clock() + first));
  }

  // in_increments (+)= what a stretch gives to them, as (channels, tokens).
  void pull_increments(const Stretch<Real> &from) const {
    const Layout &layout = pass.plan.layout[0];
    const Real *a = from.at + (clock() + first) * from.stride;
    int64_t row = from.stride;
    if (!from.at) {
      const auto columns = panel_columns<Real>(layout, from.first, false);
      pack_lanes(columns.from(clock() + first), count, Real(1), scratch.packed);
      a = scratch.packed;
      row = N;
    }
    multiply<Real>(token_groups(), {count, 1, from.numbers(), a, 0, row, 1,
                                    pass.turned + from.first * N * N, layout.feature_panels * N * N,
                                    scratch.pulled, token_groups() * N, N, from.first > 0});
  }

  void write_increments() const {
    Real *to = static_cast<Real *>(pass.q.in_increments) + first;
    for (int64_t v = 0; v < pass.q.vocabulary; ++v, to += width()) {
      for (int64_t i = 0; i < count; ++i) to[i] = scratch.pulled[i * token_groups() * N + v];
    }
  }
};

// Sums the slots' gradients of the table and pulls them back to its increments and the parameters.
template <class Real>
void pull_table(const Pass<Real> &pass, const Scratch<Real> *scratch) {
  const slicekit_panels &q = pass.q;
  const Layout &layout = pass.plan.layout[0];
  sum_table(pass);
  pull_table_flow(pass, scratch);
  auto pull = [&](int64_t first, int64_t count, int64_t worker) {
    const TableChannels<Real> channels = {pass, scratch[worker], first, count};
    for (int64_t p = 0; q.in_parameters && p < layout.feature_panels;) {
      const auto stretch = stretch_of<Real>(layout, p, layout.feature_panels, true);
      channels.pull_parameters(stretch);
      p += stretch.panels;
    }
    for (int64_t p = 0; q.in_increments && p < layout.feature_panels;) {
      const auto stretch = stretch_of<Real>(layout, p, layout.feature_panels, false);
      channels.pull_increments(stretch);
      p += stretch.panels;
    }
    if (q.in_increments) channels.write_increments();
  };
  if (!pass.path.width()) return pull(0, 0, 0);
  each_stretch_of(pass.path.width(), TABLE_CHANNELS, pass.threads(), pull);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
