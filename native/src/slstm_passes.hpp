// The two passes of the sLSTM over one head of a few sequences, chunk of steps by chunk.
//
// Products with inputs, and those that sum gradients, are made for a chunk at once; in between each
// step has the product with its own hidden states. A *slot* is a sequence and step of a chunk,
// `sequence * steps + step`. Units are padded to whole lane groups, in each of the four gates.
#pragma once

#include "channel_groups.hpp"
#include "product.hpp"
#include "slicekit_slstm.h"
#include "slstm_cell.hpp"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace slstm {

// Sequences that run side by side, and bytes of a chunk's gates. Neither depends on the number of
// threads.
constexpr int64_t MOST_ROWS = 24, GATE_BYTES = 1 << 18, MOST_STEPS = 192;

template <class Real>
struct Sizes {
  int64_t batch, length, heads, dim, width;
  int64_t groups, padded;  // lane groups of a head's units, and their lanes
  int64_t slabs, rows, steps;

  explicit Sizes(const slicekit_slstm &task)
      : batch(task.batch), length(task.length), heads(task.heads), dim(task.dim) {
    width = heads * dim;
    padded = round_up(dim, LANES<Real>);
    groups = padded / LANES<Real>;
    slabs = most<int64_t>(1, (batch + MOST_ROWS - 1) / MOST_ROWS);
    const int64_t even = most<int64_t>(1, (batch + slabs - 1) / slabs);
    rows = least(round_up(even, even > TILE ? TILE : 1), most<int64_t>(batch, 1));
    const int64_t fitting = GATE_BYTES / (rows * 4 * padded * int64_t(sizeof(Real)));
    steps = least(length, least(MOST_STEPS, most<int64_t>(TILE, fitting / TILE * TILE)));
  }

  int64_t slots() const { return rows * steps; }
  int64_t weights() const { return 4 * padded * dim; }  // of four gates, in lane groups
};

// Gradients of the weights of a head: those of maps to gates stand in lane groups (4 groups, dim).
template <class Real>
struct Sums {
  Real *gates, *recurrent, *bias;

  Sums(Workspace &work, const Sizes<Real> &n, int64_t count = 1)
      : gates(work.take<Real>(count * n.weights())),
        recurrent(work.take<Real>(count * n.weights())),
        bias(work.take<Real>(count * 4 * n.padded)) {}

  Sums(const Sums &all, const Sizes<Real> &n, int64_t number)
      : gates(all.gates + number * n.weights()),
        recurrent(all.recurrent + number * n.weights()),
        bias(all.bias + number * 4 * n.padded) {}

  template <class F>
  void each(const Sizes<Real> &n, F f) const {
    f(gates, n.weights());
    f(recurrent, n.weights());
    f(bias, 4 * n.padded);
  }
};

// What a thread works with.
template <class Real>
struct Room {
  Real *gates, *recurrent, *bias;              // forwards: maps to lane groups of gates
  Real *gates_back, *recurrent_back;           // backwards: maps to lane groups of units
  Real *chunk;                                 // pre-activations (slots, 4 padded), or their gradients
                                               // (4 groups, slots, LANES)
  Real *units;                                 // (slots, padded)
  Real *hidden, *first, *second, *third, *y;   // (rows, padded)

  Room(Workspace &work, const Sizes<Real> &n, bool backward) {
    auto take = [&](bool wanted, int64_t count) {
      return wanted ? work.take<Real>(count) : nullptr;
    };
    gates = take(!backward, n.weights());
    recurrent = take(!backward, n.weights());
    bias = take(!backward, 4 * n.padded);
    gates_back = take(backward, 4 * n.padded * n.padded);
    recurrent_back = take(backward, 4 * n.padded * n.padded);
    chunk = take(true, n.slots() * 4 * n.padded);
    units = take(backward, n.slots() * n.padded);
    hidden = take(true, n.rows * n.padded);
    first = take(true, n.rows * n.padded);
    second = take(true, n.rows * n.padded);
    third = take(true, n.rows * n.padded);
    y = take(backward, n.rows * n.padded);
  }
};

// to (padded) from `dim` numbers, with zeros behind them; and back.
template <class Real>
SLICEKIT_INLINE void spread(const Real *from, const Sizes<Real> &n, Real *to) {
  for (int64_t j = 0; j < n.padded; j += WIDTH<Real>) {
    store(to + j, load_some(from + j, most<int64_t>(0, n.dim - j)));
  }
}

template <class Real>
SLICEKIT_INLINE void gather(const Real *from, const Sizes<Real> &n, Real *to) {
  for (int64_t j = 0; j < n.dim; j += WIDTH<Real>) store_some(to + j, load(from + j), n.dim - j);
}

// One head of a slab of sequences.
template <class Real>
class Passes {
 public:
  using V = Vector<Real>;
  static constexpr int64_t N = LANES<Real>, W = WIDTH<Real>;

  Passes(const slicekit_slstm &task, const Sizes<Real> &sizes, const Room<Real> &room, int64_t head)
      : task_(task), n(sizes), room_(room), head_(head) {}

  void pack_forward() const {
    for (int64_t q = 0; q < 4; ++q) {
      for (int64_t g = 0; g < n.groups; ++g) {
        const int64_t e = g * N, count = least(N, n.dim - e);
        Real *gates = room_.gates + (q * n.groups + g) * n.dim * N;
        Real *recurrent = room_.recurrent + (q * n.groups + g) * n.dim * N;
        lanes::to_lanes(gate(task_.gates, q, e), count, n.dim, gates);
        for (int64_t k = 0; k < n.dim; ++k) {
          for (int64_t l = 0; l < N; l += W) {
            store(recurrent + k * N + l,
                  load_some(back(k, q) + e + l, most<int64_t>(0, n.dim - e - l)));
          }
        }
      }
      spread(numbers(task_.bias) + (head_ * 4 + q) * n.dim, n, room_.bias + q * n.padded);
    }
  }

  void pack_backward() const {
    for (int64_t g = 0; g < n.groups; ++g) {
      for (int64_t q = 0; q < 4; ++q) {
        const int64_t at = (g * 4 + q) * n.padded * N;
        for (int64_t e = 0; e < n.padded; ++e) {
          for (int64_t l = 0; l < N; ++l) {
            const int64_t k = g * N + l;
            const bool there = e < n.dim && k < n.dim;
            room_.gates_back[at + e * N + l] = there ? gate(task_.gates, q, e)[k] : Real(0);
            room_.recurrent_back[at + e * N + l] = there ? back(k, q)[e] : Real(0);
          }
        }
      }
    }
  }

  void forward(int64_t slab) {
    begin(slab);
    for (int64_t r = 0; r < rows_; ++r) {
      spread(state(task_.hidden, r), n, room_.hidden + r * n.padded);
      spread(state(task_.cell, r), n, room_.first + r * n.padded);
      spread(state(task_.normaliser, r), n, room_.second + r * n.padded);
      spread(state(task_.stabiliser, r), n, room_.third + r * n.padded);
    }
    for (int64_t t = 0; t < n.length; t += n.steps) {
      const int64_t steps = least(n.steps, n.length - t);
      drive(t, steps);
      for (int64_t s = 0; s < steps; ++s) {
        multiply<Real>(4 * n.groups, {rows_, 1, n.dim, room_.hidden, 0, n.padded, 1, room_.recurrent,
                                      n.dim * N, room_.chunk + s * 4 * n.padded, steps * 4 * n.padded,
                                      N, true});
        for (int64_t r = 0; r < rows_; ++r) step_row(r, t + s, room_.chunk + (r * steps + s) * 4 * n.padded);
      }
    }
    for (int64_t r = 0; r < rows_; ++r) {
      gather(room_.hidden + r * n.padded, n, state(task_.last_hidden, r));
      gather(room_.first + r * n.padded, n, state(task_.last_cell, r));
      gather(room_.second + r * n.padded, n, state(task_.last_normaliser, r));
      gather(room_.third + r * n.padded, n, state(task_.last_stabiliser, r));
    }
  }

  // Adds the gradients of the weights to the sums.
  void backward(int64_t slab, const Sums<Real> &sums) {
    begin(slab);
    for (int64_t r = 0; r < rows_; ++r) begin_pull(r);
    for (int64_t t = (n.length - 1) / n.steps * n.steps; t >= 0; t -= n.steps) {
      const int64_t steps = least(n.steps, n.length - t);
      for (int64_t s = steps - 1; s >= 0; --s) {
        for (int64_t r = 0; r < rows_; ++r) pull_row(r, t + s, r * steps + s, rows_ * steps);
        multiply<Real>(n.groups, {rows_, 4 * n.groups, N, room_.chunk + s * N, rows_ * steps * N,
                                  steps * N, 1, room_.recurrent_back, 4 * n.padded * N, room_.hidden,
                                  n.padded, N, true});
      }
      pull_inputs(t, steps);
      add_up(t, steps, sums);
    }
    for (int64_t r = 0; r < rows_; ++r) end_pull(r);
  }

 private:
  static const Real *numbers(const void *array) { return static_cast<const Real *>(array); }
  static Real *numbers(void *array) { return static_cast<Real *>(array); }

  void begin(int64_t slab) {
    first_ = slab * n.rows;
    rows_ = least(n.rows, n.batch - first_);
  }

  // The weights from all units to unit e of a gate; and those from unit k to all units of a gate.
  const Real *gate(const void *array, int64_t q, int64_t e) const {
    return numbers(array) + ((head_ * 4 + q) * n.dim + e) * n.dim;
  }
  const Real *back(int64_t k, int64_t q) const {
    return numbers(task_.recurrent) + ((head_ * n.dim + k) * 4 + q) * n.dim;
  }

  // A row's units in arrays (batch, heads, dim) and (batch, length, heads, dim).
  template <class Array>
  auto state(Array *array, int64_t r) const {
    return numbers(array) + (first_ + r) * n.width + head_ * n.dim;
  }
  template <class Array>
  auto element(Array *array, int64_t r, int64_t t) const {
    return numbers(array) + ((first_ + r) * n.length + t) * n.width + head_ * n.dim;
  }

  Real *kept(int64_t r, int64_t t) const {
    const int64_t row = (head_ * n.batch + first_ + r) * n.length + t;
    return numbers(task_.kept) + row * SLICEKIT_SLSTM_KEPT * n.padded;
  }

  bool ended(int64_t r, int64_t t) const { return task_.lengths && t >= task_.lengths[first_ + r]; }

  // The pre-activations of a chunk but for the recurrent part.
  void drive(int64_t t, int64_t steps) const {
    const int64_t half = 2 * n.groups;
    for (int64_t r = 0; r < rows_; ++r) {
      Real *to = room_.chunk + r * steps * 4 * n.padded;
      for (int64_t s = 0; s < steps; ++s) {
        for (int64_t j = 0; j < 4 * n.padded; j += W) {
          store(to + s * 4 * n.padded + j, load(room_.bias + j));
        }
      }
      multiply<Real>(half, {steps, 1, n.dim, element(task_.filtered, r, t), 0, n.width, 1, room_.gates,
                            n.dim * N, to, 4 * n.padded, N, true});
      multiply<Real>(half, {steps, 1, n.dim, element(task_.x, r, t), 0, n.width, 1,
                            room_.gates + half * n.dim * N, n.dim * N, to + half * N, 4 * n.padded, N,
                            true});
    }
  }

  void step_row(int64_t r, int64_t t, const Real *gates) const {
    Real *outputs = element(task_.outputs, r, t), *keep = task_.kept ? kept(r, t) : nullptr;
    if (ended(r, t)) {
      for (int64_t j = 0; j < n.dim; ++j) outputs[j] = 0;
      for (int64_t j = 0; keep && j < SLICEKIT_SLSTM_KEPT * n.padded; ++j) keep[j] = 0;
      return;
    }
    Real *hidden = room_.hidden + r * n.padded, *c = room_.first + r * n.padded;
    Real *norm = room_.second + r * n.padded, *m = room_.third + r * n.padded;
    for (int64_t j = 0; j < n.padded; j += W) {
      Memory<Real> memory = {load(c + j), load(norm + j), load(m + j)};
      const Kept<Real> found =
          step<Real>(load(gates + j), load(gates + n.padded + j), load(gates + 2 * n.padded + j),
                     load(gates + 3 * n.padded + j), memory);
      const V h = found.o * found.y;
      store(c + j, memory.c);
      store(norm + j, memory.n);
      store(m + j, memory.m);
      store(hidden + j, h);
      if (j < n.dim) store_some(outputs + j, h, n.dim - j);
      if (keep) found.put(keep + j, n.padded);
    }
  }

  // From the gradients of the last state to those of h, y, N and m; and y before the first step.
  void begin_pull(int64_t r) const {
    const int64_t at = r * n.padded;
    for (int64_t j = 0; j < n.padded; j += W) {
      auto of = [&](const void *array) {
        return load_some(state(array, r) + j, most<int64_t>(0, n.dim - j));
      };
      const V c = of(task_.last_cell), norm = of(task_.last_normaliser);
      const V in_c = of(task_.in_last_cell), in_n = of(task_.in_last_normaliser);
      const V in_norm = in_c * c + in_n * norm;
      store(room_.hidden + at + j, of(task_.in_last_hidden));
      store(room_.first + at + j, in_c * norm);
      store(room_.second + at + j, in_norm);
      store(room_.third + at + j, of(task_.in_last_stabiliser) - in_norm);
      store(room_.y + at + j, zero<Real>());
      if (j < n.dim) store_some(room_.y + at + j, of(task_.cell) / of(task_.normaliser), n.dim - j);
    }
  }

  void end_pull(int64_t r) const {
    const int64_t at = r * n.padded;
    for (int64_t j = 0; j < n.dim; j += W) {
      auto put = [&](void *array, V x) { store_some(state(array, r) + j, x, n.dim - j); };
      const V norm = load_some(state(task_.normaliser, r) + j, n.dim - j);
      const V in_y = load(room_.first + at + j), in_norm = load(room_.second + at + j);
      put(task_.in_hidden, load(room_.hidden + at + j));
      put(task_.in_cell, in_y / norm);
      put(task_.in_normaliser, (in_norm - in_y * load(room_.y + at + j)) / norm);
      put(task_.in_stabiliser, in_norm + load(room_.third + at + j));
    }
  }

  void pull_row(int64_t r, int64_t t, int64_t slot, int64_t slots) const {
    Real *hidden = room_.hidden + r * n.padded, *in_y = room_.first + r * n.padded;
    Real *in_norm = room_.second + r * n.padded, *in_maximum = room_.third + r * n.padded;
    const bool over = ended(r, t);
    const Real *in_outputs = element(task_.in_outputs, r, t), *keep = kept(r, t);
    const Real *before = t ? kept(r, t - 1) + 4 * n.padded : room_.y + r * n.padded;
    for (int64_t j = 0; j < n.padded; j += W) {
      V in_gates[4] = {};
      if (!over) {
        Carried<Real> carried = {load(in_y + j), load(in_norm + j), load(in_maximum + j)};
        const V in_hidden = load(hidden + j) + load_some(in_outputs + j, most<int64_t>(0, n.dim - j));
        pull(Kept<Real>::get(keep + j, n.padded), load(before + j), in_hidden, carried, in_gates);
        store(hidden + j, zero<Real>());  // to which the product with the gradients is added
        store(in_y + j, carried.y);
        store(in_norm + j, carried.norm);
        store(in_maximum + j, carried.maximum);
      }
      Real *to = room_.chunk + (j / N * slots + slot) * N + j % N;
      for (int64_t q = 0; q < 4; ++q) store(to + q * n.groups * slots * N, in_gates[q]);
    }
  }

  void pull_inputs(int64_t t, int64_t steps) const {
    const int64_t slots = rows_ * steps, half = 2 * n.groups;
    void *const arrays[2] = {task_.in_filtered, task_.in_x};
    for (int64_t i = 0; i < 2; ++i) {
      multiply<Real>(n.groups, {slots, half, N, room_.chunk + i * half * slots * N, slots * N, N, 1,
                                room_.gates_back + i * half * N * N, 4 * n.padded * N, room_.units,
                                n.padded, N, false});
      for (int64_t r = 0; r < rows_; ++r) {
        for (int64_t s = 0; s < steps; ++s) {
          gather(room_.units + (r * steps + s) * n.padded, n, element(arrays[i], r, t + s));
        }
      }
    }
  }

  // sums += what the gradients of a chunk's gates give to the weights.
  void add_up(int64_t t, int64_t steps, const Sums<Real> &sums) const {
    const int64_t slots = rows_ * steps, half = 2 * n.groups, apart = n.dim * N;
    const void *const arrays[2] = {task_.filtered, task_.x};
    for (int64_t i = 0; i < 2; ++i) {
      multiply<Real>(half, {n.dim, rows_, steps, element(arrays[i], 0, t), n.length * n.width, 1, n.width,
                            room_.chunk + i * half * slots * N, slots * N,
                            sums.gates + i * half * apart, N, apart, true});
    }
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t s = 0; s < steps; ++s) {
        const Real *before = t + s ? element(numbers(task_.outputs), r, t + s - 1) : state(task_.hidden, r);
        spread(before, n, room_.units + (r * steps + s) * n.padded);
      }
    }
    multiply<Real>(4 * n.groups, {n.dim, 1, slots, room_.units, 0, 1, n.padded, room_.chunk, slots * N,
                                  sums.recurrent, N, apart, true});
    const Real one = 1;
    multiply<Real>(4 * n.groups, {1, 1, slots, &one, 0, 0, 0, room_.chunk, slots * N, sums.bias, N, N,
                                  true});
  }

  const slicekit_slstm &task_;
  const Sizes<Real> &n;
  const Room<Real> &room_;
  int64_t head_, first_ = 0, rows_ = 0;
};

}  // namespace slstm
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
