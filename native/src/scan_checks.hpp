// What the interfaces of the scans check alike: sizes, counts of numbers, and missing arrays.
#pragma once

#include <stdint.h>

#include <cmath>

#include "slicekit.h"

namespace slicekit {

constexpr int64_t LARGEST_COUNT = int64_t{1} << 56;

// The product of sizes that are not negative, or -1 if no memory could hold so many numbers.
inline int64_t count(int64_t a, int64_t b, int64_t c = 1, int64_t d = 1) {
  int64_t ab, cd, all;
  if (__builtin_mul_overflow(a, b, &ab) || __builtin_mul_overflow(c, d, &cd)) return -1;
  return __builtin_mul_overflow(ab, cd, &all) || all > LARGEST_COUNT ? -1 : all;
}

inline bool between(int64_t least, int64_t n, int64_t most) { return least <= n && n <= most; }

// An array that holds nothing may be missing.
inline bool missing(const void *array, int64_t numbers) { return !array && numbers > 0; }

// Whether a scan takes its states as they are to be: in half precision or not, with directions or not.
template <class Problem>
bool states_fit(const Problem &n) {
  if (!between(0, n.half, 1) || !between(0, n.directed, 1) || (n.half && n.real != 4)) return false;
  return !(n.half || n.directed) || (!n.inputs && n.columns == 1);
}

// The sizes that every scan of increments has.
template <class Problem>
int64_t check_sizes(const Problem &n) {
  if ((n.real != 4 && n.real != 8) || n.rescale < 0) return SLICEKIT_BAD_OPTION;
  if (!states_fit(n) || !between(0, n.still, 1)) return SLICEKIT_BAD_OPTION;
  if (!std::isfinite(n.pace) || (n.pace && n.channels < 2)) return SLICEKIT_BAD_OPTION;
  const bool in_range = between(0, n.batch, LARGEST_COUNT) && between(0, n.length, LARGEST_COUNT) &&
                        between(1, n.columns, LARGEST_COUNT) &&
                        between(1, n.channels, int64_t{1} << 24) &&
                        between(1, n.dim, int64_t{1} << 24) && between(1, n.threads, 4096);
  if (!in_range || count(n.batch, n.length, n.dim, n.columns) < 0 ||
      count(n.batch, n.length, n.channels) < 0 || count(n.batch, n.dim, n.columns) < 0) {
    return SLICEKIT_BAD_SIZE;
  }
  return SLICEKIT_OK;
}

// Lengths, where there are any, lie in the padded length.
template <class Problem>
int64_t check_lengths(const Problem &n) {
  for (int64_t b = 0; n.lengths && b < n.batch; ++b) {
    if (!between(0, n.lengths[b], n.length)) return SLICEKIT_BAD_INDEX;
  }
  return SLICEKIT_OK;
}

// The arrays that every scan of increments has.
template <class Problem>
int64_t check_forward_arrays(const Problem &n) {
  if (n.rescale && n.inputs) return SLICEKIT_BAD_OPTION;
  const int64_t state = count(n.batch, n.dim, n.columns);
  const bool lacking = missing(n.increments, count(n.batch, n.length, n.channels)) ||
                       missing(n.state, state) || missing(n.last, state) ||
                       missing(n.states, state * n.length) ||
                       (n.directed && missing(n.directions, state * n.length)) ||
                       (n.rescale && missing(n.factors, count(n.batch, n.length, n.columns)));
  if (lacking || !n.workspace) return SLICEKIT_BAD_POINTER;
  return check_lengths(n);
}

template <class Problem>
int64_t check_backward_arrays(const Problem &n) {
  if (n.rescale && (n.inputs || n.in_inputs)) return SLICEKIT_BAD_OPTION;
  const int64_t state = count(n.batch, n.dim, n.columns), states = state * n.length;
  const int64_t increments = count(n.batch, n.length, n.channels);
  const bool lacking = missing(n.increments, increments) || missing(n.in_increments, increments) ||
                       missing(n.state, state) || missing(n.in_state, state) ||
                       missing(n.in_last, state) || missing(n.states, states) ||
                       missing(n.in_states, states) || (n.inputs && missing(n.in_inputs, states)) ||
                       (n.rescale && missing(n.factors, count(n.batch, n.length, n.columns)));
  if (lacking || !n.workspace) return SLICEKIT_BAD_POINTER;
  return check_lengths(n);
}

}  // namespace slicekit
