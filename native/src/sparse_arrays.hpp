// The arrays of a sparse problem with their type; slicekit_sparse.h says what they are. What may be in
// half precision has none: increments, states and the gradients of both.
#pragma once

#include "directions.hpp"
#include "driving.hpp"
#include "scales.hpp"
#include "slicekit_sparse.h"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse {

template <class Real>
struct Arrays {
  explicit Arrays(const slicekit_sparse &problem)
      : values(static_cast<const Real *>(problem.values)),
        places(problem.places),
        state(static_cast<const Real *>(problem.state)),
        inputs(static_cast<const Real *>(problem.inputs)),
        last(static_cast<Real *>(problem.last)),
        factors(static_cast<Real *>(problem.factors)),
        in_last(static_cast<const Real *>(problem.in_last)),
        in_values(static_cast<Real *>(problem.in_values)),
        in_state(static_cast<Real *>(problem.in_state)),
        in_inputs(static_cast<Real *>(problem.in_inputs)) {}

  // What a state is divided by before step t, the first of its window.
  Real &factor(const slicekit_sparse &n, int64_t sequence, int64_t t, int64_t column) const {
    const int64_t window = sequence * windows_of(n.length, n.rescale) + t / n.rescale;
    return factors[window * n.columns + column];
  }

  const Real *values;
  const int64_t *places;
  const Real *state, *inputs;
  Real *last, *factors;
  const Real *in_last;
  Real *in_values, *in_state, *in_inputs;
};

}  // namespace sparse
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
