// The kept entries a_{i,r,c} of all matrices, grouped for sums over one of their three indices.
//
// A kernel sums over one index, its *inner* one, and adds the result to a *target* row; the third
// index is the *outer* loop. Entries with the same outer and target index form a list. Lists of an
// outer index are taken longest first: lists of one length follow each other, and the processor
// guesses where each of them ends. Entries are stored in the order in which they are read.
#pragma once

#include "simd.hpp"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse {

// Lane groups that are worked on together; more would not fit the registers.
constexpr int GROUPS = 3;

// Length of a row of vectors in lanes: every such array has one row for each element.
template <class Real>
constexpr int ROW = GROUPS * LANES<Real>;

struct List {
  int32_t target, start, count;
};

template <class Real>
struct Lists {
  int32_t targets;   // for each outer index
  List *lists;       // (outer, targets)
  int32_t *offsets;  // (kept,) inner index times ROW
  Real *values;      // (kept,)
  int32_t *origins;  // (kept,) where the entry was given, or null

  const List *of(int64_t outer) const { return lists + outer * targets; }
};

enum Index { CHANNEL, ROW_INDEX, COLUMN };

// Which index plays which part.
struct Parts {
  Index outer, target, inner;
};

// The indices of ascending places in (channels, dim, dim), without a division.
class Walk {
 public:
  explicit Walk(int64_t dim) : index{0, 0, 0}, dim_(dim), row_(0) {}

  void go_to(int64_t place) {
    for (; place >= row_ + dim_; row_ += dim_) {
      if (++index[ROW_INDEX] == dim_) {
        index[ROW_INDEX] = 0;
        ++index[CHANNEL];
      }
    }
    index[COLUMN] = static_cast<int32_t>(place - row_);
  }

  int32_t index[3];

 private:
  int64_t dim_, row_;
};

template <class Real>
class ListMaker {
 public:
  ListMaker(Workspace &space, int64_t channels, int64_t dim, int64_t kept)
      : size_{channels, dim, dim}, kept_(kept) {
    keys_ = space.take<int32_t>(most(channels, dim) * dim);
    ranks_ = space.take<int32_t>(most(channels, dim) + 2);
  }

  Lists<Real> take(Workspace &space, Parts parts, bool origins) const {
    const int64_t targets = size_[parts.target];
    Lists<Real> lists;
    lists.targets = static_cast<int32_t>(targets);
    lists.lists = space.take<List>(size_[parts.outer] * targets);
    lists.offsets = space.take<int32_t>(kept_);
    lists.values = space.take<Real>(kept_);
    lists.origins = origins ? space.take<int32_t>(kept_) : nullptr;
    return lists;
  }

  void fill(Lists<Real> lists, Parts parts, const Real *values, const int64_t *places) {
    const int64_t targets = size_[parts.target], count = size_[parts.outer] * targets;
    for (int64_t key = 0; key < count; ++key) keys_[key] = 0;
    Walk walk(size_[COLUMN]);
    for (int64_t k = 0; k < kept_; ++k) {
      walk.go_to(places[k]);
      ++keys_[walk.index[parts.outer] * targets + walk.index[parts.target]];
    }
    int32_t start = 0;
    for (int64_t outer = 0; outer < size_[parts.outer]; ++outer) {
      start = sort(lists.lists + outer * targets, keys_ + outer * targets, targets,
                   size_[parts.inner], start);
    }
    walk = Walk(size_[COLUMN]);
    for (int64_t k = 0; k < kept_; ++k) {
      walk.go_to(places[k]);
      const int32_t at = keys_[walk.index[parts.outer] * targets + walk.index[parts.target]]++;
      lists.offsets[at] = walk.index[parts.inner] * ROW<Real>;
      lists.values[at] = values[k];
      if (lists.origins) lists.origins[at] = static_cast<int32_t>(k);
    }
  }

 private:
  // The lists of one outer index, longest first; `keys` has their lengths and gets their starts.
  // Returns where the next outer index starts.
  int32_t sort(List *lists, int32_t *keys, int64_t targets, int64_t longest, int32_t start) {
    for (int64_t n = 0; n <= longest + 1; ++n) ranks_[n] = 0;
    for (int64_t target = 0; target < targets; ++target) ++ranks_[longest - keys[target] + 1];
    for (int64_t n = 0; n <= longest; ++n) ranks_[n + 1] += ranks_[n];
    for (int64_t target = 0; target < targets; ++target) {
      lists[ranks_[longest - keys[target]]++] = {static_cast<int32_t>(target), 0, keys[target]};
    }
    for (List *list = lists; list < lists + targets; ++list) {
      keys[list->target] = list->start = start;
      start += list->count;
    }
    return start;
  }

  int64_t size_[3];
  int64_t kept_;
  int32_t *keys_;   // for each outer and target index: the list's length, then its end so far
  int32_t *ranks_;  // for each length: how many lists are longer
};

}  // namespace sparse
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
