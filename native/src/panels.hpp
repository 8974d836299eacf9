// The fused recurrence: what one pass over a problem holds, and its parts that all sources share.
#pragma once

#include "features.hpp"
#include "plan.hpp"
#include "steps.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Channels of a table that gradients are pulled back to at a time.
constexpr int64_t TABLE_CHANNELS = 48;

template <class Real>
void clear(Real *numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) numbers[i] = 0;
}

// What a thread works with.
template <class Real>
struct Scratch {
  Real *transitions;  // panels of a chunk
  Real *gradients;    // their gradients, where they can't be written over the transitions
  Real *increments;   // of a chunk, (rows, width), where the pass works on copies
  Real *states;       // the same, after and before its steps: (sequences, steps + 1, dim, columns)
  Real *in_states;    // and their gradients
  Real *in_increments;  // of a chunk, where memory has these in half precision
  Real *directions;   // of a state
  typename Scales<Real>::Integer *exponents;  // of its numbers, (sequences, dim)
  Real *weights;      // powers of two of these
  Real *scaled;       // a state times weights
  FlowScratch<Real> flow;
  Real *norms;        // of rotated blocks, for each column
  Real *state;        // a padded state
  Real *moved;        // another
  Real *carry;        // padded gradients, one for each column
  Real *factors;      // what a padded state is divided by
  Real *extra;        // for the Walsh-Hadamard transform
  Real *product;      // (columns, padded): the product of the transitions so far
  typename Scales<Real>::Integer *powers;  // of two that its columns were divided by
  Real *driven;       // (columns, padded): states that started from zero
  Real *packed;       // of a table: (panels of a bundle, channels, LANES)
  Real *pulled;       // of a table: gradients of some channels of its rows, (channels, tokens)
};

// Columns of the product: rows of the largest block, or of a part that is no block.
inline int64_t product_columns(const slicekit_panels &q) {
  int64_t found = 1;
  for (int64_t p = 0; p < q.parts; ++p) {
    const bool blocks = q.part[p].kind == SLICEKIT_BLOCKS || q.part[p].kind == SLICEKIT_SKEW;
    found = most(found, blocks ? q.part[p].size : q.part[p].dim);
  }
  return found;
}

template <class Real>
struct Pass {
  const slicekit_panels &q;
  Path path;
  Plan plan;
  bool backward;
  Packed<Real> packed[MAX_SPLITS];  // none of a table, which packs a few panels at a time
  Real *totals[MAX_SPLITS];   // (slots, feature panels, channels, LANES); none of a table
  Real *partial[MAX_SPLITS];  // gradients of the increments, of all splits but the first, which has
                              // its own where memory has them in half precision; none of splits in
                              // turn, which add to one another
  Real *table;                // (1 + vocabulary, panels, LANES): first the identity, token -1
  Real *transposed;           // the same with its blocks transposed, where steps go by lane groups
  Real *in_table;             // (slots, 1 + vocabulary, panels, LANES)
  Real *in_panels;            // the sum of these, panel by panel
  Real *turned;               // those of features, (lane groups of tokens, features, LANES)
  Workspace workspace;

  Pass(const slicekit_panels &problem, bool backward)
      : q(problem), path{q.channels, q.pace}, backward(backward), workspace(problem.workspace) {
    make_plan<Real>(q, plan);
    for (int64_t s = 0; s < plan.splits; ++s) take_split(s);
    table = transposed = in_table = in_panels = turned = nullptr;
    if (q.vocabulary) take_table();
  }

  // Increments, or values, from a row on.
  const Real *increments(int64_t row) const {
    return static_cast<const Real *>(q.increments) + row * path.width();
  }
  bool apart() const { return q.kept || q.columns > 1; }
  int64_t threads() const { return least(q.threads, MAX_THREADS); }

  void take_split(int64_t s) {
    Layout &layout = plan.layout[s];
    layout.direct &= q.columns == 1;
    layout.place = workspace.take<int32_t>(layout.dim);
    if (workspace.has_memory()) place_state(layout);
    packed[s] = {};
    totals[s] = partial[s] = nullptr;
    if (q.vocabulary) return;
    packed[s] = take_packed<Real>(layout, path, backward, workspace);
    if (!backward) return;
    const int64_t numbers = layout.feature_panels * q.channels * LANES<Real>;
    totals[s] = workspace.take<Real>(numbers * plan.slots);
    if (plan.splits == 1 || plan.in_turn) return;
    if (s > 0 || q.half) partial[s] = workspace.take<Real>(q.batch * q.length * path.width());
  }

  int64_t table_numbers() const { return (1 + q.vocabulary) * plan.layout[0].panels * LANES<Real>; }

  int64_t tokens_padded() const { return round_up(q.vocabulary, LANES<Real>); }

  void take_table() {
    table = q.kept ? static_cast<Real *>(q.kept) : workspace.take<Real>(table_numbers());
    if (!backward) return;
    if (by_lane_groups(q, plan)) transposed = workspace.take<Real>(table_numbers());
    in_table = workspace.take<Real>(table_numbers() * plan.slots);
    in_panels = workspace.take<Real>(q.vocabulary * plan.layout[0].panels * LANES<Real>);
    turned = workspace.take<Real>(tokens_padded() * plan.layout[0].feature_panels * LANES<Real>);
  }

  // The row of the table that step t of sequence b takes.
  int64_t token(int64_t b, int64_t t) const {
    return q.still && t == 0 ? -1 : q.index[b * q.length + t];
  }

  // Each thread takes its own after what they share.
  Scratch<Real> take_scratch() {
    constexpr int64_t N = LANES<Real>;
    int64_t panels = 0, padded = 0, dim = 0;
    for (int64_t s = 0; s < plan.splits; ++s) {
      panels = most(panels, plan.layout[s].panels);
      padded = most(padded, plan.layout[s].padded);
      dim = most(dim, plan.layout[s].dim);
    }
    const int64_t numbers = q.vocabulary ? 0 : panels * plan.rows * N;
    Scratch<Real> scratch = {};
    scratch.transitions = workspace.take<Real>(q.kept ? 0 : numbers);
    scratch.gradients = backward && apart() ? workspace.take<Real>(numbers) : scratch.transitions;
    const int64_t copied = copies_states(q) ? (plan.rows + plan.together) * q.dim * q.columns : 0;
    const int64_t directed = q.directed ? q.dim : 0;
    scratch.increments = workspace.take<Real>(copies_path(q) ? plan.rows * path.width() : 0);
    scratch.states = workspace.take<Real>(copied);
    scratch.in_states = workspace.take<Real>(backward ? copied : 0);
    const bool rounded = backward && q.half && !q.vocabulary;
    scratch.in_increments = workspace.take<Real>(rounded ? plan.rows * path.width() : 0);
    scratch.directions = workspace.take<Real>(directed);
    scratch.exponents = workspace.take<typename Scales<Real>::Integer>(plan.together * directed);
    scratch.weights = workspace.take<Real>(directed);
    scratch.scaled = workspace.take<Real>(directed);
    scratch.flow = take_flow_scratch<Real>(plan.part, plan.parts, workspace);
    scratch.norms = workspace.take<Real>(dim * q.columns);
    scratch.state = workspace.take<Real>(padded);
    scratch.moved = workspace.take<Real>(padded);
    scratch.carry = workspace.take<Real>(backward ? padded * q.columns : 0);
    scratch.factors = workspace.take<Real>(q.rescale ? padded : 0);
    scratch.extra = workspace.take<Real>(backward ? padded : 0);
    const int64_t product = q.product ? product_columns(q) * padded : 0;
    scratch.product = workspace.take<Real>(product);
    scratch.powers = workspace.take<typename Scales<Real>::Integer>(product);
    scratch.driven = workspace.take<Real>(q.product && q.inputs ? q.columns * padded : 0);
    const int64_t together = least(LARGEST_BUNDLE, plan.layout[0].feature_panels);
    scratch.packed = workspace.take<Real>(q.vocabulary ? together * q.channels * N : 0);
    scratch.pulled = workspace.take<Real>(q.vocabulary && backward ? TABLE_CHANNELS * tokens_padded() : 0);
    return scratch;
  }

  int64_t packed_panel() const { return path.channels * LANES<Real>; }

  void pack() {
    each_feature_panel([&](int64_t s, int64_t panel) {
      pack_panel<Real>(plan.layout[s], panel, path, packed[s].forward + panel * packed_panel());
    });
    if (!backward) return;
    each_feature_panel([&](int64_t s, int64_t panel) {
      pack_back<Real>(panel, plan.layout[s].feature_panels, path,
                      packed[s].forward + panel * packed_panel(), packed[s]);
    });
  }

  // Sums the accumulators in a fixed order and puts them where the parameters have their gradients.
  void unpack() {
    each_feature_panel([&](int64_t s, int64_t panel) {
      unpack_panel<Real>(plan.layout[s], panel, path, totals[s] + panel * packed_panel(), plan.slots);
    });
  }

  // Calls f(split, panel) for all of them, which the threads share.
  template <class F>
  void each_feature_panel(const F &f) {
    each_of(all_feature_panels(), threads(), [&](int64_t all, int64_t) {
      int64_t s = 0, panel = all;
      for (; panel >= plan.layout[s].feature_panels; ++s) panel -= plan.layout[s].feature_panels;
      f(s, panel);
    });
  }

  int64_t all_feature_panels() const {
    int64_t total = 0;
    for (int64_t s = 0; s < plan.splits; ++s) total += plan.layout[s].feature_panels;
    return total;
  }

  void flow(const Layout &layout, int64_t rows, const Panels<Real> &panels,
            const FlowScratch<Real> &scratch) const {
    for (int64_t p = 0; p < layout.parts; ++p) {
      if (layout.part[p].exponential) flow_part(layout.part[p], rows, panels, scratch);
    }
  }

  void pull_flow(const Layout &layout, int64_t rows, const Panels<Real> &features,
                 const Panels<Real> &gradients, const FlowScratch<Real> &scratch) const {
    for (int64_t p = 0; p < layout.parts; ++p) {
      if (layout.part[p].exponential) pull_part(layout.part[p], rows, features, gradients, scratch);
    }
  }
};

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
