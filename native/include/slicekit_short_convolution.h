/* Short causal convolutions along time, each channel with a filter of its own:
 *
 *   z_t[c] = bias[c] + sum_j weight[c, j] x_{t - size + 1 + j}[c],   outputs_t = z_t or silu(z_t)
 *
 * where x_{-size + 1}, ..., x_{-1} are the window. Results do not depend on the number of threads.
 */
#ifndef SLICEKIT_SHORT_CONVOLUTION_H
#define SLICEKIT_SHORT_CONVOLUTION_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One convolution. Arrays that a call does not use may be null. */
typedef struct slicekit_short_convolution {
  int64_t real; /* bytes of a number, 4 or 8 */
  int64_t batch, length, channels;
  int64_t size;       /* number of taps */
  int64_t activation; /* 1 for silu, 0 for none */
  int64_t threads;

  const void *x;      /* (batch, length, channels) */
  const void *window; /* (batch, size - 1, channels) */
  const void *weight; /* (channels, size) */
  const void *bias;   /* (channels), or null for none */

  void *outputs; /* (batch, length, channels) */

  /* Gradients: what the backward pass is given, and what it writes. */
  const void *in_outputs;
  void *in_x, *in_window, *in_weight;
  void *in_bias; /* or null if it is not wanted */

  void *work;
  int64_t work_bytes;
} slicekit_short_convolution;

/* Bytes of work space that either pass needs, or -1 if a size is bad. Arrays are not read. */
SLICEKIT_API int64_t slicekit_short_convolution_work(const slicekit_short_convolution *task);

SLICEKIT_API int64_t slicekit_short_convolution_forward(const slicekit_short_convolution *task);

/* The gradients of all that the forward pass was given. */
SLICEKIT_API int64_t slicekit_short_convolution_backward(const slicekit_short_convolution *task);

#ifdef __cplusplus
}
#endif

#endif
