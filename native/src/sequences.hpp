// Sequences of steps, forwards and backwards, given where their transitions stand.
#pragma once

#include "panels.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Steps ahead of time that memory is asked for, where steps are so short that they would wait for it.
constexpr int64_t STEPS_AHEAD = 4;

// One sequence and column of a pass, on one layout.
template <class Real>
struct Sequence {
  const slicekit_panels &q;
  const Layout &layout;
  const Scratch<Real> &scratch;
  int64_t b, column;
  Real *states;              // of the sequence, (steps, dim, columns)
  const Real *given;         // their gradients
  int64_t origin;            // the step after which the first of them stands

  // With the arrays of the problem.
  static Sequence whole(const slicekit_panels &q, const Layout &layout, const Scratch<Real> &scratch,
                        int64_t b, int64_t column) {
    const int64_t at = b * q.length * q.dim * q.columns;
    Real *states = static_cast<Real *>(q.states);
    const Real *given = static_cast<const Real *>(q.in_states);
    return {q, layout, scratch, b, column, states + at, given ? given + at : nullptr, 0};
  }

  StateView<Real> view() const { return {layout, q.columns, column}; }
  int64_t row(int64_t t) const { return b * q.length + t; }
  int64_t numbers() const { return q.dim * q.columns; }

  // The state before step t, as (dim, columns).
  const Real *before(int64_t t) const {
    return t ? states + (t - 1 - origin) * numbers()
             : static_cast<const Real *>(q.state) + b * numbers();
  }
  Real *after(int64_t t) const { return states + (t - origin) * numbers(); }
  bool divides(int64_t t) const { return divides_before(t, q.rescale); }

  // What the state is divided by before step t, as (dim, columns).
  Real *factors(int64_t t) const {
    const int64_t window = b * windows_of(q.length, q.rescale) + t / q.rescale;
    return static_cast<Real *>(q.factors) + window * numbers();
  }

  // The padded state before step t, before any division: where it stands, or read into `to`.
  const Real *padded_before(int64_t t, Real *to) const {
    if (layout.direct) return before(t) + layout.state_at;
    view().read(before(t), to);
    return to;
  }

  // One of the states of all sequences, or its gradient, counted through them, that a step should ask
  // for, if there is one: not where steps are on copies, which stand in the cache.
  // States of several columns are asked for here.
  SLICEKIT_INLINE const Real *soon(const void *states, int64_t number) const {
    if (copies_states(q) || !states || number < 0 || number >= q.batch * q.length) return nullptr;
    const Real *state = static_cast<const Real *>(states) + number * numbers();
    if (q.columns == 1) return state;
    ask_for(state, numbers());
    return nullptr;
  }

  // The number, counted so, of the state that is `count` states away in a walk from last to first.
  int64_t number_back(int64_t t, int64_t count) const {
    return t >= count ? row(t - count) : row(t - count) + 2 * q.length;
  }

  void clear(Real *padded) const {
    for (int64_t i = 0; i < layout.padded; ++i) padded[i] = 0;
  }

  void divide(const Real *from, Real *to) const {
    for (int64_t i = 0; i < layout.padded; ++i) to[i] = from[i] / scratch.factors[i];
  }

  // Also of a gradient, in which tiny numbers count as zero.
  void divide_gradient(Real *padded) const {
    for (int64_t i = 0; i < layout.padded; ++i) {
      padded[i] = without_tiny(padded[i] / scratch.factors[i]);
    }
  }

  void add_input(int64_t t, Real *padded) const {
    if (q.inputs) view().add(static_cast<const Real *>(q.inputs) + row(t) * numbers(), padded);
  }

  // Steps t, ..., t + count - 1; transition(t) is the row of the panels for step t.
  template <class F>
  void run(int64_t first, int64_t count, ptrdiff_t panel, F &&transition) const {
    const bool rotates = q.restore && !q.inputs;
    Real *now = scratch.state, *next = scratch.moved, *norms = scratch.norms + column * layout.dim;
    clear(now);
    clear(next);
    const Real *h = padded_before(first, now);
    if (rotates && first == 0) rotated_norms(layout, h, norms);
    for (int64_t t = first; t < first + count; ++t) {
      if (divides(t)) {
        powers_of_groups(layout, h, scratch.factors);
        view().write(scratch.factors, factors(t));
        divide(h, now);
        h = now;
        if (rotates) divide_norms(layout, scratch.factors, norms);
      }
      Real *out = layout.direct ? after(t) + layout.state_at : next;
      step(layout, transition(t), panel, h, out, soon(q.states, row(t) + STEPS_AHEAD));
      add_input(t, out);
      if (rotates && (t + 1) % q.restore == 0) restore_norms(layout, out, norms);
      h = out;
      if (layout.direct) continue;
      view().write(out, after(t));
      Real *spare = now;
      now = next;
      next = spare;
    }
  }

  // The same steps backwards: in_transition(t) is the row that takes the gradient.
  template <Taken TAKEN, class F, class G>
  void run_back(int64_t first, int64_t count, ptrdiff_t panel, ptrdiff_t in_panel, F &&transition,
                G &&in_transition) const {
    Real *carry = scratch.carry + column * layout.padded, *next = scratch.moved;
    clear(scratch.state);
    clear(next);
    for (int64_t i = 0; q.rescale && i < layout.padded; ++i) scratch.factors[i] = 1;
    if (first + count == q.length) start(carry);
    for (int64_t t = first + count - 1; t >= first; --t) {
      const Real *h = padded_before(t, scratch.state);
      if (divides(t)) {
        view().read(factors(t), scratch.factors);
        divide(h, scratch.state);
        h = scratch.state;
      }
      if (q.in_inputs) {
        view().write(carry, static_cast<Real *>(q.in_inputs) + row(t) * numbers());
      }
      const Real *add = next;
      if (t == 0 || divides(t)) {
        clear(next);
      } else if (layout.direct) {
        add = in_states(t - 1) + layout.state_at;
      } else {
        own(t - 1, next);
      }
      const int64_t later = number_back(t, STEPS_AHEAD);
      adjoint_step<TAKEN>(layout, transition(t), panel, in_transition(t), in_panel, carry, h, add, next,
                          scratch.extra, soon(q.states, later), soon(q.in_states, later));
      if (divides(t)) {
        divide_gradient(next);
        view().add(in_states(t - 1), next);
      }
      Real *spare = carry;
      carry = next;
      next = spare;
    }
    Real *kept = scratch.carry + column * layout.padded;
    if (carry != kept) {
      for (int64_t i = 0; i < layout.padded; ++i) kept[i] = carry[i];
    }
    if (first == 0) view().write(carry, static_cast<Real *>(q.in_state) + b * numbers());
  }

  const Real *in_states(int64_t t) const { return given + (t - origin) * numbers(); }

  // The gradient that the state after step t has itself.
  void own(int64_t t, Real *padded) const {
    if (layout.direct) {
      __builtin_memcpy(padded, in_states(t) + layout.state_at, layout.padded * sizeof(Real));
    } else {
      view().read(in_states(t), padded);
    }
  }

  void start(Real *carry) const {
    clear(carry);
    own(q.length - 1, carry);
    if (q.in_last) view().add(static_cast<const Real *>(q.in_last) + b * numbers(), carry);
  }
};

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
