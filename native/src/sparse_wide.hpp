// Sparse recurrence with sequences in lanes: A(Δω) is never formed.
//
// Σ_i Δω^i Σ_c a_{i,r,c} h_c has one multiplication for each kept entry, and every operation is the
// same for all sequences. The adjoint step is the same with rows and columns exchanged, and its
// inner sums q_{i,c} = Σ_r a_{i,r,c} g_r give the gradient of the increments, Σ_c h_c q_{i,c}, too.
#pragma once

#include "sparse_arrays.hpp"
#include "sparse_lanes.hpp"
#include "sparse_sums.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse {

// Sequences that share lanes, and the column of their states that is worked on.
struct Team {
  int64_t sequence, sequences, column;

  template <class Real>
  int64_t lanes(int q) const {
    return sequences - q * LANES<Real>;
  }
};

// Fills G lane groups, `stride` apart, with the team's vectors at one step.
template <int G, class Real>
inline void gather_team(const Field &field, const Real *array, const Team &team, int64_t step,
                        Real *to, ptrdiff_t stride) {
  for (int q = 0; q < G; ++q) {
    gather(field.over_sequences(array, team.sequence + q * LANES<Real>, step, team.column),
           team.lanes<Real>(q), field.size, to + q * stride, ROW<Real>);
  }
}

template <int G, class Real>
inline void scatter_team(const Real *from, ptrdiff_t stride, const Field &field, Real *array,
                         const Team &team, int64_t step, bool add) {
  for (int q = 0; q < G; ++q) {
    scatter(from + q * stride, ROW<Real>, team.lanes<Real>(q), field.size,
            field.over_sequences(array, team.sequence + q * LANES<Real>, step, team.column), add);
  }
}

// Rows of the team's sequences, and lane groups of them.
template <class Real>
class TeamRows {
 public:
  TeamRows(Workspace &space, const slicekit_sparse &sizes)
      : n_(sizes),
        driving_{sizes},
        rows_(space.take<Real>(most(n_.channels, copies() ? n_.dim : 0) * ROW<Real>)),
        spare_(space.take<Real>(n_.directed ? n_.dim : 0)) {}

  template <int G>
  void gather_increments(const Team &team, int64_t t, Real *to, ptrdiff_t stride) const {
    for (int64_t l = 0; l < team.sequences; ++l) {
      driving_.read(team.sequence + l, t, rows_ + l * n_.channels);
    }
    gather_team<G>(Field{1, n_.channels, 1}, rows_, own(team), 0, to, stride);
  }

  template <int G>
  void scatter_in_increments(const Real *from, const Team &team, int64_t t) const {
    scatter_team<G>(from, L, Field{1, n_.channels, 1}, rows_, own(team), 0, false);
    for (int64_t l = 0; l < team.sequences; ++l) {
      driving_.write(team.sequence + l, t, rows_ + l * n_.channels, team.column > 0);
    }
  }

  // States after step t.
  template <int G>
  void gather_states(const Team &team, int64_t t, Real *to, ptrdiff_t stride) const {
    gather_each<G>(n_.states, team, t, to, stride, [](int64_t, Real *) {});
  }

  // Their gradients, from those of directions if these are given.
  template <int G>
  void gather_in_states(const Team &team, int64_t t, Real *to, ptrdiff_t stride) const {
    gather_each<G>(n_.in_states, team, t, to, stride, [&](int64_t at, Real *gradient) {
      if (!n_.directed) return;
      read_numbers(n_.half, n_.states, at, n_.dim, spare_);
      pull_direction(n_.dim, spare_, gradient);
    });
  }

  template <int G>
  void scatter_states(const Real *from, const Team &team, int64_t t) const {
    if (!copies()) {
      return scatter_team<G>(from, L, field(), static_cast<Real *>(n_.states), team, t, false);
    }
    scatter_team<G>(from, L, Field{1, n_.dim, 1}, rows_, own(team), 0, false);
    for (int64_t l = 0; l < team.sequences; ++l) {
      const int64_t at = place(team, l, t);
      Real *state = rows_ + l * n_.dim;
      write_numbers(n_.half, state, n_.dim, n_.states, at);
      if (!n_.directed) continue;
      direction_of(n_.dim, state, state);
      write_numbers(n_.half, state, n_.dim, n_.directions, at);
    }
  }

 private:
  static constexpr int L = LANES<Real>;

  // Whether states are worked on as rows.
  bool copies() const { return n_.half || n_.directed; }

  // Vectors of an array of all states; copies of them go through f(place, vector) on the way.
  template <int G, class F>
  void gather_each(const void *states, const Team &team, int64_t t, Real *to, ptrdiff_t stride,
                   F &&f) const {
    if (!copies()) {
      return gather_team<G>(field(), static_cast<const Real *>(states), team, t, to, stride);
    }
    for (int64_t l = 0; l < team.sequences; ++l) {
      read_numbers(n_.half, states, place(team, l, t), n_.dim, rows_ + l * n_.dim);
      f(place(team, l, t), rows_ + l * n_.dim);
    }
    gather_team<G>(Field{1, n_.dim, 1}, rows_, own(team), 0, to, stride);
  }

  Field field() const { return {n_.length, n_.dim, n_.columns}; }
  Team own(const Team &team) const { return {0, team.sequences, 0}; }
  int64_t place(const Team &team, int64_t l, int64_t t) const {
    return ((team.sequence + l) * n_.length + t) * n_.dim;
  }

  const slicekit_sparse &n_;
  Driving<slicekit_sparse> driving_;
  Real *rows_, *spare_;
};

template <class Real>
class WideForward {
 public:
  WideForward(Workspace &space, const slicekit_sparse &sizes) : n_(sizes), rows_(space, sizes) {
    increments_ = space.take<Real>(n_.channels * ROW<Real>);
    state_ = space.take<Real>(n_.dim * ROW<Real>);
    next_ = space.take<Real>(n_.dim * ROW<Real>);
  }

  template <int G>
  void run(const Arrays<Real> &arrays, const Lists<Real> &lists, const Team &team) {
    const Field states{n_.length, n_.dim, n_.columns}, state{1, n_.dim, n_.columns};
    gather_team<G>(state, arrays.state, team, 0, state_, L);
    for (int64_t t = 0; t < n_.length; ++t) {
      if (n_.rescale && t % n_.rescale == 0) divide(arrays, team, t);
      rows_.template gather_increments<G>(team, t, increments_, L);
      start<G>(states, arrays.inputs, team, t);
      step<G>(lists);
      rows_.template scatter_states<G>(next_, team, t);
      Real *before = state_;
      state_ = next_;
      next_ = before;
    }
    scatter_team<G>(state_, L, state, arrays.last, team, 0, false);
  }

 private:
  static constexpr int L = LANES<Real>;

  // next = state, plus the input.
  template <int G>
  void start(const Field &states, const Real *inputs, const Team &team, int64_t t) {
    if (inputs) gather_team<G>(states, inputs, team, t, next_, L);
    for (int64_t r = 0; r < n_.dim; ++r) {
      Lanes<G, Real> x = load_lanes<G>(state_ + r * ROW<Real>, L);
      if (inputs) add_multiple(x, Real(1), next_ + r * ROW<Real>, L);
      store_lanes(next_ + r * ROW<Real>, L, x);
    }
  }

  // next += A state.
  template <int G>
  void step(const Lists<Real> &lists) {
    for (int64_t i = 0; i < n_.channels; ++i) {
      const Lanes<G, Real> increment = load_lanes<G>(increments_ + i * ROW<Real>, L);
      const List *end = lists.of(i + 1);
      for (const List *list = lists.of(i); list < end && list->count; ++list) {
        const Lanes<G, Real> sum = list_sum<G>(lists, *list, state_, L);
        Real *to = next_ + list->target * ROW<Real>;
        Lanes<G, Real> x = load_lanes<G>(to, L);
        add_product(x, increment, sum);
        store_lanes(to, L, x);
      }
    }
  }

  // Divides each lane by the power of two below its largest modulus, but at the very beginning, and
  // notes the factors.
  void divide(const Arrays<Real> &arrays, const Team &team, int64_t t) {
    for (int64_t l = 0; l < team.sequences; ++l) {
      Real largest = 0;
      for (int64_t r = 0; t > 0 && r < n_.dim; ++r) {
        const Real x = state_[r * ROW<Real> + l];
        largest = most(largest, x < 0 ? -x : x);
      }
      const Real factor = power_of_two(largest);
      for (int64_t r = 0; t > 0 && r < n_.dim; ++r) state_[r * ROW<Real> + l] /= factor;
      arrays.factor(n_, team.sequence + l, t, team.column) = factor;
    }
  }

  const slicekit_sparse &n_;
  TeamRows<Real> rows_;
  Real *increments_, *state_, *next_;
};

// Steps are taken backwards. Each lane group has a block of rows for the increments, adjoints and
// states of up to GROUPS steps; when it is full, it is pulled back to the values.
template <class Real>
class WideBackward {
 public:
  WideBackward(Workspace &space, const slicekit_sparse &sizes) : n_(sizes), rows_(space, sizes) {
    increments_ = space.take<Real>(GROUPS * n_.channels * ROW<Real>);
    in_increments_ = space.take<Real>(n_.channels * ROW<Real>);
    adjoint_ = space.take<Real>(GROUPS * n_.dim * ROW<Real>);
    before_ = space.take<Real>(GROUPS * n_.dim * ROW<Real>);
    carry_ = space.take<Real>(n_.dim * ROW<Real>);
  }

  // by_row: lists by (channel, row) over columns; by_column: by (channel, column) over rows.
  template <int G>
  void run(const Arrays<Real> &arrays, const Lists<Real> &by_row,
           const Lists<Real> &by_column, const Team &team, Real *in_values) {
    const Field states{n_.length, n_.dim, n_.columns}, state{1, n_.dim, n_.columns};
    gather_team<G>(state, arrays.in_last, team, 0, carry_, L);
    int slot = 0;
    for (int64_t t = n_.length - 1; t >= 0; --t) {
      rows_.template gather_increments<G>(team, t, increments_ + slot * L, n_.channels * ROW<Real>);
      gather_adjoint<G>(states, arrays, team, t, slot);
      if (t) {
        rows_.template gather_states<G>(team, t - 1, before_ + slot * L, block());
      } else {
        gather_team<G>(state, arrays.state, team, 0, before_ + slot * L, block());
      }
      const bool divided = divides_before(t, n_.rescale);
      if (divided) divide(arrays, team, t, before_ + slot * L, block());
      step<G>(by_column, slot);
      if (divided) {
        divide(arrays, team, t, carry_, L);
        for (int64_t i = 0; i < n_.dim * ROW<Real>; ++i) carry_[i] = without_tiny(carry_[i]);
      }
      rows_.template scatter_in_increments<G>(in_increments_, team, t);
      if (++slot == GROUPS || t == 0) {
        pull<G>(by_row, slot, in_values);
        slot = 0;
      }
    }
    scatter_team<G>(carry_, L, state, arrays.in_state, team, 0, false);
  }

 private:
  static constexpr int L = LANES<Real>;

  int64_t block() const { return n_.dim * ROW<Real>; }

  // The gradient of the state after step t: its own, and what later steps pass back.
  template <int G>
  void gather_adjoint(const Field &states, const Arrays<Real> &arrays, const Team &team,
                      int64_t t, int slot) {
    Real *adjoint = adjoint_ + slot * L;
    rows_.template gather_in_states<G>(team, t, adjoint, block());
    for (int64_t r = 0; r < n_.dim; ++r) {
      Lanes<G, Real> x = load_lanes<G>(adjoint + r * ROW<Real>, block());
      add_multiple(x, Real(1), carry_ + r * ROW<Real>, L);
      store_lanes(adjoint + r * ROW<Real>, block(), x);
      store_lanes(carry_ + r * ROW<Real>, L, x);
    }
    if (arrays.in_inputs) {
      scatter_team<G>(adjoint, block(), states, arrays.in_inputs, team, t, false);
    }
  }

  // carry += A^T adjoint, and the gradient of the increments.
  template <int G>
  void step(const Lists<Real> &by_column, int slot) {
    const Real *adjoint = adjoint_ + slot * L, *before = before_ + slot * L;
    for (int64_t i = 0; i < n_.channels; ++i) {
      const Real *increment = increments_ + slot * L + i * ROW<Real>;
      const Lanes<G, Real> factor = load_lanes<G>(increment, n_.channels * ROW<Real>);
      Lanes<G, Real> in_increment{};
      const List *end = by_column.of(i + 1);
      for (const List *list = by_column.of(i); list < end && list->count; ++list) {
        const Lanes<G, Real> sum = list_sum<G>(by_column, *list, adjoint, block());
        const int64_t row = list->target * static_cast<int64_t>(ROW<Real>);
        Lanes<G, Real> x = load_lanes<G>(carry_ + row, L);
        add_product(x, factor, sum);
        store_lanes(carry_ + row, L, x);
        add_product(in_increment, load_lanes<G>(before + row, block()), sum);
      }
      store_lanes(in_increments_ + i * ROW<Real>, L, in_increment);
    }
  }

  template <int G>
  void pull(const Lists<Real> &by_row, int slots, Real *in_values) {
    for (int q = 0; q < G; ++q) {
      const Real *increments = increments_ + q * n_.channels * ROW<Real>;
      const Real *adjoint = adjoint_ + q * block(), *before = before_ + q * block();
      add_in_values(slots, n_.channels, by_row, increments, adjoint, before, in_values);
    }
  }

  // Divides lanes by the factors of step t.
  void divide(const Arrays<Real> &arrays, const Team &team, int64_t t, Real *x, ptrdiff_t stride) {
    for (int64_t l = 0; l < team.sequences; ++l) {
      const Real factor = arrays.factor(n_, team.sequence + l, t, team.column);
      Real *lane = x + l / L * stride + l % L;
      for (int64_t r = 0; r < n_.dim; ++r) lane[r * ROW<Real>] /= factor;
    }
  }

  const slicekit_sparse &n_;
  TeamRows<Real> rows_;
  Real *increments_, *in_increments_, *adjoint_, *before_, *carry_;
};

}  // namespace sparse
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
