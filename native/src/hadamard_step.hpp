// One step through A = H diag(d), H the orthonormal Sylvester matrix: h + A h, and its adjoint.
#pragma once

#include "lanes.hpp"
#include "layout.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Sums and differences of lanes that differ in bit D.
template <int D, class Real>
SLICEKIT_INLINE Vector<Real> butterfly(Vector<Real> x, Vector<Real> signs) {
  return shuffle<Crossed<D>>(x, x) + x * signs;
}

// The stages inside a vector, for the first `dim` numbers.
template <class Real>
SLICEKIT_INLINE Vector<Real> transform_lanes(Vector<Real> x, int64_t dim) {
  unrolled<log2_of(WIDTH<Real>)>([&](auto stage) SLICEKIT_INLINE_LAMBDA {
    constexpr int D = 1 << decltype(stage)::value;
    Vector<Real> signs;
    for (int l = 0; l < WIDTH<Real>; ++l) signs[l] = l & D ? Real(-1) : Real(1);
    if (dim > D) x = butterfly<D, Real>(x, signs);
  });
  return x;
}

// The stages that COUNT vectors, or what stands for them, have among each other.
template <int COUNT, class Real>
SLICEKIT_INLINE void transform_vectors(Vector<Real> (&y)[COUNT]) {
  unrolled<log2_of(COUNT)>([&](auto stage) SLICEKIT_INLINE_LAMBDA {
    constexpr int D = 1 << decltype(stage)::value;
    unrolled<COUNT>([&](auto index) SLICEKIT_INLINE_LAMBDA {
      constexpr int k = decltype(index)::value;
      if constexpr ((k & D) == 0) {
        const Vector<Real> a = y[k], b = y[k + D];
        y[k] = a + b;
        y[k + D] = a - b;
      }
    });
  });
}

// Vectors that are transformed in registers to begin with.
constexpr int FIRST_VECTORS = VECTOR_BYTES == 64 ? 16 : 8;

// The stages of strides 1, 2, ..., COUNT WIDTH / 2 in one pass; `put` takes a place and what stands there.
template <int COUNT, class Real, class F, class G>
SLICEKIT_INLINE void transform_first(int64_t dim, F &&read, G &&put) {
  constexpr int V = WIDTH<Real>;
  for (int64_t i = 0; i < dim; i += COUNT * V) {
    Vector<Real> y[COUNT];
    unrolled<COUNT>([&](auto index) SLICEKIT_INLINE_LAMBDA {
      constexpr int k = decltype(index)::value;
      y[k] = transform_lanes<Real>(read(i + k * V), COUNT > 1 ? V : dim);
    });
    transform_vectors<COUNT, Real>(y);
    unrolled<COUNT>([&](auto index) SLICEKIT_INLINE_LAMBDA {
      constexpr int k = decltype(index)::value;
      put(i + k * V, y[k]);
    });
  }
}

// The stages of strides s, 2 s, ..., COUNT s / 2 in one pass.
template <int COUNT, class Real, class F>
SLICEKIT_INLINE void transform_strides(const Real *x, int64_t dim, int64_t s, F &&put) {
  for (int64_t i = 0; i < dim; i += COUNT * s) {
    for (int64_t j = i; j < i + s; j += WIDTH<Real>) {
      Vector<Real> y[COUNT];
      unrolled<COUNT>([&](auto index) SLICEKIT_INLINE_LAMBDA {
        constexpr int k = decltype(index)::value;
        y[k] = load(x + j + k * s);
      });
      transform_vectors<COUNT, Real>(y);
      unrolled<COUNT>([&](auto index) SLICEKIT_INLINE_LAMBDA {
        constexpr int k = decltype(index)::value;
        put(j + k * s, y[k]);
      });
    }
  }
}

// The unnormalised transform of the first `dim` numbers: read(i) gives a vector of them, and those that
// put(i, vector) takes go beyond dim up to `padded`. In between they stand in x.
template <class Real, class F, class G>
SLICEKIT_INLINE void transform(int64_t dim, int64_t padded, Real *x, F &&read, G &&put) {
  constexpr int V = WIDTH<Real>;
  const auto keep = [&](int64_t i, Vector<Real> y) SLICEKIT_INLINE_LAMBDA { store(x + i, y); };
  for (int64_t i = round_up(dim, V); i < padded; i += V) put(i, transform_lanes<Real>(read(i), dim));
  if (dim <= V) return transform_first<1, Real>(dim, read, put);
  int64_t s = V;
  if (dim >= FIRST_VECTORS * V) {
    s *= FIRST_VECTORS;
    if (dim == s) return transform_first<FIRST_VECTORS, Real>(dim, read, put);
    transform_first<FIRST_VECTORS, Real>(dim, read, keep);
  } else {
    transform_first<1, Real>(dim, read, keep);
  }
  for (; 8 * s < dim; s *= 8) transform_strides<8>(x, dim, s, keep);
  if (8 * s == dim) transform_strides<8>(x, dim, s, put);
  if (4 * s == dim) transform_strides<4>(x, dim, s, put);
  if (2 * s == dim) transform_strides<2>(x, dim, s, put);
}

// 1 / sqrt(dim), for a power of two.
template <class Real>
SLICEKIT_INLINE Real orthonormal(int64_t dim) {
  Real scale = 1;
  for (; dim >= 4; dim /= 4) scale /= 2;
  return dim == 2 ? scale * Real(0.70710678118654752440) : scale;
}

// What is read soon is asked for on the way, a little at a time: many requests at once would wait.
template <class Real>
SLICEKIT_NOINLINE void step_hadamard(const Part &part, const Real *m, ptrdiff_t panel, const Real *h,
                          Real *out, const Real *soon) {
  constexpr int64_t N = LANES<Real>;
  const Real scale = orthonormal<Real>(part.dim);
  transform(
      part.dim, part.padded, out,
      [&](int64_t i) SLICEKIT_INLINE_LAMBDA {
        ask_for(soon + i, 1);
        return load(m + i / N * panel + i % N) * load(h + i) * scale;
      },
      [&](int64_t i, Vector<Real> y) SLICEKIT_INLINE_LAMBDA { store(out + i, y + load(h + i)); });
}

// next = add + g + A^T g = add + g + d (H g); in_m (+)= h (H g); `scratch` is as long as a padded state.
template <Taken TAKEN, class Real>
SLICEKIT_NOINLINE void adjoint_hadamard(const Part &part, const Real *m, Real *in_m, ptrdiff_t panel,
                             ptrdiff_t in_panel, const Real *g, const Real *h, const Real *add,
                             Real *next, Real *scratch, const Real *soon, const Real *soon_too) {
  constexpr int64_t N = LANES<Real>;
  const Real scale = orthonormal<Real>(part.dim);
  transform(
      part.dim, part.padded, scratch,
      [&](int64_t i) SLICEKIT_INLINE_LAMBDA {
        ask_for(soon + i, 1);
        return load(g + i) * scale;
      },
      [&](int64_t i, Vector<Real> y) SLICEKIT_INLINE_LAMBDA {
        ask_for(soon_too + i, 1);
        const Vector<Real> d = y * load(h + i);
        Real *to = in_m + i / N * in_panel + i % N;
        store(next + i, load(add + i) + load(g + i) + load(m + i / N * panel + i % N) * y);
        if (TAKEN != LEFT) store(to, TAKEN == ADDED ? load(to) + d : d);
      });
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
