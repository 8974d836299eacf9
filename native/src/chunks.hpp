// Steps that are made together, and where the numbers of a chunk stand.
//
// Where a problem has its path and states in half precision, a chunk of them at a time is widened
// into scratch memory, so that everything between reads and writes full precision. So is a chunk of
// states of which directions are given, and of a path that is over before its last position.
#pragma once

#include "halves.hpp"
#include "scaled_directions.hpp"
#include "sequences.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Steps of a chunk to come that memory is asked for.
constexpr int64_t ASKED_STEPS = 4;

// Steps of the sequences of one task that are made together.
struct ChunkRows {
  int64_t first_sequence, sequences, first_step, steps, length;

  int64_t rows() const { return sequences * steps; }
  int64_t first_row() const { return first_sequence * length + first_step; }
  int64_t row(int64_t b, int64_t t) const { return (b - first_sequence) * steps + t - first_step; }
  bool ends() const { return first_step + steps == length; }
};

template <class Real>
ChunkRows chunk_of(const Pass<Real> &pass, int64_t task, int64_t number) {
  const Plan &plan = pass.plan;
  const int64_t b = task * plan.together, t = number * plan.chunk;
  return {b, least(plan.together, pass.q.batch - b), t, least(plan.chunk, pass.q.length - t),
          pass.q.length};
}

template <class Real>
int64_t chunks_of(const Pass<Real> &pass) {
  return (pass.q.length + pass.plan.chunk - 1) / pass.plan.chunk;
}

// A chunk on one layout, as a pass reads and writes it.
template <class Real>
struct PanelChunk {
  const Pass<Real> &pass;
  const Layout &layout;
  const Scratch<Real> &scratch;
  ChunkRows chunk;

  bool half() const { return pass.q.half; }
  int64_t numbers() const { return pass.q.dim * pass.q.columns; }
  int64_t width() const { return pass.path.width(); }

  // Increments, or values, of its rows.
  const Real *increments() const {
    return copies_path(pass.q) ? scratch.increments : pass.increments(chunk.first_row());
  }

  // A sequence and column; in scratch memory the state before the chunk stands before those in it.
  Sequence<Real> sequence(int64_t b, int64_t column) const {
    if (!copies_states(pass.q)) return Sequence<Real>::whole(pass.q, layout, scratch, b, column);
    const int64_t at = (b - chunk.first_sequence) * (chunk.steps + 1) * numbers();
    Real *states = scratch.states + at;
    const Real *given = scratch.in_states ? scratch.in_states + at : nullptr;
    return {pass.q, layout, scratch, b, column, states, given, chunk.first_step - 1};
  }

  // Past the end of a sequence zeros are read, whatever stands there.
  void read_increments() const {
    if (!copies_path(pass.q)) return;
    if (!pass.q.lengths) return read_path(0, chunk.rows());
    for (int64_t s = 0; s < chunk.sequences; ++s) {
      const int64_t row = s * chunk.steps, steps = driven_steps(s);
      read_path(row, steps);
      clear(scratch.increments + (row + steps) * width(), (chunk.steps - steps) * width());
    }
  }

  // Calls f(row, rows) for rows that drive nothing.
  template <class F>
  void each_idle_row(F &&f) const {
    const bool still = pass.q.still && chunk.first_step == 0;
    for (int64_t s = 0; (still || pass.q.lengths) && s < chunk.sequences; ++s) {
      const int64_t row = s * chunk.steps, steps = driven_steps(s);
      if (still) f(row, 1);
      if (steps < chunk.steps) f(row + steps, chunk.steps - steps);
    }
  }

  // Forwards, the last state of the chunk before goes on in full precision.
  void carry_on() const {
    if (!copies_states(pass.q) || chunk.first_step == 0) return;
    const Real *last = scratch.states + pass.plan.chunk * numbers();
    each_piece(1, [&](int64_t, int64_t at, int64_t count) {
      __builtin_memcpy(scratch.states + at, last + at, count * sizeof(Real));
    });
  }

  void write_states() const {
    if (!copies_states(pass.q)) return;
    Real *last = static_cast<Real *>(pass.q.last);
    for (int64_t s = 0; s < chunk.sequences; ++s) {
      const int64_t b = chunk.first_sequence + s, row = b * chunk.length + chunk.first_step;
      const Real *from = scratch.states + (s * (chunk.steps + 1) + 1) * numbers();
      each_piece(chunk.steps, [&](int64_t t, int64_t at, int64_t count) {
        write_numbers(half(), from + t * numbers() + at, count, pass.q.states,
                      (row + t) * numbers() + at);
      });
      if (pass.q.directed) write_directions(s, from);
      if (!last || !chunk.ends()) continue;
      from += (chunk.steps - 1) * numbers();
      each_piece(1, [&](int64_t, int64_t at, int64_t count) {
        __builtin_memcpy(last + b * numbers() + at, from + at, count * sizeof(Real));
      });
    }
  }

  // For the way back: the states before its steps, and the gradients of these and of the last one.
  void read_states() const {
    if (!copies_states(pass.q)) return;
    const int64_t skipped = chunk.first_step ? 0 : 1;  // the initial state stands elsewhere
    for (int64_t s = 0; s < chunk.sequences; ++s) {
      const int64_t from =
          (chunk.first_sequence + s) * chunk.length + chunk.first_step - 1 + skipped;
      const int64_t to = s * (chunk.steps + 1) + skipped, rows = chunk.steps + 1 - skipped;
      each_piece(rows, [&](int64_t t, int64_t at, int64_t count) {
        const int64_t given = (from + t) * numbers() + at, wide = (to + t) * numbers() + at;
        read_numbers(half(), pass.q.states, given, count, scratch.states + wide);
        read_numbers(half(), pass.q.in_states, given, count, scratch.in_states + wide);
      });
      if (pass.q.directed) pull_directions(s, skipped);
    }
  }

  // Asks for the first of the states, and of their gradients, that the way back reads after these: those
  // of a chunk. The processor guesses the others.
  void ask_for_states() const {
    if (!copies_states(pass.q)) return;
    ask_for_some(pass.q.states);
    ask_for_some(pass.q.in_states);
  }

  // Where the gradients of its increments are to be written, before `write_in_increments`.
  Real *in_increments(int64_t split) const {
    Real *whole = pass.partial[split];
    if (!whole && half()) return scratch.in_increments;
    if (!whole) whole = static_cast<Real *>(pass.q.in_increments);
    return whole + chunk.first_row() * width();
  }

  void write_in_increments(int64_t split) const {
    if (!half() || pass.partial[split]) return;
    narrow(scratch.in_increments, chunk.rows() * width(),
           static_cast<Half *>(pass.q.in_increments) + chunk.first_row() * width());
  }

 private:
  void ask_for_some(const void *states) const {
    const int64_t at = chunk.first_row() * numbers();
    const int64_t count = least(chunk.steps, ASKED_STEPS) * numbers();
    if (half()) return ask_for(static_cast<const Half *>(states) + at, count);
    ask_for(static_cast<const Real *>(states) + at, count);
  }

  // Steps of a sequence before its end.
  int64_t driven_steps(int64_t s) const {
    if (!pass.q.lengths) return chunk.steps;
    const int64_t left = pass.q.lengths[chunk.first_sequence + s] - chunk.first_step;
    return least(most<int64_t>(0, left), chunk.steps);
  }

  void read_path(int64_t row, int64_t rows) const {
    read_numbers(half(), pass.q.increments, (chunk.first_row() + row) * width(), rows * width(),
                 scratch.increments + row * width());
  }

  // Those of a sequence at some step, which the chunk before left, or that after it on the way back.
  ScaledDirections<Real> directions(int64_t s) const {
    return {numbers(), scratch.exponents + s * numbers(), scratch.weights, scratch.scaled};
  }

  // `states` are those after the steps of the chunk.
  void write_directions(int64_t s, const Real *states) const {
    const Sequence<Real> own = sequence(chunk.first_sequence + s, 0);
    if (chunk.first_step == 0) clear(scratch.exponents + s * numbers(), numbers());
    ScaledDirections<Real> walk = directions(s);
    for (int64_t t = chunk.first_step; t < chunk.first_step + chunk.steps; ++t) {
      if (own.divides(t)) walk.enter(own.factors(t));
      walk.direction(states + (t - chunk.first_step) * numbers(), scratch.directions);
      write_numbers(half(), scratch.directions, numbers(), pass.q.directions, own.row(t) * numbers());
    }
  }

  // Puts the gradients of states, but of the first `skipped`, in the place of those of directions. The
  // state before the chunk has its gradient here, and the chunk before it leaves its own alone.
  void pull_directions(int64_t s, int64_t skipped) const {
    const Sequence<Real> own = sequence(chunk.first_sequence + s, 0);
    const int64_t rows = s * (chunk.steps + 1);
    if (chunk.ends()) clear(scratch.exponents + s * numbers(), numbers());
    ScaledDirections<Real> walk = directions(s);
    for (int64_t t = pass.q.rescale; chunk.ends() && t < chunk.length; t += pass.q.rescale) {
      walk.enter(own.factors(t));
    }
    for (int64_t k = chunk.steps; k >= skipped; --k) {
      const int64_t t = chunk.first_step + k - 1, at = (rows + k) * numbers();
      if (k < chunk.steps || chunk.ends()) walk.pull(scratch.states + at, scratch.in_states + at);
      if (k > 0 && own.divides(t)) walk.leave(own.factors(t));
    }
  }

  // Calls f(row, place in it, count) for what the layout has of some rows of states that follow each
  // other: all at once where it has all of them.
  template <class F>
  void each_piece(int64_t rows, F &&f) const {
    if (layout.dim == pass.q.dim) return f(0, 0, rows * numbers());
    const int64_t columns = pass.q.columns;
    for (int64_t t = 0; t < rows; ++t) f(t, layout.state_at * columns, layout.dim * columns);
  }
};

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
