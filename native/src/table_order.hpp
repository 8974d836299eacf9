// The steps of a window, sorted by the matrix that they take, and within it by time.
#pragma once

#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace table {

// Some sequences, of which a thread takes care, and the steps that it sorts together.
struct Share {
  int64_t first, sequences, length, vocabulary;
  const int64_t *index;  // of all sequences

  int64_t token(int64_t sequence, int64_t t) const { return index[(first + sequence) * length + t]; }
};

class Order {
 public:
  Order(Workspace &space, int64_t sequences, int64_t steps, int64_t vocabulary)
      : starts_(space.take<int64_t>(vocabulary + 1)),
        ends_(space.take<int64_t>(vocabulary)),
        slots_(space.take<int64_t>(sequences * steps)) {}

  void sort(const Share &share, int64_t start, int64_t stop) {
    share_ = &share;
    start_ = start;
    for (int64_t v = 0; v <= share.vocabulary; ++v) starts_[v] = 0;
    for (int64_t b = 0; b < share.sequences; ++b) {
      for (int64_t t = start; t < stop; ++t) ++starts_[share.token(b, t) + 1];
    }
    for (int64_t v = 0; v < share.vocabulary; ++v) {
      starts_[v + 1] += starts_[v];
      ends_[v] = starts_[v];
    }
    for (int64_t t = start; t < stop; ++t) {
      for (int64_t b = 0; b < share.sequences; ++b) {
        slots_[(t - start) * share.sequences + b] = ends_[share.token(b, t)]++;
      }
    }
  }

  // Where a step stands.
  int64_t slot(int64_t sequence, int64_t t) const {
    return slots_[(t - start_) * share_->sequences + sequence];
  }

  // Where the steps of a matrix begin, and how many there are.
  int64_t begin(int64_t v) const { return starts_[v]; }
  int64_t count(int64_t v) const { return starts_[v + 1] - starts_[v]; }

  // Calls f(v, slot, count, next v) for each matrix that step t takes; after the last one comes itself.
  // Steps are asked for from the last one of the window to its first.
  template <class F>
  void each_matrix(int64_t t, F f) {
    int64_t v = 0, at = 0, count = 0;
    for (int64_t b = 0; b < share_->sequences; ++b) {
      // The first sequence with a token at step t has the lowest of its slots.
      const int64_t next = share_->token(b, t), first = slot(b, t);
      if (ends_[next] <= first) continue;  // this step of the token is done
      if (count) f(v, at, count, next);
      v = next, at = first, count = ends_[next] - first;
      ends_[v] = first;
    }
    if (count) f(v, at, count, v);
  }

 private:
  int64_t *starts_, *ends_, *slots_;
  const Share *share_ = nullptr;
  int64_t start_ = 0;
};

}  // namespace table
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
