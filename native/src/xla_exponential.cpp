// Exponentials of small matrices as JAX calls them: slicekit_exponential.h behind XLA's interface.
//
//   forward   x (..., n, n) -> exp(x)
//   pullback  x and in_y, of one shape -> in_x
#include "slicekit_exponential.h"

#include "xla.hpp"

namespace {

using xla::Buffer;
using xla::Frame;
using xla::require;

int64_t numbers(const Buffer &buffer) {
  int64_t count = 1;
  for (int64_t i = 0; i < buffer.rank; ++i) count *= buffer.dims[i];
  return count;
}

void run(const Frame &frame, int64_t given) {
  require(frame.arguments.count == given && frame.results.count == 1,
          "slicekit: another number of arrays");
  const Buffer &x = *frame.arguments.buffers[0], &y = *frame.results.buffers[0];
  require(x.rank >= 2 && x.dims[x.rank - 1] == x.dims[x.rank - 2], "slicekit: x is not square");
  for (int64_t i = 0; i < given + 1; ++i) {
    const Buffer &other = i < given ? *frame.arguments.buffers[i] : y;
    require(other.dtype == x.dtype && numbers(other) == numbers(x),
            "slicekit: arrays of different sizes or precisions");
  }
  const int64_t rows = x.dims[x.rank - 1];
  require(rows > 0, "slicekit: matrices without rows");
  slicekit_exponential task{};
  task.sizes = {xla::real_of(x), numbers(x) / (rows * rows), rows, 1};
  task.sizes.threads = xla::threads(10.0 * numbers(x) * rows);
  task.work_bytes = slicekit_exponential_workspace(&task);
  xla::Workspace workspace(task.work_bytes);
  task.x = x.data, task.work = workspace.data;
  if (given == 1) {
    task.y = y.data;
    xla::check(slicekit_exponential_forward(&task));
  } else {
    task.in_y = frame.arguments.buffers[1]->data, task.in_x = y.data;
    xla::check(slicekit_exponential_backward(&task));
  }
}

void slicekit_xla_exponential_forward_body(const Frame &frame) { run(frame, 1); }
void slicekit_xla_exponential_pullback_body(const Frame &frame) { run(frame, 2); }

}  // namespace

SLICEKIT_HANDLER(slicekit_xla_exponential_forward)
SLICEKIT_HANDLER(slicekit_xla_exponential_pullback)
