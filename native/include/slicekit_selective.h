/* Selective scans (S6), forwards and backwards: with h of size (channels, dim)
 *
 *   h_{t+1}[c, n] = exp(steps_t[c] rates[c, n]) h_t[c, n] + steps_t[c] inputs_t[c] left_t[n]
 *   outputs_t[c]  = sum_n readout_t[n] h_{t+1}[c, n]
 *
 * No state but the last is stored, and one at the start of each chunk of steps, from which the
 * backward pass makes the others again. Results do not depend on the number of threads. A decay
 * below the least normal number is zero, and one above half of the greatest may be infinite.
 */
#ifndef SLICEKIT_SELECTIVE_H
#define SLICEKIT_SELECTIVE_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Steps in a chunk. */
enum { SLICEKIT_SELECTIVE_CHUNK = 64 };

/* One scan. Arrays that a call does not use may be null. */
typedef struct slicekit_selective {
  int64_t real; /* bytes of a number, 4 or 8 */
  int64_t batch, length, channels, dim;
  int64_t threads;

  const int64_t *lengths; /* (batch) in 0..length: steps past them are neither read nor taken, and
                             their outputs and gradients are zero; or null for all steps */
  const void *steps;      /* (batch, length, channels) */
  const void *rates;      /* (channels, dim) */
  const void *inputs;     /* (batch, length, channels) */
  const void *left;       /* (batch, length, dim) */
  const void *readout;    /* (batch, length, dim) */
  const void *state;      /* (batch, channels, dim), h_0 */

  void *outputs; /* (batch, length, channels); the backward pass does not need them */
  void *last;    /* (batch, channels, dim); neither does it need this */
  void *starts;  /* (batch, chunks, dim * w), where w is the channels rounded up to whole 64 bytes:
                    the states before each chunk, in the kernels' own order, which it does need */

  /* Gradients: what the backward pass is given, and what it writes. */
  const void *in_outputs, *in_last;
  void *in_steps, *in_rates, *in_inputs, *in_left, *in_readout, *in_state;

  void *work;
  int64_t work_bytes;
} slicekit_selective;

/* Bytes of work space that the passes need, or -1 if a size is bad. Arrays are not read. */
SLICEKIT_API int64_t slicekit_selective_forward_work(const slicekit_selective *task);
SLICEKIT_API int64_t slicekit_selective_backward_work(const slicekit_selective *task);

/* Run all steps. */
SLICEKIT_API int64_t slicekit_selective_forward(const slicekit_selective *task);

/* The gradients of all that the forward pass was given. */
SLICEKIT_API int64_t slicekit_selective_backward(const slicekit_selective *task);

#ifdef __cplusplus
}
#endif

#endif
