// The two passes over some channels of one sequence, a chunk of steps at a time.
#pragma once

#include "channel_groups.hpp"
#include "selective_chunk.hpp"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace selective {

// A sequence's channels `first` to `first + channels - 1`.
template <class Real>
struct Part {
  const slicekit_selective &task;
  int64_t sequence, first, channels, count;

  int64_t groups() const { return group_count<Real>(channels); }
  int64_t chunks() const { return (count + CHUNK - 1) / CHUNK; }

  // Where the part begins in an array (batch, length, channels).
  template <class Array>
  auto rows(Array *array, int64_t t) const {
    return numbers(array) + (sequence * task.length + t) * task.channels + first;
  }
  // In an array (batch, length, dim).
  template <class Array>
  auto entries(Array *array, int64_t t) const {
    return numbers(array) + (sequence * task.length + t) * task.dim;
  }
  // In an array (batch, channels, dim).
  template <class Array>
  auto states(Array *array) const {
    return numbers(array) + (sequence * task.channels + first) * task.dim;
  }
  const Real *rates() const { return numbers(task.rates) + first * task.dim; }
  // The states before a chunk: (groups, dim, WIDTH) of the part, then of the channels after it.
  Real *start(int64_t chunk) const {
    const int64_t all = (task.length + CHUNK - 1) / CHUNK;
    const int64_t padded = round_up(task.channels, LANES<Real>);
    return numbers(task.starts) + ((sequence * all + chunk) * padded + first) * task.dim;
  }
  // Numbers that stand behind the part's own and belong to no channel.
  int64_t padding() const {
    const int64_t end = first + groups() * WIDTH<Real>;
    return first + channels < task.channels ? 0 : (round_up(task.channels, LANES<Real>) - end) * task.dim;
  }

 private:
  static const Real *numbers(const void *array) { return static_cast<const Real *>(array); }
  static Real *numbers(void *array) { return static_cast<Real *>(array); }
};

// The work space of one thread. Panels are (groups, row), where a row holds the steps of a chunk;
// states and rates are (groups, dim).
template <class Real>
struct Panels {
  using V = Vector<Real>;
  int64_t row;
  V *rates, *states, *steps, *driven, *outputs;
  V *inputs, *in_steps, *in_driven, *in_left, *in_readout;
  Kept<Real> kept;

  Panels(Workspace &work, int64_t groups, int64_t length, int64_t dim, bool backward) {
    row = least(CHUNK, length);
    rates = work.take<V>(groups * dim);
    states = work.take<V>(groups * dim);
    steps = work.take<V>(groups * row);
    driven = work.take<V>(groups * row);
    outputs = work.take<V>(groups * row);
    if (!backward) return;
    inputs = work.take<V>(groups * row);
    in_steps = work.take<V>(groups * row);
    in_driven = work.take<V>(groups * row);
    in_left = work.take<V>(row * dim);
    in_readout = work.take<V>(row * dim);
    kept.states = work.take<V>((row + 1) * TOGETHER);
    kept.decays = work.take<V>(row * TOGETHER);
  }
};

// Asks for rows that will be read (WRITE = 0) or written (1) soon; far apart as they are, the
// processor would not guess them.
template <int WRITE, class Real>
void expect(const Real *rows, int64_t row, int64_t count, int64_t channels) {
  for (int64_t t = 0; t < count; ++t, rows += row) {
    for (int64_t c = 0; c < channels; c += LANES<Real>) __builtin_prefetch(rows + c, WRITE, 2);
  }
}

template <class T>
SLICEKIT_INLINE void clear(T *numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) numbers[i] = T{};
}

template <class Real>
struct Passes {
  using V = Vector<Real>;
  const slicekit_selective &task;
  const Part<Real> &part;
  const Panels<Real> &panels;

  void forward() const {
    to_groups(part.rates(), part.channels, task.dim, panels.rates);
    to_groups(part.states(task.state), part.channels, task.dim, panels.states);
    for (int64_t chunk = 0; chunk < part.chunks(); ++chunk) forward_chunk(chunk);
    from_groups(panels.states, part.channels, task.dim, part.states(task.last));
    clear_past_end(task.outputs);
  }

  // in_rates (groups, dim) of this sequence alone; in_left and in_readout (length, dim) of these
  // channels alone.
  void backward(V *in_rates, Real *in_left, Real *in_readout) const {
    to_groups(part.rates(), part.channels, task.dim, panels.rates);
    to_groups(part.states(task.in_last), part.channels, task.dim, panels.states);
    clear(in_rates, part.groups() * task.dim);
    for (int64_t chunk = part.chunks() - 1; chunk >= 0; --chunk) {
      backward_chunk(chunk, in_rates);
      const int64_t at = chunk * CHUNK * task.dim;
      sum_lanes(panels.in_left, steps_in(chunk) * task.dim, in_left + at);
      sum_lanes(panels.in_readout, steps_in(chunk) * task.dim, in_readout + at);
    }
    from_groups(panels.states, part.channels, task.dim, part.states(task.in_state));
    clear_past_end(task.in_steps);
    clear_past_end(task.in_inputs);
    clear(in_left + part.count * task.dim, (task.length - part.count) * task.dim);
    clear(in_readout + part.count * task.dim, (task.length - part.count) * task.dim);
  }

 private:
  int64_t steps_in(int64_t chunk) const { return least(CHUNK, part.count - chunk * CHUNK); }

  void forward_chunk(int64_t chunk) const {
    const int64_t groups = part.groups(), count = steps_in(chunk), t = chunk * CHUNK;
    const int64_t dim = task.dim, row = panels.row;
    Real *start = part.start(chunk);
    for (int64_t i = 0; i < groups * dim; ++i) store(start + i * WIDTH<Real>, panels.states[i]);
    for (int64_t i = 0; i < part.padding(); ++i) start[groups * dim * WIDTH<Real> + i] = 0;
    read(part.rows(task.steps, t), count, panels.steps);
    read(part.rows(task.inputs, t), count, panels.driven);
    for (int64_t g = 0; g < groups; ++g) {
      V *driven = panels.driven + g * row, *outputs = panels.outputs + g * row;
      for (int64_t s = 0; s < count; ++s) driven[s] *= panels.steps[g * row + s];
      clear(outputs, count);
      expect_share<0>(task.steps, chunk + 1, g);
      expect_share<0>(task.inputs, chunk + 1, g);
      expect_share<1>(task.outputs, chunk, g);
      const Drive<Real> drive = drive_of(g, t, count);
      for_entries(dim, [&](int64_t first, auto entries) {
        advance<decltype(entries)::COUNT>(drive, first, panels.rates + g * dim,
                                          panels.states + g * dim, outputs);
      });
    }
    write(panels.outputs, count, part.rows(task.outputs, t));
  }

  void backward_chunk(int64_t chunk, V *in_rates) const {
    const int64_t groups = part.groups(), count = steps_in(chunk), t = chunk * CHUNK;
    const int64_t dim = task.dim, row = panels.row;
    const Real *start = part.start(chunk);
    read(part.rows(task.steps, t), count, panels.steps);
    read(part.rows(task.inputs, t), count, panels.inputs);
    read(part.rows(task.in_outputs, t), count, panels.outputs);
    clear(panels.in_left, count * dim);
    clear(panels.in_readout, count * dim);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t panel = g * row;
      const V *steps = panels.steps + panel, *inputs = panels.inputs + panel;
      V *driven = panels.driven + panel;
      for (int64_t s = 0; s < count; ++s) driven[s] = steps[s] * inputs[s];
      V *in_steps = panels.in_steps + panel, *in_driven = panels.in_driven + panel;
      clear(in_steps, count);
      clear(in_driven, count);
      expect_share<0>(task.steps, chunk - 1, g);
      expect_share<0>(task.inputs, chunk - 1, g);
      expect_share<0>(task.in_outputs, chunk - 1, g);
      expect_share<1>(task.in_steps, chunk, g);
      expect_share<1>(task.in_inputs, chunk, g);
      const Pulled<Real> pulled{panels.states + g * dim, in_rates + g * dim, in_steps,
                                in_driven,               panels.in_left,     panels.in_readout};
      const Drive<Real> drive = drive_of(g, t, count);
      for_entries(dim, [&](int64_t first, auto entries) {
        constexpr int N = decltype(entries)::COUNT;
        const V *rates = panels.rates + g * dim;
        keep<N>(drive, first, rates, start + g * dim * WIDTH<Real>, panels.kept);
        pull<N>(drive, first, rates, panels.outputs + panel, panels.kept, pulled);
      });
      for (int64_t s = 0; s < count; ++s) {
        in_steps[s] += in_driven[s] * inputs[s];
        in_driven[s] *= steps[s];
      }
    }
    write(panels.in_steps, count, part.rows(task.in_steps, t));
    write(panels.in_driven, count, part.rows(task.in_inputs, t));
  }

  // While a group is at work: its share of the chunk's rows of an array.
  template <int WRITE, class Array>
  void expect_share(Array *array, int64_t chunk, int64_t group) const {
    if (chunk < 0 || chunk >= part.chunks()) return;
    const int64_t count = steps_in(chunk), groups = part.groups();
    const int64_t low = group * count / groups, high = (group + 1) * count / groups;
    const Real *rows = part.rows(array, chunk * CHUNK + low);
    expect<WRITE>(rows, task.channels, high - low, part.channels);
  }

  Drive<Real> drive_of(int64_t group, int64_t t, int64_t count) const {
    return {count,
            task.dim,
            panels.steps + group * panels.row,
            panels.driven + group * panels.row,
            part.entries(task.left, t),
            part.entries(task.readout, t)};
  }

  // A panel from `count` rows of channels.
  void read(const Real *rows, int64_t count, V *panel) const {
    for (int64_t t = 0; t < count; ++t, rows += task.channels) {
      V *to = panel + t;
      for (int64_t c = 0; c < part.channels; c += WIDTH<Real>, to += panels.row) {
        *to = load_some(rows + c, part.channels - c);
      }
    }
  }

  void write(const V *panel, int64_t count, Real *rows) const {
    for (int64_t t = 0; t < count; ++t, rows += task.channels) {
      const V *from = panel + t;
      for (int64_t c = 0; c < part.channels; c += WIDTH<Real>, from += panels.row) {
        store_some(rows + c, *from, part.channels - c);
      }
    }
  }

  static void sum_lanes(const V *lanes, int64_t count, Real *sums) {
    for (int64_t i = 0; i < count; ++i) sums[i] = sum(lanes[i]);
  }

  void clear_past_end(void *array) const {
    for (int64_t t = part.count; t < task.length; ++t) clear(part.rows(array, t), part.channels);
  }
};

}  // namespace selective
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
