// Numbers that stand in turns, and the same apart: COUNT lane groups as a (LANES, COUNT) array, and as
// one lane group for each column.
#pragma once

#include "lanes.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Of all lanes of a and b, every second one, from the first or the second on.
struct Evens {
  static constexpr int at(int l, int) { return 2 * l; }
};

struct Odds {
  static constexpr int at(int l, int) { return 2 * l + 1; }
};

// And back: a's and b's lanes in turns, from the lower or the upper halves.
struct LowerInTurns {
  static constexpr int at(int l, int width) { return l % 2 * width + l / 2; }
};

struct UpperInTurns {
  static constexpr int at(int l, int width) { return l % 2 * width + (width + l) / 2; }
};

// Lane group j of `to` = numbers j, j + COUNT, j + 2 COUNT, ... of COUNT lane groups; COUNT is a power
// of two, and STEP how far apart the lane groups of `to` are.
template <int COUNT, class Real, int STEP = 1>
SLICEKIT_INLINE void unravel(const Vector<Real> *from, Vector<Real> *to) {
  if constexpr (COUNT == 1) {
    for (int v = 0; v < VECTORS; ++v) to[v] = from[v];
  } else {
    constexpr int HALF = COUNT * VECTORS / 2;
    Vector<Real> even[HALF], odd[HALF];
#pragma GCC unroll 16
    for (int i = 0; i < HALF; ++i) {
      even[i] = shuffle<Evens>(from[2 * i], from[2 * i + 1]);
      odd[i] = shuffle<Odds>(from[2 * i], from[2 * i + 1]);
    }
    unravel<COUNT / 2, Real, 2 * STEP>(even, to);
    unravel<COUNT / 2, Real, 2 * STEP>(odd, to + STEP * VECTORS);
  }
}

// The same backwards.
template <int COUNT, class Real, int STEP = 1>
SLICEKIT_INLINE void ravel(const Vector<Real> *from, Vector<Real> *to) {
  if constexpr (COUNT == 1) {
    for (int v = 0; v < VECTORS; ++v) to[v] = from[v];
  } else {
    constexpr int HALF = COUNT * VECTORS / 2;
    Vector<Real> even[HALF], odd[HALF];
    ravel<COUNT / 2, Real, 2 * STEP>(from, even);
    ravel<COUNT / 2, Real, 2 * STEP>(from + STEP * VECTORS, odd);
#pragma GCC unroll 16
    for (int i = 0; i < HALF; ++i) {
      to[2 * i] = shuffle<LowerInTurns>(even[i], odd[i]);
      to[2 * i + 1] = shuffle<UpperInTurns>(even[i], odd[i]);
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
