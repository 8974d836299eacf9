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
  unrolled<log2_of(WIDTH<Real>)>([&](auto stage) {
    constexpr int D = 1 << decltype(stage)::value;
    Vector<Real> signs;
    for (int l = 0; l < WIDTH<Real>; ++l) signs[l] = l & D ? Real(-1) : Real(1);
    if (dim > D) x = butterfly<D, Real>(x, signs);
  });
  return x;
}

// Two stages in one pass, of strides s and 2 s.
template <class Real>
SLICEKIT_INLINE void transform_four(Real *x, int64_t padded, int64_t s) {
  for (int64_t i = 0; i < padded; i += 4 * s) {
    for (int64_t j = i; j < i + s; j += WIDTH<Real>) {
      const Vector<Real> a = load(x + j), b = load(x + j + s);
      const Vector<Real> c = load(x + j + 2 * s), d = load(x + j + 3 * s);
      const Vector<Real> ab = a + b, a_b = a - b, cd = c + d, c_d = c - d;
      store(x + j, ab + cd);
      store(x + j + s, a_b + c_d);
      store(x + j + 2 * s, ab - cd);
      store(x + j + 3 * s, a_b - c_d);
    }
  }
}

// The unnormalised transform of the first `dim` numbers, in place.
template <class Real>
SLICEKIT_INLINE void transform(Real *x, int64_t dim) {
  constexpr int V = WIDTH<Real>;
  for (int64_t i = 0; i < dim; i += V) store(x + i, transform_lanes<Real>(load(x + i), dim));
  int64_t s = V;
  for (; 2 * s < dim; s *= 4) transform_four(x, dim, s);
  if (s < dim) {
    for (int64_t j = 0; j < s; j += V) {
      const Vector<Real> a = load(x + j), b = load(x + j + s);
      store(x + j, a + b);
      store(x + j + s, a - b);
    }
  }
}

// 1 / sqrt(dim), for a power of two.
template <class Real>
SLICEKIT_INLINE Real orthonormal(int64_t dim) {
  Real scale = 1;
  for (; dim >= 4; dim /= 4) scale /= 2;
  return dim == 2 ? scale * Real(0.70710678118654752440) : scale;
}

template <class Real>
SLICEKIT_NOINLINE void step_hadamard(const Part &part, const Real *m, ptrdiff_t panel, const Real *h,
                          Real *out) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  const Real scale = orthonormal<Real>(part.dim);
  for (int64_t i = 0; i < part.padded; i += N, m += panel) {
    for (int64_t half = 0; half < N; half += V) {
      store(out + i + half, load(m + half) * load(h + i + half) * scale);
    }
  }
  transform(out, part.dim);
  for (int64_t i = 0; i < part.padded; i += V) store(out + i, load(out + i) + load(h + i));
}

// next += g + A^T g = g + d (H g); in_m (+)= h (H g); `scratch` holds H g.
template <Taken TAKEN, class Real>
SLICEKIT_NOINLINE void adjoint_hadamard(const Part &part, const Real *m, Real *in_m, ptrdiff_t panel,
                             ptrdiff_t in_panel, const Real *g, const Real *h, Real *next,
                             Real *scratch) {
  constexpr int V = WIDTH<Real>, N = LANES<Real>;
  const Real scale = orthonormal<Real>(part.dim);
  for (int64_t i = 0; i < part.padded; i += V) store(scratch + i, load(g + i) * scale);
  transform(scratch, part.dim);
  for (int64_t i = 0; i < part.padded; i += N, m += panel, in_m += in_panel) {
    for (int64_t half = 0; half < N; half += V) {
      const Vector<Real> y = load(scratch + i + half);
      const Vector<Real> d = y * load(h + i + half);
      store(next + i + half, load(next + i + half) + load(g + i + half) + load(m + half) * y);
      if (TAKEN != LEFT) store(in_m + half, TAKEN == ADDED ? load(in_m + half) + d : d);
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
