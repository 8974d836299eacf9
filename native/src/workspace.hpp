// Work space in pieces: the same code measures how much is needed and deals it out.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Deals out 64-byte aligned pieces of one block of memory; without memory it only counts.
class Workspace {
 public:
  explicit Workspace(void *memory) : start_(static_cast<char *>(memory)), used_(0) {
    if (memory) used_ = -reinterpret_cast<intptr_t>(memory) & 63;
  }

  template <class T>
  T *take(int64_t count) {
    T *piece = start_ ? reinterpret_cast<T *>(start_ + used_) : nullptr;
    used_ += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    return piece;
  }

  bool has_memory() const { return start_ != nullptr; }

  // Bytes to ask for, wherever the memory begins.
  int64_t needed() const { return used_ + 64; }

 private:
  char *start_;
  int64_t used_;
};

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
