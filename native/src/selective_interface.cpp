// The C functions of slicekit_selective.h: everything is checked here, before a kernel touches it.
#include "slicekit_selective.h"

#include "dispatch.hpp"
#include "scan_checks.hpp"

SLICEKIT_DECLARE(namespace selective {
  int64_t work(const slicekit_selective &task, bool backward);
  void forward(const slicekit_selective &task);
  void backward(const slicekit_selective &task);
})

namespace {

using slicekit::between;

// With these no size of an array or of the work space comes near the end of int64_t.
constexpr int64_t LARGEST = int64_t{1} << 40, MOST_THREADS = 4096;

int64_t check(const slicekit_selective *task) {
  if (!task) return SLICEKIT_BAD_POINTER;
  if (task->real != 4 && task->real != 8) return SLICEKIT_BAD_OPTION;
  const bool in_range = between(0, task->batch, LARGEST) && between(1, task->length, LARGEST) &&
                        between(1, task->channels, LARGEST) && between(1, task->dim, LARGEST) &&
                        between(1, task->threads, MOST_THREADS);
  if (!in_range) return SLICEKIT_BAD_SIZE;
  const int64_t batch = task->batch ? task->batch : 1;
  const int64_t numbers = slicekit::count(batch, task->length, task->channels, task->dim);
  return between(1, numbers, LARGEST) ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
}

template <class... Arrays>
bool there(Arrays... arrays) {
  return (... && (arrays != nullptr));
}

// What both passes need.
int64_t check_arrays(const slicekit_selective &task, int64_t needed) {
  if (!there(task.steps, task.rates, task.inputs, task.left, task.readout)) {
    return SLICEKIT_BAD_POINTER;
  }
  if (!there(task.state, task.starts, task.work)) return SLICEKIT_BAD_POINTER;
  for (int64_t b = 0; task.lengths && b < task.batch; ++b) {
    if (!between(0, task.lengths[b], task.length)) return SLICEKIT_BAD_INDEX;
  }
  return task.work_bytes < needed ? SLICEKIT_BAD_WORKSPACE : SLICEKIT_OK;
}

}  // namespace

extern "C" {

int64_t slicekit_selective_forward_work(const slicekit_selective *task) {
  return check(task) ? -1 : SLICEKIT_CALL(selective::work, *task, false);
}

int64_t slicekit_selective_backward_work(const slicekit_selective *task) {
  return check(task) ? -1 : SLICEKIT_CALL(selective::work, *task, true);
}

int64_t slicekit_selective_forward(const slicekit_selective *task) {
  if (const int64_t fault = check(task)) return fault;
  if (!task->batch) return SLICEKIT_OK;
  if (!there(task->outputs, task->last)) return SLICEKIT_BAD_POINTER;
  const int64_t fault = check_arrays(*task, slicekit_selective_forward_work(task));
  if (!fault) SLICEKIT_CALL(selective::forward, *task);
  return fault;
}

int64_t slicekit_selective_backward(const slicekit_selective *task) {
  if (const int64_t fault = check(task)) return fault;
  if (!task->batch) return SLICEKIT_OK;
  if (!there(task->in_outputs, task->in_last, task->in_steps, task->in_rates, task->in_inputs,
             task->in_left, task->in_readout, task->in_state)) {
    return SLICEKIT_BAD_POINTER;
  }
  const int64_t fault = check_arrays(*task, slicekit_selective_backward_work(task));
  if (!fault) SLICEKIT_CALL(selective::backward, *task);
  return fault;
}

}  // extern "C"
