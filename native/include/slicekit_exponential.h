/* exp(x) of many small square matrices, and its derivative. */
#ifndef SLICEKIT_EXPONENTIAL_H
#define SLICEKIT_EXPONENTIAL_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Matrices have at most this many rows. */
enum { SLICEKIT_EXPONENTIAL_ROWS = 256 };

typedef struct {
  int64_t real;    /* bytes of a number: 4 or 8 */
  int64_t count;   /* matrices, may be 0 */
  int64_t rows;    /* of each matrix, which has as many columns */
  int64_t threads; /* to use at most; the result does not depend on it */
} slicekit_exponential_sizes;

typedef struct {
  slicekit_exponential_sizes sizes;
  const void *x;    /* (count, rows, rows), as all arrays */
  void *y;          /* exp(x) */
  const void *in_y; /* the gradient of y ... */
  void *in_x;       /* ... and that of x */
  void *work;
  int64_t work_bytes;
} slicekit_exponential;

/* Bytes of work space for either function below; 0 for bad sizes. */
SLICEKIT_API int64_t slicekit_exponential_workspace(const slicekit_exponential *task);

/* Writes y. */
SLICEKIT_API int64_t slicekit_exponential_forward(const slicekit_exponential *task);

/* Writes in_x; y is not used. */
SLICEKIT_API int64_t slicekit_exponential_backward(const slicekit_exponential *task);

#ifdef __cplusplus
}
#endif

#endif
