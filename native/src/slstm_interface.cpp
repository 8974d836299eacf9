// The C functions of slicekit_slstm.h: everything is checked here, before a kernel touches it.
#include "slicekit_slstm.h"

#include "dispatch.hpp"
#include "scan_checks.hpp"

SLICEKIT_DECLARE(namespace slstm {
  int64_t work(const slicekit_slstm &task, bool backward);
  void forward(const slicekit_slstm &task);
  void backward(const slicekit_slstm &task);
})

namespace {

using slicekit::between;

// With these no size of an array or of the work space comes near the end of int64_t.
constexpr int64_t LARGEST = int64_t{1} << 40, MOST_UNITS = int64_t{1} << 20, MOST_THREADS = 4096;

int64_t check(const slicekit_slstm *task) {
  if (!task) return SLICEKIT_BAD_POINTER;
  if (task->real != 4 && task->real != 8) return SLICEKIT_BAD_OPTION;
  const bool in_range = between(0, task->batch, LARGEST) && between(1, task->length, LARGEST) &&
                        between(1, task->heads, MOST_UNITS) && between(1, task->dim, MOST_UNITS) &&
                        between(1, task->threads, MOST_THREADS);
  if (!in_range) return SLICEKIT_BAD_SIZE;
  const int64_t batch = task->batch ? task->batch : 1;
  const int64_t numbers = slicekit::count(batch, task->length, task->heads, task->dim);
  const int64_t weights = slicekit::count(task->heads, task->dim, task->dim);
  const bool held = between(1, numbers, LARGEST) && between(1, weights, LARGEST);
  return held ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
}

template <class... Arrays>
bool there(Arrays... arrays) {
  return (... && (arrays != nullptr));
}

// What both passes need.
int64_t check_arrays(const slicekit_slstm &task, int64_t needed) {
  if (!there(task.filtered, task.x, task.gates, task.recurrent, task.bias, task.hidden, task.cell,
             task.normaliser, task.stabiliser, task.outputs, task.last_cell, task.last_normaliser,
             task.work)) {
    return SLICEKIT_BAD_POINTER;
  }
  for (int64_t b = 0; task.lengths && b < task.batch; ++b) {
    if (!between(0, task.lengths[b], task.length)) return SLICEKIT_BAD_INDEX;
  }
  return task.work_bytes < needed ? SLICEKIT_BAD_WORKSPACE : SLICEKIT_OK;
}

}  // namespace

extern "C" {

int64_t slicekit_slstm_forward_work(const slicekit_slstm *task) {
  return check(task) ? -1 : SLICEKIT_CALL(slstm::work, *task, false);
}

int64_t slicekit_slstm_backward_work(const slicekit_slstm *task) {
  return check(task) ? -1 : SLICEKIT_CALL(slstm::work, *task, true);
}

int64_t slicekit_slstm_forward(const slicekit_slstm *task) {
  if (const int64_t fault = check(task)) return fault;
  if (!task->batch) return SLICEKIT_OK;
  if (!there(task->last_hidden, task->last_stabiliser)) return SLICEKIT_BAD_POINTER;
  const int64_t fault = check_arrays(*task, slicekit_slstm_forward_work(task));
  if (!fault) SLICEKIT_CALL(slstm::forward, *task);
  return fault;
}

int64_t slicekit_slstm_backward(const slicekit_slstm *task) {
  if (const int64_t fault = check(task)) return fault;
  if (!task->batch) return SLICEKIT_OK;
  if (!there(task->kept, task->in_outputs, task->in_last_hidden, task->in_last_cell,
             task->in_last_normaliser, task->in_last_stabiliser, task->in_filtered, task->in_x,
             task->in_gates, task->in_recurrent, task->in_bias, task->in_hidden, task->in_cell,
             task->in_normaliser, task->in_stabiliser)) {
    return SLICEKIT_BAD_POINTER;
  }
  const int64_t fault = check_arrays(*task, slicekit_slstm_backward_work(task));
  if (!fault) SLICEKIT_CALL(slstm::backward, *task);
  return fault;
}

}  // extern "C"
