/* Hyperbolic tangents of many numbers, y = tanh x. */
#ifndef SLICEKIT_TANH_H
#define SLICEKIT_TANH_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int64_t real;  /* bytes of a number: 4 or 8 */
  int64_t batch; /* how many there are */
  int64_t threads;

  const void *x;
  void *y;

  void *work;
  int64_t work_bytes;
} slicekit_tanh;

/* Bytes of work space that it needs, which are none; negative for bad sizes. */
SLICEKIT_API int64_t slicekit_tanh_work(const slicekit_tanh *task);

SLICEKIT_API int64_t slicekit_tanh_forward(const slicekit_tanh *task);

#ifdef __cplusplus
}
#endif

#endif
