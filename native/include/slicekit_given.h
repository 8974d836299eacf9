/* Recurrences with given transitions: h_{t+1} = M_t h_t + u_t, forwards and backwards.
 *
 * States are (batch, dim, columns); one column makes them vectors. All numbers are real, or with
 * diagonal transitions all may be complex (real and imaginary part side by side), except factors,
 * which are always real. Gradients follow the convention of conjugates: y = a h has the gradients
 * g conj(h) in a and conj(a) g in h.
 */
#ifndef SLICEKIT_GIVEN_H
#define SLICEKIT_GIVEN_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One recurrence. Arrays that a call does not use may be null. Kinds of M_t:
 *   DIAGONAL   diag(diagonal)
 *   BLOCKS     BlockDiag(blocks)
 *   LOW_RANK   diag(diagonal) + left right^T
 */
typedef struct slicekit_given {
  int64_t kind;
  int64_t real;    /* bytes of a real number, 4 or 8 */
  int64_t complex; /* 1 if numbers are complex, otherwise 0 */
  int64_t batch, length, dim, columns;
  int64_t block;   /* size of a block; 0 for other kinds */
  int64_t rank;    /* of left right^T; 0 for other kinds */
  int64_t rescale; /* steps between two divisions of the state; 0 for none */
  int64_t threads;

  const void *diagonal;    /* (batch, length, dim) */
  const void *blocks;      /* (batch, length, dim / block, block, block) */
  const void *left;        /* (batch, length, dim, rank) */
  const void *right;       /* (batch, length, dim, rank) */
  const void *state;       /* (batch, dim, columns), h_0 */
  const void *input;       /* u, (batch, length, dim, columns), or null */
  const void *input_left;  /* u = input_left input_right^T: (batch, length, dim), or null */
  const void *input_right; /* (batch, length, columns), or null */
  const void *readout;     /* q, (batch, length, dim), or null */

  /* What the forward pass writes and the backward pass reads. */
  void *outputs; /* the states h_{t+1} (batch, length, dim, columns), which the backward pass needs;
                    with a readout q_t^T h_{t+1} (batch, length, columns), which it does not */
  void *last;    /* (batch, dim, columns), the last state; not read */
  void *factors; /* with rescale (batch, windows, dim, columns): what was divided by at the beginning
                    of each window; windows = ceil(length / rescale) */
  void *starts;  /* with a readout (chunks, batch, dim, columns): the states before each chunk */

  /* Gradients: what the backward pass is given, and what it writes. */
  const void *in_outputs, *in_last;
  void *in_diagonal, *in_blocks, *in_left, *in_right, *in_state;
  void *in_input, *in_input_left, *in_input_right, *in_readout;

  void *work;
  int64_t work_bytes;
} slicekit_given;

/* Steps in a chunk, of which `starts` holds ceil(length / steps); 0 if a size is bad. */
SLICEKIT_API int64_t slicekit_given_chunk(int64_t real, int64_t complex, int64_t dim,
                                          int64_t columns);

/* Bytes of work space that the passes need, or -1 if the task is bad. Arrays are not read, but it
 * counts which of the forward pass's are null. */
SLICEKIT_API int64_t slicekit_given_forward_work(const slicekit_given *task);
SLICEKIT_API int64_t slicekit_given_backward_work(const slicekit_given *task);

/* Run all steps. With rescale r, which goes with neither inputs nor a readout, each column of each
 * group of rows that mix (a row, a block, or with low rank all of them) is divided by the power of
 * two below its largest modulus (by 1 if that is 0) before the steps r, 2r, 3r, ... */
SLICEKIT_API int64_t slicekit_given_forward(const slicekit_given *task);

/* The gradients of all that the forward pass was given; factors count as constants. With rescale,
 * tiny gradients of states (below 2^-90, or 2^-900 in double precision) count as zero. */
SLICEKIT_API int64_t slicekit_given_backward(const slicekit_given *task);

#ifdef __cplusplus
}
#endif

#endif
