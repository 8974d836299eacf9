// What drives the steps of a problem with increments of its own: these as they stand in memory, or
// values of which they are pace (1, values), in half precision or not. Nothing drives the first step
// where that is still, nor any past the end of a sequence, whatever stands there.
#pragma once

#include "halves.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

template <class Problem>
struct Driving {
  const Problem &n;

  int64_t clock() const { return n.pace ? 1 : 0; }        // channels that are not in memory
  int64_t width() const { return n.channels - clock(); }  // and those that are

  bool drives(int64_t sequence, int64_t t) const {
    return !(n.still && t == 0) && !(n.lengths && t >= n.lengths[sequence]);
  }

  // to = Δω (channels,) of a step.
  template <class Real>
  void read(int64_t sequence, int64_t t, Real *to) const {
    if (!drives(sequence, t)) {
      for (int64_t i = 0; i < n.channels; ++i) to[i] = 0;
      return;
    }
    read_numbers(n.half, n.increments, place(sequence, t), width(), to + clock());
    if (!n.pace) return;
    to[0] = 1;
    for (int64_t i = 0; i < n.channels; ++i) to[i] *= Real(n.pace);
  }

  // Writes the gradient of what is in memory from that of Δω (channels,), which it takes for its work;
  // or adds it, where that is no half.
  template <class Real>
  void write(int64_t sequence, int64_t t, Real *gradient, bool add) const {
    const Real scale = Real(!drives(sequence, t) ? 0 : n.pace ? n.pace : 1);
    const int64_t at = place(sequence, t);
    Real *own = gradient + clock();
    for (int64_t i = 0; i < width(); ++i) own[i] = scale ? own[i] * scale : Real(0);
    if (add) {
      const Real *before = static_cast<const Real *>(n.in_increments) + at;
      for (int64_t i = 0; i < width(); ++i) own[i] += before[i];
    }
    write_numbers(n.half, own, width(), n.in_increments, at);
  }

 private:
  int64_t place(int64_t sequence, int64_t t) const { return (sequence * n.length + t) * width(); }
};

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
