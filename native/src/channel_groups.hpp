// Rows of channels and vectors of WIDTH neighbouring channels; missing channels are zero.
#pragma once

#include "lane_groups.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

template <class Real>
SLICEKIT_INLINE int64_t group_count(int64_t channels) {
  return (channels + WIDTH<Real> - 1) / WIDTH<Real>;
}

// The first `count` numbers, at most WIDTH.
template <class Real>
SLICEKIT_INLINE Vector<Real> load_some(const Real *from, int64_t count) {
  if (count >= WIDTH<Real>) return load(from);
  Vector<Real> x = zero<Real>();
  for (int64_t i = 0; i < count; ++i) x[i] = from[i];
  return x;
}

template <class Real>
SLICEKIT_INLINE void store_some(Real *to, Vector<Real> x, int64_t count) {
  if (count >= WIDTH<Real>) return store(to, x);
  for (int64_t i = 0; i < count; ++i) to[i] = x[i];
}

// groups (groups of channels, dim) from rows (channels, dim).
template <class Real>
void to_groups(const Real *rows, int64_t channels, int64_t dim, Vector<Real> *groups) {
  constexpr int W = WIDTH<Real>;
  for (int64_t c = 0; c < channels; c += W, groups += dim) {
    const Real *from = rows + c * dim;
    Real *to = reinterpret_cast<Real *>(groups);
    int64_t n = 0;
    if (channels - c >= W) {
      for (; n + W <= dim; n += W) lanes::transpose_rows(from + n, dim, to + n * W, W);
    }
    for (; n < dim; ++n) {
      for (int64_t l = 0; l < W; ++l) to[n * W + l] = c + l < channels ? from[l * dim + n] : 0;
    }
  }
}

template <class Real>
void from_groups(const Vector<Real> *groups, int64_t channels, int64_t dim, Real *rows) {
  constexpr int W = WIDTH<Real>;
  for (int64_t c = 0; c < channels; c += W, groups += dim) {
    const Real *from = reinterpret_cast<const Real *>(groups);
    Real *to = rows + c * dim;
    int64_t n = 0;
    if (channels - c >= W) {
      for (; n + W <= dim; n += W) lanes::transpose_rows(from + n * W, W, to + n, dim);
    }
    for (; n < dim; ++n) {
      for (int64_t l = 0; l < W && c + l < channels; ++l) to[l * dim + n] = from[n * W + l];
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
