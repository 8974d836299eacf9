// The C functions of the recurrence by a table: what is given is checked before anything is touched.
#include "dispatch.hpp"
#include "large_pages.hpp"
#include "scan_checks.hpp"
#include "slicekit_table.h"

SLICEKIT_DECLARE(int64_t table_workspace(const slicekit_table &, bool);
                 void table_forward(const slicekit_table &);
                 void table_backward(const slicekit_table &);)

namespace {

using slicekit::between;
using slicekit::count;

int64_t check_sizes(const slicekit_table &n) {
  if ((n.real != 4 && n.real != 8) || n.rescale < 0) return SLICEKIT_BAD_OPTION;
  if (!slicekit::states_fit(n)) return SLICEKIT_BAD_OPTION;
  constexpr int64_t most = int64_t{1} << 24, most_numbers = int64_t{1} << 44;
  const bool in_range = between(0, n.batch, most_numbers) && between(1, n.length, most_numbers) &&
                        between(1, n.columns, most) && between(1, n.dim, most) &&
                        between(1, n.vocabulary, most) && between(1, n.threads, 4096);
  if (!in_range) return SLICEKIT_BAD_SIZE;
  // With room for the padding of rows to lane groups.
  const int64_t padded = n.dim + 16;
  return between(0, count(n.batch, n.length, n.columns, padded), most_numbers) &&
                 between(0, count(n.vocabulary, n.dim, padded), most_numbers) &&
                 between(0, count(n.threads, n.vocabulary), most_numbers)
             ? SLICEKIT_OK
             : SLICEKIT_BAD_SIZE;
}

int64_t check_index(const slicekit_table &n) {
  for (int64_t i = 0; i < n.batch * n.length; ++i) {
    if (!between(0, n.index[i], n.vocabulary - 1)) return SLICEKIT_BAD_INDEX;
  }
  return SLICEKIT_OK;
}

int64_t check(const slicekit_table *problem, bool backward) {
  if (!problem) return SLICEKIT_BAD_POINTER;
  const slicekit_table &n = *problem;
  if (const int64_t status = check_sizes(n)) return status;
  if (n.rescale && (n.inputs || n.in_inputs)) return SLICEKIT_BAD_OPTION;
  if (n.batch == 0) return SLICEKIT_OK;
  if (!n.matrices || !n.index || !n.state || !n.states || !n.workspace) return SLICEKIT_BAD_POINTER;
  if (n.rescale && !n.factors) return SLICEKIT_BAD_POINTER;
  if (!backward && n.directed && !n.directions) return SLICEKIT_BAD_POINTER;
  if (backward) {
    if (!n.in_states || !n.in_last || !n.in_matrices || !n.in_state) return SLICEKIT_BAD_POINTER;
    if ((n.inputs != nullptr) != (n.in_inputs != nullptr)) return SLICEKIT_BAD_POINTER;
  }
  if (n.workspace_bytes < SLICEKIT_CALL(table_workspace, n, backward)) return SLICEKIT_BAD_WORKSPACE;
  return check_index(n);
}

}  // namespace

extern "C" {

int64_t slicekit_table_workspace(const slicekit_table *problem, int64_t backward) {
  if (!problem) return -SLICEKIT_BAD_POINTER;
  if (const int64_t status = check_sizes(*problem)) return -status;
  return problem->batch ? SLICEKIT_CALL(table_workspace, *problem, backward != 0) : 0;
}

int64_t slicekit_table_forward(const slicekit_table *problem) {
  const int64_t status = check(problem, false);
  if (status != SLICEKIT_OK || problem->batch == 0) return status;
  const slicekit_table &n = *problem;
  slicekit::prefer_large_pages(n.states, n.batch * n.length * n.dim * n.columns * (n.half ? 2 : n.real));
  SLICEKIT_CALL(table_forward, n);
  return SLICEKIT_OK;
}

int64_t slicekit_table_backward(const slicekit_table *problem) {
  const int64_t status = check(problem, true);
  if (status == SLICEKIT_OK && problem->batch) SLICEKIT_CALL(table_backward, *problem);
  return status;
}

}  // extern "C"
