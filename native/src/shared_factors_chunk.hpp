// What a chunk of steps needs of the increments, for a team of sequences; time first.
#pragma once

#include "shared_factors_panels.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace shared_factors {

// Consecutive sequences and steps.
struct Window {
  int64_t sequence, sequences, start, steps;

  int64_t count() const { return sequences * steps; }
};

// Diagonals and weights of all steps of a window.
template <class Real>
class Chunk {
 public:
  Chunk(Workspace &space, const Problem &problem, const Sizes<Real> &size)
      : n_(problem), size_(size) {
    const int64_t count = size.sequences * size.steps;
    increments = space.take<Real>(count * n_.channels);
    weights = space.take<Real>(count * size.padded_inner);
    diagonals = space.take<Real>(count * size.padded_dim);
  }

  // diagonal: panels (dim_panels, channels, LANES).
  void make(const Window &window, const Real *diagonal) {
    const Driving<Problem> driving = {n_};
    for (int64_t t = 0; t < window.steps; ++t) {
      for (int64_t s = 0; s < window.sequences; ++s) {
        const int64_t at = t * window.sequences + s;
        driving.read(window.sequence + s, window.start + t, increments + at * n_.channels);
        repeat(at);
      }
    }
    times_panels<Real>(window.count(), n_.channels, increments, n_.channels, 1, diagonal,
                       size_.dim_panels, diagonals, size_.padded_dim, LANES<Real>, false);
  }

  Real *increments;  // (steps, sequences, channels)
  Real *weights;     // (steps, sequences, padded_inner)
  Real *diagonals;   // (steps, sequences, padded_dim)

 private:
  void repeat(int64_t at) {
    const Real *increment = increments + at * n_.channels;
    Real *weight = weights + at * size_.padded_inner;
    for (int64_t i = 0; i < n_.channels; ++i) {
      for (int64_t j = 0; j < n_.rank; ++j) *weight++ = increment[i];
    }
    for (int64_t k = size_.inner; k < size_.padded_inner; ++k) *weight++ = 0;
  }

  const Problem &n_;
  const Sizes<Real> &size_;
};

// Rows of a team at one step, one for each sequence and column, from and to a batch-first array
// (batch, steps, dim, columns). Padding is zero. States of all steps may be in half precision.
template <class Real>
class Team {
 public:
  Team(const Problem &problem, const Sizes<Real> &size, int64_t sequence, int64_t sequences)
      : n_(problem), size_(size), first_(sequence), sequences_(sequences) {}

  int64_t rows() const { return sequences_ * n_.columns; }

  void read(const Real *array, int64_t steps, int64_t step, Real *rows) const {
    for (int64_t row = 0; row < this->rows(); ++row) {
      const Real *from = array + place(row, steps, step);
      Real *to = rows + row * size_.row;
      for (int64_t d = 0; d < n_.dim; ++d) to[d] = from[d * n_.columns];
      for (int64_t d = n_.dim; d < size_.padded_dim; ++d) to[d] = 0;
    }
  }

  void read_states(const void *array, int64_t step, Real *rows) const {
    if (!n_.half) return read(static_cast<const Real *>(array), n_.length, step, rows);
    for (int64_t row = 0; row < this->rows(); ++row) {
      Real *to = rows + row * size_.row;
      widen(static_cast<const Half *>(array) + place(row, n_.length, step), n_.dim, to);
      for (int64_t d = n_.dim; d < size_.padded_dim; ++d) to[d] = 0;
    }
  }

  void add(const Real *array, int64_t steps, int64_t step, Real *rows) const {
    for (int64_t row = 0; row < this->rows(); ++row) {
      const Real *from = array + place(row, steps, step);
      for (int64_t d = 0; d < n_.dim; ++d) rows[row * size_.row + d] += from[d * n_.columns];
    }
  }

  void write(const Real *rows, Real *array, int64_t steps, int64_t step) const {
    for (int64_t row = 0; row < this->rows(); ++row) {
      const Real *from = rows + row * size_.row;
      Real *to = array + place(row, steps, step);
      for (int64_t d = 0; d < n_.dim; ++d) to[d * n_.columns] = from[d];
    }
  }

  // `direction` is room for one.
  void write_states(const Real *rows, int64_t step, Real *direction) const {
    if (n_.columns > 1) return write(rows, static_cast<Real *>(n_.states), n_.length, step);
    for (int64_t row = 0; row < this->rows(); ++row) {
      const Real *from = rows + row * size_.row;
      const int64_t at = place(row, n_.length, step);
      write_numbers(n_.half, from, n_.dim, n_.states, at);
      if (!n_.directed) continue;
      direction_of(n_.dim, from, direction);
      write_numbers(n_.half, direction, n_.dim, n_.directions, at);
    }
  }

  // Puts the gradients of states after a step in the place of those of their directions; `state` is
  // room for one.
  void pull_directions(int64_t step, Real *rows, Real *state) const {
    for (int64_t row = 0; row < this->rows(); ++row) {
      read_numbers(n_.half, n_.states, place(row, n_.length, step), n_.dim, state);
      pull_direction(n_.dim, state, rows + row * size_.row);
    }
  }

  Real &factor(Real *factors, int64_t row, int64_t step) const {
    const int64_t sequence = first_ + row / n_.columns;
    const int64_t window = sequence * windows_of(n_.length, n_.rescale) + step / n_.rescale;
    return factors[window * n_.columns + row % n_.columns];
  }

  // Divides each row by its factor of a step.
  void divide(Real *rows, Real *factors, int64_t step) const {
    for (int64_t row = 0; row < this->rows(); ++row) {
      const Real by = factor(factors, row, step);
      for (int64_t d = 0; d < n_.dim; ++d) rows[row * size_.row + d] /= by;
    }
  }

 private:
  int64_t place(int64_t row, int64_t steps, int64_t step) const {
    const int64_t sequence = first_ + row / n_.columns;
    return (sequence * steps + step) * n_.dim * n_.columns + row % n_.columns;
  }

  const Problem &n_;
  const Sizes<Real> &size_;
  int64_t first_, sequences_;
};

// result = x + diagonal * x for the rows of a step; diagonals are shared by a sequence's columns.
template <class Real>
inline void add_diagonal_part(const Problem &n, const Sizes<Real> &size, int64_t rows,
                              const Real *diagonals, const Real *x, Real *result) {
  for (int64_t row = 0; row < rows; ++row) {
    const Real *diagonal = diagonals + row / n.columns * size.padded_dim;
    for (int64_t d = 0; d < size.padded_dim; d += WIDTH<Real>) {
      const Vector<Real> own = load(x + row * size.row + d);
      store(result + row * size.row + d, own + load(diagonal + d) * own);
    }
  }
}

}  // namespace shared_factors
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
