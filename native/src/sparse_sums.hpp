// Sums over lists of kept entries, for up to GROUPS lane groups at a time.
//
// Arrays in lanes have a row of ROW numbers for each element: states (dim, ROW), increments
// (channels, ROW). A kernel uses G lane groups of each row, lane group q at `stride` * q.
#pragma once

#include "sparse_lists.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse {

// G lane groups in registers.
template <int G, class Real>
struct Lanes {
  Vector<Real> x[VECTORS * G];
};

template <int G, class Real>
SLICEKIT_INLINE Lanes<G, Real> load_lanes(const Real *from, ptrdiff_t stride) {
  Lanes<G, Real> lanes;
#pragma GCC unroll 12
  for (int v = 0; v < VECTORS * G; ++v) {
    lanes.x[v] = load(from + v / VECTORS * stride + v % VECTORS * WIDTH<Real>);
  }
  return lanes;
}

template <int G, class Real>
SLICEKIT_INLINE void store_lanes(Real *to, ptrdiff_t stride, const Lanes<G, Real> &lanes) {
#pragma GCC unroll 12
  for (int v = 0; v < VECTORS * G; ++v) {
    store(to + v / VECTORS * stride + v % VECTORS * WIDTH<Real>, lanes.x[v]);
  }
}

// to += x * y.
template <int G, class Real>
SLICEKIT_INLINE void add_product(Lanes<G, Real> &to, const Lanes<G, Real> &x,
                                 const Lanes<G, Real> &y) {
#pragma GCC unroll 12
  for (int v = 0; v < VECTORS * G; ++v) to.x[v] += x.x[v] * y.x[v];
}

// to += factor * the lanes at `from`.
template <int G, class Real>
SLICEKIT_INLINE void add_multiple(Lanes<G, Real> &to, Real factor, const Real *from,
                                  ptrdiff_t stride) {
  const Vector<Real> f = broadcast(factor);
#pragma GCC unroll 12
  for (int v = 0; v < VECTORS * G; ++v) {
    to.x[v] += f * load(from + v / VECTORS * stride + v % VECTORS * WIDTH<Real>);
  }
}

// Σ a x over one list. Two sums at a time hide the latency of the additions.
template <int G, class Real>
SLICEKIT_INLINE Lanes<G, Real> list_sum(const Lists<Real> &lists, const List &list, const Real *x,
                                        ptrdiff_t stride) {
  const int32_t *offset = lists.offsets + list.start, *end = offset + list.count;
  const Real *value = lists.values + list.start;
  Lanes<G, Real> even{}, odd{};
  for (; offset + 1 < end; offset += 2, value += 2) {
    add_multiple(even, value[0], x + offset[0], stride);
    add_multiple(odd, value[1], x + offset[1], stride);
  }
  if (offset < end) add_multiple(even, value[0], x + offset[0], stride);
#pragma GCC unroll 12
  for (int v = 0; v < VECTORS * G; ++v) even.x[v] += odd.x[v];
  return even;
}

// in_values += Σ_rows Δω^i g_r h_c for every kept entry, in the order of lists by (channel, row).
template <int G, class Real>
inline void add_in_values(int64_t channels, const Lists<Real> &lists, const Real *increments,
                          const Real *adjoint, const Real *before, Real *in_values) {
  constexpr int L = LANES<Real>;
  for (int64_t i = 0; i < channels; ++i) {
    const List *list = lists.of(i), *end = lists.of(i + 1);
    const Lanes<G, Real> increment = load_lanes<G>(increments + i * ROW<Real>, L);
    for (; list < end && list->count; ++list) {
      Lanes<G, Real> weight{};
      add_product(weight, increment, load_lanes<G>(adjoint + list->target * ROW<Real>, L));
      const int32_t *offset = lists.offsets + list->start;
      Real *in_value = in_values + list->start;
      for (int32_t k = 0; k < list->count; ++k) {
        const Real *h = before + offset[k];
        Vector<Real> total[VECTORS] = {};
#pragma GCC unroll 12
        for (int v = 0; v < VECTORS * G; ++v) {
          total[v % VECTORS] += weight.x[v] * load(h + v * WIDTH<Real>);
        }
        in_value[k] += sum(added<Real>(total));
      }
    }
  }
}

// The same for a number of lane groups that is known at run time.
template <class Real>
inline void add_in_values(int groups, int64_t channels, const Lists<Real> &lists,
                          const Real *increments, const Real *adjoint, const Real *before,
                          Real *in_values) {
  switch (groups) {
    case 3: return add_in_values<3>(channels, lists, increments, adjoint, before, in_values);
    case 2: return add_in_values<2>(channels, lists, increments, adjoint, before, in_values);
    case 1: return add_in_values<1>(channels, lists, increments, adjoint, before, in_values);
  }
}

}  // namespace sparse
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
