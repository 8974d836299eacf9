// Hyperbolic tangents, vector by vector; the last one is padded.
#include "hyperbolic_tangent.hpp"
#include "slicekit_tanh.h"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace {

// Numbers that a thread takes at a time: whole vectors of them.
constexpr int64_t STRETCH = 4096;

template <class Real>
void run(const slicekit_tanh &n) {
  constexpr int64_t V = WIDTH<Real>;
  const Real *x = static_cast<const Real *>(n.x);
  Real *y = static_cast<Real *>(n.y);
  each_stretch_of(n.batch, STRETCH, n.threads, [&](int64_t first, int64_t size, int64_t) {
    const int64_t stop = first + size;
    int64_t i = first;
    for (; i + V <= stop; i += V) store(y + i, hyperbolic_tangent<Real>(load(x + i)));
    if (i == stop) return;
    Real rest[V] = {};
    memcpy(rest, x + i, (stop - i) * sizeof(Real));
    store(rest, hyperbolic_tangent<Real>(load(rest)));
    memcpy(y + i, rest, (stop - i) * sizeof(Real));
  });
}

}  // namespace

void tanh_run(const slicekit_tanh &task) { task.real == 4 ? run<float>(task) : run<double>(task); }

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
