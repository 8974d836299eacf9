// Short convolutions over a batch: what runs on which thread.
//
// Channels are independent, so a sequence may be cut into pieces of them. The gradients of the
// filters are made for each sequence and added up in the order of the sequences.
#include "short_convolution_passes.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace short_convolution {

namespace {

// Rows of so many channels stay in the cache from step to step.
constexpr int64_t MOST_CHANNELS = 1024;

struct Plan {
  int64_t width, pieces, threads;

  explicit Plan(const slicekit_short_convolution &task) {
    const int64_t wanted = most<int64_t>(1, task.threads / most<int64_t>(1, task.batch));
    const int64_t even = round_up((task.channels + wanted - 1) / wanted, 16);
    width = least(even, MOST_CHANNELS);
    pieces = (task.channels + width - 1) / width;
    threads = least(task.threads, most<int64_t>(1, task.batch * pieces));
  }

  template <class Real>
  Part<Real> part(const slicekit_short_convolution &task, int64_t number) const {
    const int64_t first = number % pieces * width;
    return {task, number / pieces, first, least(width, task.channels - first)};
  }
};

// The work space of the backward pass.
template <class Real>
struct Sums {
  using V = Vector<Real>;
  V *taps;    // (batch, size, groups)
  V *bias;    // (batch, groups)
  V *pulled;  // (threads, size, groups of a part)
  int64_t groups, pulled_size;

  Sums(Workspace &work, const slicekit_short_convolution &task, const Plan &plan) {
    groups = group_count<Real>(task.channels);
    pulled_size = task.size * group_count<Real>(plan.width);
    taps = work.take<V>(task.batch * task.size * groups);
    bias = work.take<V>(task.batch * groups);
    pulled = work.take<V>(plan.threads * pulled_size);
  }

  void add_up(const slicekit_short_convolution &task) const {
    const int64_t all = task.size * groups;
    for (int64_t b = 1; b < task.batch; ++b) {
      for (int64_t i = 0; i < all; ++i) taps[i] += taps[b * all + i];
      for (int64_t g = 0; g < groups; ++g) bias[g] += bias[b * groups + g];
    }
    Real *in_weight = static_cast<Real *>(task.in_weight);
    Real *in_bias = static_cast<Real *>(task.in_bias);
    for (int64_t c = 0; c < task.channels; ++c) {
      const int64_t g = c / WIDTH<Real>, lane = c % WIDTH<Real>;
      if (in_bias) in_bias[c] = bias[g][lane];
      for (int64_t j = 0; j < task.size; ++j) {
        in_weight[c * task.size + j] = taps[j * groups + g][lane];
      }
    }
  }
};

template <class Real>
int64_t measure(const slicekit_short_convolution &task) {
  Workspace work(nullptr);
  Filters<Real>(work, task);
  Sums<Real>(work, task, Plan(task));
  return work.needed();
}

template <class Real, int SIZE, bool SILU>
void forward_all(const slicekit_short_convolution &task) {
  const Plan plan(task);
  Workspace work(task.work);
  const Filters<Real> filters(work, task);
  each_of(task.batch * plan.pieces, plan.threads, [&](int64_t number, int64_t) {
    const Part<Real> part = plan.part<Real>(task, number);
    Passes<Real, SIZE, SILU>{task, part, filters}.forward();
  });
}

template <class Real, int SIZE, bool SILU>
void backward_all(const slicekit_short_convolution &task) {
  const Plan plan(task);
  Workspace work(task.work);
  const Filters<Real> filters(work, task);
  const Sums<Real> sums(work, task, plan);
  each_of(task.batch * plan.pieces, plan.threads, [&](int64_t number, int64_t worker) {
    const Part<Real> part = plan.part<Real>(task, number);
    Passes<Real, SIZE, SILU>{task, part, filters}.backward(
        sums.taps + part.sequence * task.size * sums.groups,
        sums.bias + part.sequence * sums.groups, sums.pulled + worker * sums.pulled_size);
  });
  sums.add_up(task);
}

// body(number, size, silu) with what the task is about, as types.
template <class Body>
void with_types(const slicekit_short_convolution &task, Body body) {
  auto with_activation = [&](auto number, auto size) {
    if (task.activation) return body(number, size, Known<1>{});
    body(number, size, Known<0>{});
  };
  auto with_size = [&](auto number) {
    if (task.size == 3) return with_activation(number, Known<3>{});
    if (task.size == 4) return with_activation(number, Known<4>{});
    with_activation(number, Known<0>{});
  };
  if (task.real == 4) return with_size(float{});
  with_size(double{});
}

}  // namespace

int64_t work(const slicekit_short_convolution &task) {
  return task.real == 4 ? measure<float>(task) : measure<double>(task);
}

void forward(const slicekit_short_convolution &task) {
  with_types(task, [&](auto number, auto size, auto silu) {
    forward_all<decltype(number), decltype(size)::VALUE, decltype(silu)::VALUE != 0>(task);
  });
}

void backward(const slicekit_short_convolution &task) {
  with_types(task, [&](auto number, auto size, auto silu) {
    backward_all<decltype(number), decltype(size)::VALUE, decltype(silu)::VALUE != 0>(task);
  });
}

}  // namespace short_convolution
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
