// Moving numbers between lanes: spreading, merging and transposing, with constant patterns only.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

template <int I>
struct Constant {
  static constexpr int value = I;
};

// Calls f with 0, 1, ..., COUNT - 1 as compile-time constants.
template <int COUNT, int I = 0, class F>
SLICEKIT_INLINE void unrolled(F &&f) {
  if constexpr (I < COUNT) {
    f(Constant<I>{});
    unrolled<COUNT, I + 1>(f);
  }
}

// Lanes are blocks of W: lane J of every block, over the whole block.
template <int W, int J>
SLICEKIT_INLINE Vector<float> spread(Vector<float> x) {
  return __builtin_shufflevector(x, x, 0 / W * W + J, 1 / W * W + J, 2 / W * W + J, 3 / W * W + J,
                                 4 / W * W + J, 5 / W * W + J, 6 / W * W + J, 7 / W * W + J);
}

template <int W, int J>
SLICEKIT_INLINE Vector<double> spread(Vector<double> x) {
  return __builtin_shufflevector(x, x, 0 / W * W + J, 1 / W * W + J, 2 / W * W + J, 3 / W * W + J);
}

// Two-source patterns by bit D of the lane l. Where the bit is clear, lanes come from a, otherwise
// from b: `straight` from lane l, `crossed` from lane l ^ D, `upper` and `lower` as the two results
// of exchanging a's lanes with the bit set for b's with the bit clear.
#define SLICEKIT_PATTERN(name, pattern) \
  template <int D> \
  SLICEKIT_INLINE Vector<float> name(Vector<float> a, Vector<float> b) { \
    constexpr int W = 8; \
    return __builtin_shufflevector(a, b, pattern(0), pattern(1), pattern(2), pattern(3), \
                                   pattern(4), pattern(5), pattern(6), pattern(7)); \
  } \
  template <int D> \
  SLICEKIT_INLINE Vector<double> name(Vector<double> a, Vector<double> b) { \
    constexpr int W = 4; \
    return __builtin_shufflevector(a, b, pattern(0), pattern(1), pattern(2), pattern(3)); \
  }
#define SLICEKIT_STRAIGHT(l) ((l) & D ? W + (l) : (l))
#define SLICEKIT_CROSSED(l) ((l) & D ? W + ((l) ^ D) : (l) ^ D)
#define SLICEKIT_UPPER(l) ((l) & D ? W + ((l) ^ D) : (l))
#define SLICEKIT_LOWER(l) ((l) & D ? W + (l) : (l) ^ D)

SLICEKIT_PATTERN(straight, SLICEKIT_STRAIGHT)
SLICEKIT_PATTERN(crossed, SLICEKIT_CROSSED)
SLICEKIT_PATTERN(upper, SLICEKIT_UPPER)
SLICEKIT_PATTERN(lower, SLICEKIT_LOWER)

#undef SLICEKIT_PATTERN
#undef SLICEKIT_STRAIGHT
#undef SLICEKIT_CROSSED
#undef SLICEKIT_UPPER
#undef SLICEKIT_LOWER

// Sums over blocks of W lanes of W vectors: lane j of every block is the block's sum in x[j].
template <int W, class Real>
SLICEKIT_INLINE Vector<Real> block_sums(const Vector<Real> *x) {
  if constexpr (W == 1) {
    return x[0];
  } else {
    const Vector<Real> a = block_sums<W / 2, Real>(x), b = block_sums<W / 2, Real>(x + W / 2);
    return straight<W / 2>(a, b) + crossed<W / 2>(a, b);
  }
}

// Transposes WIDTH vectors in place.
template <class Real>
SLICEKIT_INLINE void transpose(Vector<Real> *x) {
  constexpr int W = WIDTH<Real>;
  unrolled<W == 8 ? 3 : 2>([&](auto stage) {
    constexpr int D = 1 << decltype(stage)::value;
    unrolled<W>([&](auto index) {
      constexpr int i = decltype(index)::value;
      if constexpr ((i & D) == 0) {
        const Vector<Real> a = x[i], b = x[i + D];
        x[i] = upper<D>(a, b);
        x[i + D] = lower<D>(a, b);
      }
    });
  });
}

// to[l, t] = from[t, l] for a square of LANES x LANES; rows are from_row and to_row apart.
template <class Real>
inline void transpose_square(const Real *from, ptrdiff_t from_row, Real *to, ptrdiff_t to_row) {
  constexpr int W = WIDTH<Real>;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      Vector<Real> x[W];
      for (int r = 0; r < W; ++r) x[r] = load(from + (i * W + r) * from_row + j * W);
      transpose<Real>(x);
      for (int r = 0; r < W; ++r) store(to + (j * W + r) * to_row + i * W, x[r]);
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
