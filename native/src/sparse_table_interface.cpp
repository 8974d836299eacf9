// The C functions of sums of sparse matrices: what is given is checked before anything is touched.
#include "dispatch.hpp"
#include "scan_checks.hpp"
#include "slicekit_sparse_table.h"
#include "sparse_places.hpp"

SLICEKIT_DECLARE(int64_t sparse_table_workspace(const slicekit_sparse_table &);
                 void sparse_table_run(const slicekit_sparse_table &, bool);)

namespace {

using slicekit::between;
using slicekit::count;
using slicekit::missing;

int64_t check_sizes(const slicekit_sparse_table &n) {
  if (n.real != 4 && n.real != 8) return SLICEKIT_BAD_OPTION;
  constexpr int64_t most = int64_t{1} << 24, most_numbers = int64_t{1} << 44;
  const bool in_range = between(1, n.vocabulary, most) && between(1, n.channels, most) &&
                        between(1, n.dim, most) && between(1, n.threads, 4096);
  if (!in_range) return SLICEKIT_BAD_SIZE;
  // With room for the padding of tokens to strips, for each thread.
  const int64_t entries = count(n.channels, n.dim, n.dim), tokens = n.vocabulary + 64;
  return between(0, entries, most_numbers) && between(0, n.kept, entries) &&
                 between(0, count(tokens, n.dim, n.dim), most_numbers) &&
                 between(0, count(tokens, n.channels, n.threads), most_numbers)
             ? SLICEKIT_OK
             : SLICEKIT_BAD_SIZE;
}

int64_t check(const slicekit_sparse_table *problem, bool backward) {
  if (!problem) return SLICEKIT_BAD_POINTER;
  const slicekit_sparse_table &n = *problem;
  if (const int64_t status = check_sizes(n)) return status;
  if (missing(n.values, n.kept) || missing(n.places, n.kept) || !n.increments || !n.workspace) {
    return SLICEKIT_BAD_POINTER;
  }
  if (!backward && !n.matrices) return SLICEKIT_BAD_POINTER;
  if (backward && (!n.in_matrices || !n.in_increments || missing(n.in_values, n.kept))) {
    return SLICEKIT_BAD_POINTER;
  }
  if (n.workspace_bytes < SLICEKIT_CALL(sparse_table_workspace, n)) return SLICEKIT_BAD_WORKSPACE;
  return slicekit::check_places(n.places, n.kept, count(n.channels, n.dim, n.dim));
}

}  // namespace

extern "C" {

int64_t slicekit_sparse_table_workspace(const slicekit_sparse_table *problem, int64_t) {
  if (!problem) return -SLICEKIT_BAD_POINTER;
  const int64_t status = check_sizes(*problem);
  return status ? -status : SLICEKIT_CALL(sparse_table_workspace, *problem);
}

int64_t slicekit_sparse_table_forward(const slicekit_sparse_table *problem) {
  const int64_t status = check(problem, false);
  if (status == SLICEKIT_OK) SLICEKIT_CALL(sparse_table_run, *problem, false);
  return status;
}

int64_t slicekit_sparse_table_backward(const slicekit_sparse_table *problem) {
  const int64_t status = check(problem, true);
  if (status == SLICEKIT_OK) SLICEKIT_CALL(sparse_table_run, *problem, true);
  return status;
}

}  // extern "C"
