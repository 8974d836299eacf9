// Sequences of steps, forwards and backwards, given where their transitions stand.
#pragma once

#include "panels.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// One sequence and column of a pass, on one layout.
template <class Real>
struct Sequence {
  const slicekit_panels &q;
  const Layout &layout;
  const Scratch<Real> &scratch;
  int64_t b, column;

  StateView<Real> view() const { return {layout, q.columns, column}; }
  int64_t row(int64_t t) const { return b * q.length + t; }
  int64_t numbers() const { return q.dim * q.columns; }

  // The state before step t, as (dim, columns).
  const Real *before(int64_t t) const {
    return t ? static_cast<const Real *>(q.states) + row(t - 1) * numbers()
             : static_cast<const Real *>(q.state) + b * numbers();
  }
  Real *after(int64_t t) const { return static_cast<Real *>(q.states) + row(t) * numbers(); }
  bool divides(int64_t t) const { return q.rescale && t > 0 && t % q.rescale == 0; }
  Real *factor(int64_t t) const {
    return static_cast<Real *>(q.factors) + row(t) * q.columns + column;
  }

  // The padded state before step t, before any division: where it stands, or read into `to`.
  const Real *padded_before(int64_t t, Real *to) const {
    if (layout.direct) return before(t) + layout.state_at;
    view().read(before(t), to);
    return to;
  }

  void clear(Real *padded) const {
    for (int64_t i = 0; i < layout.padded; ++i) padded[i] = 0;
  }

  void scale(const Real *from, Real by, Real *to) const {
    for (int64_t i = 0; i < layout.padded; ++i) to[i] = from[i] / by;
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
        const Real size = *factor(t) = size_of(h, layout.padded);
        scale(h, size, now);
        h = now;
        if (rotates) divide_norms(layout, size, norms);
      }
      Real *out = layout.direct ? after(t) + layout.state_at : next;
      step(layout, transition(t), panel, h, out);
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

  // The same steps backwards: in_transition(t) is the row that takes (or adds) the gradient.
  template <bool ADD, class F, class G>
  void run_back(int64_t first, int64_t count, ptrdiff_t panel, ptrdiff_t in_panel, F &&transition,
                G &&in_transition) const {
    Real *carry = scratch.carry + column * layout.padded, *next = scratch.moved;
    clear(scratch.state);
    clear(next);
    if (first + count == q.length) start(carry);
    for (int64_t t = first + count - 1; t >= first; --t) {
      const Real *h = padded_before(t, scratch.state);
      Real size = 1;
      if (divides(t)) {
        size = *factor(t);
        scale(h, size, scratch.state);
        h = scratch.state;
      }
      if (q.in_inputs) {
        view().write(carry, static_cast<Real *>(q.in_inputs) + row(t) * numbers());
      }
      if (t > 0 && !divides(t)) {
        own(t - 1, next);
      } else {
        clear(next);
      }
      adjoint_step<ADD>(layout, transition(t), panel, in_transition(t), in_panel, carry, h, next,
                        scratch.extra);
      if (divides(t)) {
        scale(next, size, next);
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

  const Real *in_states(int64_t t) const {
    return static_cast<const Real *>(q.in_states) + row(t) * numbers();
  }

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
