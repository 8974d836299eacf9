// One increment of a path: S becomes S (x) exp(x), and the derivative of that.
//
// Level n changes by h_{n-1} (x) x, where h_0 = 1 and h_m = S_m + h_{m-1} (x) x / (n - m + 1).
// The longest words are left to `add_top` and `pull_top`, for CHUNK steps together. CHANNELS and
// DEPTH are constants, or 0 where they are only known at run time; constants pay for short loops.
#pragma once

#include "log_signatures_top.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace log_signatures {

constexpr int64_t CHUNK = 32;

// Scratch: h and in_h are as long as a state without its top, factors are (CHUNK, prefixes).
template <class V>
struct Scratch {
  V *h, *in_h, *factors, *in_factors;
};

template <class V, int DEPTH, int CHANNELS>
class Steps {
  using S = Scalar<V>;

 public:
  Steps(const Algebra &algebra, const Scratch<V> &scratch)
      : algebra_(algebra), scratch_(scratch), h_(scratch.h), in_h_(scratch.in_h) {}

  // From the start over all steps x (count, channels); with_top or without the longest words.
  SLICEKIT_NOINLINE void advance(int64_t count, const V *x, V *state, bool with_top) const {
    const int64_t d = channels(), prefixes = algebra_.prefixes;
    set_zero(state, with_top ? algebra_.state() : algebra_.lower());
    state[0] = V{} + S(1);
    for (int64_t first = 0; first < count; first += CHUNK, x += CHUNK * d) {
      const int64_t steps = least(CHUNK, count - first);
      for (int64_t l = 0; l < steps; ++l) {
        if (with_top) top_factors(state, x + l * d, scratch_.factors + l * prefixes);
        advance_lower(state, x + l * d);
      }
      if (with_top) add_top(algebra_, steps, scratch_.factors, x, state + algebra_.lower());
    }
  }

  // The same, and every state on the way: before (count + 1, lower), without the longest words.
  SLICEKIT_NOINLINE void keep(int64_t count, const V *x, V *before) const {
    const int64_t lower = start(depth());
    set_zero(before, lower);
    before[0] = V{} + S(1);
    for (int64_t l = 0; l < count; ++l, before += lower, x += channels()) {
      for (int64_t i = 0; i < lower; ++i) before[lower + i] = before[i];
      advance_lower(before + lower, x);
    }
  }

  // in_x (count, channels) from in_state, the gradient in the last state, which is used up.
  SLICEKIT_NOINLINE void retreat(int64_t count, const V *x, const V *before, V *in_state,
                                 V *in_x) const {
    const int64_t d = channels(), lower = start(depth()), prefixes = algebra_.prefixes;
    for (int64_t first = (count - 1) / CHUNK * CHUNK; first >= 0; first -= CHUNK) {
      const int64_t steps = least(CHUNK, count - first);
      const V *xs = x + first * d, *states = before + first * lower;
      V *in_xs = in_x + first * d;
      for (int64_t l = 0; l < steps; ++l) {
        top_factors(states + l * lower, xs + l * d, scratch_.factors + l * prefixes);
      }
      pull_top(algebra_, steps, scratch_.factors, xs, in_state + lower, scratch_.in_factors, in_xs);
      for (int64_t l = steps - 1; l >= 0; --l) {
        step_back(states + l * lower, xs + l * d, scratch_.in_factors + l * prefixes, in_state,
                  in_xs + l * d);
      }
    }
  }

 private:
  // What the longest words change by, without their last letter: h_{depth-1} on the prefixes.
  SLICEKIT_INLINE void top_factors(const V *state, const V *x, V *__restrict into) const {
    const int64_t d = channels(), n = depth();
    factors(state, x, n, n - 2);
    const V *shorter = h_ + start(n - 2), *longer = state + start(n - 1);
    const int64_t *prefix = algebra_.tables.prefixes;
    for (int64_t i = 0; i < algebra_.prefixes; ++i, prefix += 3) {
      const int64_t q = prefix[0], r = prefix[1];
      into[i] = longer[q * d + r] + shorter[q] * (x[r] * S(0.5));
    }
  }

  // All other words.
  SLICEKIT_INLINE void advance_lower(V *state, const V *x) const {
    const int64_t d = channels();
    for (int64_t n = depth() - 1; n >= 1; --n) {
      factors(state, x, n, n - 1);
      const V *h = h_ + start(n - 1);
      V *words = state + start(n);
      for (int64_t p = 0; p < power(n - 1); ++p) {
        const V factor = h[p];
        for (int64_t k = 0; k < d; ++k) words[p * d + k] += factor * x[k];
      }
    }
  }

  // in_state, the gradient in the state after the step, becomes the one in the state before it, but
  // for the longest words, whose gradient never changes. in_top is the one in their factors.
  SLICEKIT_INLINE void step_back(const V *before, const V *x, const V *in_top, V *in_state,
                                 V *in_x) const {
    for (int64_t n = 1; n < depth(); ++n) {
      factors(before, x, n, n - 1);
      pull<false>(in_state, n, x, S(1), in_x);
      descend(n, n - 1, x, in_state, in_x);
    }
    retreat_top(before, x, in_top, in_state, in_x);
  }

  SLICEKIT_INLINE int64_t channels() const { return CHANNELS ? CHANNELS : algebra_.channels; }
  SLICEKIT_INLINE int64_t depth() const { return DEPTH ? DEPTH : algebra_.depth; }

  SLICEKIT_INLINE int64_t power(int64_t level) const {
    if constexpr (CHANNELS == 0) return algebra_.powers[level];
    int64_t result = 1;
    for (int64_t i = 0; i < level; ++i) result *= CHANNELS;
    return result;
  }

  SLICEKIT_INLINE int64_t start(int64_t level) const {
    if constexpr (CHANNELS == 0) return algebra_.starts[level];
    int64_t result = 0;
    for (int64_t i = 0; i < level; ++i) result += power(i);
    return result;
  }

  // h_0, ..., h_last for level n.
  SLICEKIT_INLINE void factors(const V *state, const V *x, int64_t n, int64_t last) const {
    const int64_t d = channels();
    h_[0] = V{} + S(1);
    for (int64_t m = 1; m <= last; ++m) {
      const S part = S(1) / S(n - m + 1);
      const V *shorter = h_ + start(m - 1), *words = state + start(m);
      V *h = h_ + start(m);
      for (int64_t q = 0; q < power(m - 1); ++q) {
        const V factor = shorter[q] * part;
        for (int64_t k = 0; k < d; ++k) h[q * d + k] = words[q * d + k] + factor * x[k];
      }
    }
  }

  // For words of level m that are h_{m-1} (x) x times `part`: from their gradient those in x and in
  // h_{m-1}, the latter into in_h_. With ADD the words also get the gradient that stands in in_h_.
  template <bool ADD>
  SLICEKIT_INLINE void pull(V *in_state, int64_t m, const V *x, S part, V *in_x) const {
    const int64_t d = channels();
    const V *h = h_ + start(m - 1);
    V *words = in_state + start(m), *in_h = in_h_ + start(m - 1);
    const V *in_words = ADD ? in_h_ + start(m) : words;
    for (int64_t q = 0; q < power(m - 1); ++q) {
      const V factor = h[q] * part;
      V sum = V{};
      for (int64_t k = 0; k < d; ++k) {
        const V in = in_words[q * d + k];
        if (ADD) words[q * d + k] += in;
        sum += in * x[k];
        in_x[k] += in * factor;
      }
      in_h[q] = sum * part;
    }
  }

  // From the gradient in h_m for level n down to h_0.
  SLICEKIT_INLINE void descend(int64_t n, int64_t m, const V *x, V *in_state, V *in_x) const {
    const int64_t most_levels = DEPTH ? DEPTH : SLICEKIT_LOG_SIGNATURES_DEPTH;
    for (m = least(m, most_levels); m >= 1; --m) {
      pull<true>(in_state, m, x, S(1) / S(n - m + 1), in_x);
    }
  }

  SLICEKIT_INLINE void retreat_top(const V *before, const V *x, const V *in_top, V *in_state,
                                   V *in_x) const {
    const int64_t d = channels(), n = depth();
    factors(before, x, n, n - 2);
    const V *shorter = h_ + start(n - 2);
    V *in_longer = in_state + start(n - 1), *in_shorter = in_h_ + start(n - 2);
    set_zero(in_shorter, power(n - 2));
    const int64_t *prefix = algebra_.tables.prefixes;
    for (int64_t i = 0; i < algebra_.prefixes; ++i, prefix += 3) {
      const int64_t q = prefix[0], r = prefix[1];
      const V in = in_top[i], half = in * S(0.5);
      in_longer[q * d + r] += in;
      in_shorter[q] += half * x[r];
      in_x[r] += half * shorter[q];
    }
    descend(n, n - 2, x, in_state, in_x);
  }

  const Algebra &algebra_;
  const Scratch<V> &scratch_;
  V *h_, *in_h_;
};

// Calls work(steps) with the constants that fit.
template <class V, int CHANNELS = 8, class Work>
SLICEKIT_INLINE void with_steps(const Algebra &algebra, const Scratch<V> &scratch,
                                const Work &work) {
  if constexpr (CHANNELS > 1) {
    if (algebra.depth == 3 && algebra.channels == CHANNELS) {
      work(Steps<V, 3, CHANNELS>(algebra, scratch));
    } else {
      with_steps<V, CHANNELS - 1>(algebra, scratch, work);
    }
  } else if (algebra.depth == 2) {
    work(Steps<V, 2, 0>(algebra, scratch));
  } else if (algebra.depth == 3) {
    work(Steps<V, 3, 0>(algebra, scratch));
  } else {
    work(Steps<V, 0, 0>(algebra, scratch));
  }
}

}  // namespace log_signatures
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
