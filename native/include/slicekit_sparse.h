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
  int64_t still; /* 1: the first position drives nothing, and its state is the initial one */
  int64_t half;  /* 1: increments, states, directions and the gradients of all three are bfloat16, and
                    everything else is float; not with inputs or several columns */
  int64_t directed; /* 1: directions of the states are written too, and in_states are the gradients of
                       these; not with inputs or several columns */
  double pace;   /* 0: increments are given; otherwise they are pace (1, values), and what is given
                    are the values, with one channel less, and so are their gradients */

  const int64_t *lengths; /* (batch,) positions from which on nothing drives, or null */
  const void *increments; /* (batch, length, channels) */
  const void *state;      /* (batch, dim, columns) */
  const void *inputs;     /* (batch, length, dim, columns) or null; not with rescale */
  void *states;           /* (batch, length, dim, columns) */
  void *directions;       /* the same shape: with directed, states over their norms */
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
