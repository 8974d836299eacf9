// The truncated tensor algebra as log-signatures need it: see `slicekit_log_signatures_tables`.
//
// Everything is written for a number type V: a vector of lanes, or one double.
#pragma once

#include "simd.hpp"
#include "slicekit_log_signatures.h"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace log_signatures {

using Sizes = slicekit_log_signatures_sizes;
using Tables = slicekit_log_signatures_tables;

// The number that a V is made of.
template <class V>
struct ScalarOf;
template <>
struct ScalarOf<double> {
  using Type = double;
};
template <>
struct ScalarOf<Vector<float>> {
  using Type = float;
};
template <>
struct ScalarOf<Vector<double>> {
  using Type = double;
};
template <class V>
using Scalar = typename ScalarOf<V>::Type;

// Sizes and tables of a basis, and where the levels of a state begin.
struct Algebra {
  Tables tables;
  int64_t channels, depth, size, top, prefixes;
  int64_t powers[SLICEKIT_LOG_SIGNATURES_DEPTH + 1];
  int64_t starts[SLICEKIT_LOG_SIGNATURES_DEPTH + 1];

  Algebra(const Sizes &sizes, const Tables &given)
      : tables(given),
        channels(sizes.channels),
        depth(sizes.depth),
        size(sizes.size),
        top(sizes.top),
        prefixes(sizes.prefixes) {
    powers[0] = 1;
    starts[0] = 0;
    for (int64_t level = 1; level <= depth; ++level) {
      powers[level] = powers[level - 1] * channels;
      starts[level] = starts[level - 1] + powers[level - 1];
    }
  }

  // Numbers of a state without its longest words, and with them.
  int64_t lower() const { return starts[depth]; }
  int64_t state() const { return lower() + top; }
};

template <class V>
SLICEKIT_INLINE void set_zero(V *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = V{};
}

// Calls work(left level, right level) for all cuts of a word of `level` letters, none empty.
template <class Work>
SLICEKIT_INLINE void for_each_cut(int64_t level, const Work &work) {
  for (int64_t left = 1; left < level; ++left) work(left, level - left);
}

// The series of the logarithm, log(x) = y_0 with y_j = x (w_j + y_{j+1}) and w_j = (-1)^j / (j+1).
// Level n of y_j is needed for n <= depth - j; each y_j is as long as a state without its top.
template <class V>
void log_terms(const Algebra &algebra, const V *x, V *y) {
  using S = Scalar<V>;
  const int64_t depth = algebra.depth, *starts = algebra.starts, *powers = algebra.powers;
  for (int64_t j = depth - 1; j >= 1; --j) {
    V *into = y + j * algebra.lower();
    const V *from = into + algebra.lower();
    const S weight = S(j % 2 ? -1 : 1) / S(j + 1);
    for (int64_t level = 1; level <= depth - j; ++level) {
      V *words = into + starts[level];
      for (int64_t w = 0; w < powers[level]; ++w) words[w] = x[starts[level] + w] * weight;
      for_each_cut(level, [&](int64_t a, int64_t b) {
        for (int64_t u = 0; u < powers[a]; ++u) {
          const V left = x[starts[a] + u];
          for (int64_t v = 0; v < powers[b]; ++v) {
            words[u * powers[b] + v] += left * from[starts[b] + v];
          }
        }
      });
    }
  }
}

// The logarithm on the Lyndon words, (size), from y as `log_terms` leaves it.
template <class V>
void log_on_words(const Algebra &algebra, const V *x, const V *y, V *logs) {
  const Tables &t = algebra.tables;
  const V *first = y + algebra.lower();
  for (int64_t e = 0; e < algebra.size; ++e) {
    V sum = x[t.places[e]];
    for (int64_t s = t.split_starts[e]; s < t.split_starts[e + 1]; ++s) {
      sum += x[t.splits[2 * s]] * first[t.splits[2 * s + 1]];
    }
    logs[e] = sum;
  }
}

// in_x (a whole state) from in_logs (size); y as `log_terms` leaves it, in_y is scratch like y.
template <class V>
void log_pullback(const Algebra &algebra, const V *x, const V *y, const V *in_logs, V *in_x,
                  V *in_y) {
  using S = Scalar<V>;
  const Tables &t = algebra.tables;
  const int64_t depth = algebra.depth, *starts = algebra.starts, *powers = algebra.powers;
  set_zero(in_x, algebra.state());
  set_zero(in_y, depth * algebra.lower());
  const V *first = y + algebra.lower();
  V *in_first = in_y + algebra.lower();
  for (int64_t e = 0; e < algebra.size; ++e) {
    const V in = in_logs[e];
    in_x[t.places[e]] += in;
    for (int64_t s = t.split_starts[e]; s < t.split_starts[e + 1]; ++s) {
      const int64_t u = t.splits[2 * s], v = t.splits[2 * s + 1];
      in_x[u] += in * first[v];
      in_first[v] += in * x[u];
    }
  }
  for (int64_t j = 1; j < depth; ++j) {
    const V *in_into = in_y + j * algebra.lower(), *from = y + (j + 1) * algebra.lower();
    V *in_from = in_y + (j + 1) * algebra.lower();
    const S weight = S(j % 2 ? -1 : 1) / S(j + 1);
    for (int64_t level = 1; level <= depth - j; ++level) {
      const V *words = in_into + starts[level];
      for (int64_t w = 0; w < powers[level]; ++w) in_x[starts[level] + w] += words[w] * weight;
      for_each_cut(level, [&](int64_t a, int64_t b) {
        for (int64_t u = 0; u < powers[a]; ++u) {
          const V left = x[starts[a] + u];
          V sum = V{};
          for (int64_t v = 0; v < powers[b]; ++v) {
            const V in = words[u * powers[b] + v];
            sum += in * from[starts[b] + v];
            in_from[starts[b] + v] += in * left;
          }
          in_x[starts[a] + u] += sum;
        }
      });
    }
  }
}

// From the Lyndon words to the basis, and the transpose of that.
template <class V>
void change_basis(const Algebra &algebra, const V *logs, V *coefficients) {
  const Tables &t = algebra.tables;
  for (int64_t e = 0; e < algebra.size; ++e) {
    V sum = V{};
    for (int64_t c = t.change_starts[e]; c < t.change_starts[e + 1]; ++c) {
      sum += logs[t.change_columns[c]] * static_cast<Scalar<V>>(t.change_values[c]);
    }
    coefficients[e] = sum;
  }
}

template <class V>
void change_basis_pullback(const Algebra &algebra, const V *in_coefficients, V *in_logs) {
  const Tables &t = algebra.tables;
  set_zero(in_logs, algebra.size);
  for (int64_t e = 0; e < algebra.size; ++e) {
    for (int64_t c = t.change_starts[e]; c < t.change_starts[e + 1]; ++c) {
      in_logs[t.change_columns[c]] +=
          in_coefficients[e] * static_cast<Scalar<V>>(t.change_values[c]);
    }
  }
}

// Chen's relation: x becomes x (x) y.
template <class V>
void multiply(const Algebra &algebra, V *x, const V *y, bool with_top) {
  const Tables &t = algebra.tables;
  const int64_t lower = algebra.lower(), *starts = algebra.starts, *powers = algebra.powers;
  for (int64_t i = 0; with_top && i < algebra.top; ++i) {
    const int64_t e = algebra.size - algebra.top + i;
    V sum = y[lower + i];
    for (int64_t s = t.split_starts[e]; s < t.split_starts[e + 1]; ++s) {
      sum += x[t.splits[2 * s]] * y[t.splits[2 * s + 1]];
    }
    x[lower + i] += sum;
  }
  for (int64_t level = algebra.depth - 1; level >= 1; --level) {
    V *words = x + starts[level];
    for_each_cut(level, [&](int64_t a, int64_t b) {
      for (int64_t u = 0; u < powers[a]; ++u) {
        const V left = x[starts[a] + u];
        for (int64_t v = 0; v < powers[b]; ++v) {
          words[u * powers[b] + v] += left * y[starts[b] + v];
        }
      }
    });
    for (int64_t w = 0; w < powers[level]; ++w) words[w] += y[starts[level] + w];
  }
}

// Undoes `multiply` on all but the longest words.
template <class V>
void divide(const Algebra &algebra, V *x, const V *y) {
  const int64_t *starts = algebra.starts, *powers = algebra.powers;
  for (int64_t level = 1; level < algebra.depth; ++level) {
    V *words = x + starts[level];
    for_each_cut(level, [&](int64_t a, int64_t b) {
      for (int64_t u = 0; u < powers[a]; ++u) {
        const V left = x[starts[a] + u];
        for (int64_t v = 0; v < powers[b]; ++v) {
          words[u * powers[b] + v] -= left * y[starts[b] + v];
        }
      }
    });
    for (int64_t w = 0; w < powers[level]; ++w) words[w] -= y[starts[level] + w];
  }
}

// in, the gradient in x (x) y, becomes the gradient in x; in_y is the one in y.
template <class V>
void multiply_pullback(const Algebra &algebra, const V *x, const V *y, V *in, V *in_y) {
  const Tables &t = algebra.tables;
  const int64_t lower = algebra.lower(), *starts = algebra.starts, *powers = algebra.powers;
  for (int64_t i = 0; i < algebra.state(); ++i) in_y[i] = in[i];
  // From short words to long ones, so that what is read of `in` has not been added to.
  for (int64_t level = 2; level < algebra.depth; ++level) {
    const V *words = in + starts[level];
    for_each_cut(level, [&](int64_t a, int64_t b) {
      for (int64_t u = 0; u < powers[a]; ++u) {
        const V left = x[starts[a] + u];
        V sum = V{};
        for (int64_t v = 0; v < powers[b]; ++v) {
          const V g = words[u * powers[b] + v];
          sum += g * y[starts[b] + v];
          in_y[starts[b] + v] += g * left;
        }
        in[starts[a] + u] += sum;
      }
    });
  }
  for (int64_t i = 0; i < algebra.top; ++i) {
    const int64_t e = algebra.size - algebra.top + i;
    const V g = in[lower + i];
    for (int64_t s = t.split_starts[e]; s < t.split_starts[e + 1]; ++s) {
      const int64_t u = t.splits[2 * s], v = t.splits[2 * s + 1];
      in[u] += g * y[v];
      in_y[v] += g * x[u];
    }
  }
}

}  // namespace log_signatures
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
