// The door to the single step: checks everything that is given, then calls the kernel.

#include "dispatch.hpp"
#include "slicekit_step.h"

SLICEKIT_DECLARE(int64_t step_run(const slicekit_step_plan &plan, const void *x, const void *state,
                                  void *out, const slicekit_step_norms *norms);
                 bool step_fits(int64_t real, int64_t block);)

namespace {

constexpr int64_t MOST = int64_t(1) << 31, MOST_RANK = 256;

int64_t check_part(const slicekit_step_part &part, int64_t real) {
  const bool blocks = part.kind == SLICEKIT_BLOCKS || part.kind == SLICEKIT_SKEW;
  const bool exponential = part.kind == SLICEKIT_SKEW || (blocks && part.option);
  const bool ranked = part.kind == SLICEKIT_LOW_RANK || part.kind == SLICEKIT_SHARED_FACTORS;
  if (part.kind < SLICEKIT_BLOCKS || part.kind > SLICEKIT_SHARED_FACTORS) {
    return SLICEKIT_BAD_OPTION;
  }
  if (part.dim < 1 || part.dim > MOST || part.size < 0 || part.size > MOST) return SLICEKIT_BAD_SIZE;
  if (blocks && (part.size < 1 || part.dim % part.size)) return SLICEKIT_BAD_SIZE;
  if (exponential && !SLICEKIT_CALL(step_fits, real, part.size)) return SLICEKIT_BAD_SIZE;
  if (ranked && (part.size < 1 || part.size > MOST_RANK)) return SLICEKIT_BAD_SIZE;
  if (part.kind == SLICEKIT_HADAMARD && (part.dim & (part.dim - 1))) return SLICEKIT_BAD_SIZE;
  const int needed = ranked ? 3 : part.kind == SLICEKIT_SPARSE ? 2 : 1;
  for (int i = 0; i < needed; ++i) {
    if (!part.parameters[i] && !(part.kind == SLICEKIT_SPARSE && part.size == 0)) {
      return SLICEKIT_BAD_POINTER;
    }
  }
  return SLICEKIT_OK;
}

int64_t check_places(const slicekit_step_part &part, int64_t channels) {
  const int64_t *places = static_cast<const int64_t *>(part.parameters[1]);
  for (int64_t e = 0; e < part.size; ++e) {
    if (places[e] < 0 || places[e] >= channels * part.dim * part.dim) return SLICEKIT_BAD_INDEX;
  }
  return SLICEKIT_OK;
}

int64_t step(const slicekit_step_plan *plan, const void *x, const void *state, void *out,
             const slicekit_step_norms *norms) {
  if (!plan || !plan->part) return SLICEKIT_BAD_POINTER;
  if (plan->real != 4 && plan->real != 8) return SLICEKIT_BAD_OPTION;
  if (plan->batch < 0 || plan->batch > MOST || plan->channels < 1 || plan->channels > MOST) {
    return SLICEKIT_BAD_SIZE;
  }
  if (plan->parts < 1 || plan->parts > MOST || plan->dim < 1) return SLICEKIT_BAD_SIZE;
  int64_t dim = 0;
  for (int64_t p = 0; p < plan->parts; ++p) {
    const slicekit_step_part &part = plan->part[p];
    if (const int64_t status = check_part(part, plan->real)) return status;
    if (part.kind == SLICEKIT_SPARSE) {
      if (const int64_t status = check_places(part, plan->channels)) return status;
    }
    dim += part.dim;
  }
  if (dim != plan->dim) return SLICEKIT_BAD_SIZE;
  if (plan->batch == 0) return SLICEKIT_OK;
  const bool needs_x = plan->dt == 0 || plan->channels > 1;
  if ((needs_x && !x) || !state || !out || state == out) return SLICEKIT_BAD_POINTER;
  return SLICEKIT_CALL(step_run, *plan, x, state, out, norms);
}

}  // namespace

extern "C" int64_t slicekit_step(const slicekit_step_plan *plan, const void *x, const void *state,
                                 void *out) {
  return step(plan, x, state, out, nullptr);
}

extern "C" int64_t slicekit_step_projective(const slicekit_step_plan *plan, const void *x,
                                            const void *state, void *out,
                                            const slicekit_step_norms *norms) {
  if (!norms) return SLICEKIT_BAD_POINTER;
  const bool given = norms->log_norm && norms->out_log_norm && norms->unit;
  const bool apart = norms->unit != state && norms->unit != out;
  if (plan && plan->batch > 0 && !(given && apart)) return SLICEKIT_BAD_POINTER;
  return step(plan, x, state, out, norms);
}
