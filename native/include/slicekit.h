/* The C interface of slicekit's kernels.
 *
 * Every function but slicekit_use_isa is a pure function of its arguments: no state, no allocation,
 * safe to call from several threads at once. Arrays are contiguous, batch first, and named as in the Python library.
 * Work space is the caller's: ask for its size, then hand it in; its contents do not matter.
 *
 * `real` is the size of a number in bytes: 4 for float, 8 for double. Arrays are passed as void*.
 */
#ifndef SLICEKIT_H
#define SLICEKIT_H

#include <stdint.h>

#if defined(_WIN32)
#define SLICEKIT_API __declspec(dllexport)
#else
#define SLICEKIT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a function returns. */
enum {
  SLICEKIT_OK = 0,
  SLICEKIT_BAD_SIZE = 1,      /* a size is negative, zero where it may not be, or too large */
  SLICEKIT_BAD_POINTER = 2,   /* an array that is needed is missing */
  SLICEKIT_BAD_OPTION = 3,    /* an option or combination that the kernel does not know */
  SLICEKIT_BAD_WORKSPACE = 4, /* the work space is too small */
  SLICEKIT_BAD_INDEX = 5      /* an index points outside its table */
};

/* What matrices are made of; each kernel says which kinds it takes, and their parameters. */
enum {
  SLICEKIT_BLOCKS = 0,
  SLICEKIT_SKEW = 1,
  SLICEKIT_LOW_RANK = 2,
  SLICEKIT_HADAMARD = 3,
  SLICEKIT_SPARSE = 4,
  SLICEKIT_SHARED_FACTORS = 5,
  SLICEKIT_DIAGONAL = 6
};

/* Number of this interface; the Python side refuses any other. */
SLICEKIT_API int64_t slicekit_interface(void);

/* Name of the instruction set in use: "baseline", "avx2" or "avx512" on x86-64, "neon" on ARM. The
 * best that the library has and the processor runs, unless another was chosen. */
SLICEKIT_API const char *slicekit_isa(void);

/* Chooses the instruction set of all calls from now on: SLICEKIT_BAD_OPTION for one that the library
 * does not have or the processor does not run. The only state there is. What a problem's passes hand
 * to each other depends on it, so it should not change in between. */
SLICEKIT_API int64_t slicekit_use_isa(const char *name);

/* Whether the library was built with threads; it runs on one otherwise. */
SLICEKIT_API int64_t slicekit_has_threads(void);

#ifdef __cplusplus
}
#endif

#endif
