// The C functions of slicekit_tanh.h: what is given is checked before anything is touched.
#include "dispatch.hpp"
#include "scan_checks.hpp"
#include "slicekit_tanh.h"

SLICEKIT_DECLARE(void tanh_run(const slicekit_tanh &);)

namespace {

using slicekit::between;

int64_t check_sizes(const slicekit_tanh *task) {
  if (!task) return SLICEKIT_BAD_POINTER;
  if (task->real != 4 && task->real != 8) return SLICEKIT_BAD_OPTION;
  const bool in_range = between(0, task->batch, int64_t{1} << 44) && between(1, task->threads, 4096);
  return in_range ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
}

}  // namespace

extern "C" {

int64_t slicekit_tanh_work(const slicekit_tanh *task) { return -check_sizes(task); }

int64_t slicekit_tanh_forward(const slicekit_tanh *task) {
  const int64_t status = check_sizes(task);
  if (status != SLICEKIT_OK || task->batch == 0) return status;
  if (!task->x || !task->y) return SLICEKIT_BAD_POINTER;
  SLICEKIT_CALL(tanh_run, *task);
  return SLICEKIT_OK;
}

}  // extern "C"
