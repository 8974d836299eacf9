// The two passes over one sequence, or over some columns of it.
//
// Where a readout keeps the states from being stored, the forward pass stores one at the start of
// each chunk of steps, and the backward pass makes the others again, a chunk at a time.
#pragma once

#include "given_kinds.hpp"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace given {

// The work space of one thread: states, chunks of states, and what a kind needs.
template <class Number>
struct Panels {
  Number *state, *other, *divided, *chunk;
  Spare<Number> spare;

  Panels(Workspace &work, const Recurrence<Number> &r, bool backward) {
    state = work.take<Number>(r.size());
    other = work.take<Number>(r.size());
    spare.inner = work.take<Number>(r.rank * r.row);
    spare.outer = work.take<Number>(r.rank * r.row);
    divided = work.take<Number>(r.rescale ? r.size() : 0);
    chunk = work.take<Number>(backward && r.readout ? least(r.chunk, r.length) * r.size() : 0);
  }
};

// The powers of two below the largest moduli of `group` rows each, for each column.
template <class Number>
void powers(const Recurrence<Number> &r, int64_t group, const Number *state,
            RealOf<Number> *factors) {
  using Real = RealOf<Number>;
  for (int64_t first = 0; first < r.dim; first += group) {
    Real *found = factors + first * r.row;
    for (int64_t c = 0; c < r.columns; ++c) found[c] = modulus(state[first * r.row + c]);
    for (int64_t i = first + 1; i < first + group; ++i) {
      for (int64_t c = 0; c < r.columns; ++c) {
        const Real size = modulus(state[i * r.row + c]);
        found[c] = size > found[c] || size != size ? size : found[c];
      }
    }
    for (int64_t c = 0; c < r.columns; ++c) found[c] = power_of_two(found[c]);
    for (int64_t i = 1; i < group; ++i) {
      for (int64_t c = 0; c < r.columns; ++c) found[i * r.row + c] = found[c];
    }
  }
}

template <class Kind, class Number, class State>
struct Passes {
  const Recurrence<Number> &r;
  State state;
  Panels<Number> panels;

  void forward() const {
    const Number *before = r.state;
    for (int64_t t = 0; t < r.length; ++t) {
      if (r.rescale) before = rescaled(t, before);
      if (r.readout && t % r.chunk == 0) state.copy(r.dim, before, start_of(t));
      Number *after = r.readout ? other_than(before) : r.outputs + t * r.size();
      Kind::step(r, state, t, before, after, panels.spare);
      if (r.readout) read_out(t, after);
      before = after;
    }
    state.copy(r.dim, before, r.last);
  }

  void backward() const {
    Number *cotangent = panels.state;
    state.copy(r.dim, r.in_last, cotangent);
    state.add(r.dim, r.own_at(r.length - 1), cotangent);
    for (int64_t t = r.length - 1; t >= 0; --t) {
      if (r.readout && (t == r.length - 1 || (t + 1) % r.chunk == 0)) make_chunk(t);
      const bool divides = r.divides(t);
      pull_inputs(t, cotangent);
      Number *earlier = other_than(cotangent);
      const Input<Number> own = t && !divides ? r.own_at(t - 1) : Input<Number>{};
      Kind::pull(r, state, t, before(t), cotangent, own, earlier, panels.spare);
      cotangent = earlier;
      if (divides) {
        state.divide(r.dim, cotangent, r.factors_at(t), cotangent);
        clear_tiny(cotangent);
        state.add(r.dim, r.own_at(t - 1), cotangent);
      }
    }
    state.copy(r.dim, cotangent, r.in_state);
  }

 private:
  Number *start_of(int64_t t) const { return r.starts + t / r.chunk * r.batch * r.size(); }

  // Where a step may write that reads a state (or cotangent) from here.
  Number *other_than(const Number *from) const {
    return Kind::IN_PLACE || from != panels.state ? panels.state : panels.other;
  }

  const Number *rescaled(int64_t t, const Number *before) const {
    RealOf<Number> *factors = r.factors_at(t);
    if (r.divides(t)) {
      powers(r, Kind::group(r), before, factors);
      state.divide(r.dim, before, factors, panels.divided);
      return panels.divided;
    }
    if (t) return before;
    for (int64_t i = 0; i < r.dim; ++i) {
      for (int64_t c = 0; c < r.columns; ++c) factors[i * r.row + c] = 1;
    }
    return before;
  }

  void clear_tiny(Number *cotangent) const {
    for (int64_t i = 0; i < r.dim; ++i) {
      for (int64_t c = 0; c < r.columns; ++c) {
        cotangent[i * r.row + c] = without_tiny(cotangent[i * r.row + c]);
      }
    }
  }

  void read_out(int64_t t, const Number *after) const {
    state.template contract<false>(r.dim, 1, r.readout + t * r.dim, after, r.outputs + t * r.row);
  }

  // The states after each step of the chunk whose last step is t.
  void make_chunk(int64_t t) const {
    const int64_t first = t - t % r.chunk;
    const Number *from = start_of(t);
    for (int64_t s = first; s <= t; ++s) {
      Number *after = panels.chunk + (s - first) * r.size();
      Kind::step(r, state, s, from, after, panels.spare);
      from = after;
    }
  }

  const Number *before(int64_t t) const {
    if (r.readout) {
      const int64_t place = t % r.chunk;
      return place ? panels.chunk + (place - 1) * r.size() : start_of(t);
    }
    const Number *stored = t ? r.outputs + (t - 1) * r.size() : r.state;
    if (!r.divides(t)) return stored;
    state.divide(r.dim, stored, r.factors_at(t), panels.divided);
    return panels.divided;
  }

  // Gradients of u_t and q_t.
  void pull_inputs(int64_t t, const Number *cotangent) const {
    const int64_t at = t * r.dim;
    const Input<Number> u = r.input_at(t);
    if (u.dense) state.copy(r.dim, cotangent, r.in_input + t * r.size());
    if (u.left) {
      state.template row_dots<false>(r.dim, 1, cotangent, u.right, r.in_input_left + at);
      state.template contract<true>(r.dim, 1, u.left, cotangent, r.in_input_right + t * r.row);
    }
    if (r.readout) {
      const Number *after = panels.chunk + t % r.chunk * r.size();
      state.template row_dots<true>(r.dim, 1, after, r.in_outputs + t * r.row, r.in_readout + at);
    }
  }
};

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
