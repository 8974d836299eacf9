/* The recurrence of the sLSTM (Beck et al. 2024, equations 8 to 18), with its products:
 *
 *   i, f = gates filtered_t + recurrent h_{t-1} + bias,   z, o = gates x_t + recurrent h_{t-1} + bias
 *   m_t = max(i, log sigma(f) + m_{t-1}),   i' = exp(i - m_t),   f' = exp(log sigma(f) + m_{t-1} - m_t)
 *   c_t = f' c_{t-1} + i' tanh(z),   n_t = f' n_{t-1} + i',   h_t = sigma(o) c_t / n_t
 *
 * for each head by itself. Results do not depend on the number of threads. A gain below the least
 * normal number is zero.
 */
#ifndef SLICEKIT_SLSTM_H
#define SLICEKIT_SLSTM_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers for each unit and step that the forward pass keeps for the backward one. */
enum { SLICEKIT_SLSTM_KEPT = 5 };

/* One recurrence. Arrays that a call does not use may be null. */
typedef struct slicekit_slstm {
  int64_t real; /* bytes of a number, 4 or 8 */
  int64_t batch, length, heads, dim;
  int64_t threads;

  const int64_t *lengths; /* (batch) in 0..length: steps past them change no state, and their outputs
                             and gradients are zero; or null for all steps */
  const void *filtered;   /* (batch, length, heads, dim), what the gates i and f see */
  const void *x;          /* (batch, length, heads, dim), what the gates z and o see; both are read past
                             the end, where they should be finite */
  const void *gates;      /* (heads, 4, dim, dim), to gate and unit, from unit */
  const void *recurrent;  /* (heads, dim, 4, dim), from unit, to gate and unit */
  const void *bias;       /* (heads, 4, dim) */
  const void *hidden, *cell, *normaliser, *stabiliser; /* (batch, heads, dim), before the first step */

  void *outputs; /* (batch, length, heads, dim), h_t */
  void *last_hidden, *last_cell, *last_normaliser, *last_stabiliser; /* (batch, heads, dim) */
  void *kept; /* (heads, batch, length, SLICEKIT_SLSTM_KEPT, dim rounded up to whole 64 bytes): what
                 the backward pass needs, in the kernels' own form; null if there is to be none */

  /* Gradients: what the backward pass is given, beside outputs, last_cell, last_normaliser and kept,
   * and what it writes. */
  const void *in_outputs;
  const void *in_last_hidden, *in_last_cell, *in_last_normaliser, *in_last_stabiliser;
  void *in_filtered, *in_x, *in_gates, *in_recurrent, *in_bias;
  void *in_hidden, *in_cell, *in_normaliser, *in_stabiliser;

  void *work;
  int64_t work_bytes;
} slicekit_slstm;

/* Bytes of work space that the passes need, or -1 if a size is bad. Arrays are not read. */
SLICEKIT_API int64_t slicekit_slstm_forward_work(const slicekit_slstm *task);
SLICEKIT_API int64_t slicekit_slstm_backward_work(const slicekit_slstm *task);

SLICEKIT_API int64_t slicekit_slstm_forward(const slicekit_slstm *task);

/* The gradients of all that the forward pass was given. */
SLICEKIT_API int64_t slicekit_slstm_backward(const slicekit_slstm *task);

#ifdef __cplusplus
}
#endif

#endif
