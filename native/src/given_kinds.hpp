// The kinds of given transitions: one step, and the step's adjoint and gradients.
//
// Each kind has
//   step: after = M_t before + u_t.
//   pull: earlier = M_t^* cotangent + own, and the gradients of M_t, from the cotangent of
//     M_t before.
// and says whether both may work in place, and how many rows of the state mix with each other
// (group). Spare holds two panels (rank, columns).
#pragma once

#include "given_vector.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace given {

template <class Number>
struct Spare {
  Number *inner, *outer;
};

struct Diagonal {
  static constexpr bool IN_PLACE = true;

  template <class Number>
  static int64_t group(const Recurrence<Number> &) {
    return 1;
  }

  template <class Number, class State>
  static void step(const Recurrence<Number> &r, State state, int64_t t, const Number *before,
                   Number *after, Spare<Number>) {
    const Number *values = r.diagonal + t * r.dim;
    state.template update<false>({r.dim, values, before, 0, nullptr, nullptr, r.input_at(t)},
                                 after);
  }

  template <class Number, class State>
  static void pull(const Recurrence<Number> &r, State state, int64_t t, const Number *before,
                   const Number *cotangent, const Input<Number> &own, Number *earlier,
                   Spare<Number>) {
    const Number *values = r.diagonal + t * r.dim;
    state.diagonal_dots(r.dim, cotangent, before, r.in_diagonal + t * r.dim);
    state.template update<true>({r.dim, values, cotangent, 0, nullptr, nullptr, own}, earlier);
  }
};

struct Blocks {
  static constexpr bool IN_PLACE = false;

  template <class Number>
  static int64_t group(const Recurrence<Number> &r) {
    return r.block;
  }

  template <class Number, class State>
  static void step(const Recurrence<Number> &r, State state, int64_t t, const Number *before,
                   Number *after, Spare<Number>) {
    const int64_t b = r.block;
    state.block_update(r.dim, b, r.blocks + t * r.dim * b, before, r.input_at(t), after);
  }

  template <class Number, class State>
  static void pull(const Recurrence<Number> &r, State state, int64_t t, const Number *before,
                   const Number *cotangent, const Input<Number> &own, Number *earlier,
                   Spare<Number>) {
    const int64_t b = r.block, at = t * r.dim * b;
    state.block_pull(r.dim, b, r.blocks + at, before, cotangent, r.in_blocks + at, earlier);
    state.add(r.dim, own, earlier);
  }
};

struct LowRank {
  static constexpr bool IN_PLACE = true;

  template <class Number>
  static int64_t group(const Recurrence<Number> &r) {
    return r.dim;
  }

  template <class Number, class State>
  static void step(const Recurrence<Number> &r, State state, int64_t t, const Number *before,
                   Number *after, Spare<Number> spare) {
    const int64_t at = t * r.dim, thin = at * r.rank;
    state.template contract<false>(r.dim, r.rank, r.right + thin, before, spare.inner);
    state.template update<false>({r.dim, r.diagonal + at, before, r.rank, r.left + thin,
                                  spare.inner, r.input_at(t)},
                                 after);
  }

  template <class Number, class State>
  static void pull(const Recurrence<Number> &r, State state, int64_t t, const Number *before,
                   const Number *cotangent, const Input<Number> &own, Number *earlier,
                   Spare<Number> spare) {
    const int64_t at = t * r.dim, thin = at * r.rank;
    state.template contract<true>(r.dim, r.rank, r.right + thin, before, spare.inner);
    state.template contract<true>(r.dim, r.rank, r.left + thin, cotangent, spare.outer);
    state.template row_dots<false>(r.dim, r.rank, cotangent, spare.inner, r.in_left + thin);
    state.template row_dots<false>(r.dim, r.rank, before, spare.outer, r.in_right + thin);
    state.diagonal_dots(r.dim, cotangent, before, r.in_diagonal + at);
    state.template update<true>({r.dim, r.diagonal + at, cotangent, r.rank, r.right + thin,
                                 spare.outer, own},
                                earlier);
  }
};

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
