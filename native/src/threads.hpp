// Work in parts, which a team of threads shares: see team.hpp.
#pragma once

#include "simd.hpp"
#include "team.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Calls f(part, worker) for every part; no two threads have the same worker < threads.
template <class F>
SLICEKIT_INLINE void each_part(int64_t parts, int64_t threads, const F &f) {
  struct Call {
    static void on(const void *context, int64_t part, int64_t worker) {
      (*static_cast<const F *>(context))(part, worker);
    }
  };
  team::run(parts, threads, Call::on, &f);
}

// Parts for each thread where there are many small things to do: so few that they cost nothing, so
// many that the threads end at about the same time.
constexpr int64_t PARTS_OF_THREAD = 16;

// Calls f(i, worker) for i = 0, ..., count - 1, in parts of several.
template <class F>
SLICEKIT_INLINE void each_of(int64_t count, int64_t threads, const F &f) {
  const int64_t parts = least(count, threads > 1 ? PARTS_OF_THREAD * threads : 1);
  each_part(parts, threads, [&](int64_t part, int64_t worker) {
    const int64_t stop = count * (part + 1) / parts;
    for (int64_t i = count * part / parts; i < stop; ++i) f(i, worker);
  });
}

// Calls f(first, size, worker) for stretches of `step` of `count`, of which the last may be shorter.
template <class F>
SLICEKIT_INLINE void each_stretch_of(int64_t count, int64_t step, int64_t threads, const F &f) {
  each_part((count + step - 1) / step, threads, [&](int64_t part, int64_t worker) {
    f(part * step, least(step, count - part * step), worker);
  });
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
