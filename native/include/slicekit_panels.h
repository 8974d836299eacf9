/* Linear recurrences whose transitions are made from increments, in one pass:
 *
 *     h_{l+1} = h_l + F(Σ_i Δω_l^i A^i) h_l + u_l,    F(A) = A or exp(A) - I,
 *
 * for block-diagonal, skew-symmetric, diagonal-plus-low-rank and Walsh-Hadamard A^i and direct sums
 * of them. Transitions are made for a few steps at a time, used at once, and made again (or kept)
 * for the backward pass.
 */
#ifndef SLICEKIT_PANELS_H
#define SLICEKIT_PANELS_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of parts, with the parameters of each (channels, ...):
 *   BLOCKS     blocks (k, b, b)                       size = b, dim = k b
 *   SKEW       angles (k, b (b - 1) / 2)              size = b, exponential only
 *   LOW_RANK   diagonal (dim), left, right (dim, r)   size = r, no exponential
 *   HADAMARD   values (dim), dim a power of two       size = 0, no exponential
 */
typedef struct {
  int64_t kind, dim, size, exponential;
} slicekit_part;

typedef struct {
  int64_t real;       /* bytes of a number: 4 or 8 */
  int64_t batch, length, channels, dim, columns;
  int64_t vocabulary; /* rows of the table of increments; 0: one increment for each position */
  int64_t parts;
  int64_t rescale;    /* steps between two divisions of the state; 0: none */
  int64_t restore;    /* steps after which SKEW blocks get their norms back; 0: never */
  int64_t threads;
  int64_t made;       /* whether `kept` holds the transitions before the forward pass, from another */
  int64_t still;      /* 1: the first position drives nothing, and its state is the initial one */
  int64_t half;       /* 1: increments (but for a table), states, directions and the gradients of all
                         three are bfloat16, and everything else is float; not with inputs or a product */
  int64_t directed;   /* 1: with rescale, directions of the states are written too, and in_states are
                         the gradients of these; not with several columns, inputs or a product */
  double pace;        /* 0: increments are given; otherwise they are pace (1, values), and what is
                         given are the values, with one channel less, and so are their gradients */

  const slicekit_part *part;
  const void *const *parameters; /* three for each part, null where it has fewer */
  const void *increments;        /* (batch, length, channels), or the table (vocabulary, channels) */
  const int64_t *index;          /* (batch, length) rows of the table, or null; -1 drives nothing */
  const int64_t *lengths;        /* (batch,) positions from which on nothing drives, whatever stands
                                    there, or null; not with a table or a product */
  const void *state;             /* (batch, dim, columns) */
  const void *inputs;            /* (batch, length, dim, columns) or null */
  void *states;                  /* (batch, length, dim, columns) */
  void *directions;              /* the same shape: with directed, states over their norms */
  void *last;                    /* (batch, dim, columns): with half, the last state; or null */
  void *factors;                 /* (batch, ceil(length / rescale), dim, columns), with rescale: what
                                    rows are divided by, the power of two below the largest modulus
                                    of the block or part; ones at the beginning are not written */
  void *kept;                    /* slicekit_panels_kept() numbers, or null: make again */

  /* For the backward pass, which reads `states`, `factors` and `kept`. */
  const void *in_states;         /* (batch, length, dim, columns) */
  const void *in_last;           /* (batch, dim, columns), or null for zeros */
  void *const *in_parameters;    /* three for each part; or null, if they are not wanted */
  void *in_increments; /* or null, if that gradient is not wanted */
  void *in_state;
  void *in_inputs;               /* null where there are no inputs */

  /* For the product of all transitions of a sequence, P_ij 2^(powers_ij) in every block: no state is
     read or written. `rescale` may go with inputs here, as it concerns the product alone. */
  void *product;                 /* (batch, dim, slicekit_panels_columns()) */
  int64_t *powers;               /* the same shape */
  void *driven;                  /* (batch, dim, columns): the state that zero becomes, with inputs */

  void *workspace;
  int64_t workspace_bytes;
} slicekit_panels;

/* Numbers to hold all transitions, or those of a table; 0 where they can't be kept, negative for bad
   sizes. */
SLICEKIT_API int64_t slicekit_panels_kept(const slicekit_panels *problem);

/* Columns of `product`: rows of the largest block, or of a part that is no block; negative for bad
   sizes. */
SLICEKIT_API int64_t slicekit_panels_columns(const slicekit_panels *problem);

/* Bytes of work space that a pass needs, or the product if there is one; negative for bad sizes. */
SLICEKIT_API int64_t slicekit_panels_workspace(const slicekit_panels *problem, int64_t backward);

SLICEKIT_API int64_t slicekit_panels_forward(const slicekit_panels *problem);
SLICEKIT_API int64_t slicekit_panels_backward(const slicekit_panels *problem);
SLICEKIT_API int64_t slicekit_panels_product(const slicekit_panels *problem);

#ifdef __cplusplus
}
#endif

#endif
