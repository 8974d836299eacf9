// The longest words over many steps at once. Each is a sum over steps of a factor, which belongs to
// the word without its last letter, times the increment of that letter: a product of matrices.
//
// Letters come in blocks of at most BLOCK, factors in pairs with the same letters, so that what is
// summed, or the gradient that every step reads, stays in registers.
#pragma once

#include "lanes.hpp"
#include "log_signatures_algebra.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace log_signatures {

constexpr int BLOCK = 5;

// What a block needs of `steps` steps: factors are (steps, prefixes), increments (steps, channels).
template <class V>
struct Batch {
  int64_t steps, prefixes, channels;
};

// words[p, k] += sum over steps of factors[p] x[k], for PAIR words p that are `apart`.
template <int PAIR, int COUNT, class V>
SLICEKIT_INLINE void add_block(const Batch<V> &batch, const V *factors, const V *x, V *words,
                               int64_t apart) {
  V sums[PAIR][COUNT];
  unrolled<PAIR>([&](auto p) {
    unrolled<COUNT>([&](auto k) { sums[p.value][k.value] = words[p.value * apart + k.value]; });
  });
  for (int64_t l = 0; l < batch.steps; ++l, factors += batch.prefixes, x += batch.channels) {
    unrolled<COUNT>([&](auto k) {
      const V letter = x[k.value];
      unrolled<PAIR>([&](auto p) { sums[p.value][k.value] += factors[p.value] * letter; });
    });
  }
  unrolled<PAIR>([&](auto p) {
    unrolled<COUNT>([&](auto k) { words[p.value * apart + k.value] = sums[p.value][k.value]; });
  });
}

// in_factors[p] += sum over k of in_words[p, k] x[k], in_x[k] += sum over p of in_words factors[p].
template <int PAIR, int COUNT, class V>
SLICEKIT_INLINE void pull_block(const Batch<V> &batch, const V *factors, const V *x,
                                const V *in_words, int64_t apart, V *__restrict in_factors,
                                V *__restrict in_x) {
  V in[PAIR][COUNT];
  unrolled<PAIR>([&](auto p) {
    unrolled<COUNT>([&](auto k) { in[p.value][k.value] = in_words[p.value * apart + k.value]; });
  });
  for (int64_t l = 0; l < batch.steps; ++l) {
    V sums[PAIR], factor[PAIR];
    unrolled<PAIR>([&](auto p) {
      sums[p.value] = in_factors[p.value];
      factor[p.value] = factors[p.value];
    });
    unrolled<COUNT>([&](auto k) {
      const V letter = x[k.value];
      V sum = in_x[k.value];
      unrolled<PAIR>([&](auto p) {
        sums[p.value] += in[p.value][k.value] * letter;
        sum += in[p.value][k.value] * factor[p.value];
      });
      in_x[k.value] = sum;
    });
    unrolled<PAIR>([&](auto p) { in_factors[p.value] = sums[p.value]; });
    factors += batch.prefixes, in_factors += batch.prefixes;
    x += batch.channels, in_x += batch.channels;
  }
}

// Calls work(Constant<count>).
template <int COUNT = BLOCK, class Work>
SLICEKIT_INLINE void with_count(int64_t count, const Work &work) {
  if (count == COUNT) {
    work(Constant<COUNT>{});
  } else if constexpr (COUNT > 1) {
    with_count<COUNT - 1>(count, work);
  }
}

// Calls work(Constant<PAIR>, Constant<COUNT>, prefix, letter, word, apart) for every block.
template <class Work>
SLICEKIT_INLINE void for_each_block(const Algebra &algebra, const Work &work) {
  const int64_t d = algebra.channels;
  const int64_t *prefix = algebra.tables.prefixes;
  for (int64_t i = 0, word = 0; i < algebra.prefixes;) {
    const int64_t first = prefix[3 * i + 2], apart = d - first;
    const bool pair = i + 1 < algebra.prefixes && prefix[3 * i + 5] == first;
    for (int64_t k = first; k < d; k += BLOCK) {
      with_count(least<int64_t>(BLOCK, d - k), [&](auto count) {
        if (pair) {
          work(Constant<2>{}, count, i, k, word + k - first, apart);
        } else {
          work(Constant<1>{}, count, i, k, word + k - first, apart);
        }
      });
    }
    i += 1 + pair;
    word += (1 + pair) * apart;
  }
}

template <class V>
SLICEKIT_NOINLINE void add_top(const Algebra &algebra, int64_t steps, const V *factors,
                               const V *x, V *words) {
  const Batch<V> batch{steps, algebra.prefixes, algebra.channels};
  for_each_block(algebra, [&](auto pair, auto count, int64_t p, int64_t k, int64_t w, int64_t by) {
    add_block<pair.value, count.value>(batch, factors + p, x + k, words + w, by);
  });
}

template <class V>
SLICEKIT_NOINLINE void pull_top(const Algebra &algebra, int64_t steps, const V *factors,
                                const V *x, const V *in_words, V *in_factors, V *in_x) {
  const Batch<V> batch{steps, algebra.prefixes, algebra.channels};
  set_zero(in_factors, steps * algebra.prefixes);
  set_zero(in_x, steps * algebra.channels);
  for_each_block(algebra, [&](auto pair, auto count, int64_t p, int64_t k, int64_t w, int64_t by) {
    pull_block<pair.value, count.value>(batch, factors + p, x + k, in_words + w, by,
                                        in_factors + p, in_x + k);
  });
}

}  // namespace log_signatures
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
