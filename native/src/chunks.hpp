// Steps that are made together, and where the numbers of a chunk stand.
//
// Where a problem has its path and states in half precision, a chunk of them at a time is widened
// into scratch memory, so that everything between reads and writes full precision.
#pragma once

#include "halves.hpp"
#include "sequences.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

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

  // Increments, or values, of its rows.
  const Real *increments() const {
    return half() ? scratch.increments : pass.increments(chunk.first_row());
  }

  // A sequence and column; in scratch memory the state before the chunk stands before those in it.
  Sequence<Real> sequence(int64_t b, int64_t column) const {
    if (!half()) return Sequence<Real>::whole(pass.q, layout, scratch, b, column);
    const int64_t at = (b - chunk.first_sequence) * (chunk.steps + 1) * numbers();
    Real *states = scratch.states + at;
    const Real *given = scratch.in_states ? scratch.in_states + at : nullptr;
    return {pass.q, layout, scratch, b, column, states, given, chunk.first_step - 1};
  }

  void read_increments() const {
    if (!half()) return;
    const int64_t width = pass.path.width();
    widen(static_cast<const Half *>(pass.q.increments) + chunk.first_row() * width,
          chunk.rows() * width, scratch.increments);
  }

  // Forwards, the last state of the chunk before goes on in full precision.
  void carry_on() const {
    if (!half() || chunk.first_step == 0) return;
    const Real *last = scratch.states + pass.plan.chunk * numbers();
    each_piece(1, [&](int64_t, int64_t at, int64_t count) {
      __builtin_memcpy(scratch.states + at, last + at, count * sizeof(Real));
    });
  }

  void write_states() const {
    if (!half()) return;
    Half *states = static_cast<Half *>(pass.q.states);
    Real *last = static_cast<Real *>(pass.q.last);
    for (int64_t s = 0; s < chunk.sequences; ++s) {
      const int64_t b = chunk.first_sequence + s, row = b * chunk.length + chunk.first_step;
      const Real *from = scratch.states + (s * (chunk.steps + 1) + 1) * numbers();
      each_piece(chunk.steps, [&](int64_t t, int64_t at, int64_t count) {
        narrow(from + t * numbers() + at, count, states + (row + t) * numbers() + at);
      });
      if (!last || !chunk.ends()) continue;
      from += (chunk.steps - 1) * numbers();
      each_piece(1, [&](int64_t, int64_t at, int64_t count) {
        __builtin_memcpy(last + b * numbers() + at, from + at, count * sizeof(Real));
      });
    }
  }

  // For the way back: the states before its steps, and the gradients of these and of the last one.
  void read_states() const {
    if (!half()) return;
    const int64_t skipped = chunk.first_step ? 0 : 1;  // the initial state stands elsewhere
    for (int64_t s = 0; s < chunk.sequences; ++s) {
      const int64_t from =
          (chunk.first_sequence + s) * chunk.length + chunk.first_step - 1 + skipped;
      const int64_t to = s * (chunk.steps + 1) + skipped, rows = chunk.steps + 1 - skipped;
      each_piece(rows, [&](int64_t t, int64_t at, int64_t count) {
        const int64_t given = (from + t) * numbers() + at, wide = (to + t) * numbers() + at;
        widen(static_cast<const Half *>(pass.q.states) + given, count, scratch.states + wide);
        widen(static_cast<const Half *>(pass.q.in_states) + given, count, scratch.in_states + wide);
      });
    }
  }

  // Where the gradients of its increments are to be written, before `write_in_increments`.
  Real *in_increments(int64_t split) const {
    Real *whole = pass.partial[split];
    if (!whole && half()) return scratch.increments;  // which nobody reads any more
    if (!whole) whole = static_cast<Real *>(pass.q.in_increments);
    return whole + chunk.first_row() * pass.path.width();
  }

  void write_in_increments(int64_t split) const {
    if (!half() || pass.partial[split]) return;
    const int64_t width = pass.path.width();
    narrow(scratch.increments, chunk.rows() * width,
           static_cast<Half *>(pass.q.in_increments) + chunk.first_row() * width);
  }

 private:
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
