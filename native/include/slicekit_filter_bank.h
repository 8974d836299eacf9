/* Banks of short dilated filters over series, pooled along time in one pass.
 *
 *   u_t = sum_c mixes[g, c] x_t[c],   z_t[g, k] = sum_j weights[g, k, j] u_{t - j dilation}[g]
 *
 * A filter is a linear CDE with a nilpotent matrix. Before the first step u has its first value, or
 * what the history says. Pools are added to what is in them, so that a series may come in parts:
 *
 *   pools       the steps with z above each of four thresholds, the largest z, the sum of z, of z^2
 *   leaders     the sum of z where z[g, k] is the largest of its group, the steps where it is the
 *               smallest; the first of equals counts
 *   stretches   of the first filters of a group: the steps above the second threshold in a row until
 *               now, the most in a row, the place of the largest z, the sum of the places above,
 *               the largest z
 *
 * Largest numbers start at minus infinity, all others at 0. Numbers are floats, pools doubles. Results do not depend on the number of threads.
 */
#ifndef SLICEKIT_FILTER_BANK_H
#define SLICEKIT_FILTER_BANK_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SLICEKIT_TAPS = 9,
  SLICEKIT_THRESHOLDS = 4,
  SLICEKIT_POOLS = 7,
  SLICEKIT_STRETCHES = 5
};

typedef struct slicekit_filter_bank {
  int64_t cases, channels, history, length; /* history is 0 or at least 8 dilation */
  int64_t groups, filters, dilation;
  int64_t stretched; /* how many filters of a group have stretches */
  int64_t threads;

  const float *x;          /* (cases, channels, history + length) */
  const int64_t *lengths;  /* (cases), the steps of each that count, 0 to length */
  const int64_t *begun;    /* (cases), the steps of each that came before */
  const float *mixes;      /* (groups, channels) */
  const float *weights;    /* (groups, filters, 9) */
  const float *thresholds; /* (groups, filters, 4) */

  double *pools;     /* (cases, groups, filters, 7) */
  double *leaders;   /* (cases, groups, 2, filters) */
  double *stretches; /* (cases, groups, stretched, 5) */

  void *work;
  int64_t work_bytes;
} slicekit_filter_bank;

/* Bytes of work space, or -1 if a size is bad. Arrays are not read. */
SLICEKIT_API int64_t slicekit_filter_bank_work(const slicekit_filter_bank *task);

SLICEKIT_API int64_t slicekit_filter_bank_pool(const slicekit_filter_bank *task);

#ifdef __cplusplus
}
#endif

#endif
