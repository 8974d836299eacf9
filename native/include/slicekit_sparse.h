/* The recurrence h_{l+1} = h_l + Σ_i Δω_l^i A^i h_l + u_l with sparse matrices A^i, each with
 * places of its own. Work grows with the entries that are kept, and so does memory. */
#ifndef SLICEKIT_SPARSE_H
#define SLICEKIT_SPARSE_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int64_t real; /* bytes of a number: 4 or 8 */
  int64_t batch, length, channels, dim, columns;
  int64_t rescale; /* steps between two divisions of the state by the power of two below its size;
                      0: none */
  int64_t threads;

  const void *increments; /* (batch, length, channels) */
  const void *state;      /* (batch, dim, columns) */
  const void *inputs;     /* (batch, length, dim, columns) or null; not with rescale */
  void *states;           /* (batch, length, dim, columns) */
  void *last;             /* (batch, dim, columns) */
  void *factors;          /* (batch, ceil(length / rescale), columns), with rescale */

  /* For the backward pass, which reads `states` and `factors`. */
  const void *in_states; /* (batch, length, dim, columns) */
  const void *in_last;   /* (batch, dim, columns) */
  void *in_increments;
  void *in_state;
  void *in_inputs; /* null where there are no inputs */

  void *workspace;
  int64_t workspace_bytes;

  int64_t kept;          /* entries of all A^i */
  const void *values;    /* (kept,) */
  const int64_t *places; /* (kept,) strictly ascending, into (channels, dim, dim) */
  void *in_values;
} slicekit_sparse;

/* Bytes of work space that a pass needs; negative for bad sizes. */
SLICEKIT_API int64_t slicekit_sparse_workspace(const slicekit_sparse *problem, int64_t backward);

SLICEKIT_API int64_t slicekit_sparse_forward(const slicekit_sparse *problem);
SLICEKIT_API int64_t slicekit_sparse_backward(const slicekit_sparse *problem);

#ifdef __cplusplus
}
#endif

#endif
