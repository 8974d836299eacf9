// Sparse recurrence with steps in lanes, for few sequences: A(Δω) is formed for a chunk of steps.
//
// Each element of A is a sum over channels, made for a whole chunk at a time; then the chunk's
// steps are plain products of a matrix and a vector. The same code makes A for the forward pass and
// A^T for the backward pass: matrices are stored by the index that a step sums over.
#pragma once

#include "sparse_arrays.hpp"
#include "sparse_lanes.hpp"
#include "sparse_sums.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse {

// Steps of a chunk, in lane groups: their matrices are most of the work space.
constexpr int CHUNK_GROUPS = 2;

template <class Real>
constexpr int CHUNK = CHUNK_GROUPS * LANES<Real>;

// The matrices of up to CHUNK steps: (dim, width) each, columns padded to whole lane groups.
template <class Real>
class Matrices {
 public:
  Matrices(Workspace &space, int64_t channels, int64_t dim)
      : channels_(channels),
        dim_(dim),
        width_(round_up(dim, L)),
        // A lane group more, lest the same element of all matrices share one set of the cache.
        size_(dim * width_ + L) {
    increments_ = space.take<Real>(channels * ROW<Real>);
    sums_ = space.take<Real>(width_ * ROW<Real>);
    matrices_ = space.take<Real>(CHUNK<Real> * size_);
  }

  int64_t width() const { return width_; }
  const Real *increments() const { return increments_; }

  // Padding takes part in the arithmetic, and should be cheap numbers.
  void clear_padding() {
    for (int64_t k = dim_ * ROW<Real>; k < width_ * ROW<Real>; ++k) sums_[k] = 0;
  }

  // Lists by (input, output) over channels; increments of consecutive steps.
  void make(const Lists<Real> &lists, Rows<const Real> increments, int64_t steps) {
    switch ((steps + L - 1) / L) {
      case 2: return make<2>(lists, increments, steps);
      case 1: return make<1>(lists, increments, steps);
    }
  }

  // to += M_step x; `to` has `width` numbers.
  void multiply(int64_t step, const Real *x, Real *to) const {
    const Real *matrix = matrices_ + step * size_;
    int64_t column = 0;
    for (; column + 4 * L <= width_; column += 4 * L) columns<4>(matrix + column, x, to + column);
    switch ((width_ - column) / L) {
      case 3: return columns<3>(matrix + column, x, to + column);
      case 2: return columns<2>(matrix + column, x, to + column);
      case 1: return columns<1>(matrix + column, x, to + column);
    }
  }

 private:
  static constexpr int L = LANES<Real>;

  template <int G>
  void make(const Lists<Real> &lists, Rows<const Real> increments, int64_t steps) {
    for (int q = 0; q < G; ++q) {
      const Rows<const Real> rows{increments.first + q * L * increments.lane, increments.lane, 1};
      gather(rows, steps - q * L, channels_, increments_ + q * L, ROW<Real>);
    }
    for (int64_t input = 0; input < dim_; ++input) {
      const List *end = lists.of(input + 1);
      for (const List *list = lists.of(input); list < end; ++list) {
        store_lanes(sums_ + list->target * static_cast<int64_t>(ROW<Real>), L,
                    list_sum<G>(lists, *list, increments_, L));
      }
      for (int q = 0; q < G; ++q) {
        Real *first = matrices_ + q * L * size_ + input * width_;
        scatter(sums_ + q * L, ROW<Real>, L, width_, Rows<Real>{first, size_, 1}, false);
      }
    }
  }

  // G lane groups of the product.
  template <int G>
  void columns(const Real *matrix, const Real *x, Real *to) const {
    Lanes<G, Real> sum = load_lanes<G>(to, L);
    for (int64_t input = 0; input < dim_; ++input) {
      add_multiple(sum, x[input], matrix + input * width_, L);
    }
    store_lanes(to, L, sum);
  }

  int64_t channels_, dim_, width_, size_;
  Real *increments_, *sums_, *matrices_;
};

// Increments of a chunk's steps, row by row, and states one at a time.
template <class Real>
class ChunkOfRows {
 public:
  ChunkOfRows(Workspace &space, const slicekit_sparse &sizes)
      : n_(sizes),
        driving_{sizes},
        increments_(space.take<Real>(CHUNK<Real> * n_.channels)),
        spare_(space.take<Real>(n_.directed ? n_.dim : 0)) {}

  Rows<Real> increments() const { return {increments_, n_.channels, 1}; }

  Rows<const Real> read_increments(int64_t sequence, int64_t start, int64_t steps) const {
    for (int64_t s = 0; s < steps; ++s) {
      driving_.read(sequence, start + s, increments_ + s * n_.channels);
    }
    return {increments_, n_.channels, 1};
  }

  // From `increments`, where their gradients stand.
  void write_in_increments(int64_t sequence, int64_t start, int64_t steps, bool add) const {
    for (int64_t s = 0; s < steps; ++s) {
      driving_.write(sequence, start + s, increments_ + s * n_.channels, add);
    }
  }

  // The gradient of the state after step t, from that of its direction if it is given.
  void read_in_state(int64_t sequence, int64_t t, int64_t column, Real *to) const {
    read_state(n_.in_states, sequence, t, column, to);
    if (!n_.directed) return;
    read_state(n_.states, sequence, t, column, spare_);
    pull_direction(n_.dim, spare_, to);
  }

  // The state after step t, or its gradient as it stands.
  void read_state(const void *states, int64_t sequence, int64_t t, int64_t column, Real *to) const {
    const int64_t at = place(sequence, t);
    if (n_.columns == 1) return read_numbers(n_.half, states, at, n_.dim, to);
    const Real *from = static_cast<const Real *>(states) + at + column;
    for (int64_t r = 0; r < n_.dim; ++r) to[r] = from[r * n_.columns];
  }

  void write_state(const Real *from, int64_t sequence, int64_t t, int64_t column) const {
    const int64_t at = place(sequence, t);
    if (n_.columns > 1) {
      Real *to = static_cast<Real *>(n_.states) + at + column;
      for (int64_t r = 0; r < n_.dim; ++r) to[r * n_.columns] = from[r];
      return;
    }
    write_numbers(n_.half, from, n_.dim, n_.states, at);
    if (!n_.directed) return;
    direction_of(n_.dim, from, spare_);
    write_numbers(n_.half, spare_, n_.dim, n_.directions, at);
  }

 private:
  int64_t place(int64_t sequence, int64_t t) const {
    return (sequence * n_.length + t) * n_.dim * n_.columns;
  }

  const slicekit_sparse &n_;
  Driving<slicekit_sparse> driving_;
  Real *increments_, *spare_;
};

template <class Real>
class NarrowForward {
 public:
  NarrowForward(Workspace &space, const slicekit_sparse &sizes)
      : n_(sizes), matrices_(space, n_.channels, n_.dim), rows_(space, sizes) {
    state_ = space.take<Real>(matrices_.width());
    next_ = space.take<Real>(matrices_.width());
  }

  // Lists by (column, row) over channels.
  void run(const Arrays<Real> &arrays, const Lists<Real> &lists, int64_t sequence,
           int64_t column) {
    const Field states{n_.length, n_.dim, n_.columns}, state{1, n_.dim, n_.columns};
    matrices_.clear_padding();
    for (int64_t r = 0; r < matrices_.width(); ++r) state_[r] = 0;
    copy(state.at(arrays.state, sequence, 0, column), n_.columns, state_, 1);
    for (int64_t t = 0; t < n_.length; ++t) {
      if (t % CHUNK<Real> == 0) {
        const int64_t steps = least<int64_t>(CHUNK<Real>, n_.length - t);
        matrices_.make(lists, rows_.read_increments(sequence, t, steps), steps);
      }
      if (n_.rescale && t % n_.rescale == 0) arrays.factor(n_, sequence, t, column) = divide(t);
      for (int64_t r = 0; r < matrices_.width(); ++r) next_[r] = state_[r];
      if (arrays.inputs) {
        const Real *input = states.at(arrays.inputs, sequence, t, column);
        for (int64_t r = 0; r < n_.dim; ++r) next_[r] += input[r * n_.columns];
      }
      matrices_.multiply(t % CHUNK<Real>, state_, next_);
      rows_.write_state(next_, sequence, t, column);
      Real *before = state_;
      state_ = next_;
      next_ = before;
    }
    copy(state_, 1, state.at(arrays.last, sequence, 0, column), n_.columns);
  }

 private:
  void copy(const Real *from, ptrdiff_t from_step, Real *to, ptrdiff_t to_step) const {
    for (int64_t r = 0; r < n_.dim; ++r) to[r * to_step] = from[r * from_step];
  }

  // Divides the state by the power of two below its largest modulus, and returns that.
  Real divide(int64_t t) {
    if (t == 0) return 1;
    Real largest = 0;
    for (int64_t r = 0; r < n_.dim; ++r) {
      largest = most(largest, state_[r] < 0 ? -state_[r] : state_[r]);
    }
    const Real factor = power_of_two(largest);
    for (int64_t r = 0; r < n_.dim; ++r) state_[r] /= factor;
    return factor;
  }

  const slicekit_sparse &n_;
  Matrices<Real> matrices_;
  ChunkOfRows<Real> rows_;
  Real *state_, *next_;
};

template <class Real>
class NarrowBackward {
 public:
  NarrowBackward(Workspace &space, const slicekit_sparse &sizes)
      : n_(sizes), matrices_(space, n_.channels, n_.dim), rows_(space, sizes) {
    const int64_t width = matrices_.width();
    carry_ = space.take<Real>(width);
    own_ = space.take<Real>(width);
    adjoints_ = space.take<Real>(CHUNK<Real> * width);
    befores_ = space.take<Real>(CHUNK<Real> * width);
    adjoint_lanes_ = space.take<Real>(n_.dim * ROW<Real>);
    before_lanes_ = space.take<Real>(n_.dim * ROW<Real>);
    in_increments_ = space.take<Real>(n_.channels * ROW<Real>);
  }

  // by_row: lists by (channel, row) over columns; elements: by (row, column) over channels.
  void run(const Arrays<Real> &arrays, const Lists<Real> &by_row,
           const Lists<Real> &elements, int64_t sequence, int64_t column, Real *in_values) {
    const Field state{1, n_.dim, n_.columns};
    matrices_.clear_padding();
    for (int64_t r = 0; r < matrices_.width(); ++r) carry_[r] = 0;
    const Real *in_last = state.at(arrays.in_last, sequence, 0, column);
    for (int64_t r = 0; r < n_.dim; ++r) carry_[r] = in_last[r * n_.columns];
    for (int64_t start = (n_.length - 1) / CHUNK<Real> * CHUNK<Real>; start >= 0 && n_.length;
         start -= CHUNK<Real>) {
      const int64_t steps = least<int64_t>(CHUNK<Real>, n_.length - start);
      matrices_.make(elements, rows_.read_increments(sequence, start, steps), steps);
      for (int64_t s = steps - 1; s >= 0; --s) step(arrays, sequence, column, start + s, s);
      switch ((steps + L - 1) / L) {
        case 2: pull<2>(by_row, steps, in_values); break;
        case 1: pull<1>(by_row, steps, in_values); break;
      }
      rows_.write_in_increments(sequence, start, steps, column > 0);
    }
    Real *in_state = state.at(arrays.in_state, sequence, 0, column);
    for (int64_t r = 0; r < n_.dim; ++r) in_state[r * n_.columns] = carry_[r];
  }

 private:
  static constexpr int L = LANES<Real>;

  // Step t, number s of its chunk: keeps the state before it and the adjoint after it.
  void step(const Arrays<Real> &arrays, int64_t sequence, int64_t column, int64_t t,
            int64_t s) {
    const Field states{n_.length, n_.dim, n_.columns}, state{1, n_.dim, n_.columns};
    const bool divided = divides_before(t, n_.rescale);
    const Real factor = divided ? arrays.factor(n_, sequence, t, column) : Real(1);
    Real *kept = befores_ + s * matrices_.width(), *adjoint = adjoints_ + s * matrices_.width();
    if (t) {
      rows_.read_state(n_.states, sequence, t - 1, column, kept);
    } else {
      const Real *start = state.at(arrays.state, sequence, 0, column);
      for (int64_t r = 0; r < n_.dim; ++r) kept[r] = start[r * n_.columns];
    }
    rows_.read_in_state(sequence, t, column, own_);
    for (int64_t r = 0; r < n_.dim; ++r) {
      kept[r] /= factor;
      adjoint[r] = carry_[r] += own_[r];
    }
    if (arrays.in_inputs) {
      Real *in_input = states.at(arrays.in_inputs, sequence, t, column);
      for (int64_t r = 0; r < n_.dim; ++r) in_input[r * n_.columns] = adjoint[r];
    }
    matrices_.multiply(s, adjoint, carry_);
    if (divided) {
      for (int64_t r = 0; r < n_.dim; ++r) carry_[r] = without_tiny(carry_[r] / factor);
    }
  }

  // A chunk's gradients of increments and values.
  template <int G>
  void pull(const Lists<Real> &by_row, int64_t steps, Real *in_values) {
    const Rows<Real> in_increments = rows_.increments();
    for (int q = 0; q < G; ++q) {
      const int64_t lanes = steps - q * L, row = q * L * matrices_.width();
      gather(Rows<const Real>{adjoints_ + row, matrices_.width(), 1}, lanes, n_.dim,
             adjoint_lanes_ + q * L, ROW<Real>);
      gather(Rows<const Real>{befores_ + row, matrices_.width(), 1}, lanes, n_.dim,
             before_lanes_ + q * L, ROW<Real>);
    }
    add_in_values<G>(n_.channels, by_row, matrices_.increments(), adjoint_lanes_, before_lanes_,
                     in_values);
    for (int64_t i = 0; i < n_.channels; ++i) {
      Lanes<G, Real> in_increment{};
      const List *end = by_row.of(i + 1);
      for (const List *list = by_row.of(i); list < end && list->count; ++list) {
        const Real *adjoint = adjoint_lanes_ + list->target * static_cast<int64_t>(ROW<Real>);
        add_product(in_increment, load_lanes<G>(adjoint, L),
                    list_sum<G>(by_row, *list, before_lanes_, L));
      }
      store_lanes(in_increments_ + i * ROW<Real>, L, in_increment);
    }
    for (int q = 0; q < G; ++q) {
      const Rows<Real> to{in_increments.first + q * L * in_increments.lane, in_increments.lane, 1};
      scatter(in_increments_ + q * L, ROW<Real>, steps - q * L, n_.channels, to, false);
    }
  }

  const slicekit_sparse &n_;
  Matrices<Real> matrices_;
  ChunkOfRows<Real> rows_;
  Real *carry_, *own_, *adjoints_, *befores_, *adjoint_lanes_, *before_lanes_, *in_increments_;
};

}  // namespace sparse
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
