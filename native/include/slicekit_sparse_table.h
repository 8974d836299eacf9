/* Sums of sparse matrices, A_v = Σ_i Δω_v^i A^i, for the increments of a table; each A^i has places of
 * its own. Work grows with the entries that are kept. */
#ifndef SLICEKIT_SPARSE_TABLE_H
#define SLICEKIT_SPARSE_TABLE_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int64_t real; /* bytes of a number: 4 or 8 */
  int64_t vocabulary, channels, dim;
  int64_t kept; /* entries of all A^i */
  int64_t threads;

  const void *values;     /* (kept,) */
  const int64_t *places;  /* (kept,) strictly ascending, into (channels, dim, dim) */
  const void *increments; /* (vocabulary, channels) */
  void *matrices;         /* (vocabulary, dim, dim); the forward pass writes them */

  /* For the backward pass. */
  const void *in_matrices; /* (vocabulary, dim, dim) */
  void *in_values;
  void *in_increments;

  void *workspace;
  int64_t workspace_bytes;
} slicekit_sparse_table;

/* Bytes of work space that a pass needs; negative for bad sizes. */
SLICEKIT_API int64_t slicekit_sparse_table_workspace(const slicekit_sparse_table *problem,
                                                     int64_t backward);

SLICEKIT_API int64_t slicekit_sparse_table_forward(const slicekit_sparse_table *problem);
SLICEKIT_API int64_t slicekit_sparse_table_backward(const slicekit_sparse_table *problem);

#ifdef __cplusplus
}
#endif

#endif
