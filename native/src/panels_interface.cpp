// The door to the fused recurrence: checks everything that is given, then calls the kernel.

#include <cmath>

#include "dispatch.hpp"
#include "large_pages.hpp"
#include "slicekit_panels.h"

SLICEKIT_DECLARE(int64_t panels_run(const slicekit_panels &q, bool back);
                 int64_t panels_workspace(const slicekit_panels &q, bool back);
                 int64_t panels_columns(const slicekit_panels &q);
                 int64_t panels_kept(const slicekit_panels &q);)

namespace {

constexpr int64_t MOST_PARTS = 256, MOST_RANK = 256, MOST = int64_t(1) << 44;

bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }
bool is_flag(int64_t n) { return n == 0 || n == 1; }

int64_t check_part(const slicekit_part &part) {
  const bool blocks = part.kind == SLICEKIT_BLOCKS || part.kind == SLICEKIT_SKEW;
  if (part.kind < SLICEKIT_BLOCKS || part.kind > SLICEKIT_HADAMARD) return SLICEKIT_BAD_OPTION;
  if (part.exponential && !blocks) return SLICEKIT_BAD_OPTION;
  if (part.kind == SLICEKIT_SKEW && !part.exponential) return SLICEKIT_BAD_OPTION;
  if (part.dim < 1 || part.dim > INT32_MAX / 16) return SLICEKIT_BAD_SIZE;
  if (blocks && (part.size < 1 || part.dim % part.size)) return SLICEKIT_BAD_SIZE;
  if (part.kind == SLICEKIT_LOW_RANK && (part.size < 1 || part.size > MOST_RANK)) {
    return SLICEKIT_BAD_SIZE;
  }
  if (part.kind == SLICEKIT_HADAMARD && !is_power_of_two(part.dim)) return SLICEKIT_BAD_SIZE;
  return SLICEKIT_OK;
}

// Whether the sizes of all arrays can be told; `features` bounds those of one row.
bool addressable(const slicekit_panels &q, double features) {
  const double rows = double(q.batch) * q.length, copies = q.threads + 4.0;
  return rows * q.dim * q.columns < MOST && rows * q.channels * copies < MOST &&
         rows * features < MOST && features * q.channels * copies < MOST &&
         features * q.vocabulary * copies < MOST;
}

int64_t check_sizes(const slicekit_panels *q) {
  if (!q || !q->part) return SLICEKIT_BAD_POINTER;
  if (q->real != 4 && q->real != 8) return SLICEKIT_BAD_OPTION;
  const int64_t sizes[] = {q->length, q->channels, q->dim, q->columns, q->threads, q->parts};
  for (int64_t size : sizes) {
    if (size < 1 || size > MOST) return SLICEKIT_BAD_SIZE;
  }
  if (q->batch < 0 || q->batch > MOST || q->parts > MOST_PARTS) return SLICEKIT_BAD_SIZE;
  if (q->vocabulary < 0 || q->vocabulary > MOST) return SLICEKIT_BAD_SIZE;
  if (q->rescale < 0 || q->restore < 0) return SLICEKIT_BAD_OPTION;
  if (q->rescale && q->inputs && !q->product) return SLICEKIT_BAD_OPTION;
  const bool plain = !q->inputs && !q->product;
  if (!is_flag(q->half) || !is_flag(q->directed) || !is_flag(q->still)) return SLICEKIT_BAD_OPTION;
  if (q->half && (!plain || q->real != 4)) return SLICEKIT_BAD_OPTION;
  if (q->directed && (!plain || !q->rescale || q->columns > 1)) return SLICEKIT_BAD_OPTION;
  if (q->lengths && (q->vocabulary || q->product)) return SLICEKIT_BAD_OPTION;
  if (q->last && !q->half) return SLICEKIT_BAD_OPTION;
  if (!std::isfinite(q->pace) || (q->pace && q->channels < 2)) return SLICEKIT_BAD_OPTION;
  int64_t dim = 0;
  double features = 0;
  for (int64_t p = 0; p < q->parts; ++p) {
    if (const int64_t status = check_part(q->part[p])) return status;
    dim += q->part[p].dim;
    features += 64.0 + q->part[p].dim * (1.0 + 2.0 * q->part[p].size);
  }
  if (dim != q->dim) return SLICEKIT_BAD_SIZE;
  return addressable(*q, features) ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
}

bool has_all(const slicekit_panels *q, const void *const *parameters) {
  if (!parameters) return false;
  for (int64_t p = 0; p < q->parts; ++p) {
    const int needed = q->part[p].kind == SLICEKIT_LOW_RANK ? 3 : 1;
    for (int i = 0; i < needed; ++i) {
      if (!parameters[3 * p + i]) return false;
    }
  }
  return true;
}

int64_t check_index(const slicekit_panels *q) {
  for (int64_t i = 0; i < q->batch * q->length; ++i) {
    if (q->index[i] < -1 || q->index[i] >= q->vocabulary) return SLICEKIT_BAD_INDEX;
  }
  return SLICEKIT_OK;
}

int64_t check_lengths(const slicekit_panels *q) {
  for (int64_t b = 0; q->lengths && b < q->batch; ++b) {
    if (q->lengths[b] < 0 || q->lengths[b] > q->length) return SLICEKIT_BAD_INDEX;
  }
  return SLICEKIT_OK;
}

// What all passes read.
int64_t check_given(const slicekit_panels *q) {
  if (!q->workspace || !q->increments) return SLICEKIT_BAD_POINTER;
  if (!has_all(q, q->parameters)) return SLICEKIT_BAD_POINTER;
  if (q->vocabulary && !q->index) return SLICEKIT_BAD_POINTER;
  if (q->made && !q->kept) return SLICEKIT_BAD_POINTER;
  if (q->kept && slicekit_panels_kept(q) == 0) return SLICEKIT_BAD_OPTION;
  return SLICEKIT_OK;
}

int64_t check(const slicekit_panels *q) {
  if (const int64_t status = check_sizes(q)) return status;
  if (q->batch == 0) return SLICEKIT_OK;
  if (q->product) return SLICEKIT_BAD_OPTION;
  if (!q->state || !q->states) return SLICEKIT_BAD_POINTER;
  if (q->rescale && !q->factors) return SLICEKIT_BAD_POINTER;
  if (const int64_t status = check_given(q)) return status;
  if (const int64_t status = check_lengths(q)) return status;
  return q->vocabulary ? check_index(q) : int64_t(SLICEKIT_OK);
}

}  // namespace

extern "C" {

int64_t slicekit_panels_kept(const slicekit_panels *problem) {
  if (const int64_t status = check_sizes(problem)) return -status;
  return problem->batch ? SLICEKIT_CALL(panels_kept, *problem) : 0;
}

int64_t slicekit_panels_columns(const slicekit_panels *problem) {
  if (const int64_t status = check_sizes(problem)) return -status;
  return SLICEKIT_CALL(panels_columns, *problem);
}

int64_t slicekit_panels_workspace(const slicekit_panels *problem, int64_t backward) {
  if (const int64_t status = check_sizes(problem)) return -status;
  return problem->batch ? SLICEKIT_CALL(panels_workspace, *problem, backward != 0) : 0;
}

int64_t slicekit_panels_forward(const slicekit_panels *problem) {
  if (const int64_t status = check(problem)) return status;
  const slicekit_panels &q = *problem;
  if (q.batch == 0) return SLICEKIT_OK;
  if (q.directed && !q.directions) return SLICEKIT_BAD_POINTER;
  const int64_t bytes = q.batch * q.length * q.dim * q.columns * (q.half ? 2 : q.real);
  slicekit::prefer_large_pages(q.states, bytes);
  if (q.directed) slicekit::prefer_large_pages(q.directions, bytes);
  return SLICEKIT_CALL(panels_run, q, false);
}

int64_t slicekit_panels_product(const slicekit_panels *problem) {
  if (const int64_t status = check_sizes(problem)) return status;
  const slicekit_panels &q = *problem;
  if (q.batch == 0) return SLICEKIT_OK;
  if (!q.product || !q.powers || (q.inputs && !q.driven)) return SLICEKIT_BAD_POINTER;
  if (const int64_t status = check_given(problem)) return status;
  if (q.made) return SLICEKIT_BAD_OPTION;
  if (q.vocabulary) {
    if (const int64_t status = check_index(problem)) return status;
  }
  return SLICEKIT_CALL(panels_run, q, false);
}

int64_t slicekit_panels_backward(const slicekit_panels *problem) {
  if (const int64_t status = check(problem)) return status;
  if (problem->batch == 0) return SLICEKIT_OK;
  const slicekit_panels &q = *problem;
  if (!q.in_states || !q.in_state) return SLICEKIT_BAD_POINTER;
  if ((q.inputs != nullptr) != (q.in_inputs != nullptr)) return SLICEKIT_BAD_POINTER;
  if (q.in_parameters && !has_all(problem, q.in_parameters)) return SLICEKIT_BAD_POINTER;
  return SLICEKIT_CALL(panels_run, q, true);
}

}  // extern "C"
