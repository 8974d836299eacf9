// How the work is dealt out, and where a thread keeps what it works with.
#pragma once

#include "log_signatures_steps.hpp"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace log_signatures {

constexpr int64_t MOST_STEPS = 128, FEWEST_STEPS = 16, STATES_BYTES = 1 << 18;

// Steps that a lane takes at once: the states before each of them should stay in the cache.
SLICEKIT_INLINE int64_t most_steps(const Algebra &algebra) {
  return most(FEWEST_STEPS, least(MOST_STEPS, STATES_BYTES / (VECTOR_BYTES * algebra.lower())));
}

// Windows that are done together: one for each lane, or one alone if it has many pieces.
template <class Real>
int64_t task(const Sizes &sizes, const Algebra &algebra) {
  return least(sizes.window, sizes.length) > most_steps(algebra) ? 1 : WIDTH<Real>;
}

template <class Real>
int64_t tasks(const Sizes &sizes, const Algebra &algebra) {
  const int64_t size = task<Real>(sizes, algebra);
  return (sizes.batch * sizes.windows + size - 1) / size;
}

// What one thread works with.
template <class Real>
struct Buffers {
  using V = Vector<Real>;
  Scratch<V> scratch;
  V *x, *in_x, *before, *state, *in_state, *y, *in_y, *logs, *coefficients;
  double *total, *piece, *in_total, *in_piece, *one_y, *one_in_y, *one_logs, *one_coefficients;

  Buffers(const Algebra &algebra, Workspace &space) {
    const int64_t steps = most_steps(algebra), lower = algebra.lower(), whole = algebra.state();
    const int64_t inputs = round_up(steps * algebra.channels, WIDTH<Real>);
    const int64_t outputs = round_up(algebra.size, WIDTH<Real>);
    x = space.take<V>(inputs);
    in_x = space.take<V>(inputs);
    before = space.take<V>((steps + 1) * lower);
    scratch.factors = space.take<V>(CHUNK * algebra.prefixes);
    scratch.in_factors = space.take<V>(CHUNK * algebra.prefixes);
    state = space.take<V>(whole);
    in_state = space.take<V>(whole);
    scratch.h = space.take<V>(lower);
    scratch.in_h = space.take<V>(lower);
    y = space.take<V>(algebra.depth * lower);
    in_y = space.take<V>(algebra.depth * lower);
    logs = space.take<V>(outputs);
    coefficients = space.take<V>(outputs);
    total = space.take<double>(whole);
    piece = space.take<double>(whole);
    in_total = space.take<double>(whole);
    in_piece = space.take<double>(whole);
    one_y = space.take<double>(algebra.depth * lower);
    one_in_y = space.take<double>(algebra.depth * lower);
    one_logs = space.take<double>(algebra.size);
    one_coefficients = space.take<double>(algebra.size);
  }
};

}  // namespace log_signatures
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
