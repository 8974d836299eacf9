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

/* Bytes of work space for either function below; 0 for bad sizes. */
SLICEKIT_API int64_t slicekit_exponential_workspace(const slicekit_exponential_sizes *sizes);

/* y = exp(x), both (count, rows, rows). */
SLICEKIT_API int64_t slicekit_exponential_forward(const slicekit_exponential_sizes *sizes,
                                                  const void *x, void *y, void *workspace,
                                                  int64_t bytes);

/* in_x, the gradient of <in_y, exp(x)> in x, all (count, rows, rows). */
SLICEKIT_API int64_t slicekit_exponential_pullback(const slicekit_exponential_sizes *sizes,
                                                   const void *x, const void *in_y, void *in_x,
                                                   void *workspace, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
