// Where the numbers of a problem stand: parts, panels and padded states.
//
// A *panel* holds one lane group of features (entries of A, or of its factors) for a number of rows
// (steps, or tokens of a table). A *part* of a direct sum owns consecutive panels and a piece of the
// state. States are padded so that every piece fills lane groups:
//   blocks up to LANES rows: the rows of a block are padded to a power of two W, LANES / W blocks
//     share a lane group, and there is a panel for each lane group and each column of the blocks;
//   larger blocks: rows are padded to a multiple of LANES, with a panel for each lane group of rows
//     and each column;
//   low rank: panels d, u_1, ..., u_r, v_1, ..., v_r for each lane group of the diagonal;
//   Walsh-Hadamard: a panel for each lane group of the diagonal.
// Parts that are exponentiated have panels for their features, in the order of their parameters, and
// others for their transitions.
#pragma once

#include "simd.hpp"
#include "slicekit_panels.h"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

SLICEKIT_INLINE int64_t power_of_two_above(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// What an adjoint does to the gradient of a transition: writes it, adds to it, or leaves it alone.
enum Taken { WRITTEN, ADDED, LEFT };

struct Part {
  int64_t kind, dim, size;
  bool exponential;
  int64_t blocks;       // how many, of a block-diagonal part
  int64_t first_block;  // among all blocks that its parameters hold
  int64_t all_blocks;
  int64_t width;        // rows that a block takes up in its lane groups
  int64_t state_at, padded_at, padded;
  int64_t features_at, feature_panels;
  int64_t panels_at, panels;
  const void *const *parameters;
  void *const *in_parameters;

  bool is_blocks() const { return kind == SLICEKIT_BLOCKS || kind == SLICEKIT_SKEW; }

  // Features that one block has in the parameters.
  int64_t block_features() const {
    return kind == SLICEKIT_SKEW ? size * (size - 1) / 2 : size * size;
  }

  // Columns of parameter `which`.
  int64_t columns_of(int which) const {
    if (is_blocks()) return all_blocks * block_features();
    return which == 0 ? dim : dim * size;
  }
};

// A column of a parameter: which one, and where. Lanes of padding have which = -1.
struct Column {
  int which;
  int64_t at;
};

template <class Real>
SLICEKIT_INLINE Column feature_column(const Part &part, int64_t panel, int64_t lane) {
  constexpr int64_t N = LANES<Real>;
  if (part.exponential) {
    const int64_t at = panel * N + lane;
    if (at >= part.blocks * part.block_features()) return {-1, 0};
    return {0, part.first_block * part.block_features() + at};
  }
  if (part.is_blocks()) {
    const int64_t b = part.size, j = panel % b, group = panel / b;
    const int64_t row_groups = b > N ? part.width / N : 1;
    const int64_t block = b > N ? group / row_groups : group * (N / part.width) + lane / part.width;
    const int64_t i = b > N ? group % row_groups * N + lane : lane % part.width;
    if (block >= part.blocks || i >= b) return {-1, 0};
    return {0, ((part.first_block + block) * b + i) * b + j};
  }
  const int64_t per_group = part.kind == SLICEKIT_LOW_RANK ? 1 + 2 * part.size : 1;
  const int64_t i = panel / per_group * N + lane, s = panel % per_group;
  if (i >= part.dim) return {-1, 0};
  if (s == 0) return {0, i};
  return {s <= part.size ? 1 : 2, i * part.size + (s - 1) % part.size};
}

// Blocks that share a lane group.
template <class Real>
SLICEKIT_INLINE int64_t blocks_together(const Part &part) {
  return part.size > LANES<Real> ? 1 : LANES<Real> / part.width;
}

// Some parts and their panels: first all features, then the transitions of exponentiated parts.
struct Layout {
  Part *part;
  int64_t parts;
  int64_t state_at, dim, padded;
  int64_t feature_panels, panels;
  int64_t panels_before;  // those of the layouts before it, where the state is split
  bool direct;     // the padded state is the state: it can be used where it stands
  bool together;   // numbers of a part follow each other in the padded state too
  int32_t *place;  // (dim): where each number of the state goes in the padded one
};

template <class Real>
SLICEKIT_INLINE void size_part(Part &part) {
  constexpr int64_t N = LANES<Real>;
  int64_t groups;
  if (part.is_blocks()) {
    const int64_t b = part.size;
    part.width = b > N ? round_up(b, N) : power_of_two_above(b);
    groups = b > N ? part.blocks * (part.width / N)
                   : (part.blocks + N / part.width - 1) / (N / part.width);
    part.panels = groups * b;
  } else {
    groups = (part.dim + N - 1) / N;
    part.panels = groups * (part.kind == SLICEKIT_LOW_RANK ? 1 + 2 * part.size : 1);
  }
  part.padded = groups * N;
  part.feature_panels = part.exponential ? (part.blocks * part.block_features() + N - 1) / N
                                         : part.panels;
}

SLICEKIT_INLINE void place_part(const Part &part, int64_t origin, int32_t *place) {
  for (int64_t i = 0; i < part.dim; ++i) {
    int64_t at = i;
    if (part.is_blocks()) at = i / part.size * part.width + i % part.size;
    place[part.state_at - origin + i] = static_cast<int32_t>(part.padded_at + at);
  }
}

// Lays out parts whose kind, sizes, blocks and state_at are known.
template <class Real>
inline void lay_out(Layout &layout) {
  int64_t features = 0, padded = 0, dim = 0;
  layout.direct = layout.together = true;
  for (int64_t p = 0; p < layout.parts; ++p) {
    Part &part = layout.part[p];
    size_part<Real>(part);
    part.padded_at = padded;
    part.features_at = features;
    padded += part.padded;
    dim += part.dim;
    features += part.feature_panels;
    layout.direct &= part.padded == part.dim;
    layout.together &= !part.is_blocks() || part.width == part.size || part.blocks == 1;
  }
  int64_t panels = features;
  for (int64_t p = 0; p < layout.parts; ++p) {
    Part &part = layout.part[p];
    part.panels_at = part.exponential ? panels : part.features_at;
    if (part.exponential) panels += part.panels;
  }
  layout.state_at = layout.parts ? layout.part[0].state_at : 0;
  layout.dim = dim;
  layout.padded = padded;
  layout.feature_panels = features;
  layout.panels = panels;
}

inline void place_state(const Layout &layout) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    place_part(layout.part[p], layout.state_at, layout.place);
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
