// Selective scans over a batch: what runs on which thread.
//
// A part is some channels of one sequence. The gradients that are sums over channels, or over the
// batch, are made for each part and then added up in the order of the parts, which does not depend
// on the threads.
#include "selective_passes.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace selective {

namespace {

constexpr int64_t FEWEST_CHANNELS = 128, MOST_PIECES = 16;

// Pieces of channels for each sequence, and the threads that share them.
struct Plan {
  int64_t width, pieces, threads;

  explicit Plan(const slicekit_selective &task) {
    width = round_up((task.channels + MOST_PIECES - 1) / MOST_PIECES, FEWEST_CHANNELS);
    pieces = (task.channels + width - 1) / width;
    threads = least(task.threads, most<int64_t>(1, task.batch * pieces));
  }

  template <class Real>
  int64_t groups(const slicekit_selective &task) const {
    return group_count<Real>(least(width, task.channels));
  }

  template <class Real>
  Part<Real> part(const slicekit_selective &task, int64_t number) const {
    const int64_t sequence = number / pieces, first = number % pieces * width;
    const int64_t count = task.lengths ? task.lengths[sequence] : task.length;
    return {task, sequence, first, least(width, task.channels - first), count};
  }
};

template <class Real>
int64_t panel_bytes(const slicekit_selective &task, const Plan &plan, bool backward) {
  Workspace measure(nullptr);
  Panels<Real>(measure, plan.groups<Real>(task), task.length, task.dim, backward);
  return round_up(measure.needed(), 64);
}

// The gradients that are sums over parts.
template <class Real>
struct Sums {
  using V = Vector<Real>;
  V *rates;      // (batch, groups of all channels, dim)
  Real *others;  // (pieces - 1, left and readout, batch, length, dim); the first is in the results

  Sums(Workspace &work, const slicekit_selective &task, const Plan &plan) {
    rates = work.take<V>(task.batch * rates_size(task));
    others = work.take<Real>((plan.pieces - 1) * 2 * entries(task));
  }

  static int64_t entries(const slicekit_selective &task) {
    return task.batch * task.length * task.dim;
  }
  static int64_t rates_size(const slicekit_selective &task) {
    return group_count<Real>(task.channels) * task.dim;
  }

  V *rates_of(const slicekit_selective &task, const Part<Real> &part) const {
    return rates + part.sequence * rates_size(task) + part.first / WIDTH<Real> * task.dim;
  }
  Real *left(const slicekit_selective &task, int64_t piece) const {
    return piece ? others + (piece - 1) * 2 * entries(task) : static_cast<Real *>(task.in_left);
  }
  Real *readout(const slicekit_selective &task, int64_t piece) const {
    return piece ? left(task, piece) + entries(task) : static_cast<Real *>(task.in_readout);
  }

  void add_up(const slicekit_selective &task, const Plan &plan) const {
    const int64_t size = rates_size(task), count = entries(task);
    each_of(size, plan.threads, [&](int64_t i, int64_t) {
      for (int64_t b = 1; b < task.batch; ++b) rates[i] += rates[b * size + i];
    });
    for (int64_t piece = 1; piece < plan.pieces; ++piece) {
      each_of(count, plan.threads, [&](int64_t i, int64_t) {
        left(task, 0)[i] += left(task, piece)[i];
        readout(task, 0)[i] += readout(task, piece)[i];
      });
    }
    from_groups(rates, task.channels, task.dim, static_cast<Real *>(task.in_rates));
  }
};

template <class Real>
int64_t measure(const slicekit_selective &task, bool backward) {
  const Plan plan(task);
  Workspace work(nullptr);
  if (backward) Sums<Real>(work, task, plan);
  work.take<char>(plan.threads * panel_bytes<Real>(task, plan, backward));
  return work.needed();
}

template <class Real>
void forward_all(const slicekit_selective &task) {
  const Plan plan(task);
  const int64_t bytes = panel_bytes<Real>(task, plan, false);
  Workspace work(task.work);
  char *panels = work.take<char>(plan.threads * bytes);
  each_of(task.batch * plan.pieces, plan.threads, [&](int64_t number, int64_t worker) {
    Workspace own(panels + worker * bytes);
    const Panels<Real> mine(own, plan.groups<Real>(task), task.length, task.dim, false);
    const Part<Real> part = plan.part<Real>(task, number);
    Passes<Real>{task, part, mine}.forward();
  });
}

template <class Real>
void backward_all(const slicekit_selective &task) {
  const Plan plan(task);
  const int64_t bytes = panel_bytes<Real>(task, plan, true);
  Workspace work(task.work);
  const Sums<Real> sums(work, task, plan);
  char *panels = work.take<char>(plan.threads * bytes);
  each_of(task.batch * plan.pieces, plan.threads, [&](int64_t number, int64_t worker) {
    Workspace own(panels + worker * bytes);
    const Panels<Real> mine(own, plan.groups<Real>(task), task.length, task.dim, true);
    const Part<Real> part = plan.part<Real>(task, number);
    const int64_t piece = number % plan.pieces, at = part.sequence * task.length * task.dim;
    Passes<Real>{task, part, mine}.backward(sums.rates_of(task, part), sums.left(task, piece) + at,
                                            sums.readout(task, piece) + at);
  });
  sums.add_up(task, plan);
}

}  // namespace

int64_t work(const slicekit_selective &task, bool backward) {
  return task.real == 4 ? measure<float>(task, backward) : measure<double>(task, backward);
}

void forward(const slicekit_selective &task) {
  task.real == 4 ? forward_all<float>(task) : forward_all<double>(task);
}

void backward(const slicekit_selective &task) {
  task.real == 4 ? backward_all<float>(task) : backward_all<double>(task);
}

}  // namespace selective
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
