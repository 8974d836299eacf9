// The two passes of a short convolution over some channels of one sequence, row by row.
#pragma once

#include "channel_groups.hpp"
#include "normal_exp.hpp"
#include "slicekit_short_convolution.h"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace short_convolution {

// A sequence's channels `first` to `first + channels - 1`. Rows are `row` numbers apart.
template <class Real>
struct Part {
  const slicekit_short_convolution &task;
  int64_t sequence, first, channels;

  // Row t of an array (batch, length, channels) behind a window (batch, size - 1, channels).
  template <class Array>
  auto row(Array *array, Array *window, int64_t t) const {
    const int64_t before = task.size - 1;
    if (t < 0) return numbers(window) + ((sequence + 1) * before + t) * task.channels + first;
    return numbers(array) + (sequence * task.length + t) * task.channels + first;
  }

 private:
  static const Real *numbers(const void *array) { return static_cast<const Real *>(array); }
  static Real *numbers(void *array) { return static_cast<Real *>(array); }
};

// The filters as the passes read them, (size, groups of all channels) and (groups).
template <class Real>
struct Filters {
  using V = Vector<Real>;
  V *taps, *bias;

  Filters(Workspace &work, const slicekit_short_convolution &task) {
    const int64_t groups = group_count<Real>(task.channels);
    taps = work.take<V>(task.size * groups);
    bias = work.take<V>(groups);
    if (!work.has_memory()) return;
    const Real *weight = static_cast<const Real *>(task.weight);
    const Real *constant = static_cast<const Real *>(task.bias);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t c = g * WIDTH<Real>, count = task.channels - c;
      bias[g] = constant ? load_some(constant + c, count) : zero<Real>();
      for (int64_t j = 0; j < task.size; ++j) {
        V tap = zero<Real>();
        for (int64_t l = 0; l < WIDTH<Real> && l < count; ++l) {
          tap[l] = weight[(c + l) * task.size + j];
        }
        taps[j * groups + g] = tap;
      }
    }
  }
};

template <int N>
struct Known {
  static constexpr int VALUE = N;
};

template <class T>
T value_of();

// The rows row_of(0), ..., row_of(SIZE - 1), found once; or whenever they are asked for if SIZE is 0.
template <int SIZE, class RowOf>
class Rows {
 public:
  explicit SLICEKIT_INLINE Rows(RowOf row_of) : row_of_(row_of) {
    for (int j = 0; j < SIZE; ++j) rows_[j] = row_of(j);
  }
  SLICEKIT_INLINE auto operator[](int64_t j) const {
    if constexpr (SIZE) {
      return rows_[j];
    } else {
      return row_of_(j);
    }
  }

 private:
  RowOf row_of_;
  decltype(value_of<RowOf>()(0)) rows_[SIZE ? SIZE : 1];
};

template <class Real>
SLICEKIT_INLINE Vector<Real> sigmoid(Vector<Real> z) {
  Vector<Real> x[1] = {-z};
  normal_exp<Real>(x);
  return Real(1) / (Real(1) + x[0]);
}

// SIZE is the number of taps, or 0 if it is not known to the compiler.
template <class Real, int SIZE, bool SILU>
struct Passes {
  using V = Vector<Real>;
  const slicekit_short_convolution &task;
  const Part<Real> &part;
  const Filters<Real> &filters;

  void forward() const {
    for (int64_t t = 0; t < task.length; ++t) {
      Real *outputs = part.row(task.outputs, task.outputs, t);
      const auto seen = seen_at(t);
      for_groups([&](int64_t g, int64_t c, auto here) {
        const V z = filtered(g, c, seen, here);
        here.store(outputs + c, SILU ? z * sigmoid<Real>(z) : z);
      });
    }
  }

  // in_taps (size, groups of all channels) and in_bias (groups) of this sequence alone; pulled
  // (size, groups of the part) is work space for the last gradients of z.
  void backward(V *in_taps, V *in_bias, V *pulled) const {
    const int64_t all = all_groups(), own = group_count<Real>(part.channels);
    for (int64_t g = 0; g < own; ++g) {
      in_bias[from() + g] = zero<Real>();
      for (int64_t j = 0; j < size(); ++j) {
        in_taps[j * all + from() + g] = pulled[j * own + g] = zero<Real>();
      }
    }
    for (int64_t t = 0; t < task.length + size() - 1; ++t) {
      V *latest = pulled + t % size() * own;
      if (t < task.length) {
        pull_filters(t, latest, in_taps, in_bias);
      } else {
        for (int64_t g = 0; g < own; ++g) latest[g] = zero<Real>();
      }
      pull_input(t - size() + 1, pulled);
    }
  }

 private:
  int64_t size() const { return SIZE ? SIZE : task.size; }
  int64_t all_groups() const { return group_count<Real>(task.channels); }
  int64_t from() const { return part.first / WIDTH<Real>; }

  struct Whole {
    static SLICEKIT_INLINE V load(const Real *from) { return SLICEKIT_ISA::load(from); }
    static SLICEKIT_INLINE void store(Real *to, V x) { SLICEKIT_ISA::store(to, x); }
  };
  struct Some {
    int64_t count;
    SLICEKIT_INLINE V load(const Real *from) const { return load_some(from, count); }
    SLICEKIT_INLINE void store(Real *to, V x) const { store_some(to, x, count); }
  };

  // body(group, channel, here) with ways to load and store that end where the channels do.
  template <class Body>
  SLICEKIT_INLINE void for_groups(Body body) const {
    int64_t g = 0, c = 0;
    for (; c + WIDTH<Real> <= part.channels; c += WIDTH<Real>, ++g) body(g, c, Whole{});
    if (c < part.channels) body(g, c, Some{part.channels - c});
  }

  template <class RowOf>
  static SLICEKIT_INLINE Rows<SIZE, RowOf> rows(RowOf row_of) {
    return Rows<SIZE, RowOf>(row_of);
  }

  // The inputs that output t sees, one for each tap.
  SLICEKIT_INLINE auto seen_at(int64_t t) const {
    return rows([this, t](int64_t j) {
      return part.row(task.x, task.window, t - size() + 1 + j);
    });
  }

  template <class Seen, class Here>
  SLICEKIT_INLINE V filtered(int64_t g, int64_t c, const Seen &seen, Here here) const {
    V z = filters.bias[from() + g];
    for (int64_t j = 0; j < size(); ++j) {
      z += filters.taps[j * all_groups() + from() + g] * here.load(seen[j] + c);
    }
    return z;
  }

  void pull_filters(int64_t t, V *latest, V *in_taps, V *in_bias) const {
    const Real *in_outputs = part.row(task.in_outputs, task.in_outputs, t);
    const auto seen = seen_at(t);
    for_groups([&](int64_t g, int64_t c, auto here) {
      V in_z = here.load(in_outputs + c);
      if (SILU) {
        const V z = filtered(g, c, seen, here), s = sigmoid<Real>(z);
        in_z *= s * (Real(1) + z * (Real(1) - s));
      }
      latest[g] = in_z;
      in_bias[from() + g] += in_z;
      for (int64_t j = 0; j < size(); ++j) {
        in_taps[j * all_groups() + from() + g] += in_z * here.load(seen[j] + c);
      }
    });
  }

  // Of the input t, which the outputs t, ..., t + size - 1 have seen; `pulled` is zero for those
  // before the first and past the last.
  void pull_input(int64_t t, const V *pulled) const {
    const int64_t own = group_count<Real>(part.channels);
    Real *in_x = part.row(task.in_x, task.in_window, t);
    const auto by_tap = rows([this, t, pulled, own](int64_t j) {
      return pulled + (t + 2 * size() - 1 - j) % size() * own;
    });
    for_groups([&](int64_t g, int64_t c, auto here) {
      V total = zero<Real>();
      for (int64_t j = 0; j < size(); ++j) {
        total += filters.taps[j * all_groups() + from() + g] * by_tap[j][g];
      }
      here.store(in_x + c, total);
    });
  }
};

}  // namespace short_convolution
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
