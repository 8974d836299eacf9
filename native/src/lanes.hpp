// Moving numbers between lanes: spreading, merging and transposing, with constant patterns only.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Lanes of a and b, counted through both, in the order PATTERN::at(lane, WIDTH).
template <class PATTERN, class V, int... L>
SLICEKIT_INLINE V shuffle(V a, V b, Indices<L...>) {
  return __builtin_shufflevector(a, b, PATTERN::at(L, int(sizeof...(L)))...);
}

template <class PATTERN>
SLICEKIT_INLINE Vector<float> shuffle(Vector<float> a, Vector<float> b) {
  return shuffle<PATTERN>(a, b, typename UpTo<WIDTH<float>>::Type{});
}

template <class PATTERN>
SLICEKIT_INLINE Vector<double> shuffle(Vector<double> a, Vector<double> b) {
  return shuffle<PATTERN>(a, b, typename UpTo<WIDTH<double>>::Type{});
}

// Lanes are blocks of W: lane J of every block, over the whole block.
template <int W, int J>
struct Spread {
  static constexpr int at(int l, int) { return l / W * W + J; }
};

// Patterns of two sources by bit D of the lane l. Where the bit is clear, lanes come from a,
// otherwise from b: Straight from lane l, Crossed from lane l ^ D, Upper and Lower as the two results
// of exchanging a's lanes with the bit set for b's with the bit clear.
template <int D>
struct Straight {
  static constexpr int at(int l, int width) { return l & D ? width + l : l; }
};

template <int D>
struct Crossed {
  static constexpr int at(int l, int width) { return l & D ? width + (l ^ D) : l ^ D; }
};

template <int D>
struct Upper {
  static constexpr int at(int l, int width) { return l & D ? width + (l ^ D) : l; }
};

template <int D>
struct Lower {
  static constexpr int at(int l, int width) { return l & D ? width + l : l ^ D; }
};

// Sums over blocks of W lanes of W vectors: lane j of every block is the block's sum in x[j].
template <int W, class Real>
SLICEKIT_INLINE Vector<Real> block_sums(const Vector<Real> *x) {
  if constexpr (W == 1) {
    return x[0];
  } else {
    const Vector<Real> a = block_sums<W / 2, Real>(x), b = block_sums<W / 2, Real>(x + W / 2);
    return shuffle<Straight<W / 2>>(a, b) + shuffle<Crossed<W / 2>>(a, b);
  }
}

constexpr int log2_of(int power) { return power > 1 ? 1 + log2_of(power / 2) : 0; }

// Transposes every block of W lanes of W vectors in place.
template <int W, class Real>
SLICEKIT_INLINE void transpose(Vector<Real> *x) {
  unrolled<log2_of(W)>([&](auto stage) {
    constexpr int D = 1 << decltype(stage)::value;
    unrolled<W>([&](auto index) {
      constexpr int i = decltype(index)::value;
      if constexpr ((i & D) == 0) {
        const Vector<Real> a = x[i], b = x[i + D];
        x[i] = shuffle<Upper<D>>(a, b);
        x[i + D] = shuffle<Lower<D>>(a, b);
      }
    });
  });
}

// to[l, t] = from[t, l] for a square of LANES x LANES; rows are from_row and to_row apart.
template <class Real>
inline void transpose_square(const Real *from, ptrdiff_t from_row, Real *to, ptrdiff_t to_row) {
  constexpr int W = WIDTH<Real>;
  for (int i = 0; i < VECTORS; ++i) {
    for (int j = 0; j < VECTORS; ++j) {
      Vector<Real> x[W];
      for (int r = 0; r < W; ++r) x[r] = load(from + (i * W + r) * from_row + j * W);
      transpose<W, Real>(x);
      for (int r = 0; r < W; ++r) store(to + (j * W + r) * to_row + i * W, x[r]);
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
