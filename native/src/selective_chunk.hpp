// One chunk of steps of a selective scan, for as many channels as fill a vector.
//
// Lanes are channels. Some entries n of the state go side by side through all steps, so that the
// state stays in registers and the states that the backward pass makes again stay in the cache.
#pragma once

#include "normal_exp.hpp"
#include "slicekit_selective.h"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace selective {

constexpr int64_t CHUNK = SLICEKIT_SELECTIVE_CHUNK;
constexpr int TOGETHER = 4;

template <int N>
struct Entries {
  static constexpr int COUNT = N;
};

// body(first, entries) for runs of at most TOGETHER entries that make up 0..dim - 1.
template <class Body>
SLICEKIT_INLINE void for_entries(int64_t dim, Body body) {
  int64_t n = 0;
  for (; n + TOGETHER <= dim; n += TOGETHER) body(n, Entries<TOGETHER>{});
  if (dim - n == 3) body(n, Entries<3>{});
  if (dim - n == 2) body(n, Entries<2>{});
  if (dim - n == 1) body(n, Entries<1>{});
}

// What drives the steps of a chunk.
template <class Real>
struct Drive {
  using V = Vector<Real>;
  int64_t count, dim;
  const V *steps;   // (count)
  const V *driven;  // (count), steps * inputs
  const Real *left, *readout;  // (count, dim)
};

// Takes the states (dim) through the chunk and adds to outputs (count).
template <int N, class Real>
SLICEKIT_NOINLINE void advance(const Drive<Real> &drive, int64_t first, const Vector<Real> *rates,
                               Vector<Real> *states, Vector<Real> *outputs) {
  using V = Vector<Real>;
  const Real *left = drive.left + first, *readout = drive.readout + first;
  V state[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) state[n] = states[first + n];
  for (int64_t t = 0; t < drive.count; ++t, left += drive.dim, readout += drive.dim) {
    const V step = drive.steps[t], driven = drive.driven[t];
    V output = outputs[t];
    V decays[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) decays[n] = step * rates[first + n];
    normal_exp<Real>(decays);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      state[n] = decays[n] * state[n] + driven * left[n];
      output += state[n] * readout[n];
    }
    outputs[t] = output;
  }
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) states[first + n] = state[n];
}

// The states and decays of some entries, made again.
template <class Real>
struct Kept {
  Vector<Real> *states;  // (CHUNK + 1, TOGETHER), before each step and after the last
  Vector<Real> *decays;  // (CHUNK, TOGETHER)
};

// From the state `before` (dim, WIDTH).
template <int N, class Real>
SLICEKIT_NOINLINE void keep(const Drive<Real> &drive, int64_t first, const Vector<Real> *rates,
                            const Real *before, const Kept<Real> &kept) {
  using V = Vector<Real>;
  const Real *left = drive.left + first;
  V state[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
    kept.states[n] = state[n] = load(before + (first + n) * WIDTH<Real>);
  }
  for (int64_t t = 0; t < drive.count; ++t, left += drive.dim) {
    const V step = drive.steps[t], driven = drive.driven[t];
    V decays[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) decays[n] = step * rates[first + n];
    normal_exp<Real>(decays);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      state[n] = decays[n] * state[n] + driven * left[n];
      kept.decays[t * N + n] = decays[n];
      kept.states[(t + 1) * N + n] = state[n];
    }
  }
}

// Gradients that a chunk adds to.
template <class Real>
struct Pulled {
  using V = Vector<Real>;
  V *state;           // (dim): of the state after the chunk, then of the one before it
  V *rates;           // (dim)
  V *steps, *driven;  // (count), of steps as they stand in decays alone
  V *left, *readout;  // (count, dim), in each lane the sum over the channels that were there
};

template <int N, class Real>
SLICEKIT_NOINLINE void pull(const Drive<Real> &drive, int64_t first, const Vector<Real> *rates,
                            const Vector<Real> *in_outputs, const Kept<Real> &kept,
                            const Pulled<Real> &pulled) {
  using V = Vector<Real>;
  V in_state[N], in_rates[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
    in_state[n] = pulled.state[first + n];
    in_rates[n] = pulled.rates[first + n];
  }
  for (int64_t t = drive.count - 1; t >= 0; --t) {
    const int64_t row = t * drive.dim + first;
    const Real *left = drive.left + row, *readout = drive.readout + row;
    const V step = drive.steps[t], driven = drive.driven[t], in_output = in_outputs[t];
    V in_step = pulled.steps[t], in_driven = pulled.driven[t];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const V whole = in_state[n] + in_output * readout[n];
      pulled.readout[row + n] += kept.states[(t + 1) * N + n] * in_output;
      pulled.left[row + n] += whole * driven;
      in_driven += whole * left[n];
      in_state[n] = whole * kept.decays[t * N + n];
      const V in_exponent = in_state[n] * kept.states[t * N + n];
      in_step += in_exponent * rates[first + n];
      in_rates[n] += in_exponent * step;
    }
    pulled.steps[t] = in_step;
    pulled.driven[t] = in_driven;
  }
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
    pulled.state[first + n] = in_state[n];
    pulled.rates[first + n] = in_rates[n];
  }
}

}  // namespace selective
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
