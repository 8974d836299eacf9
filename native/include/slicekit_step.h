/* One step of one layer, for use element by element: out = h + F(Σ_i Δω^i A^i) h.
 *
 * Parameters are used where they stand, nothing is packed or allocated. Arrays are arguments and no
 * part of the plan, which several threads may use at once.
 */
#ifndef SLICEKIT_STEP_H
#define SLICEKIT_STEP_H

#include "slicekit_panels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of parts are those of slicekit_panels.h, and:
 *   SPARSE           values, places (kept), int64 places in (channels, dim, dim)   size = kept
 *   SHARED_FACTORS   diagonal (dim), left, right (dim, r) for each channel         size = r
 * `option`: of BLOCKS, whether to exponentiate; of HADAMARD, whether to take the values' tanh.
 */
typedef struct {
  int64_t kind, dim, size, option;
  const void *parameters[3];
} slicekit_step_part;

/* What stays the same from step to step. */
typedef struct {
  int64_t real, batch, channels, dim, parts;
  const slicekit_step_part *part;
  double dt; /* if not 0, increments are (1, x) dt with x (batch, channels - 1), otherwise x */
} slicekit_step_plan;

/* Rows of the largest block that is exponentiated here. */
#define SLICEKIT_STEP_BLOCK 16

/* x (batch, channels or channels - 1), state and out (batch, dim); out is not state.
 * Returns SLICEKIT_NOT_FINITE, having done its work, if a number of out is not finite. */
enum { SLICEKIT_NOT_FINITE = 100 };
SLICEKIT_API int64_t slicekit_step(const slicekit_step_plan *plan, const void *x, const void *state,
                                   void *out);

/* Of states exp(log_norm) * direction, for the projective step. */
typedef struct {
  const void *log_norm; /* (batch) */
  void *out_log_norm;   /* (batch) */
  void *unit;           /* work space for (batch, dim) numbers */
} slicekit_step_norms;

/* The same with direction and log-norm carried apart: state and out are directions. A state's own
 * norm counts; one of zeros stays zero, with the logarithm of the smallest normal number added. */
SLICEKIT_API int64_t slicekit_step_projective(const slicekit_step_plan *plan, const void *x,
                                              const void *state, void *out,
                                              const slicekit_step_norms *norms);

#ifdef __cplusplus
}
#endif

#endif
