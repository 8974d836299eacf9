// The C interface of log-signatures: checks what it is given and chooses the instruction set.
#include "slicekit_log_signatures.h"

#include <cstring>

#include "dispatch.hpp"

using Sizes = slicekit_log_signatures_sizes;
using Tables = slicekit_log_signatures_tables;

SLICEKIT_DECLARE(
    int64_t log_signatures_bytes(const Sizes &sizes);
    void log_signatures_forward(const Sizes &sizes, const Tables &tables, const int64_t *edges,
                                const void *increments, void *coefficients, void *workspace);
    void log_signatures_pullback(const Sizes &sizes, const Tables &tables, const int64_t *edges,
                                 const void *increments, const void *in_coefficients,
                                 void *in_increments, void *workspace);)

namespace {

constexpr int64_t MOST = INT64_C(1) << 40, MOST_THREADS = 1 << 16, MOST_WORDS = 1 << 28;

bool outside(int64_t value, int64_t low, int64_t high) { return value < low || value > high; }

// Whether a x b would be more than MOST; both are at least 0.
bool too_many(int64_t a, int64_t b) { return b > 0 && a > MOST / b; }

int64_t words_below(const Sizes &sizes) {
  int64_t sum = 0, power = 1;
  for (int64_t level = 0; level < sizes.depth; ++level) {
    sum += power;
    if (sum > MOST_WORDS) return MOST_WORDS + 1;
    power *= sizes.channels;
  }
  return sum;
}

int64_t fault_of_sizes(const slicekit_log_signatures *task) {
  if (!task) return SLICEKIT_BAD_POINTER;
  const Sizes *sizes = &task->sizes;
  if (sizes->real != 4 && sizes->real != 8) return SLICEKIT_BAD_OPTION;
  if (outside(sizes->channels, 1, MOST_WORDS)) return SLICEKIT_BAD_SIZE;
  if (outside(sizes->depth, 2, SLICEKIT_LOG_SIGNATURES_DEPTH)) return SLICEKIT_BAD_SIZE;
  if (words_below(*sizes) > MOST_WORDS) return SLICEKIT_BAD_SIZE;
  if (outside(sizes->size, 1, MOST_WORDS) || outside(sizes->top, 0, sizes->size))
    return SLICEKIT_BAD_SIZE;
  if (outside(sizes->prefixes, 0, MOST_WORDS) || outside(sizes->splits, 0, MOST) ||
      outside(sizes->changes, 0, MOST))
    return SLICEKIT_BAD_SIZE;
  if (outside(sizes->threads, 1, MOST_THREADS)) return SLICEKIT_BAD_SIZE;
  if (outside(sizes->batch, 0, MOST) || outside(sizes->length, 0, MOST) ||
      outside(sizes->windows, 0, MOST) || outside(sizes->window, 0, MOST))
    return SLICEKIT_BAD_SIZE;
  if (too_many(sizes->batch, sizes->length) || too_many(sizes->batch, sizes->windows) ||
      too_many(sizes->batch * sizes->length, sizes->channels) ||
      too_many(sizes->batch * sizes->windows, sizes->size))
    return SLICEKIT_BAD_SIZE;
  return SLICEKIT_OK;
}

// Without edges, the windows must be those that make up the path.
int64_t fault_of_edges(const Sizes &sizes, const int64_t *edges) {
  if (!edges) {
    if (sizes.window < 1) return SLICEKIT_BAD_SIZE;
    const int64_t expected = (sizes.length + sizes.window - 1) / sizes.window;
    return sizes.windows == expected ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
  }
  for (int64_t path = 0; path < sizes.batch; ++path) {
    const int64_t *edge = edges + path * (sizes.windows + 1);
    if (outside(edge[0], 0, sizes.length)) return SLICEKIT_BAD_INDEX;
    for (int64_t w = 0; w < sizes.windows; ++w) {
      if (outside(edge[w + 1], edge[w], sizes.length)) return SLICEKIT_BAD_INDEX;
    }
  }
  return SLICEKIT_OK;
}

bool bad_starts(const int64_t *starts, int64_t rows, int64_t entries) {
  for (int64_t row = 0; row < rows; ++row) {
    if (starts[row] > starts[row + 1]) return true;
  }
  return starts[0] != 0 || starts[rows] != entries;
}

bool any_outside(const int64_t *values, int64_t count, int64_t limit) {
  for (int64_t i = 0; i < count; ++i) {
    if (outside(values[i], 0, limit - 1)) return true;
  }
  return false;
}

int64_t fault_of_tables(const Sizes &sizes, const Tables &tables) {
  if (!tables.places || !tables.split_starts || !tables.splits || !tables.prefixes ||
      !tables.change_starts || !tables.change_columns || !tables.change_values)
    return SLICEKIT_BAD_POINTER;
  const int64_t lower = words_below(sizes);
  if (bad_starts(tables.split_starts, sizes.size, sizes.splits) ||
      bad_starts(tables.change_starts, sizes.size, sizes.changes) ||
      any_outside(tables.places, sizes.size, lower + sizes.top) ||
      any_outside(tables.splits, 2 * sizes.splits, lower) ||
      any_outside(tables.change_columns, sizes.changes, sizes.size))
    return SLICEKIT_BAD_INDEX;
  int64_t shorter = 1, top = 0;
  for (int64_t level = 2; level < sizes.depth; ++level) shorter *= sizes.channels;
  for (int64_t i = 0; i < sizes.prefixes; ++i) {
    const int64_t *prefix = tables.prefixes + 3 * i;
    if (outside(prefix[0], 0, shorter - 1) || outside(prefix[1], 0, sizes.channels - 1) ||
        outside(prefix[2], 0, sizes.channels - 1))
      return SLICEKIT_BAD_INDEX;
    top += sizes.channels - prefix[2];
  }
  return top == sizes.top ? SLICEKIT_OK : SLICEKIT_BAD_INDEX;
}

int64_t fault_of(const slicekit_log_signatures &task) {
  if (const int64_t fault = fault_of_tables(task.sizes, task.tables)) return fault;
  if (const int64_t fault = fault_of_edges(task.sizes, task.edges)) return fault;
  if (!task.work) return SLICEKIT_BAD_POINTER;
  const int64_t needed = SLICEKIT_CALL(log_signatures_bytes, task.sizes);
  return task.work_bytes < needed ? SLICEKIT_BAD_WORKSPACE : SLICEKIT_OK;
}

}  // namespace

extern "C" {

int64_t slicekit_log_signatures_workspace(const slicekit_log_signatures *task) {
  return fault_of_sizes(task) ? 0 : SLICEKIT_CALL(log_signatures_bytes, task->sizes);
}

int64_t slicekit_log_signatures_forward(const slicekit_log_signatures *task) {
  if (const int64_t fault = fault_of_sizes(task)) return fault;
  const Sizes &sizes = task->sizes;
  if (sizes.batch * sizes.windows == 0) return SLICEKIT_OK;
  if ((!task->increments && sizes.length) || !task->coefficients) return SLICEKIT_BAD_POINTER;
  if (const int64_t fault = fault_of(*task)) return fault;
  SLICEKIT_CALL(log_signatures_forward, sizes, task->tables, task->edges, task->increments,
                task->coefficients, task->work);
  return SLICEKIT_OK;
}

int64_t slicekit_log_signatures_backward(const slicekit_log_signatures *task) {
  if (const int64_t fault = fault_of_sizes(task)) return fault;
  const Sizes &sizes = task->sizes;
  const int64_t numbers = sizes.batch * sizes.length * sizes.channels;
  if (numbers == 0) return SLICEKIT_OK;
  if (!task->in_increments) return SLICEKIT_BAD_POINTER;
  // What lies in no window is left alone by the kernel.
  if (task->edges) std::memset(task->in_increments, 0, numbers * sizes.real);
  if (sizes.windows == 0) return SLICEKIT_OK;
  if (!task->increments || !task->in_coefficients) return SLICEKIT_BAD_POINTER;
  if (const int64_t fault = fault_of(*task)) return fault;
  SLICEKIT_CALL(log_signatures_pullback, sizes, task->tables, task->edges, task->increments,
                task->in_coefficients, task->in_increments, task->work);
  return SLICEKIT_OK;
}

}  // extern "C"
