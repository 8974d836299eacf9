// The C functions of the sparse scan: what is given is checked before anything is touched.
#include "dispatch.hpp"
#include "scan_checks.hpp"
#include "slicekit_sparse.h"
#include "sparse_places.hpp"

SLICEKIT_DECLARE(int64_t sparse_workspace(const slicekit_sparse &, bool);
                 void sparse_forward(const slicekit_sparse &);
                 void sparse_backward(const slicekit_sparse &);)

namespace {

using slicekit::between;
using slicekit::count;
using slicekit::missing;

int64_t check_sizes(const slicekit_sparse &n) {
  if (const int64_t status = slicekit::check_sizes(n)) return status;
  // Places in lists are 32-bit numbers.
  constexpr int64_t most = INT32_MAX - 1;
  const int64_t lists = count(n.dim, n.channels > n.dim ? n.channels : n.dim);
  const int64_t entries = count(n.channels, n.dim, n.dim);
  const bool fits = between(1, lists, most) && between(0, n.kept, most) && n.kept <= entries;
  return fits ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
}

int64_t check(const slicekit_sparse *problem, bool backward) {
  if (!problem) return SLICEKIT_BAD_POINTER;
  const slicekit_sparse &n = *problem;
  if (const int64_t status = check_sizes(n)) return status;
  if (const int64_t status = backward ? slicekit::check_backward_arrays(n)
                                      : slicekit::check_forward_arrays(n)) {
    return status;
  }
  if (missing(n.values, n.kept) || missing(n.places, n.kept)) return SLICEKIT_BAD_POINTER;
  if (backward && missing(n.in_values, n.kept)) return SLICEKIT_BAD_POINTER;
  if (n.workspace_bytes < SLICEKIT_CALL(sparse_workspace, n, backward)) {
    return SLICEKIT_BAD_WORKSPACE;
  }
  return slicekit::check_places(n.places, n.kept, count(n.channels, n.dim, n.dim));
}

}  // namespace

extern "C" {

int64_t slicekit_sparse_workspace(const slicekit_sparse *problem, int64_t backward) {
  if (!problem) return -SLICEKIT_BAD_POINTER;
  const int64_t status = check_sizes(*problem);
  return status ? -status : SLICEKIT_CALL(sparse_workspace, *problem, backward != 0);
}

int64_t slicekit_sparse_forward(const slicekit_sparse *problem) {
  const int64_t status = check(problem, false);
  if (status == SLICEKIT_OK) SLICEKIT_CALL(sparse_forward, *problem);
  return status;
}

int64_t slicekit_sparse_backward(const slicekit_sparse *problem) {
  const int64_t status = check(problem, true);
  if (status == SLICEKIT_OK) SLICEKIT_CALL(sparse_backward, *problem);
  return status;
}

}  // extern "C"
