// The three products of a chunk: features from increments, and the two that pull gradients back.
#pragma once

#include "flow.hpp"
#include "product.hpp"
#include "ravel.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// What stands in memory of a path: its increments, or the values of which they are pace (1, values).
struct Path {
  int64_t channels;
  double pace;

  int64_t clock() const { return pace ? 1 : 0; }             // channels that are not in memory
  int64_t width() const { return channels - clock(); }       // and those that are
  double scale() const { return pace ? pace : 1; }
};

// Parameters in the order of the panels, for both directions of the products: times the path's scale,
// and backwards without its clock, which has no gradient.
template <class Real>
struct Packed {
  Real *forward;   // (feature panels, channels, LANES)
  Real *backward;  // (channel groups of the width, feature panels, LANES, LANES channels)
  Real *rest;      // (channels that fill no group, feature panels, LANES)
};

// Channels beyond the last full lane group: a few are cheaper one by one than as a padded group.
constexpr int64_t FEW = 3;

template <class Real>
struct ChannelGroups {
  int64_t full, padded, few, over;

  explicit ChannelGroups(int64_t channels) : full(channels / LANES<Real>) {
    over = channels % LANES<Real>;
    few = over <= FEW ? over : 0;
    padded = over > FEW ? 1 : 0;
  }
  int64_t groups() const { return full + padded; }
};

template <class Real>
inline Packed<Real> take_packed(const Layout &layout, const Path &path, bool backward, Workspace &workspace) {
  constexpr int64_t N = LANES<Real>;
  const int64_t features = layout.feature_panels * N;
  Packed<Real> packed = {workspace.take<Real>(features * path.channels), nullptr, nullptr};
  if (backward) {
    const ChannelGroups<Real> channel(path.width());
    packed.backward = workspace.take<Real>(features * N * channel.groups());
    packed.rest = workspace.take<Real>(features * channel.few);
  }
  return packed;
}

SLICEKIT_INLINE const Part &part_of_panel(const Layout &layout, int64_t panel) {
  int64_t p = layout.parts - 1;
  while (layout.part[p].features_at > panel) --p;
  return layout.part[p];
}

// Where the parameters of a panel's lanes begin, and how far apart their channels are.
template <class Real>
struct PanelColumns {
  Real *at[LANES<Real>];
  int64_t stride[LANES<Real>];

  PanelColumns from(int64_t channel) const {
    PanelColumns rest = *this;
    for (int l = 0; l < LANES<Real>; ++l) {
      if (at[l]) rest.at[l] += channel * stride[l];
    }
    return rest;
  }
};

template <class Real>
inline PanelColumns<Real> panel_columns(const Layout &layout, int64_t panel, bool gradients) {
  const Part &part = part_of_panel(layout, panel);
  PanelColumns<Real> columns;
  for (int l = 0; l < LANES<Real>; ++l) {
    const Column column = feature_column<Real>(part, panel - part.features_at, l);
    columns.at[l] = nullptr;
    if (column.which < 0) continue;
    const void *tensor = gradients ? part.in_parameters[column.which] : part.parameters[column.which];
    columns.at[l] = const_cast<Real *>(static_cast<const Real *>(tensor)) + column.at;
    columns.stride[l] = part.columns_of(column.which);
  }
  return columns;
}

// Panels whose parameters stand next to each other: (LANES, count) of each channel; no panel is in a
// sheaf where lanes are padded, or where numbers are not in the order of lanes.
template <class Real>
struct Sheaf {
  int64_t first, count;
  Real *at;
  int64_t stride;  // from channel to channel
};

constexpr int64_t LARGEST_SHEAF = 8;

// The sheaf of a panel; its count is 0 if there is none.
template <class Real>
inline Sheaf<Real> sheaf_of(const Layout &layout, int64_t panel, bool gradients) {
  constexpr int64_t N = LANES<Real>;
  const Part &part = part_of_panel(layout, panel);
  const int64_t local = panel - part.features_at;
  const bool blocks = part.is_blocks() && !part.exponential;
  if (blocks && (part.size != part.width || part.size > N)) return {};
  const int64_t rank = part.kind == SLICEKIT_LOW_RANK ? part.size : 0;
  const int64_t place = rank ? local % (1 + 2 * rank) : 0;
  const int64_t count = blocks ? part.size : place ? rank : 1;
  if (count > LARGEST_SHEAF || power_of_two_above(count) != count) return {};
  const int64_t first = panel - (blocks ? local % count : place ? (place - 1) % rank : 0);
  const Column start = feature_column<Real>(part, first - part.features_at, 0);
  const Column end = feature_column<Real>(part, first - part.features_at, N - 1);
  if (end.which < 0) return {};
  const void *tensor = gradients ? part.in_parameters[start.which] : part.parameters[start.which];
  return {first, count, const_cast<Real *>(static_cast<const Real *>(tensor)) + start.at,
          part.columns_of(start.which)};
}

// Calls f(Constant<COUNT>) for the count of a sheaf.
template <class F>
SLICEKIT_INLINE void with_count(int64_t count, F &&f) {
  switch (count) {
    case 1: return f(Constant<1>{});
    case 2: return f(Constant<2>{});
    case 4: return f(Constant<4>{});
    case 8: return f(Constant<8>{});
  }
}

// Channels ahead of time that a sheaf is asked for: in memory they are far apart.
constexpr int64_t CHANNELS_AHEAD = 16;

template <int COUNT, class Real>
SLICEKIT_INLINE void ask_for_channel(const Sheaf<Real> &sheaf, int64_t channel, int64_t channels) {
  if (channel >= channels) return;
  ask_for(sheaf.at + channel * sheaf.stride, COUNT * LANES<Real>);
}

// rows (sheaves, count, channels, LANES) = scale times some sheaves that follow each other in memory.
template <class Real>
SLICEKIT_NOINLINE void unravel_sheaves(const Sheaf<Real> &from, int64_t sheaves, int64_t channels,
                                       Real scale, Real *rows) {
  constexpr int64_t N = LANES<Real>, V = WIDTH<Real>;
  with_count(from.count, [&](auto number) {
    constexpr int COUNT = decltype(number)::value;
    for (int64_t k = 0; k < channels; ++k) {
      for (int64_t s = 0; s < sheaves; ++s) {
        Sheaf<Real> one = from;
        one.at += s * COUNT * N;
        Real *to = rows + (s * COUNT * channels + k) * N;
        Vector<Real> x[COUNT * VECTORS], y[COUNT * VECTORS];
        ask_for_channel<COUNT>(one, k + CHANNELS_AHEAD, channels);
        for (int v = 0; v < COUNT * VECTORS; ++v) x[v] = load(one.at + k * one.stride + v * V);
        unravel<COUNT, Real>(x, y);
        for (int v = 0; v < COUNT * VECTORS; ++v) {
          store(to + v / VECTORS * channels * N + v % VECTORS * V, y[v] * scale);
        }
      }
    }
  });
}

// The other way round, from the sum of `slots` arrays of rows, which are `apart`.
template <class Real>
SLICEKIT_NOINLINE void ravel_sheaf(const Real *rows, int64_t slots, ptrdiff_t apart, int64_t channels,
                                   Real scale, const Sheaf<Real> &to) {
  constexpr int64_t N = LANES<Real>, V = WIDTH<Real>;
  with_count(to.count, [&](auto number) {
    constexpr int COUNT = decltype(number)::value;
    for (int64_t k = 0; k < channels; ++k) {
      Vector<Real> x[COUNT * VECTORS], y[COUNT * VECTORS];
      ask_for_channel<COUNT>(to, k + CHANNELS_AHEAD, channels);
      for (int v = 0; v < COUNT * VECTORS; ++v) {
        const Real *row = rows + (v / VECTORS * channels + k) * N + v % VECTORS * V;
        x[v] = load(row);
        for (int64_t slot = 1; slot < slots; ++slot) x[v] += load(row + slot * apart);
        x[v] *= scale;
      }
      ravel<COUNT, Real>(x, y);
      for (int v = 0; v < COUNT * VECTORS; ++v) store(to.at + k * to.stride + v * V, y[v]);
    }
  });
}

// A panel's parameters, lane by lane.
template <class Real>
SLICEKIT_NOINLINE void pack_lanes(const PanelColumns<Real> &from, int64_t channels, Real scale,
                                  Real *rows) {
  constexpr int64_t N = LANES<Real>;
  for (int64_t k = 0; k < channels; ++k) {
    for (int64_t l = 0; l < N; ++l) {
      rows[k * N + l] = from.at[l] ? scale * from.at[l][k * from.stride[l]] : Real(0);
    }
  }
}

// The other way round.
template <class Real>
SLICEKIT_NOINLINE void unpack_lanes(const Real *rows, int64_t channels, const PanelColumns<Real> &to) {
  constexpr int64_t N = LANES<Real>;
  for (int64_t k = 0; k < channels; ++k) {
    for (int64_t l = 0; l < N; ++l) {
      if (to.at[l]) to.at[l][k * to.stride[l]] = rows[k * N + l];
    }
  }
}

// What is packed forwards of a panel, rows (channels, LANES), packed backwards.
template <class Real>
SLICEKIT_NOINLINE void pack_back(int64_t panel, int64_t panels, const Path &path, const Real *rows,
                                 const Packed<Real> &to) {
  constexpr int64_t N = LANES<Real>;
  rows += path.clock() * N;
  const int64_t channels = path.width();
  const ChannelGroups<Real> channel(channels);
  for (int64_t c = 0; c < channel.groups(); ++c) {
    Real *square = to.backward + (c * panels + panel) * N * N;
    const int64_t count = least(N, channels - c * N);
    if (count == N) {
      transpose_square<Real>(rows + c * N * N, N, square, N);
      continue;
    }
    for (int64_t l = 0; l < N; ++l) {
      for (int64_t x = 0; x < N; ++x) {
        square[l * N + x] = x < count ? rows[(c * N + x) * N + l] : Real(0);
      }
    }
  }
  for (int64_t x = 0; x < channel.few; ++x) {
    for (int64_t l = 0; l < N; ++l) {
      to.rest[(x * panels + panel) * N + l] = rows[(channel.full * N + x) * N + l];
    }
  }
}

// A panel, with all of its sheaf where it is the first of one: rows (panels, channels, LANES).
template <class Real>
inline void pack_panel(const Layout &layout, int64_t panel, const Path &path, Real *rows) {
  const Sheaf<Real> sheaf = sheaf_of<Real>(layout, panel, false);
  if (sheaf.count && sheaf.first != panel) return;
  const Real scale = static_cast<Real>(path.scale());
  if (sheaf.count) return unravel_sheaves(sheaf, 1, path.channels, scale, rows);
  pack_lanes(panel_columns<Real>(layout, panel, false), path.channels, scale, rows);
}

// The gradients of a panel's parameters, or its sheaf's where it is the first of one, from the sum of
// the rows (panels, channels, LANES) of `slots` arrays (feature panels, channels, LANES).
template <class Real>
inline void unpack_panel(const Layout &layout, int64_t panel, const Path &path, const Real *rows,
                         int64_t slots) {
  constexpr int64_t N = LANES<Real>;
  const Sheaf<Real> sheaf = sheaf_of<Real>(layout, panel, true);
  if (sheaf.count && sheaf.first != panel) return;
  const int64_t channels = path.channels, apart = layout.feature_panels * channels * N;
  const Real scale = static_cast<Real>(path.scale());
  if (sheaf.count) return ravel_sheaf(rows, slots, apart, channels, scale, sheaf);
  const PanelColumns<Real> to = panel_columns<Real>(layout, panel, true);
  for (int64_t k = 0; k < channels; ++k, rows += N) {
    for (int64_t l = 0; l < N; ++l) {
      if (!to.at[l]) continue;
      Real total = rows[l];
      for (int64_t slot = 1; slot < slots; ++slot) total += rows[slot * apart + l];
      to.at[l][k * to.stride[l]] = scale * total;
    }
  }
}

// Panels that are packed, multiplied and unpacked together, so that they stay in the cache: all of
// the sheaves that begin among BUNDLE panels.
struct Bundle {
  int64_t first, stop;

  int64_t count() const { return most<int64_t>(0, stop - first); }
};

constexpr int64_t BUNDLE = LARGEST_SHEAF, LARGEST_BUNDLE = BUNDLE + LARGEST_SHEAF - 1;

inline int64_t bundles_of(const Layout &layout) { return (layout.feature_panels + BUNDLE - 1) / BUNDLE; }

template <class Real>
inline Bundle bundle_of(const Layout &layout, int64_t number) {
  const int64_t begin = number * BUNDLE, end = least(begin + BUNDLE, layout.feature_panels);
  Bundle bundle = {end, begin};
  for (int64_t panel = end - 1; panel >= begin; --panel) {
    const Sheaf<Real> sheaf = sheaf_of<Real>(layout, panel, false);
    if (sheaf.count && sheaf.first != panel) continue;
    bundle = {panel, most(bundle.stop, panel + most<int64_t>(1, sheaf.count))};
  }
  return bundle;
}

// Features of some rows from their increments or values (rows, width) and some packed panels.
template <class Real>
SLICEKIT_NOINLINE void make_features(int64_t panels, const Real *packed, const Path &path, int64_t rows,
                          const Real *given, const Panels<Real> &to) {
  constexpr int64_t N = LANES<Real>;
  const int64_t width = path.width();
  multiply<Real>(panels, {rows, 1, width, given, 0, width, 1, packed + path.clock() * N,
                          path.channels * N, to.at, to.row, to.panel, false,
                          path.clock() ? packed : nullptr});
}

// total (feature panels, channels, LANES) (+)= Σ_rows (1, given)^T gradients, for some panels.
template <class Real>
SLICEKIT_NOINLINE void add_parameter_gradients(int64_t panels, const Path &path, int64_t rows,
                                    const Real *given, const Panels<Real> &gradients, Real *total,
                                    bool add) {
  constexpr int64_t N = LANES<Real>;
  const int64_t width = path.width(), apart = path.channels * N;
  const Real one = 1;
  if (path.clock()) {
    multiply<Real>(panels, {1, 1, rows, &one, 0, 0, 0, gradients.at, gradients.panel, total, N, apart,
                            add});
  }
  multiply<Real>(panels, {width, 1, rows, given, 0, 1, width, gradients.at, gradients.panel,
                          total + path.clock() * N, N, apart, add});
}

// The last channels where they fill `width` lanes of a group, by way of a few rows of whole groups.
template <class Real>
inline void pull_padded_group(const Real *packed, int64_t channels, int64_t width, int64_t rows,
                              const Panels<Real> &gradients, int64_t panels, bool add,
                              Real *in_increments) {
  constexpr int64_t N = LANES<Real>, HEIGHT = tile_rows(1);
  Real some[HEIGHT * N];
  for (int64_t r = 0; r < rows; r += HEIGHT) {
    const int64_t height = least(HEIGHT, rows - r);
    multiply_groups<1, Real>({height, panels, N, gradients.of(0, r), gradients.panel, gradients.row, 1,
                              packed, 0, some, N, 0, false});
    for (int64_t x = 0; x < height; ++x) {
      Real *to = in_increments + (r + x) * channels;
      for (int64_t c = 0; c < width; ++c) to[c] = add ? to[c] + some[x * N + c] : some[x * N + c];
    }
  }
}

// in_increments (rows, width) (+)= gradients · parameters^T, of `panels` panels from the `first` on.
template <class Real>
SLICEKIT_NOINLINE void pull_increments(const Layout &layout, const Packed<Real> &packed, const Path &path,
                                       int64_t rows, const Panels<Real> &gradients, int64_t first,
                                       int64_t panels, bool add, Real *in_increments) {
  constexpr int64_t N = LANES<Real>, V = WIDTH<Real>;
  const int64_t channels = path.width(), group = layout.feature_panels * N * N;
  const ChannelGroups<Real> channel(channels);
  const Real *squares = packed.backward + first * N * N;
  each_tile_of_groups(channel.full, [&](auto groups, int64_t c) {
    multiply_groups<decltype(groups)::value, Real>({rows, panels, N, gradients.at, gradients.panel,
                                                    gradients.row, 1, squares + c * group, group,
                                                    in_increments + c * N, channels, N, add});
  });
  if (channel.padded) {
    pull_padded_group(squares + channel.full * group, channels, channel.over, rows, gradients, panels, add,
                      in_increments + channel.full * N);
  }
  for (int64_t x = 0; x < channel.few; ++x) {
    const Real *rest = packed.rest + (x * layout.feature_panels + first) * N;
    for (int64_t r = 0; r < rows; ++r) {
      Vector<Real> total[VECTORS] = {};
      for (int64_t p = 0; p < panels; ++p) {
        const Real *from = gradients.of(p, r);
        for (int v = 0; v < VECTORS; ++v) total[v] += load(from + v * V) * load(rest + p * N + v * V);
      }
      Real *to = in_increments + r * channels + channel.full * N + x;
      *to = sum(added<Real>(total)) + (add ? *to : Real(0));
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
