// Recurrences with given transitions over a batch: what runs on which thread.
//
// Sequences are independent. Where there are fewer of them than threads, so are their columns, but
// for the gradients that are sums over columns: each piece of columns has its own, added up at the
// end in the order of the pieces.
#include "given_passes.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace given {

namespace {

// Bytes of states that the backward pass makes again at a time: half of a usual L2 cache.
constexpr int64_t CHUNK_BYTES = 1 << 18;
constexpr int64_t SHORTEST_CHUNK = 8, LONGEST_CHUNK = 128;

// Pieces of columns for each sequence, and the threads that share them.
struct Plan {
  int64_t width, pieces, threads;

  template <class Number>
  Plan(const Recurrence<Number> &r, int64_t most_threads) {
    const int64_t wanted = most<int64_t>(1, most_threads / most<int64_t>(1, r.batch));
    width = round_up((r.columns + wanted - 1) / wanted, LANES<RealOf<Number>>);
    pieces = (r.columns + width - 1) / width;
    threads = least(most_threads, most<int64_t>(1, r.batch * pieces));
  }

  template <class Number>
  Recurrence<Number> item(const Recurrence<Number> &r, int64_t number) const {
    const int64_t first = number % pieces * width;
    return r.slice(number / pieces, first, least(width, r.columns - first));
  }
};

// The gradients that are sums over columns, with their sizes: body(gradient, size).
template <class Number, class Body>
void for_sums(Recurrence<Number> &r, Body body) {
  const int64_t rows = r.batch * r.length * r.dim;
  if (r.diagonal) body(r.in_diagonal, rows);
  if (r.blocks) body(r.in_blocks, rows * r.block);
  if (r.left) body(r.in_left, rows * r.rank);
  if (r.right) body(r.in_right, rows * r.rank);
  if (r.input_left) body(r.in_input_left, rows);
  if (r.readout) body(r.in_readout, rows);
}

// The pieces' own sums: those of the first piece are the results, others are in the work space.
template <class Number>
class PieceSums {
 public:
  PieceSums(Workspace &work, const Recurrence<Number> &r, const Plan &plan)
      : whole_(r), pieces_(plan.pieces), count_(0) {
    for_sums(whole_, [&](Number *, int64_t size) { count_ += size; });
    others_ = work.take<Number>((pieces_ - 1) * count_);
  }

  // The whole recurrence, with the sums of one piece.
  Recurrence<Number> of_piece(int64_t piece) const {
    Recurrence<Number> r = whole_;
    if (!piece) return r;
    Number *next = others_ + (piece - 1) * count_;
    for_sums(r, [&](Number *&gradient, int64_t size) {
      gradient = next;
      next += size;
    });
    return r;
  }

  void add_up(int64_t threads) {
    int64_t offset = 0;
    for_sums(whole_, [&](Number *gradient, int64_t size) {
      add_others(gradient, others_ + offset, size, threads);
      offset += size;
    });
  }

 private:
  void add_others(Number *gradient, const Number *others, int64_t size, int64_t threads) const {
    each_of(size, threads, [&](int64_t i, int64_t) {
      for (int64_t piece = 1; piece < pieces_; ++piece) {
        gradient[i] += others[(piece - 1) * count_ + i];
      }
    });
  }

  Recurrence<Number> whole_;
  int64_t pieces_, count_;
  Number *others_;
};

template <class Number>
int64_t panel_bytes(const Recurrence<Number> &r, bool backward) {
  Workspace measure(nullptr);
  Panels<Number>(measure, r, backward);
  return round_up(measure.needed(), 64);
}

template <class Number>
int64_t measure(const slicekit_given &task, bool backward) {
  const Recurrence<Number> r(task);
  const Plan plan(r, task.threads);
  Workspace work(nullptr);
  if (backward) PieceSums<Number>(work, r, plan);
  work.take<char>(plan.threads * panel_bytes(r, backward));
  return work.needed();
}

template <class Kind, class State, class Number>
void forward_all(const slicekit_given &task) {
  const Recurrence<Number> r(task);
  const Plan plan(r, task.threads);
  const int64_t bytes = panel_bytes(r, false);
  Workspace work(task.work);
  char *panels = work.take<char>(plan.threads * bytes);
  each_of(r.batch * plan.pieces, plan.threads, [&](int64_t number, int64_t worker) {
    Workspace own(panels + worker * bytes);
    const Panels<Number> mine(own, r, false);
    const Recurrence<Number> part = plan.item(r, number);
    Passes<Kind, Number, State>{part, State{part.columns, part.row}, mine}.forward();
  });
}

template <class Kind, class State, class Number>
void backward_all(const slicekit_given &task) {
  const Recurrence<Number> r(task);
  const Plan plan(r, task.threads);
  const int64_t bytes = panel_bytes(r, true);
  Workspace work(task.work);
  PieceSums<Number> sums(work, r, plan);
  char *panels = work.take<char>(plan.threads * bytes);
  each_of(r.batch * plan.pieces, plan.threads, [&](int64_t number, int64_t worker) {
    Workspace own(panels + worker * bytes);
    const Panels<Number> mine(own, r, true);
    const Recurrence<Number> part = plan.item(sums.of_piece(number % plan.pieces), number);
    Passes<Kind, Number, State>{part, State{part.columns, part.row}, mine}.backward();
  });
  if (plan.pieces > 1) sums.add_up(plan.threads);
}

// body(number, kind) with what the task is about; the arguments are only there for their types.
template <class Body>
void with_types(const slicekit_given &task, Body body) {
  if (task.complex) {
    if (task.real == 4) return body(Complex<float>{}, Diagonal{});
    return body(Complex<double>{}, Diagonal{});
  }
  auto with_kind = [&](auto number) {
    if (task.kind == SLICEKIT_DIAGONAL) return body(number, Diagonal{});
    if (task.kind == SLICEKIT_BLOCKS) return body(number, Blocks{});
    return body(number, LowRank{});
  };
  if (task.real == 4) return with_kind(float{});
  return with_kind(double{});
}

}  // namespace

int64_t chunk(int64_t state_bytes) {
  return most(SHORTEST_CHUNK, least(LONGEST_CHUNK, CHUNK_BYTES / state_bytes));
}

int64_t forward_work(const slicekit_given &task) {
  int64_t bytes = 0;
  with_types(task, [&](auto number, auto) { bytes = measure<decltype(number)>(task, false); });
  return bytes;
}

int64_t backward_work(const slicekit_given &task) {
  int64_t bytes = 0;
  with_types(task, [&](auto number, auto) { bytes = measure<decltype(number)>(task, true); });
  return bytes;
}

void forward(const slicekit_given &task) {
  with_types(task, [&](auto number, auto kind) {
    using Number = decltype(number);
    using Kind = decltype(kind);
    if (task.columns == 1) return forward_all<Kind, VectorState<Number>, Number>(task);
    forward_all<Kind, MatrixState<Number>, Number>(task);
  });
}

void backward(const slicekit_given &task) {
  with_types(task, [&](auto number, auto kind) {
    using Number = decltype(number);
    using Kind = decltype(kind);
    if (task.columns == 1) return backward_all<Kind, VectorState<Number>, Number>(task);
    backward_all<Kind, MatrixState<Number>, Number>(task);
  });
}

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
