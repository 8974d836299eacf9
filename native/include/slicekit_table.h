/* The recurrence h_{l+1} = h_l + A_{v_l} h_l + u_l, where A_v are the dense matrices of a table and v_l
 * says which one a step takes. Sequences that take the same matrix at the same step are multiplied
 * together, so that a matrix is read once for all of them. */
#ifndef SLICEKIT_TABLE_H
#define SLICEKIT_TABLE_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int64_t real; /* bytes of a number: 4 or 8 */
  int64_t batch, length, dim, columns;
  int64_t vocabulary; /* matrices of the table */
  int64_t rescale;    /* steps between two divisions of the state by the power of two below its size;
                         0: none */
  int64_t threads;
  int64_t half;       /* 1: states, directions and the gradients of both are bfloat16, and everything
                         else is float; not with inputs or several columns */
  int64_t directed;   /* 1: directions of the states are written too, and in_states are the gradients
                         of these; not with inputs or several columns */

  const void *matrices; /* (vocabulary, dim, dim) */
  const int64_t *index; /* (batch, length) */
  const void *state;    /* (batch, dim, columns) */
  const void *inputs;   /* (batch, length, dim, columns) or null; not with rescale */
  void *states;         /* (batch, length, dim, columns) */
  void *directions;     /* the same shape: with directed, states over their norms */
  void *last;           /* (batch, dim, columns), or null */
  void *factors;        /* (batch, ceil(length / rescale), columns), with rescale */

  /* For the backward pass, which reads `states` and `factors`. */
  const void *in_states; /* (batch, length, dim, columns) */
  const void *in_last;   /* (batch, dim, columns) */
  void *in_matrices;
  void *in_state;
  void *in_inputs; /* null where there are no inputs */

  void *workspace;
  int64_t workspace_bytes;
} slicekit_table;

/* Bytes of work space that a pass needs; negative for bad sizes. */
SLICEKIT_API int64_t slicekit_table_workspace(const slicekit_table *problem, int64_t backward);

SLICEKIT_API int64_t slicekit_table_forward(const slicekit_table *problem);
SLICEKIT_API int64_t slicekit_table_backward(const slicekit_table *problem);

#ifdef __cplusplus
}
#endif

#endif
