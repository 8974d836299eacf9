// Recurrences with given transitions, h_{t+1} = M_t h_t + u_t, as the kernels see them.
//
// A Recurrence is slicekit_given with typed arrays. `slice` narrows it to one sequence and some of
// its columns, which are recurrences of their own; rows of states stay `row` numbers apart.
#pragma once

#include "given_numbers.hpp"
#include "slicekit_given.h"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace given {

// Steps between two stored states where a readout keeps the others from being stored.
int64_t chunk(int64_t state_bytes);

int64_t forward_work(const slicekit_given &task);
int64_t backward_work(const slicekit_given &task);
void forward(const slicekit_given &task);
void backward(const slicekit_given &task);

// u_t, or a gradient that a state gets by itself: dense, or left right^T, or null.
template <class Number>
struct Input {
  const Number *dense, *left, *right;

  // That of the rows from `first` on.
  Input from(int64_t first, ptrdiff_t row) const {
    return {dense ? dense + first * row : nullptr, left ? left + first : nullptr, right};
  }
};

// Moves arrays on, but for those that are missing.
template <class... Arrays>
SLICEKIT_INLINE void advance(int64_t by, Arrays *&...arrays) {
  (void(arrays = arrays ? arrays + by : nullptr), ...);
}

template <class Number>
struct Recurrence {
  using Real = RealOf<Number>;

  int64_t batch, length, dim, columns, block, rank, rescale, chunk;
  ptrdiff_t row;
  const Number *diagonal, *blocks, *left, *right, *state;
  const Number *input, *input_left, *input_right, *readout;
  Number *outputs, *last, *starts;
  Real *factors;
  const Number *in_outputs, *in_last;
  Number *in_diagonal, *in_blocks, *in_left, *in_right, *in_state;
  Number *in_input, *in_input_left, *in_input_right, *in_readout;

  explicit Recurrence(const slicekit_given &task);

  // Numbers in a state with all its columns.
  int64_t size() const { return dim * row; }

  bool divides(int64_t t) const { return divides_before(t, rescale); }

  // What the state is divided by before step t, laid out as a state.
  Real *factors_at(int64_t t) const { return factors + t / rescale * size(); }

  Input<Number> input_at(int64_t t) const {
    Input<Number> u{input, input_left, input_right};
    advance(t * size(), u.dense);
    advance(t * dim, u.left);
    advance(t * row, u.right);
    return u;
  }

  // The gradient of h_{t+1} through the outputs: itself, or conj(q) times that of q^T h.
  Input<Number> own_at(int64_t t) const {
    if (!readout) return {in_outputs + t * size(), nullptr, nullptr};
    return {nullptr, readout + t * dim, in_outputs + t * row};
  }

  Recurrence slice(int64_t sequence, int64_t first, int64_t count) const;
};

template <class Number>
Recurrence<Number>::Recurrence(const slicekit_given &task)
    : batch(task.batch), length(task.length), dim(task.dim), columns(task.columns),
      block(task.block), rank(task.rank), rescale(task.rescale),
      chunk(given::chunk(task.dim * task.columns * int64_t(sizeof(Number)))), row(task.columns) {
  auto read = [](const void *array) { return static_cast<const Number *>(array); };
  auto write = [](void *array) { return static_cast<Number *>(array); };
  diagonal = read(task.diagonal);
  blocks = read(task.blocks);
  left = read(task.left);
  right = read(task.right);
  state = read(task.state);
  input = read(task.input);
  input_left = read(task.input_left);
  input_right = read(task.input_right);
  readout = read(task.readout);
  outputs = write(task.outputs);
  last = write(task.last);
  starts = write(task.starts);
  factors = static_cast<Real *>(task.factors);
  in_outputs = read(task.in_outputs);
  in_last = read(task.in_last);
  in_diagonal = write(task.in_diagonal);
  in_blocks = write(task.in_blocks);
  in_left = write(task.in_left);
  in_right = write(task.in_right);
  in_state = write(task.in_state);
  in_input = write(task.in_input);
  in_input_left = write(task.in_input_left);
  in_input_right = write(task.in_input_right);
  in_readout = write(task.in_readout);
}

template <class Number>
Recurrence<Number> Recurrence<Number>::slice(int64_t sequence, int64_t first, int64_t count) const {
  Recurrence part = *this;
  part.columns = count;
  const int64_t steps = sequence * length;
  advance(steps * dim, part.diagonal, part.input_left, part.readout);
  advance(steps * dim, part.in_diagonal, part.in_input_left, part.in_readout);
  advance(steps * dim * block, part.blocks, part.in_blocks);
  advance(steps * dim * rank, part.left, part.right, part.in_left, part.in_right);
  advance(steps * size() + first, part.input, part.in_input);
  advance(steps * row + first, part.input_right, part.in_input_right);
  if (rescale) advance(sequence * windows_of(length, rescale) * size() + first, part.factors);
  advance(steps * (readout ? row : size()) + first, part.outputs, part.in_outputs);
  advance(sequence * size() + first, part.state, part.last, part.starts);
  advance(sequence * size() + first, part.in_last, part.in_state);
  return part;
}

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
