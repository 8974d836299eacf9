// The C functions of slicekit_filter_bank.h: everything is checked here, before a kernel touches it.
#include "slicekit_filter_bank.h"

#include "dispatch.hpp"
#include "scan_checks.hpp"

SLICEKIT_DECLARE(namespace filter_bank {
  int64_t work(const slicekit_filter_bank &task);
  void pool(const slicekit_filter_bank &task);
})

namespace {

using slicekit::between;
using slicekit::count;
using slicekit::missing;

constexpr int64_t LARGEST = int64_t{1} << 40, MOST = int64_t{1} << 24;

int64_t check(const slicekit_filter_bank *task) {
  if (!task) return SLICEKIT_BAD_POINTER;
  const bool in_range =
      between(0, task->cases, LARGEST) && between(1, task->channels, MOST) &&
      between(0, task->history, LARGEST) && between(1, task->length, LARGEST) &&
      between(1, task->groups, MOST) && between(1, task->filters, MOST) &&
      between(1, task->dilation, LARGEST / SLICEKIT_TAPS) &&
      between(0, task->stretched, task->filters) && between(1, task->threads, 4096);
  if (!in_range) return SLICEKIT_BAD_SIZE;
  const int64_t before = (SLICEKIT_TAPS - 1) * task->dilation;
  if (task->history && task->history < before) return SLICEKIT_BAD_SIZE;
  const bool fits = count(task->cases, task->channels, task->history + task->length) >= 0 &&
                    count(task->cases, task->groups, task->filters, SLICEKIT_POOLS) >= 0 &&
                    count(task->threads, before + task->length) >= 0;
  return fits ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
}

}  // namespace

extern "C" {

int64_t slicekit_filter_bank_work(const slicekit_filter_bank *task) {
  return check(task) ? -1 : SLICEKIT_CALL(filter_bank::work, *task);
}

int64_t slicekit_filter_bank_pool(const slicekit_filter_bank *task) {
  if (const int64_t fault = check(task)) return fault;
  if (!task->cases) return SLICEKIT_OK;
  const bool lacking = !task->x || !task->lengths || !task->begun || !task->mixes ||
                       !task->weights || !task->thresholds || !task->pools || !task->leaders ||
                       missing(task->stretches, task->stretched) || !task->work;
  if (lacking) return SLICEKIT_BAD_POINTER;
  for (int64_t i = 0; i < task->cases; ++i) {
    if (!between(0, task->lengths[i], task->length)) return SLICEKIT_BAD_INDEX;
  }
  if (task->work_bytes < SLICEKIT_CALL(filter_bank::work, *task)) return SLICEKIT_BAD_WORKSPACE;
  SLICEKIT_CALL(filter_bank::pool, *task);
  return SLICEKIT_OK;
}

}  // extern "C"
