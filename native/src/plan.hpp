// How a problem is cut up: splits of the state, tasks of sequences, chunks of steps.
//
// A *task* is one sequence, taken `chunk` steps at a time, or a few sequences that together are
// shorter than that. Where the parts allow it, the state is split as well: between threads, where
// there are fewer tasks than these, and otherwise so that what is packed of the parameters of a split
// stays in the cache while tasks run past it. Nothing but the splits depends on the number of threads.
#pragma once

#include "layout.hpp"
#include "product.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

constexpr int64_t MAX_PARTS = 256, MAX_SPLITS = 64, MAX_THREADS = 256;

struct Plan {
  Part part[MAX_PARTS + MAX_SPLITS];  // of all splits
  int64_t parts;
  Layout layout[MAX_SPLITS];
  int64_t splits;
  bool in_turn;       // a thread takes the splits of its tasks one after the other
  int64_t chunk;      // steps
  int64_t together;   // sequences of a task
  int64_t tasks;
  int64_t slots;      // accumulators of parameter gradients, for each split
  int64_t rows;       // of the largest chunk
  int64_t panels;     // of all splits
};

inline Part part_of(const slicekit_panels &q, int64_t p, int64_t state_at) {
  const slicekit_part &given = q.part[p];
  Part part = {};
  part.kind = given.kind;
  part.dim = given.dim;
  part.size = given.size;
  part.exponential = given.exponential != 0;
  part.blocks = part.all_blocks = part.is_blocks() ? given.dim / given.size : 0;
  part.state_at = state_at;
  part.parameters = q.parameters ? q.parameters + 3 * p : nullptr;
  part.in_parameters = q.in_parameters ? q.in_parameters + 3 * p : nullptr;
  return part;
}

// Panels that may go to different splits from those of their neighbours, over all parts.
template <class Real>
inline int64_t lane_groups(const slicekit_panels &q) {
  int64_t total = 0;
  for (int64_t p = 0; p < q.parts; ++p) {
    Part part = part_of(q, p, 0);
    size_part<Real>(part);
    const int64_t step = blocks_together<Real>(part);
    total += (part.blocks + step - 1) / step * part.size;
  }
  return total;
}

// Whether a pass works on copies of a chunk of states, or of a chunk of the path.
inline bool copies_states(const slicekit_panels &q) { return q.half || q.directed; }
inline bool copies_path(const slicekit_panels &q) { return !q.vocabulary && (q.half || q.lengths); }

// A direction is one of the whole state.
inline bool may_split(const slicekit_panels &q) {
  if (q.vocabulary || q.directed) return false;
  for (int64_t p = 0; p < q.parts; ++p) {
    if (q.part[p].kind != SLICEKIT_BLOCKS && q.part[p].kind != SLICEKIT_SKEW) return false;
  }
  return true;
}

// Deals the lane groups of all parts out to `splits` layouts of about the same work: each ends where that
// comes nearest to an even share.
template <class Real>
inline void deal_out(const slicekit_panels &q, Plan &plan) {
  const int64_t total = plan.splits > 1 ? lane_groups<Real>(q) : 1;
  int64_t made = 0, weight = 0, state_at = 0, split = 0;
  plan.layout[0] = {};
  plan.layout[0].part = plan.part;
  auto add = [&](const Part &part) {
    plan.part[made++] = part;
    plan.layout[split].parts += 1;
  };
  for (int64_t p = 0; p < q.parts; ++p) {
    Part whole = part_of(q, p, state_at);
    state_at += whole.dim;
    if (plan.splits == 1) {
      add(whole);
      continue;
    }
    size_part<Real>(whole);
    const int64_t step = blocks_together<Real>(whole);
    Part piece = whole;
    piece.blocks = 0;
    auto add_piece = [&] {
      if (!piece.blocks) return;
      piece.dim = piece.blocks * piece.size;
      add(piece);
      piece.first_block += piece.blocks;
      piece.state_at += piece.dim;
      piece.blocks = 0;
    };
    for (int64_t k = 0; k < whole.blocks; k += step) {
      const bool filled = plan.layout[split].parts + piece.blocks > 0;
      const int64_t even = total * (split + 1) / plan.splits;
      if (filled && split + 1 < plan.splits && even - weight < weight + whole.size - even) {
        add_piece();
        plan.layout[++split] = {};
        plan.layout[split].part = plan.part + made;
      }
      piece.blocks += least(step, whole.blocks - k);
      weight += whole.size;
    }
    add_piece();
  }
  plan.parts = made;
  plan.splits = split + 1;
  plan.panels = 0;
  for (int64_t s = 0; s < plan.splits; ++s) {
    lay_out<Real>(plan.layout[s]);
    plan.layout[s].panels_before = plan.panels;
    plan.panels += plan.layout[s].panels;
  }
}

// As many short sequences as fill the rows of a chunk, or fewer where they fill its tiles better.
inline int64_t sequences_together(const slicekit_panels &q, int64_t most_rows) {
  const int64_t largest = most<int64_t>(1, least(most_rows / q.length, q.batch / 8));
  int64_t best = largest;
  auto idle = [&](int64_t count) { return round_up(count * q.length, TILE) - count * q.length; };
  for (int64_t count = largest; 2 * count > largest; --count) {
    if (idle(count) * best < idle(best) * count) best = count;
  }
  return best;
}

// What is packed of the parameters of a split that is taken in turn: a part of the second-level cache,
// which also holds what is packed backwards, the gradients, and a chunk.
constexpr int64_t PARAMETER_BYTES = 512 << 10;

// How many splits to take in turn; gradients in half precision can't be added up one after the other.
template <class Real>
inline int64_t splits_in_turn(const slicekit_panels &q, const Layout &whole) {
  if (!may_split(q) || q.half) return 1;
  const int64_t bytes = whole.feature_panels * LANES<Real> * q.channels * q.real;
  const int64_t wanted = (bytes + PARAMETER_BYTES - 1) / PARAMETER_BYTES;
  return least(least(wanted, MAX_SPLITS), lane_groups<Real>(q));
}

template <class Real>
inline void make_plan(const slicekit_panels &q, Plan &plan) {
  plan.splits = 1;
  deal_out<Real>(q, plan);
  const int64_t most_rows = plan.layout[0].panels * 64 * ROWS <= CHUNK_BYTES ? ROWS : FEWER_ROWS;
  const int64_t chunks = (q.length + most_rows - 1) / most_rows;
  plan.chunk = least(q.length, round_up((q.length + chunks - 1) / chunks, TILE));
  plan.together = chunks > 1 ? 1 : sequences_together(q, most_rows);
  if (q.vocabulary) plan.together = 1, plan.chunk = copies_states(q) ? plan.chunk : q.length;
  plan.rows = plan.together * plan.chunk;
  plan.tasks = (q.batch + plan.together - 1) / plan.together;
  plan.in_turn = plan.tasks >= q.threads;
  if (plan.in_turn) {
    plan.splits = splits_in_turn<Real>(q, plan.layout[0]);
  } else if (may_split(q)) {
    const int64_t wanted = (q.threads + plan.tasks - 1) / most<int64_t>(plan.tasks, 1);
    plan.splits = least(least(wanted, MAX_SPLITS), lane_groups<Real>(q));
  }
  if (plan.splits > 1) deal_out<Real>(q, plan);
  plan.slots = plan.splits == 1 || plan.in_turn ? least(q.threads, plan.tasks) : plan.tasks;
}

// Whether steps by tokens go through small blocks, one strip of the state at a time: see
// token_strips.hpp.
inline bool by_lane_groups(const slicekit_panels &q, const Plan &plan) {
  if (!q.vocabulary || q.columns > 1 || q.rescale || q.inputs || q.product) return false;
  const Layout &layout = plan.layout[0];
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    if (!part.is_blocks() || part.size * q.real > 64) return false;
  }
  return layout.direct;
}

// Whether all transitions can be kept: those of a table, or one for each position where they are
// their features, which stand in the same order however the state is split.
inline bool can_keep(const slicekit_panels &q) {
  if (q.vocabulary) return true;
  for (int64_t p = 0; p < q.parts; ++p) {
    if (q.part[p].exponential) return false;
  }
  return true;
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
