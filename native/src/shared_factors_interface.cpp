// The C functions of the scan with shared factors: what is given is checked before anything is
// touched.
#include "dispatch.hpp"
#include "scan_checks.hpp"
#include "slicekit_shared_factors.h"

SLICEKIT_DECLARE(int64_t shared_factors_workspace(const slicekit_shared_factors &, bool);
                 void shared_factors_forward(const slicekit_shared_factors &);
                 void shared_factors_backward(const slicekit_shared_factors &);)

namespace {

using slicekit::between;
using slicekit::count;

int64_t check_sizes(const slicekit_shared_factors &n) {
  if (const int64_t status = slicekit::check_sizes(n)) return status;
  constexpr int64_t most = int64_t{1} << 40;
  const bool fits = between(1, n.rank, n.dim) && between(1, n.columns, most) &&
                    between(1, count(n.channels, n.dim, n.rank, n.threads), most);
  return fits ? SLICEKIT_OK : SLICEKIT_BAD_SIZE;
}

int64_t check(const slicekit_shared_factors *problem, bool backward) {
  if (!problem) return SLICEKIT_BAD_POINTER;
  const slicekit_shared_factors &n = *problem;
  if (const int64_t status = check_sizes(n)) return status;
  if (const int64_t status = backward ? slicekit::check_backward_arrays(n)
                                      : slicekit::check_forward_arrays(n)) {
    return status;
  }
  if (!n.diagonal || !n.left || !n.right) return SLICEKIT_BAD_POINTER;
  if (backward && (!n.in_diagonal || !n.in_left || !n.in_right)) return SLICEKIT_BAD_POINTER;
  const int64_t needed = SLICEKIT_CALL(shared_factors_workspace, n, backward);
  return n.workspace_bytes < needed ? SLICEKIT_BAD_WORKSPACE : SLICEKIT_OK;
}

}  // namespace

extern "C" {

int64_t slicekit_shared_factors_workspace(const slicekit_shared_factors *problem,
                                          int64_t backward) {
  if (!problem) return -SLICEKIT_BAD_POINTER;
  const int64_t status = check_sizes(*problem);
  return status ? -status : SLICEKIT_CALL(shared_factors_workspace, *problem, backward != 0);
}

int64_t slicekit_shared_factors_forward(const slicekit_shared_factors *problem) {
  const int64_t status = check(problem, false);
  if (status == SLICEKIT_OK) SLICEKIT_CALL(shared_factors_forward, *problem);
  return status;
}

int64_t slicekit_shared_factors_backward(const slicekit_shared_factors *problem) {
  const int64_t status = check(problem, true);
  if (status == SLICEKIT_OK) SLICEKIT_CALL(shared_factors_backward, *problem);
  return status;
}

}  // extern "C"
