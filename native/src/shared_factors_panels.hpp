// Matrices in panels, as the product's right-hand sides: for each lane group of columns, the rows
// one after the other. Columns are padded with zeros.
#pragma once

#include "directions.hpp"
#include "driving.hpp"
#include "product.hpp"
#include "scales.hpp"
#include "simd.hpp"
#include "slicekit_shared_factors.h"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace shared_factors {

using Problem = slicekit_shared_factors;

// Sizes in whole lane groups, and how sequences and steps are gathered.
template <class Real>
struct Sizes {
  explicit Sizes(const Problem &n)
      : inner(n.channels * n.rank),
        inner_panels(round_up(inner, LANES<Real>) / LANES<Real>),
        dim_panels(round_up(n.dim, LANES<Real>) / LANES<Real>),
        channel_panels(round_up(n.channels, LANES<Real>) / LANES<Real>),
        padded_inner(inner_panels * LANES<Real>),
        padded_dim(dim_panels * LANES<Real>),
        padded_channels(channel_panels * LANES<Real>),
        // A lane group more, lest all rows share a few sets of the cache.
        row(padded_dim + LANES<Real>),
        sequences(most<int64_t>(1, least(n.batch, TEAM / n.columns))),
        steps(most<int64_t>(1, least(n.length, CHUNK / (sequences * n.columns)))) {}

  static constexpr int64_t TEAM = 48;    // rows of a step's products
  static constexpr int64_t CHUNK = 144;  // rows of a chunk's products

  int64_t inner;  // channels * rank: columns of U and V
  int64_t inner_panels, dim_panels, channel_panels;
  int64_t padded_inner, padded_dim, padded_channels;
  int64_t row;        // from one state to the next
  int64_t sequences;  // that are worked on together
  int64_t steps;      // of a chunk
};

// Panels of the matrix at(row, column).
template <class Real, class At>
void pack(int64_t rows, int64_t padded_rows, int64_t columns, Real *panels, At at) {
  for (int64_t start = 0; start < columns; start += LANES<Real>) {
    for (int64_t row = 0; row < padded_rows; ++row) {
      for (int64_t lane = 0; lane < LANES<Real>; ++lane) {
        const int64_t column = start + lane;
        *panels++ = row < rows && column < columns ? at(row, column) : Real(0);
      }
    }
  }
}

// Number (d, k) of a factor (dim, channels * rank) that is given as (channels, dim, rank).
SLICEKIT_INLINE int64_t place_in_factor(const Problem &n, int64_t d, int64_t k) {
  return (k / n.rank * n.dim + d) * n.rank + k % n.rank;
}

// (inner_panels, dim, LANES).
template <class Real>
void pack_factor(const Problem &n, const Sizes<Real> &size, const void *factor, Real *panels) {
  const Real *given = static_cast<const Real *>(factor);
  pack(n.dim, n.dim, size.inner, panels,
       [&](int64_t d, int64_t k) { return given[place_in_factor(n, d, k)]; });
}

// (dim_panels, padded_inner, LANES).
template <class Real>
void pack_transposed(const Problem &n, const Sizes<Real> &size, const void *factor, Real *panels) {
  const Real *given = static_cast<const Real *>(factor);
  pack(size.inner, size.padded_inner, n.dim, panels,
       [&](int64_t k, int64_t d) { return given[place_in_factor(n, d, k)]; });
}

// (dim_panels, channels, LANES).
template <class Real>
void pack_diagonal(const Problem &n, Real *panels) {
  const Real *given = static_cast<const Real *>(n.diagonal);
  pack(n.channels, n.channels, n.dim, panels,
       [&](int64_t i, int64_t d) { return given[i * n.dim + d]; });
}

// c (rows, panels of columns) (+)= a (rows, inner) times a matrix in panels of `inner` rows.
//
// c's rows are c_row apart, its panels c_panel.
template <class Real>
inline void times_panels(int64_t rows, int64_t inner, const Real *a, ptrdiff_t a_row,
                         ptrdiff_t a_inner, const Real *b, int64_t panels, Real *c,
                         ptrdiff_t c_row, ptrdiff_t c_panel, bool add) {
  multiply<Real>(panels, {rows, 1, inner, a, 0, a_row, a_inner, b, inner * LANES<Real>, c, c_row,
                          c_panel, add});
}

// The same for an a that is in panels itself, a_panel apart; c's panels are side by side.
template <class Real>
inline void panels_times_panels(int64_t rows, int64_t a_panels, const Real *a, ptrdiff_t a_panel,
                                const Real *b, int64_t panels, Real *c, ptrdiff_t c_row,
                                bool add) {
  constexpr int L = LANES<Real>;
  multiply<Real>(panels, {rows, a_panels, L, a, a_panel, L, 1, b, a_panels * L * L, c, c_row, L, add});
}

}  // namespace shared_factors
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
