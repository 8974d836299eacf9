// Backward pass with shared factors. Only two products of a step depend on the running adjoint g:
// y = U^T g and V (w y). V^T h before them, and all gradients after them, are products over a whole
// chunk of steps.
#pragma once

#include "shared_factors_chunk.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace shared_factors {

// Parameters in panels.
template <class Real>
struct BackwardPanels {
  BackwardPanels(Workspace &space, const Problem &n, const Sizes<Real> &size)
      : diagonal(space.take<Real>(n.channels * size.padded_dim)),
        diagonal_transposed(space.take<Real>(size.padded_dim * size.padded_channels)),
        left(space.take<Real>(n.dim * size.padded_inner)),
        right(space.take<Real>(n.dim * size.padded_inner)),
        right_transposed(space.take<Real>(size.padded_inner * size.padded_dim)) {}

  void fill(const Problem &n, const Sizes<Real> &size) {
    pack_diagonal(n, diagonal);
    const Real *given = static_cast<const Real *>(n.diagonal);
    pack(n.dim, size.padded_dim, n.channels, diagonal_transposed,
         [&](int64_t d, int64_t i) { return given[i * n.dim + d]; });
    pack_factor(n, size, n.left, left);
    pack_factor(n, size, n.right, right);
    pack_transposed(n, size, n.right, right_transposed);
  }

  Real *diagonal, *diagonal_transposed, *left, *right, *right_transposed;
};

// Gradients of the parameters, in panels like them.
template <class Real>
struct Gradients {
  Gradients(Workspace &space, const Problem &n, const Sizes<Real> &size)
      : numbers{n.channels * size.padded_dim, n.dim * size.padded_inner},
        diagonal(space.take<Real>(numbers[0])),
        left(space.take<Real>(numbers[1])),
        right(space.take<Real>(numbers[1])) {}

  void clear() {
    for (int64_t k = 0; k < numbers[0]; ++k) diagonal[k] = 0;
    for (int64_t k = 0; k < numbers[1]; ++k) left[k] = right[k] = 0;
  }

  void add(const Gradients &other) {
    for (int64_t k = 0; k < numbers[0]; ++k) diagonal[k] += other.diagonal[k];
    for (int64_t k = 0; k < numbers[1]; ++k) {
      left[k] += other.left[k];
      right[k] += other.right[k];
    }
  }

  void write(const Problem &n, const Sizes<Real> &size) const {
    constexpr int L = LANES<Real>;
    Real *in_diagonal = static_cast<Real *>(n.in_diagonal);
    for (int64_t i = 0; i < n.channels; ++i) {
      for (int64_t d = 0; d < n.dim; ++d) {
        in_diagonal[i * n.dim + d] = diagonal[(d / L * n.channels + i) * L + d % L];
      }
    }
    Real *in_left = static_cast<Real *>(n.in_left), *in_right = static_cast<Real *>(n.in_right);
    for (int64_t k = 0; k < size.inner; ++k) {
      for (int64_t d = 0; d < n.dim; ++d) {
        const int64_t from = (k / L * n.dim + d) * L + k % L, to = place_in_factor(n, d, k);
        in_left[to] = left[from];
        in_right[to] = right[from];
      }
    }
  }

  int64_t numbers[2];  // of the diagonal and of a factor
  Real *diagonal;      // panels (dim_panels, channels, LANES)
  Real *left;          // panels (inner_panels, dim, LANES)
  Real *right;         // likewise
};

template <class Real>
class Backward {
 public:
  Backward(Workspace &space, const Problem &problem, const Sizes<Real> &size)
      : n_(problem), size_(size), chunk_(space, problem, size) {
    const int64_t count = size.sequences * size.steps, rows = count * n_.columns;
    carry_ = space.take<Real>(size.sequences * n_.columns * size.row);
    befores_ = space.take<Real>(rows * size.row);
    adjoints_ = space.take<Real>(rows * size.row);
    inner_ = space.take<Real>(rows * size.padded_inner);
    outer_ = space.take<Real>(rows * size.padded_inner);
    in_weights_ = space.take<Real>(count * size.padded_inner);
    in_diagonals_ = space.take<Real>(count * size.padded_dim);
    in_increments_ = space.take<Real>(count * size.padded_channels);
    state_ = space.take<Real>(n_.directed ? n_.dim : 0);
  }

  void run(const BackwardPanels<Real> &panels, Gradients<Real> &gradients, int64_t sequence,
           int64_t sequences) {
    const Team<Real> team(n_, size_, sequence, sequences);
    team.read(static_cast<const Real *>(n_.in_last), 1, 0, carry_);
    const int64_t chunks = (n_.length + size_.steps - 1) / size_.steps;
    for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
      const int64_t start = chunk * size_.steps;
      const Window window{sequence, sequences, start, least(size_.steps, n_.length - start)};
      chunk_.make(window, panels.diagonal);
      prepare(panels, team, window);
      for (int64_t t = window.steps - 1; t >= 0; --t) step(panels, team, window, t);
      pull_parameters(gradients, window);
      pull_increments(panels, window);
    }
    team.write(carry_, static_cast<Real *>(n_.in_state), 1, 0);
  }

 private:
  static constexpr int L = LANES<Real>;

  bool divided(int64_t t) const { return divides_before(t, n_.rescale); }

  // States before each step, and V^T h of all of them.
  void prepare(const BackwardPanels<Real> &panels, const Team<Real> &team, const Window &window) {
    for (int64_t t = 0; t < window.steps; ++t) {
      Real *before = befores_ + t * team.rows() * size_.row;
      const int64_t step = window.start + t;
      if (step) {
        team.read_states(n_.states, step - 1, before);
      } else {
        team.read(static_cast<const Real *>(n_.state), 1, 0, before);
      }
      if (divided(step)) team.divide(before, static_cast<Real *>(n_.factors), step);
    }
    const int64_t rows = team.rows() * window.steps;
    times_panels<Real>(rows, n_.dim, befores_, size_.row, 1, panels.right, size_.inner_panels,
                       inner_, L, rows * L, false);
  }

  // carry = g + d g + V (w (U^T g)), with g the adjoint of the state after the step.
  void step(const BackwardPanels<Real> &panels, const Team<Real> &team, const Window &window,
            int64_t t) {
    const int64_t rows = team.rows(), panel = rows * window.steps * L;
    const int64_t first = t * window.sequences, step = window.start + t;
    Real *adjoint = adjoints_ + t * rows * size_.row, *outer = outer_ + t * rows * L;
    team.read_states(n_.in_states, step, adjoint);
    if (n_.directed) team.pull_directions(step, adjoint, state_);
    for (int64_t k = 0; k < rows * size_.row; k += WIDTH<Real>) {
      store(adjoint + k, load(adjoint + k) + load(carry_ + k));
    }
    if (n_.in_inputs) team.write(adjoint, static_cast<Real *>(n_.in_inputs), n_.length, step);
    times_panels<Real>(rows, n_.dim, adjoint, size_.row, 1, panels.left, size_.inner_panels, outer,
                       L, panel, false);
    weigh(inner_ + t * rows * L, outer, panel, window.sequences, first);
    add_diagonal_part(n_, size_, rows, chunk_.diagonals + first * size_.padded_dim, adjoint,
                      carry_);
    panels_times_panels<Real>(rows, size_.inner_panels, outer, panel, panels.right_transposed,
                              size_.dim_panels, carry_, size_.row, true);
    if (!divided(step)) return;
    team.divide(carry_, static_cast<Real *>(n_.factors), step);
    for (int64_t k = 0; k < rows * size_.row; ++k) carry_[k] = without_tiny(carry_[k]);
  }

  // in_weights = Σ_columns inner * outer; then both are multiplied by the weights.
  void weigh(Real *inner, Real *outer, ptrdiff_t panel, int64_t sequences, int64_t first) {
    for (int64_t k = 0; k < size_.padded_inner; k += WIDTH<Real>) {
      const ptrdiff_t at = k / L * panel + k % L;
      for (int64_t s = 0; s < sequences; ++s) {
        const Vector<Real> weight = load(chunk_.weights + (first + s) * size_.padded_inner + k);
        Vector<Real> in_weight = zero<Real>();
        for (int64_t row = s * n_.columns; row < (s + 1) * n_.columns; ++row) {
          const Vector<Real> z = load(inner + at + row * L), y = load(outer + at + row * L);
          in_weight += z * y;
          store(inner + at + row * L, z * weight);
          store(outer + at + row * L, y * weight);
        }
        store(in_weights_ + (first + s) * size_.padded_inner + k, in_weight);
      }
    }
  }

  // The chunk's part of the parameters' gradients.
  void pull_parameters(Gradients<Real> &gradients, const Window &window) {
    const int64_t count = window.count(), rows = count * n_.columns;
    times_panels<Real>(n_.dim, rows, adjoints_, 1, size_.row, inner_, size_.inner_panels,
                       gradients.left, L, n_.dim * L, true);
    times_panels<Real>(n_.dim, rows, befores_, 1, size_.row, outer_, size_.inner_panels,
                       gradients.right, L, n_.dim * L, true);
    for (int64_t d = 0; d < size_.padded_dim; d += WIDTH<Real>) {
      for (int64_t at = 0; at < count; ++at) {
        Vector<Real> total = zero<Real>();
        for (int64_t row = at * n_.columns; row < (at + 1) * n_.columns; ++row) {
          total += load(adjoints_ + row * size_.row + d) * load(befores_ + row * size_.row + d);
        }
        store(in_diagonals_ + (d / L * count + at) * L + d % L, total);
      }
    }
    times_panels<Real>(n_.channels, count, chunk_.increments, 1, n_.channels, in_diagonals_,
                       size_.dim_panels, gradients.diagonal, L, n_.channels * L, true);
  }

  // Each increment's gradient: through the diagonal, and through its `rank` weights.
  void pull_increments(const BackwardPanels<Real> &panels, const Window &window) {
    panels_times_panels<Real>(window.count(), size_.dim_panels, in_diagonals_, window.count() * L,
                              panels.diagonal_transposed, size_.channel_panels, in_increments_,
                              size_.padded_channels, false);
    const Driving<Problem> driving = {n_};
    for (int64_t at = 0; at < window.count(); ++at) {
      Real *gradient = in_increments_ + at * size_.padded_channels;
      const Real *in_weight = in_weights_ + at * size_.padded_inner;
      for (int64_t i = 0; i < n_.channels; ++i) {
        for (int64_t j = 0; j < n_.rank; ++j) gradient[i] += *in_weight++;
      }
      driving.write(window.sequence + at % window.sequences, window.start + at / window.sequences,
                    gradient, false);
    }
  }

  const Problem &n_;
  const Sizes<Real> &size_;
  Chunk<Real> chunk_;
  Real *carry_;                // (rows of a step, row)
  Real *befores_, *adjoints_;  // (rows of a chunk, row)
  Real *inner_, *outer_;       // V^T h and U^T g in panels (inner_panels, rows of a chunk, LANES)
  Real *in_weights_;           // (steps, sequences, padded_inner)
  Real *in_diagonals_;         // panels (dim_panels, steps * sequences, LANES)
  Real *in_increments_;        // (steps, sequences, padded_channels)
  Real *state_;                // (dim,)
};

}  // namespace shared_factors
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
