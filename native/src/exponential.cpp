// Exponentials of many matrices: groups of LANES, shared among the threads.
#include "exponential_lanes.hpp"

#include "lane_groups.hpp"
#include "slicekit_exponential.h"
#include "threads.hpp"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

using Sizes = slicekit_exponential_sizes;

namespace {

template <class Real>
int64_t groups(const Sizes &sizes) {
  return (sizes.count + LANES<Real> - 1) / LANES<Real>;
}

template <class Real>
int64_t threads(const Sizes &sizes) {
  return most<int64_t>(1, least(sizes.threads, groups<Real>(sizes)));
}

// The work space: for each thread two batches and what the exponential needs.
template <class Real>
class Buffers {
 public:
  Buffers(const Sizes &sizes, Workspace &space)
      : batch_(sizes.rows * sizes.rows * LANES<Real>),
        each_(2 * batch_ + lanes_workspace(sizes.rows, Real())),
        first_(space.take<Real>(threads<Real>(sizes) * each_)) {}

  Real *x(int64_t worker) const { return first_ + worker * each_; }
  Real *gradient(int64_t worker) const { return x(worker) + batch_; }
  Real *scratch(int64_t worker) const { return x(worker) + 2 * batch_; }

 private:
  int64_t batch_, each_;
  Real *first_;
};

// The matrices of one group, among all of an array.
template <class Real>
struct Group {
  int64_t first, members, elements;

  Group(const Sizes &sizes, int64_t number)
      : first(number * LANES<Real>),
        members(least<int64_t>(sizes.count - first, LANES<Real>)),
        elements(sizes.rows * sizes.rows) {}

  void read(const Real *array, Real *batch) const {
    lanes::to_lanes(array + first * elements, members, elements, batch);
  }

  void write(const Real *batch, Real *array) const {
    lanes::from_lanes(batch, members, elements, array + first * elements);
  }
};

// Calls work(group, worker) for every group; the groups, and so the results, do not depend on the
// threads.
template <class Real, class Work>
void for_each_group(const Sizes &sizes, const Work &work) {
  each_of(groups<Real>(sizes), threads<Real>(sizes), [&](int64_t number, int64_t worker) {
    work(Group<Real>(sizes, number), worker);
  });
}

template <class Real>
void forward(const Sizes &sizes, const Real *x, Real *y, Workspace space) {
  const Buffers<Real> buffers(sizes, space);
  for_each_group<Real>(sizes, [&](const Group<Real> &group, int64_t worker) {
    Real *batch = buffers.x(worker);
    group.read(x, batch);
    lanes_exponential_with_identity(sizes.rows, batch, batch, buffers.scratch(worker));
    group.write(batch, y);
  });
}

template <class Real>
void pullback(const Sizes &sizes, const Real *x, const Real *in_y, Real *in_x, Workspace space) {
  const Buffers<Real> buffers(sizes, space);
  for_each_group<Real>(sizes, [&](const Group<Real> &group, int64_t worker) {
    Real *batch = buffers.x(worker), *gradient = buffers.gradient(worker);
    group.read(x, batch);
    group.read(in_y, gradient);
    lanes_pullback(sizes.rows, batch, gradient, gradient, buffers.scratch(worker));
    group.write(gradient, in_x);
  });
}

template <class Real>
int64_t needed(const Sizes &sizes) {
  Workspace space(nullptr);
  const Buffers<Real> counted(sizes, space);
  return space.needed();
}

}  // namespace

int64_t exponential_bytes(const Sizes &sizes) {
  return sizes.real == 4 ? needed<float>(sizes) : needed<double>(sizes);
}

void exponential_forward(const Sizes &sizes, const void *x, void *y, void *workspace) {
  const Workspace space(workspace);
  if (sizes.real == 4) {
    forward(sizes, static_cast<const float *>(x), static_cast<float *>(y), space);
  } else {
    forward(sizes, static_cast<const double *>(x), static_cast<double *>(y), space);
  }
}

void exponential_backward(const Sizes &sizes, const void *x, const void *in_y, void *in_x,
                          void *workspace) {
  const Workspace space(workspace);
  if (sizes.real == 4) {
    pullback(sizes, static_cast<const float *>(x), static_cast<const float *>(in_y),
             static_cast<float *>(in_x), space);
  } else {
    pullback(sizes, static_cast<const double *>(x), static_cast<const double *>(in_y),
             static_cast<double *>(in_x), space);
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
