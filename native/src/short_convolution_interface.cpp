// The C functions of slicekit_short_convolution.h: everything is checked here, before a kernel
// touches it.
#include "slicekit_short_convolution.h"

#include "dispatch.hpp"
#include "scan_checks.hpp"

SLICEKIT_DECLARE(namespace short_convolution {
  int64_t work(const slicekit_short_convolution &task);
  void forward(const slicekit_short_convolution &task);
  void backward(const slicekit_short_convolution &task);
})

namespace {

using slicekit::between;

// With these no size of an array or of the work space comes near the end of int64_t.
constexpr int64_t LARGEST = int64_t{1} << 40, MOST_THREADS = 4096;

int64_t check(const slicekit_short_convolution *task) {
  if (!task) return SLICEKIT_BAD_POINTER;
  if (task->real != 4 && task->real != 8) return SLICEKIT_BAD_OPTION;
  if (task->activation != 0 && task->activation != 1) return SLICEKIT_BAD_OPTION;
  const bool in_range = between(0, task->batch, LARGEST) && between(1, task->length, LARGEST) &&
                        between(1, task->channels, LARGEST) && between(1, task->size, LARGEST) &&
                        between(1, task->threads, MOST_THREADS);
  if (!in_range) return SLICEKIT_BAD_SIZE;
  const int64_t batch = task->batch ? task->batch : 1;
  const int64_t numbers = slicekit::count(batch, task->length, task->channels, task->size);
  return between(1, numbers, LARGEST) ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
}

// What both passes need.
int64_t check_arrays(const slicekit_short_convolution &task) {
  const bool lacking = !task.x || (task.size > 1 && !task.window) || !task.weight || !task.work;
  if (lacking) return SLICEKIT_BAD_POINTER;
  const bool enough = task.work_bytes >= SLICEKIT_CALL(short_convolution::work, task);
  return enough ? SLICEKIT_OK : SLICEKIT_BAD_WORKSPACE;
}

}  // namespace

extern "C" {

int64_t slicekit_short_convolution_work(const slicekit_short_convolution *task) {
  return check(task) ? -1 : SLICEKIT_CALL(short_convolution::work, *task);
}

int64_t slicekit_short_convolution_forward(const slicekit_short_convolution *task) {
  if (const int64_t fault = check(task)) return fault;
  if (!task->batch) return SLICEKIT_OK;
  if (!task->outputs) return SLICEKIT_BAD_POINTER;
  const int64_t fault = check_arrays(*task);
  if (!fault) SLICEKIT_CALL(short_convolution::forward, *task);
  return fault;
}

int64_t slicekit_short_convolution_backward(const slicekit_short_convolution *task) {
  if (const int64_t fault = check(task)) return fault;
  if (!task->batch) return SLICEKIT_OK;
  const bool lacking = !task->in_outputs || !task->in_x || (task->size > 1 && !task->in_window);
  if (lacking || !task->in_weight) return SLICEKIT_BAD_POINTER;
  const int64_t fault = check_arrays(*task);
  if (!fault) SLICEKIT_CALL(short_convolution::backward, *task);
  return fault;
}

}  // extern "C"
