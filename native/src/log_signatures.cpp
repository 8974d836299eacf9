// Log-signatures of windows. Short windows go side by side, one in each lane. A long one is cut
// into pieces, one in each lane, and the pieces are put together by Chen's relation in double.
#include "log_signatures_buffers.hpp"
#include "log_signatures_lanes.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace log_signatures {
namespace {

// What one thread does.
template <class Real>
class Worker {
  using V = Vector<Real>;
  static constexpr int W = WIDTH<Real>;

 public:
  Worker(const Sizes &sizes, const Algebra &algebra, const int64_t *edges, const Real *increments,
         Workspace space)
      : sizes_(sizes),
        algebra_(algebra),
        edges_(edges),
        increments_(increments),
        buffers_(algebra, space) {}

  // The windows of one task, of which `first` is the first.
  void forward(int64_t first, Real *coefficients) const {
    if (!short_windows(first)) {
      for (int64_t w = first; w < end(first); ++w) forward_long(window(w), coefficients + at(w));
      return;
    }
    Interval lanes[W];
    const int64_t count = side_by_side(first, lanes);
    read_increments(lanes, count);
    ask_for_next(lanes, count);
    advance(count, true);
    log_terms(algebra_, buffers_.state, buffers_.y);
    log_on_words(algebra_, buffers_.state, buffers_.y, buffers_.logs);
    change_basis(algebra_, buffers_.logs, buffers_.coefficients);
    Row<Real> rows[W];
    for (int64_t w = first; w < end(first); ++w) {
      rows[w - first] = {coefficients + at(w), algebra_.size};
    }
    from_lanes(buffers_.coefficients, algebra_.size, rows);
  }

  void pullback(int64_t first, const Real *in_coefficients, Real *in_increments) const {
    if (!short_windows(first)) {
      for (int64_t w = first; w < end(first); ++w) {
        pullback_long(window(w), in_coefficients + at(w), in_increments);
      }
      return;
    }
    Interval lanes[W];
    const int64_t count = side_by_side(first, lanes);
    read_increments(lanes, count);
    ask_for_next(lanes, count);
    const V *last = keep_states(count);
    log_terms(algebra_, last, buffers_.y);
    Row<const Real> rows[W];
    for (int64_t w = first; w < end(first); ++w) {
      rows[w - first] = {in_coefficients + at(w), algebra_.size};
    }
    to_lanes(rows, algebra_.size, buffers_.coefficients);
    change_basis_pullback(algebra_, buffers_.coefficients, buffers_.logs);
    log_pullback(algebra_, last, buffers_.y, buffers_.logs, buffers_.in_state, buffers_.in_y);
    retreat(lanes, count, in_increments);
  }

 private:
  int64_t end(int64_t first) const {
    return least(first + task<Real>(sizes_, algebra_), sizes_.batch * sizes_.windows);
  }
  int64_t at(int64_t w) const { return w * algebra_.size; }

  // Increments of window w among all windows, counted from the first of the first path.
  Interval window(int64_t w) const {
    const int64_t path = w / sizes_.windows, number = w % sizes_.windows;
    int64_t low, high;
    if (edges_) {
      const int64_t *edge = edges_ + path * (sizes_.windows + 1) + number;
      low = edge[0], high = edge[1];
    } else {
      low = number * sizes_.window;
      high = least(low + sizes_.window, sizes_.length);
    }
    return {path * sizes_.length + low, high - low};
  }

  bool short_windows(int64_t first) const {
    const int64_t limit = most_steps(algebra_);
    for (int64_t w = first; w < end(first); ++w) {
      if (window(w).count > limit) return false;
    }
    return true;
  }

  int64_t side_by_side(int64_t first, Interval *lanes) const {
    int64_t longest = 0;
    for (int64_t w = first; w < end(first); ++w) {
      lanes[w - first] = window(w);
      longest = most(longest, lanes[w - first].count);
    }
    return longest;
  }

  void read_increments(const Interval *lanes, int64_t count) const {
    const int64_t d = algebra_.channels;
    Row<const Real> rows[W];
    for (int i = 0; i < W; ++i) rows[i] = {increments_ + lanes[i].first * d, lanes[i].count * d};
    to_lanes(rows, count * d, buffers_.x);
  }

  // Short windows are read from many places at once, which the processor does not foresee. What the
  // next ones read is asked for while these are computed. Inlined: see `ask_for`.
  SLICEKIT_INLINE void ask_for_next(const Interval *lanes, int64_t count) const {
    const int64_t d = algebra_.channels, all = sizes_.batch * sizes_.length;
    const int64_t next = lanes[W - 1].first + lanes[W - 1].count;
    ask_for(increments_ + next * d, least(W * count, all - next) * d);
  }

  // From the start over `count` steps, into buffers_.state.
  void advance(int64_t count, bool with_top) const {
    with_steps<V>(algebra_, buffers_.scratch, [&](const auto &steps) {
      steps.advance(count, buffers_.x, buffers_.state, with_top);
    });
  }

  // The states before each step, and the last one, which it returns.
  const V *keep_states(int64_t count) const {
    with_steps<V>(algebra_, buffers_.scratch, [&](const auto &steps) {
      steps.keep(count, buffers_.x, buffers_.before);
    });
    return buffers_.before + count * algebra_.lower();
  }

  // From the gradient in the last states to those in the increments.
  void retreat(const Interval *lanes, int64_t count, Real *in_increments) const {
    const Buffers<Real> &b = buffers_;
    const int64_t d = algebra_.channels;
    with_steps<V>(algebra_, b.scratch, [&](const auto &steps) {
      steps.retreat(count, b.x, b.before, b.in_state, b.in_x);
    });
    Row<Real> rows[W];
    for (int i = 0; i < W; ++i) rows[i] = {in_increments + lanes[i].first * d, lanes[i].count * d};
    from_lanes(buffers_.in_x, count * d, rows);
  }

  // A long window is done in rounds of W pieces.
  int64_t rounds(const Interval &window) const {
    const int64_t most_of_round = W * most_steps(algebra_);
    return (window.count + most_of_round - 1) / most_of_round;
  }

  int64_t pieces(const Interval &window, int64_t round, Interval *lanes) const {
    const int64_t parts = rounds(window) * W, count = (window.count + parts - 1) / parts;
    for (int i = 0; i < W; ++i) {
      const int64_t from = least((round * W + i) * count, window.count);
      lanes[i] = {window.first + from, least(count, window.count - from)};
    }
    return count;
  }

  void take_lane(const V *state, int lane, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) buffers_.piece[i] = state[i][lane];
  }

  // The signature of a long window into buffers_.total.
  void sign(const Interval &window, bool with_top) const {
    double *total = buffers_.total;
    set_zero(total, algebra_.state());
    total[0] = 1;
    for (int64_t round = 0; round < rounds(window); ++round) {
      Interval lanes[W];
      const int64_t count = pieces(window, round, lanes);
      read_increments(lanes, count);
      advance(count, with_top);
      for (int i = 0; i < W; ++i) {
        take_lane(buffers_.state, i, with_top ? algebra_.state() : algebra_.lower());
        multiply(algebra_, total, buffers_.piece, with_top);
      }
    }
  }

  void forward_long(const Interval &window, Real *coefficients) const {
    const Buffers<Real> &b = buffers_;
    sign(window, true);
    log_terms(algebra_, b.total, b.one_y);
    log_on_words(algebra_, b.total, b.one_y, b.one_logs);
    change_basis(algebra_, b.one_logs, b.one_coefficients);
    for (int64_t e = 0; e < algebra_.size; ++e) {
      coefficients[e] = static_cast<Real>(b.one_coefficients[e]);
    }
  }

  void pullback_long(const Interval &window, const Real *in_coefficients,
                     Real *in_increments) const {
    const Buffers<Real> &b = buffers_;
    sign(window, false);
    for (int64_t e = 0; e < algebra_.size; ++e) b.one_coefficients[e] = in_coefficients[e];
    log_terms(algebra_, b.total, b.one_y);
    change_basis_pullback(algebra_, b.one_coefficients, b.one_logs);
    log_pullback(algebra_, b.total, b.one_y, b.one_logs, b.in_total, b.one_in_y);
    for (int64_t round = rounds(window) - 1; round >= 0; --round) {
      Interval lanes[W];
      const int64_t count = pieces(window, round, lanes);
      read_increments(lanes, count);
      const V *last = keep_states(count);
      for (int i = W - 1; i >= 0; --i) {
        take_lane(last, i, algebra_.lower());
        divide(algebra_, b.total, b.piece);
        multiply_pullback(algebra_, b.total, b.piece, b.in_total, b.in_piece);
        for (int64_t j = 0; j < algebra_.state(); ++j) {
          b.in_state[j][i] = static_cast<Real>(b.in_piece[j]);
        }
      }
      retreat(lanes, count, in_increments);
    }
  }

  const Sizes &sizes_;
  const Algebra &algebra_;
  const int64_t *edges_;
  const Real *increments_;
  Buffers<Real> buffers_;
};

template <class Real>
int64_t threads(const Sizes &sizes, const Algebra &algebra) {
  return most<int64_t>(1, least(sizes.threads, tasks<Real>(sizes, algebra)));
}

template <class Real>
int64_t each_thread(const Algebra &algebra) {
  Workspace space(nullptr);
  const Buffers<Real> counted(algebra, space);
  return round_up(space.needed(), 64);
}

// Calls work(worker, first window) for every task; no result depends on the threads.
template <class Real, class Work>
void run(const Sizes &sizes, const Tables &tables, const int64_t *edges, const Real *increments,
         void *workspace, const Work &work) {
  const Algebra algebra(sizes, tables);
  const int64_t count = tasks<Real>(sizes, algebra), each = each_thread<Real>(algebra);
  const int64_t size = task<Real>(sizes, algebra);
  each_of(count, threads<Real>(sizes, algebra), [&](int64_t number, int64_t thread) {
    char *own = static_cast<char *>(workspace) + thread * each;
    work(Worker<Real>(sizes, algebra, edges, increments, Workspace(own)), number * size);
  });
}

template <class Real>
int64_t needed(const Sizes &sizes) {
  const Algebra algebra(sizes, Tables{});
  return threads<Real>(sizes, algebra) * each_thread<Real>(algebra);
}

template <class Real>
void forward(const Sizes &sizes, const Tables &tables, const int64_t *edges,
             const void *increments, void *coefficients, void *workspace) {
  Real *into = static_cast<Real *>(coefficients);
  run<Real>(sizes, tables, edges, static_cast<const Real *>(increments), workspace,
            [=](const Worker<Real> &worker, int64_t first) { worker.forward(first, into); });
}

template <class Real>
void pullback(const Sizes &sizes, const Tables &tables, const int64_t *edges,
              const void *increments, const void *in_coefficients, void *in_increments,
              void *workspace) {
  const Real *in = static_cast<const Real *>(in_coefficients);
  Real *into = static_cast<Real *>(in_increments);
  run<Real>(sizes, tables, edges, static_cast<const Real *>(increments), workspace,
            [=](const Worker<Real> &worker, int64_t first) { worker.pullback(first, in, into); });
}

}  // namespace
}  // namespace log_signatures

int64_t log_signatures_bytes(const slicekit_log_signatures_sizes &sizes) {
  return sizes.real == 4 ? log_signatures::needed<float>(sizes)
                         : log_signatures::needed<double>(sizes);
}

void log_signatures_forward(const slicekit_log_signatures_sizes &sizes,
                            const slicekit_log_signatures_tables &tables, const int64_t *edges,
                            const void *increments, void *coefficients, void *workspace) {
  const auto run =
      sizes.real == 4 ? log_signatures::forward<float> : log_signatures::forward<double>;
  run(sizes, tables, edges, increments, coefficients, workspace);
}

void log_signatures_pullback(const slicekit_log_signatures_sizes &sizes,
                             const slicekit_log_signatures_tables &tables, const int64_t *edges,
                             const void *increments, const void *in_coefficients,
                             void *in_increments, void *workspace) {
  const auto run =
      sizes.real == 4 ? log_signatures::pullback<float> : log_signatures::pullback<double>;
  run(sizes, tables, edges, increments, in_coefficients, in_increments, workspace);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
