// The recurrence by a table of dense matrices: parts of the batch for the threads, step by step.
//
// Forwards the states before a step are sorted by token, so that every matrix multiplies those that
// take it as one thin product. Backwards so are the adjoints of a whole window of steps, and the
// gradient of a matrix is then one product over all steps of the window that took it. Where states are
// in half precision in memory, forwards they go on as they were before they were rounded.
#include "directions.hpp"
#include "halves.hpp"
#include "product.hpp"
#include "scales.hpp"
#include "table_order.hpp"
#include "table_rows.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace table {

// Numbers of the adjoints of a window, which are kept until its gradients are taken.
constexpr int64_t WINDOW_BYTES = 4 << 20;

inline int64_t part_count(const slicekit_table &n) { return most<int64_t>(1, least(n.threads, n.batch)); }

inline int64_t most_sequences(const slicekit_table &n) {
  return (n.batch + part_count(n) - 1) / part_count(n);
}

template <class Real>
int64_t window_steps(const slicekit_table &n) {
  const int64_t step = n.batch * n.columns * round_up(n.dim, LANES<Real>) * int64_t(sizeof(Real));
  return most<int64_t>(1, least(n.length, WINDOW_BYTES / most<int64_t>(step, 1)));
}

inline Share share_of(const slicekit_table &n, int64_t part) {
  const int64_t parts = part_count(n), first = n.batch * part / parts;
  return {first, n.batch * (part + 1) / parts - first, n.length, n.vocabulary, n.index};
}

// A few rows times all lane groups, each matrix read once where the rows fill one tile.
template <int GROUPS, int HEIGHT, class Real>
SLICEKIT_INLINE void last_rows(const Product<Real> &p, int64_t r) {
  if constexpr (HEIGHT > 0) {
    if (p.rows - r == HEIGHT) return tile<HEIGHT, GROUPS, true>(p, r);
    last_rows<GROUPS, HEIGHT - 1>(p, r);
  }
}

template <int GROUPS, class Real>
SLICEKIT_NOINLINE void multiply_few_groups(const Product<Real> &p) {
  int64_t r = 0;
  for (; r + TILE <= p.rows; r += TILE) tile<TILE, GROUPS, true>(p, r);
  last_rows<GROUPS, TILE - 1>(p, r);
}

template <class Real>
inline void multiply_few(int64_t groups, const Product<Real> &p) {
  each_tile_of_groups(groups, [&](auto count, int64_t g) {
    multiply_few_groups<decltype(count)::value>(p.from_group(g));
  });
}

// to += from · matrix for some rows (rows, padded); the matrix's lane groups are `group` apart, and its
// rows `inner`. The next matrix, `soon` after this one, is asked for on the way.
template <class Real>
inline void apply(const Shape<Real> &shape, const Real *matrix, ptrdiff_t group, ptrdiff_t inner,
                  int64_t rows, const Real *from, Real *to, ptrdiff_t soon) {
  multiply_few<Real>(shape.groups(), {rows, 1, shape.dim, from, 0, shape.padded, 1, matrix, group, to,
                                      shape.padded, LANES<Real>, true, nullptr, inner, soon});
}

// Steps from one state to the next are far apart in memory, so that nobody but us can ask for it ahead.
constexpr int64_t AHEAD = 8;

// Calls f(i, place) for the numbers of one vector of a state (dim, columns).
template <class F>
SLICEKIT_INLINE void each_number(int64_t first, int64_t stop, int64_t columns, F f) {
  if (columns == 1) {
    for (int64_t i = first; i < stop; ++i) f(i, i);
  } else {
    for (int64_t i = first; i < stop; ++i) f(i, i * columns);
  }
}

template <class Real>
SLICEKIT_INLINE void read(const Real *from, int64_t dim, int64_t columns, Real *to) {
  each_number(0, dim, columns, [&](int64_t i, int64_t place) { to[i] = from[place]; });
}

template <class Real>
SLICEKIT_INLINE void write(const Real *from, int64_t dim, int64_t columns, Real *to) {
  each_number(0, dim, columns, [&](int64_t i, int64_t place) { to[place] = from[i]; });
}

template <class Real>
struct Arrays {
  explicit Arrays(const slicekit_table &problem)
      : n(problem),
        shape(problem.dim),
        state(static_cast<const Real *>(problem.state)),
        inputs(static_cast<const Real *>(problem.inputs)),
        last(static_cast<Real *>(problem.last)),
        factors(static_cast<Real *>(problem.factors)),
        in_last(static_cast<const Real *>(problem.in_last)),
        in_state(static_cast<Real *>(problem.in_state)),
        in_inputs(static_cast<Real *>(problem.in_inputs)) {}

  int64_t first(int64_t b, int64_t c) const { return b * n.dim * n.columns + c; }
  int64_t at(int64_t b, int64_t t, int64_t c) const { return first(b * n.length + t, c); }

  // One vector of the state after step t, or of its gradient, in an array of all states.
  SLICEKIT_INLINE void read_state(const void *states, int64_t b, int64_t t, int64_t c, Real *to) const {
    if (n.half) return widen(static_cast<const Half *>(states) + at(b, t, c), n.dim, to);
    read(static_cast<const Real *>(states) + at(b, t, c), n.dim, n.columns, to);
  }
  // `direction` is room for one.
  SLICEKIT_INLINE void write_state(const Real *from, int64_t b, int64_t t, int64_t c,
                                   Real *direction) const {
    if (n.columns > 1) return write(from, n.dim, n.columns, static_cast<Real *>(n.states) + at(b, t, c));
    write_numbers(n.half, from, n.dim, n.states, at(b, t, 0));
    if (!n.directed) return;
    direction_of(n.dim, from, direction);
    write_numbers(n.half, direction, n.dim, n.directions, at(b, t, 0));
  }
  SLICEKIT_INLINE void read_before(int64_t b, int64_t t, int64_t c, Real *to) const {
    if (t) return read_state(n.states, b, t - 1, c, to);
    read(state + first(b, c), n.dim, n.columns, to);
  }

  SLICEKIT_INLINE void ask_for_state(const void *states, int64_t b, int64_t t) const {
    if (t < 0) return;
    if (n.half) return ask_for(static_cast<const Half *>(states) + at(b, t, 0), n.dim);
    ask_for(static_cast<const Real *>(states) + at(b, t, 0), n.dim * n.columns);
  }

  Real &factor(int64_t b, int64_t t, int64_t c) const {
    return factors[(b * windows_of(n.length, n.rescale) + t / n.rescale) * n.columns + c];
  }

  const slicekit_table &n;
  Shape<Real> shape;
  const Real *state, *inputs;
  Real *last, *factors;
  const Real *in_last;
  Real *in_state, *in_inputs;
};

template <class Real>
class Forward {
 public:
  Forward(Workspace &space, const slicekit_table &n)
      : order_(space, most_sequences(n), 1, n.vocabulary) {
    const int64_t numbers = most_sequences(n) * n.columns * round_up(n.dim, LANES<Real>);
    before_ = space.take<Real>(numbers);
    after_ = space.take<Real>(numbers);
    carried_ = space.take<Real>(n.half ? numbers : 0);
    direction_ = space.take<Real>(n.directed ? n.dim : 0);
  }

  void run(const Arrays<Real> &arrays, const Share &share, const Real *panels) {
    for (int64_t t = 0; t < arrays.n.length; ++t) {
      order_.sort(share, t, t + 1);
      each_row(arrays, share, t, [&](int64_t b, int64_t c, int64_t row) {
        start(arrays, share, b, t, c, row);
      });
      order_.each_matrix(t, [&](int64_t v, int64_t slot, int64_t count, int64_t next) {
        const int64_t at = slot * arrays.n.columns * arrays.shape.padded, numbers = arrays.shape.numbers();
        apply(arrays.shape, panels + v * numbers, arrays.shape.panel(), LANES<Real>,
              count * arrays.n.columns, before_ + at, after_ + at, (next - v) * numbers);
      });
      each_row(arrays, share, t, [&](int64_t b, int64_t c, int64_t row) {
        arrays.write_state(after_ + row, b, t, c, direction_);
        if (arrays.n.half) read(after_ + row, arrays.n.dim, 1, carried(arrays, share, b));
      });
    }
    for (int64_t b = share.first; arrays.last && b < share.first + share.sequences; ++b) {
      write_last(arrays, share, b);
    }
  }

 private:
  template <class F>
  void each_row(const Arrays<Real> &arrays, const Share &share, int64_t t, F f) {
    const int64_t columns = arrays.n.columns;
    for (int64_t b = 0; b < share.sequences; ++b) {
      const int64_t slot = order_.slot(b, t);
      for (int64_t c = 0; c < columns; ++c) {
        f(share.first + b, c, (slot * columns + c) * arrays.shape.padded);
      }
    }
  }

  // The last state of a sequence before it was rounded.
  Real *carried(const Arrays<Real> &arrays, const Share &share, int64_t b) const {
    return carried_ + (b - share.first) * arrays.shape.padded;
  }

  void write_last(const Arrays<Real> &arrays, const Share &share, int64_t b) const {
    const slicekit_table &n = arrays.n;
    const Real *from = n.half ? carried(arrays, share, b)
                              : static_cast<const Real *>(n.states) + arrays.at(b, n.length - 1, 0);
    read(from, n.dim * n.columns, 1, arrays.last + arrays.first(b, 0));
  }

  // before = the state, divided if it is time; after = it, plus the input.
  void start(const Arrays<Real> &arrays, const Share &share, int64_t b, int64_t t, int64_t c,
             int64_t row) {
    const slicekit_table &n = arrays.n;
    Real *before = before_ + row, *after = after_ + row;
    if (c == 0) arrays.ask_for_state(n.states, b, t);
    if (n.half && t) {
      read(carried(arrays, share, b), n.dim, 1, before);
    } else {
      arrays.read_before(b, t, c, before);
    }
    if (n.rescale && t % n.rescale == 0) arrays.factor(b, t, c) = t ? divided(before, n.dim) : Real(1);
    for (int64_t i = 0; i < n.dim; ++i) after[i] = before[i];
    if (arrays.inputs) {
      const Real *u = arrays.inputs + arrays.at(b, t, c);
      each_number(0, n.dim, n.columns, [&](int64_t i, int64_t place) { after[i] += u[place]; });
    }
    for (int64_t i = n.dim; i < arrays.shape.padded; ++i) after[i] = 0;
  }

  static Real divided(Real *x, int64_t dim) {
    Real largest = 0;
    for (int64_t i = 0; i < dim; ++i) largest = most(largest, x[i] < 0 ? -x[i] : x[i]);
    const Real factor = power_of_two(largest);
    for (int64_t i = 0; i < dim; ++i) x[i] /= factor;
    return factor;
  }

  Order order_;
  Real *before_, *after_, *carried_, *direction_;
};

template <class Real>
class Backward {
 public:
  Backward(Workspace &space, const slicekit_table &n)
      : order_(space, most_sequences(n), window_steps<Real>(n), n.vocabulary),
        shifts_(space.take<int64_t>(n.vocabulary)) {
    const int64_t step = most_sequences(n) * n.columns * round_up(n.dim, LANES<Real>);
    carry_ = space.take<Real>(step);
    moved_ = space.take<Real>(step);
    adjoints_ = space.take<Real>(step * window_steps<Real>(n));
    before_ = space.take<Real>(step * window_steps<Real>(n));
    state_ = space.take<Real>(n.directed ? n.dim : 0);
  }

  void open(const Arrays<Real> &arrays, const Share &share) {
    const slicekit_table &n = arrays.n;
    for (int64_t b = 0; b < share.sequences; ++b) {
      for (int64_t c = 0; c < n.columns; ++c) {
        read(arrays.in_last + arrays.first(share.first + b, c), n.dim, n.columns, carry(arrays, b, c));
      }
    }
  }

  void run(const Arrays<Real> &arrays, const Share &share, const Real *matrices, int64_t start,
           int64_t stop) {
    order_.sort(share, start, stop);
    for (int64_t t = stop - 1; t >= start; --t) step(arrays, share, matrices, t);
  }

  void close(const Arrays<Real> &arrays, const Share &share) {
    const slicekit_table &n = arrays.n;
    for (int64_t b = 0; b < share.sequences; ++b) {
      for (int64_t c = 0; c < n.columns; ++c) {
        write(carry(arrays, b, c), n.dim, n.columns, arrays.in_state + arrays.first(share.first + b, c));
      }
    }
  }

  // to (+)= Σ g h^T over the window's steps that took matrix v.
  void pull(const Arrays<Real> &arrays, int64_t v, Real *to, bool add) const {
    constexpr int64_t N = LANES<Real>;
    const Shape<Real> &shape = arrays.shape;
    const int64_t rows = order_.count(v) * arrays.n.columns;
    const int64_t at = order_.begin(v) * arrays.n.columns * shape.padded;
    multiply<Real>(shape.groups(), {shape.dim, 1, rows, adjoints_ + at, 0, 1, shape.padded, before_ + at, N,
                                    to, shape.padded, N, add, nullptr, shape.padded});
  }

 private:
  Real *carry(const Arrays<Real> &arrays, int64_t b, int64_t c) const {
    return carry_ + (b * arrays.n.columns + c) * arrays.shape.padded;
  }

  void step(const Arrays<Real> &arrays, const Share &share, const Real *matrices, int64_t t) {
    const slicekit_table &n = arrays.n;
    const int64_t padded = arrays.shape.padded;
    for (int64_t b = 0; b < share.sequences; ++b) {
      const int64_t row = order_.slot(b, t) * n.columns;
      if (b + AHEAD < share.sequences) {
        const int64_t next = share.first + b + AHEAD;
        arrays.ask_for_state(n.in_states, next, t);
        arrays.ask_for_state(n.states, next, t - 1);
      }
      for (int64_t c = 0; c < n.columns; ++c) {
        gather_adjoint(arrays, share.first + b, t, c, carry(arrays, b, c), adjoints_ + (row + c) * padded);
        gather_before(arrays, share.first + b, t, c, before_ + (row + c) * padded);
      }
    }
    int64_t done = 0;
    order_.each_matrix(t, [&](int64_t v, int64_t slot, int64_t count, int64_t next) {
      const int64_t rows = count * n.columns;
      const Real *from = adjoints_ + slot * n.columns * padded;
      Real *to = moved_ + done * n.columns * padded;
      for (int64_t i = 0; i < rows * padded; ++i) to[i] = from[i];
      apply(arrays.shape, matrices + v * arrays.shape.numbers(), LANES<Real>, padded, rows, from, to,
            (next - v) * arrays.shape.numbers());
      shifts_[v] = done - slot;
      done += count;
    });
    for (int64_t b = 0; b < share.sequences; ++b) {
      const int64_t row = order_.slot(b, t) + shifts_[share.token(b, t)];
      for (int64_t c = 0; c < n.columns; ++c) {
        return_carry(arrays, share.first + b, t, c, moved_ + (row * n.columns + c) * padded,
                     carry(arrays, b, c));
      }
    }
  }

  // g = the state's own gradient, and what later steps pass back.
  void gather_adjoint(const Arrays<Real> &arrays, int64_t b, int64_t t, int64_t c, const Real *carried,
                      Real *to) {
    const slicekit_table &n = arrays.n;
    arrays.read_state(n.in_states, b, t, c, to);
    if (n.directed) {
      arrays.read_state(n.states, b, t, c, state_);
      pull_direction(n.dim, state_, to);
    }
    for (int64_t i = 0; i < n.dim; ++i) to[i] += carried[i];
    for (int64_t i = n.dim; i < arrays.shape.padded; ++i) to[i] = 0;
    if (arrays.in_inputs) write(to, n.dim, n.columns, arrays.in_inputs + arrays.at(b, t, c));
  }

  // The state before the step, divided as it was.
  void gather_before(const Arrays<Real> &arrays, int64_t b, int64_t t, int64_t c, Real *to) {
    const slicekit_table &n = arrays.n;
    arrays.read_before(b, t, c, to);
    for (int64_t i = n.dim; i < arrays.shape.padded; ++i) to[i] = 0;
    if (!divides_before(t, n.rescale)) return;
    const Real factor = arrays.factor(b, t, c);
    for (int64_t i = 0; i < n.dim; ++i) to[i] /= factor;
  }

  // What a step passes back to the one before, divided as the state was.
  void return_carry(const Arrays<Real> &arrays, int64_t b, int64_t t, int64_t c, const Real *from,
                    Real *to) {
    const int64_t dim = arrays.n.dim;
    if (!divides_before(t, arrays.n.rescale)) {
      for (int64_t i = 0; i < dim; ++i) to[i] = from[i];
      return;
    }
    const Real factor = arrays.factor(b, t, c);
    for (int64_t i = 0; i < dim; ++i) to[i] = without_tiny(from[i] / factor);
  }

  Order order_;
  int64_t *shifts_;  // of every matrix, from its slots in the window to its rows among the moved
  Real *carry_, *moved_, *adjoints_, *before_, *state_;
};

// Copies of `tables` tables of matrices, then a piece of work space for each part, as large as Pass takes.
template <class Real, class Pass>
struct Space {
  Space(Workspace &space, const slicekit_table &n, int64_t tables) : n(n) {
    copies = space.take<Real>(tables * n.vocabulary * Shape<Real>(n.dim).numbers());
    Workspace one(nullptr);
    Pass(one, n);
    bytes = one.needed();
    memory = space.take<char>(part_count(n) * bytes);
  }

  Pass of(int64_t part) const {
    Workspace own(memory + part * bytes);
    return Pass(own, n);
  }

  const slicekit_table &n;
  Real *copies;
  int64_t bytes;
  char *memory;
};

template <class Real>
using ForwardSpace = Space<Real, Forward<Real>>;

template <class Real>
using BackwardSpace = Space<Real, Backward<Real>>;

// Of matrices and gradients, unless lane groups divide a row: both are used where they stand then.
template <class Real>
int64_t tables_back(const slicekit_table &n) {
  return Shape<Real>(n.dim).fills() ? 0 : 2;
}

template <class Real>
int64_t workspace(const slicekit_table &n, bool backward) {
  Workspace space(nullptr);
  backward ? (void)BackwardSpace<Real>(space, n, tables_back<Real>(n)) : (void)ForwardSpace<Real>(space, n, 1);
  return space.needed();
}

template <class Real>
void forward(const slicekit_table &n) {
  const Arrays<Real> arrays(n);
  const Real *matrices = static_cast<const Real *>(n.matrices);
  Workspace memory(n.workspace);
  const ForwardSpace<Real> space(memory, n, 1);
  const int64_t parts = part_count(n);
  each_of(n.vocabulary, parts, [&](int64_t v, int64_t) {
    pack_panels(arrays.shape, matrices + v * n.dim * n.dim, space.copies + v * arrays.shape.numbers());
  });
  each_part(parts, parts, [&](int64_t part, int64_t) {
    Forward<Real> pass = space.of(part);
    pass.run(arrays, share_of(n, part), space.copies);
  });
}

template <class Real>
void backward(const slicekit_table &n) {
  const Arrays<Real> arrays(n);
  const Real *matrices = static_cast<const Real *>(n.matrices);
  Real *in_matrices = static_cast<Real *>(n.in_matrices);
  Workspace memory(n.workspace);
  const BackwardSpace<Real> space(memory, n, tables_back<Real>(n));
  const int64_t parts = part_count(n), numbers = arrays.shape.numbers(), steps = window_steps<Real>(n);
  const bool copied = !arrays.shape.fills();
  const Real *table = copied ? space.copies : matrices;
  Real *gradients = copied ? space.copies + n.vocabulary * numbers : in_matrices;
  if (copied) {
    each_of(n.vocabulary, parts, [&](int64_t v, int64_t) {
      pack(arrays.shape, matrices + v * n.dim * n.dim, space.copies + v * numbers);
    });
  }
  for (int64_t stop = n.length; stop > 0; stop -= steps) {
    const int64_t start = most<int64_t>(0, stop - steps);
    each_part(parts, parts, [&](int64_t part, int64_t) {
      Backward<Real> pass = space.of(part);
      const Share share = share_of(n, part);
      if (stop == n.length) pass.open(arrays, share);
      pass.run(arrays, share, table, start, stop);
      if (start == 0) pass.close(arrays, share);
    });
    each_of(n.vocabulary, parts, [&](int64_t v, int64_t) {
      for (int64_t part = 0; part < parts; ++part) {
        space.of(part).pull(arrays, v, gradients + v * numbers, part > 0 || stop < n.length);
      }
    });
  }
  if (copied) {
    each_of(n.vocabulary, parts, [&](int64_t v, int64_t) {
      unpack(arrays.shape, gradients + v * numbers, in_matrices + v * n.dim * n.dim);
    });
  }
}

}  // namespace table

int64_t table_workspace(const slicekit_table &problem, bool backward) {
  return problem.real == 4 ? table::workspace<float>(problem, backward)
                           : table::workspace<double>(problem, backward);
}

void table_forward(const slicekit_table &problem) {
  problem.real == 4 ? table::forward<float>(problem) : table::forward<double>(problem);
}

void table_backward(const slicekit_table &problem) {
  problem.real == 4 ? table::backward<float>(problem) : table::backward<double>(problem);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
