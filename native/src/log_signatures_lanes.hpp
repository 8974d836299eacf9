// Between rows of numbers, one for each lane, and vectors that hold a number of every lane.
#pragma once

#include "lanes.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace log_signatures {

// Some increments of one path.
struct Interval {
  int64_t first = 0, count = 0;
};

// A row of numbers in memory; past its end it reads as zero and is not written.
template <class Real>
struct Row {
  Real *first = nullptr;
  int64_t count = 0;
};

template <class Real>
SLICEKIT_INLINE Vector<Real> read(const Row<const Real> &row, int64_t from) {
  if (from + WIDTH<Real> <= row.count) return load(row.first + from);
  Vector<Real> x{};
  for (int64_t i = from; i < row.count; ++i) x[i - from] = row.first[i];
  return x;
}

template <class Real>
SLICEKIT_INLINE void write(const Row<Real> &row, int64_t from, Vector<Real> x) {
  if (from + WIDTH<Real> <= row.count) {
    store(row.first + from, x);
  } else {
    for (int64_t i = from; i < row.count; ++i) row.first[i] = x[i - from];
  }
}

// Whether every row has `count` numbers, enough for a vector. Then no vector reaches past an end: the
// last one begins before its place, and what it holds twice is the same twice.
template <class AnyRow>
SLICEKIT_INLINE bool all_whole(const AnyRow *rows, int64_t count, int width) {
  for (int lane = 0; lane < width; ++lane) {
    if (rows[lane].count != count) return false;
  }
  return count >= width;
}

// to[i] holds number i of every row; `to` has room for `count`, rounded up to a multiple of WIDTH.
template <class Real>
void to_lanes(const Row<const Real> *rows, int64_t count, Vector<Real> *to) {
  constexpr int W = WIDTH<Real>;
  const bool whole = all_whole(rows, count, W);
  for (int64_t i = 0; i < count; i += W) {
    const int64_t at = whole ? least(i, count - W) : i;
    Vector<Real> x[W];
    if (whole) {
      unrolled<W>([&](auto lane) { x[lane.value] = load(rows[lane.value].first + at); });
    } else {
      for (int lane = 0; lane < W; ++lane) x[lane] = read(rows[lane], at);
    }
    transpose<W, Real>(x);
    for (int j = 0; j < W; ++j) to[at + j] = x[j];
  }
}

// The other way; `from` may be read up to a multiple of WIDTH.
template <class Real>
void from_lanes(const Vector<Real> *from, int64_t count, const Row<Real> *rows) {
  constexpr int W = WIDTH<Real>;
  const bool whole = all_whole(rows, count, W);
  for (int64_t i = 0; i < count; i += W) {
    const int64_t at = whole ? least(i, count - W) : i;
    Vector<Real> x[W];
    for (int j = 0; j < W; ++j) x[j] = from[at + j];
    transpose<W, Real>(x);
    if (whole) {
      unrolled<W>([&](auto lane) { store(rows[lane.value].first + at, x[lane.value]); });
    } else {
      for (int lane = 0; lane < W; ++lane) write(rows[lane], at, x[lane]);
    }
  }
}

}  // namespace log_signatures
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
