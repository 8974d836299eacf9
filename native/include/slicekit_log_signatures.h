/* Log-signatures of windows of piecewise linear paths, and their derivative. */
#ifndef SLICEKIT_LOG_SIGNATURES_H
#define SLICEKIT_LOG_SIGNATURES_H

#include "slicekit.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SLICEKIT_LOG_SIGNATURES_DEPTH = 16 };

typedef struct {
  int64_t real;     /* bytes of a number: 4 or 8 */
  int64_t batch;    /* may be 0 */
  int64_t length;   /* increments of each path, may be 0 */
  int64_t channels; /* d, letters of the alphabet */
  int64_t depth;    /* 2 to SLICEKIT_LOG_SIGNATURES_DEPTH */
  int64_t windows;  /* of each path */
  int64_t window;   /* increments in each but the last; 0 if edges are given */
  int64_t size;     /* elements of the basis, and Lyndon words, of all levels */
  int64_t top;      /* Lyndon words of `depth` letters, the last ones */
  int64_t prefixes; /* words of depth - 1 letters with which these begin */
  int64_t splits;   /* ways to cut a Lyndon word in two, over all of them */
  int64_t changes;  /* entries of the change of basis */
  int64_t threads;  /* to use at most; the result does not depend on it */
} slicekit_log_signatures_sizes;

/* What the algebra needs to know; it depends on the basis alone.
 *
 * A state is 1, then all words of 1, ..., depth - 1 letters in lexicographic order, then the Lyndon
 * words of depth letters. Of the longest words no others are needed, because the logarithm and
 * Chen's relation add to each of them only products of shorter ones.
 */
typedef struct {
  const int64_t *places;         /* (size) of the Lyndon words in a state */
  const int64_t *split_starts;   /* (size + 1) into splits, of each Lyndon word */
  const int64_t *splits;         /* (splits, 2) places in a state of the two parts, neither empty */
  const int64_t *prefixes;       /* (prefixes, 3): a word, as its place without the last letter, its
                                    last letter, and the first letter that makes it a Lyndon word;
                                    so does every later letter */
  const int64_t *change_starts;  /* (size + 1) into the columns, of each element of the basis */
  const int64_t *change_columns; /* (changes) Lyndon words */
  const double *change_values;   /* (changes) */
} slicekit_log_signatures_tables;

/* Window w of path b has increments edges[b, w] to edges[b, w + 1] - 1; edges do not decrease and lie
 * in 0..length. Without edges, windows have `window` increments each. */
typedef struct {
  slicekit_log_signatures_sizes sizes;
  slicekit_log_signatures_tables tables;
  const int64_t *edges;        /* (batch, windows + 1), or null */
  const void *increments;      /* (batch, length, channels) */
  void *coefficients;          /* (batch, windows, size) */
  const void *in_coefficients; /* their gradient ... */
  void *in_increments;         /* ... and that of the increments, 0 outside of windows */
  void *work;
  int64_t work_bytes;
} slicekit_log_signatures;

/* Bytes of work space for either function below; 0 for bad sizes. */
SLICEKIT_API int64_t slicekit_log_signatures_workspace(const slicekit_log_signatures *task);

/* Writes the coefficients. */
SLICEKIT_API int64_t slicekit_log_signatures_forward(const slicekit_log_signatures *task);

/* Writes in_increments; the coefficients are not used. */
SLICEKIT_API int64_t slicekit_log_signatures_backward(const slicekit_log_signatures *task);

#ifdef __cplusplus
}
#endif

#endif
