// The C interface of the exponential: checks what it is given and chooses the instruction set.
#include "slicekit_exponential.h"

#include "dispatch.hpp"

using Sizes = slicekit_exponential_sizes;

SLICEKIT_DECLARE(
    int64_t exponential_bytes(const Sizes &sizes);
    void exponential_forward(const Sizes &sizes, const void *x, void *y, void *workspace);
    void exponential_backward(const Sizes &sizes, const void *x, const void *in_y, void *in_x,
                              void *workspace);)

namespace {

constexpr int64_t MOST_THREADS = 1 << 16;

int64_t fault_of(const slicekit_exponential *task) {
  if (!task) return SLICEKIT_BAD_POINTER;
  const Sizes &sizes = task->sizes;
  if (sizes.real != 4 && sizes.real != 8) return SLICEKIT_BAD_OPTION;
  if (sizes.rows < 1 || sizes.rows > SLICEKIT_EXPONENTIAL_ROWS) return SLICEKIT_BAD_SIZE;
  if (sizes.threads < 1 || sizes.threads > MOST_THREADS) return SLICEKIT_BAD_SIZE;
  const int64_t matrix = sizes.rows * sizes.rows * sizes.real;
  if (sizes.count < 0 || sizes.count > INT64_MAX / matrix) return SLICEKIT_BAD_SIZE;
  return SLICEKIT_OK;
}

int64_t fault_of_workspace(const slicekit_exponential &task) {
  if (!task.work) return SLICEKIT_BAD_POINTER;
  const int64_t needed = SLICEKIT_CALL(exponential_bytes, task.sizes);
  return task.work_bytes < needed ? SLICEKIT_BAD_WORKSPACE : SLICEKIT_OK;
}

}  // namespace

extern "C" {

int64_t slicekit_exponential_workspace(const slicekit_exponential *task) {
  return fault_of(task) ? 0 : SLICEKIT_CALL(exponential_bytes, task->sizes);
}

int64_t slicekit_exponential_forward(const slicekit_exponential *task) {
  if (const int64_t fault = fault_of(task)) return fault;
  if (task->sizes.count == 0) return SLICEKIT_OK;
  if (!task->x || !task->y) return SLICEKIT_BAD_POINTER;
  if (const int64_t fault = fault_of_workspace(*task)) return fault;
  SLICEKIT_CALL(exponential_forward, task->sizes, task->x, task->y, task->work);
  return SLICEKIT_OK;
}

int64_t slicekit_exponential_backward(const slicekit_exponential *task) {
  if (const int64_t fault = fault_of(task)) return fault;
  if (task->sizes.count == 0) return SLICEKIT_OK;
  if (!task->x || !task->in_y || !task->in_x) return SLICEKIT_BAD_POINTER;
  if (const int64_t fault = fault_of_workspace(*task)) return fault;
  SLICEKIT_CALL(exponential_backward, task->sizes, task->x, task->in_y, task->in_x, task->work);
  return SLICEKIT_OK;
}

}  // extern "C"
