// The fused recurrence as JAX calls it: slicekit_panels.h behind XLA's foreign function interface.
//
// The attribute `plan` holds the sizes: see `Field`, then four numbers for each part. Buffers come
// in the order of the struct, those that a problem does not have left out:
//   forward   parameters (channels, numbers) of each part; increments (batch, length, channels), or
//             a table (vocabulary, channels) and an index (batch, length); state; inputs
//             -> states, factors, kept
//   backward  the same, states, factors, kept, in_states
//             -> in_parameters, in_increments, in_state, in_inputs
#include "slicekit_panels.h"

#include <cstring>

#include "xla.hpp"

namespace {

using xla::Buffer;
using xla::Frame;
using xla::require;

enum Field {
  REAL, BATCH, LENGTH, CHANNELS, DIM, COLUMNS, VOCABULARY, RESCALE, RESTORE,
  KEEP,    // whether transitions are kept for the backward pass
  DRIVEN,  // whether there are inputs
  WANTED,  // whether the gradient of the increments is
  PARTS,
  FIELDS
};

// Everything of a problem but its arrays.
struct Plan {
  explicit Plan(xla::Numbers<int64_t> plan) {
    require(plan.count > FIELDS, "slicekit: the plan is too short");
    const int64_t *n = plan.data;
    require(n[PARTS] > 0 && n[PARTS] <= 256 && plan.count == FIELDS + 4 * n[PARTS],
            "slicekit: the plan has another number of parts");
    for (int64_t p = 0; p < n[PARTS]; ++p) {
      const int64_t *part = n + FIELDS + 4 * p;
      parts.push_back({part[0], part[1], part[2], part[3]});
    }
    problem = {};
    problem.real = n[REAL], problem.batch = n[BATCH], problem.length = n[LENGTH];
    problem.channels = n[CHANNELS], problem.dim = n[DIM], problem.columns = n[COLUMNS];
    problem.vocabulary = n[VOCABULARY], problem.rescale = n[RESCALE], problem.restore = n[RESTORE];
    problem.parts = n[PARTS], problem.part = parts.data(), problem.threads = 1;
    kept = n[KEEP], driven = n[DRIVEN], wanted = n[WANTED];
    keep = slicekit_panels_kept(&problem);
    require(keep >= 0, "slicekit: a size that the kernel can't take");
    problem.threads = xla::threads(work());
  }

  double work() const {
    double made = 0;
    for (const slicekit_part &part : parts) made += double(part.dim) * (1 + 2 * part.size);
    return made * problem.batch * problem.length * problem.channels;
  }

  // Numbers of a part's parameters for a channel.
  std::vector<int64_t> numbers(const slicekit_part &part) const {
    if (part.kind == SLICEKIT_BLOCKS) return {part.dim * part.size};
    if (part.kind == SLICEKIT_SKEW) return {part.dim * (part.size - 1) / 2};
    if (part.kind == SLICEKIT_HADAMARD) return {part.dim};
    return {part.dim, part.dim * part.size, part.dim * part.size};
  }

  std::vector<slicekit_part> parts;
  slicekit_panels problem;
  int64_t kept, driven, wanted;
  int64_t keep;  // numbers that hold all transitions, 0 where they can't be kept
};

// Deals out buffers one after the other, as one of the problems of a call has them.
class Deal {
 public:
  Deal(const xla::Buffers &buffers, const xla::Problems &problems, int64_t problem, int64_t real)
      : buffers_(buffers), problems_(problems), problem_(problem), real_(real) {}

  const Buffer &next() {
    require(at_ < buffers_.count, "slicekit: an array is missing");
    return *buffers_.buffers[at_++];
  }

  void *numbers(int64_t own, int64_t expected) {
    const Buffer &buffer = next();
    require(xla::real_of(buffer) == real_, "slicekit: arrays of two precisions");
    return problems_.at(buffer, own, expected, problem_);
  }

  // An index, widened to 64 bits.
  std::vector<int64_t> index(int64_t expected) {
    const Buffer &buffer = next();
    require(buffer.dtype == xla::S32 || buffer.dtype == xla::S64, "slicekit: index is no integer");
    if (buffer.dtype == xla::S64) {
      const int64_t *wide = problems_.at<int64_t>(buffer, 2, expected, problem_);
      return std::vector<int64_t>(wide, wide + expected);
    }
    const int32_t *narrow = problems_.at<int32_t>(buffer, 2, expected, problem_);
    return std::vector<int64_t>(narrow, narrow + expected);
  }

  void finish() const { require(at_ == buffers_.count, "slicekit: an array too many"); }

 private:
  const xla::Buffers &buffers_;
  const xla::Problems &problems_;
  int64_t problem_, real_, at_ = 0;
};

std::vector<void *> parameters(const Plan &plan, Deal &deal) {
  std::vector<void *> found(3 * plan.parts.size(), nullptr);
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    int i = 0;
    for (int64_t numbers : plan.numbers(plan.parts[p])) {
      found[3 * p + i++] = deal.numbers(2, plan.problem.channels * numbers);
    }
  }
  return found;
}

// The kernel does not write those at the beginning.
void ones(void *factors, int64_t real, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    if (real == 4) static_cast<float *>(factors)[k] = 1;
    if (real == 8) static_cast<double *>(factors)[k] = 1;
  }
}

// Gradients where there is nothing to pull back.
void zeros(const xla::Buffers &results) {
  for (int64_t i = 0; i < results.count; ++i) {
    const Buffer &buffer = *results.buffers[i];
    int64_t bytes = xla::real_of(buffer);
    for (int64_t axis = 0; axis < buffer.rank; ++axis) bytes *= buffer.dims[axis];
    if (bytes) std::memset(buffer.data, 0, bytes);
  }
}

void run(const Frame &frame, bool back) {
  Plan plan(xla::integers(frame, "plan"));
  slicekit_panels &q = plan.problem;
  require(frame.results.count > 0, "slicekit: no result");
  // The first result: states (batch, length, dim, columns), or a parameter's gradient.
  const xla::Problems problems(*frame.results.buffers[0], back ? 2 : 4);
  const int64_t steps = q.batch * q.length, size = q.batch * q.dim * q.columns;
  const int64_t states = steps * q.dim * q.columns;
  const int64_t path = (q.vocabulary ? q.vocabulary : steps) * q.channels;
  const int64_t windows = q.rescale ? (q.length + q.rescale - 1) / q.rescale : 0;
  for (int64_t i = 0; i < problems.count(); ++i) {
    Deal in(frame.arguments, problems, i, q.real), out(frame.results, problems, i, q.real);
    const std::vector<void *> given = parameters(plan, in);
    q.parameters = given.data();
    std::vector<int64_t> index;
    q.increments = in.numbers(q.vocabulary ? 2 : 3, path);
    if (q.vocabulary) {
      index = in.index(steps);
      q.index = index.data();
    }
    q.state = in.numbers(3, size);
    if (plan.driven) q.inputs = in.numbers(4, states);
    Deal &made = back ? in : out;  // of the forward pass
    q.states = made.numbers(4, states);
    if (q.rescale) q.factors = made.numbers(4, windows * size);
    if (plan.kept) q.kept = made.numbers(1, plan.keep);
    std::vector<void *> pulled;
    if (back) {
      q.in_states = in.numbers(4, states);
      pulled = parameters(plan, out);
      q.in_parameters = pulled.data();
      if (plan.wanted) q.in_increments = out.numbers(q.vocabulary ? 2 : 3, path);
      q.in_state = out.numbers(3, size);
      if (plan.driven) q.in_inputs = out.numbers(4, states);
    } else if (q.rescale) {
      ones(q.factors, q.real, windows * size);
    }
    in.finish(), out.finish();
    if (q.batch == 0) {
      zeros(frame.results);
      return;
    }
    xla::Workspace workspace(slicekit_panels_workspace(&q, back));
    q.workspace = workspace.data;
    q.workspace_bytes = slicekit_panels_workspace(&q, back);
    xla::check(back ? slicekit_panels_backward(&q) : slicekit_panels_forward(&q));
  }
}

void slicekit_xla_panels_forward_body(const Frame &frame) { run(frame, false); }
void slicekit_xla_panels_backward_body(const Frame &frame) { run(frame, true); }

}  // namespace

SLICEKIT_HANDLER(slicekit_xla_panels_forward)
SLICEKIT_HANDLER(slicekit_xla_panels_backward)

// Numbers that hold all transitions of a plan; 0 where they can't be kept, negative for a bad plan.
extern "C" SLICEKIT_API int64_t slicekit_xla_panels_kept(const int64_t *plan, int64_t count) {
  try {
    const Plan made({plan, count});
    return slicekit_panels_kept(&made.problem);
  } catch (const std::exception &) {
    return -1;
  }
}
