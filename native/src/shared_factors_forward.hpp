// Forward pass with shared factors: two products a step, V^T h and U z, for a team of sequences.
#pragma once

#include "shared_factors_chunk.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace shared_factors {

// Parameters in panels.
template <class Real>
struct ForwardPanels {
  ForwardPanels(Workspace &space, const Problem &n, const Sizes<Real> &size)
      : diagonal(space.take<Real>(n.channels * size.padded_dim)),
        right(space.take<Real>(n.dim * size.padded_inner)),
        left_transposed(space.take<Real>(size.padded_inner * size.padded_dim)) {}

  void fill(const Problem &n, const Sizes<Real> &size) {
    pack_diagonal(n, diagonal);
    pack_factor(n, size, n.right, right);
    pack_transposed(n, size, n.left, left_transposed);
  }

  Real *diagonal, *right, *left_transposed;
};

template <class Real>
class Forward {
 public:
  Forward(Workspace &space, const Problem &problem, const Sizes<Real> &size)
      : n_(problem), size_(size), chunk_(space, problem, size) {
    const int64_t rows = size.sequences * n_.columns;
    state_ = space.take<Real>(rows * size.row);
    next_ = space.take<Real>(rows * size.row);
    inner_ = space.take<Real>(rows * size.padded_inner);
    direction_ = space.take<Real>(n_.directed ? n_.dim : 0);
  }

  void run(const ForwardPanels<Real> &panels, int64_t sequence, int64_t sequences) {
    const Team<Real> team(n_, size_, sequence, sequences);
    team.read(static_cast<const Real *>(n_.state), 1, 0, state_);
    for (int64_t start = 0; start < n_.length; start += size_.steps) {
      const Window window{sequence, sequences, start, least(size_.steps, n_.length - start)};
      chunk_.make(window, panels.diagonal);
      for (int64_t t = 0; t < window.steps; ++t) {
        step(panels, team, window, t);
        team.write_states(next_, start + t, direction_);
        Real *before = state_;
        state_ = next_;
        next_ = before;
      }
    }
    team.write(state_, static_cast<Real *>(n_.last), 1, 0);
  }

 private:
  void step(const ForwardPanels<Real> &panels, const Team<Real> &team, const Window &window,
            int64_t t) {
    const int64_t rows = team.rows(), panel = rows * LANES<Real>;
    if (n_.rescale && (window.start + t) % n_.rescale == 0) divide(team, window.start + t);
    times_panels<Real>(rows, n_.dim, state_, size_.row, 1, panels.right, size_.inner_panels, inner_,
                       LANES<Real>, panel, false);
    weigh(chunk_.weights + t * window.sequences * size_.padded_inner, rows);
    add_diagonal_part(n_, size_, rows, chunk_.diagonals + t * window.sequences * size_.padded_dim,
                      state_, next_);
    if (n_.inputs) {
      team.add(static_cast<const Real *>(n_.inputs), n_.length, window.start + t, next_);
    }
    panels_times_panels<Real>(rows, size_.inner_panels, inner_, panel, panels.left_transposed,
                              size_.dim_panels, next_, size_.row, true);
  }

  // inner = w * inner, for inner in panels (inner_panels, rows, LANES).
  void weigh(const Real *weights, int64_t rows) {
    Real *inner = inner_;
    for (int64_t k = 0; k < size_.padded_inner; k += LANES<Real>) {
      for (int64_t row = 0; row < rows; ++row) {
        const Real *weight = weights + row / n_.columns * size_.padded_inner + k;
        for (int half = 0; half < LANES<Real>; half += WIDTH<Real>) {
          store(inner, load(inner) * load(weight + half));
          inner += WIDTH<Real>;
        }
      }
    }
  }

  // Divides each row by the power of two below its largest modulus, but at the very beginning, and
  // notes the factors.
  void divide(const Team<Real> &team, int64_t t) {
    Real *factors = static_cast<Real *>(n_.factors);
    for (int64_t row = 0; row < team.rows(); ++row) {
      Real largest = 0;
      for (int64_t d = 0; t > 0 && d < n_.dim; ++d) {
        const Real x = state_[row * size_.row + d];
        largest = most(largest, x < 0 ? -x : x);
      }
      team.factor(factors, row, t) = power_of_two(largest);
    }
    team.divide(state_, factors, t);
  }

  const Problem &n_;
  const Sizes<Real> &size_;
  Chunk<Real> chunk_;
  Real *state_, *next_;  // (rows, row)
  Real *inner_;          // panels (inner_panels, rows, LANES)
  Real *direction_;      // (dim,)
};

}  // namespace shared_factors
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
