// One step through each kind of part, reading the parameters once, where they stand.

#include <math.h>

#include "directions.hpp"
#include "exponential_lanes.hpp"
#include "hyperbolic_tangent.hpp"
#include "simd.hpp"
#include "slicekit_step.h"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace {

constexpr int64_t AT_ONCE = 64, MOST_RANK = 256;
constexpr int64_t B = SLICEKIT_STEP_BLOCK;

// The increment of one sequence: (1, x) dt, or x itself.
template <class Real>
struct Increment {
  const Real *x;
  Real dt;

  Real operator[](int64_t k) const {
    if (dt == 0) return x[k];
    return k ? x[k - 1] * dt : dt;
  }
};

// to[0..count) = Σ_k Δω^k from[k, 0..count), for count <= AT_ONCE and rows `width` apart.
template <class Real>
SLICEKIT_INLINE void weigh(const Real *from, int64_t width, int64_t count, int64_t channels,
                           const Increment<Real> &increment, Real *to) {
  constexpr int V = WIDTH<Real>, TOGETHER = AT_ONCE / V < 8 ? AT_ONCE / V : 8;
  int64_t first = 0;
  for (; first + V * TOGETHER <= count; first += V * TOGETHER) {
    Vector<Real> total[TOGETHER] = {};
    const Real *row = from + first;
    for (int64_t k = 0; k < channels; ++k, row += width) {
      const Vector<Real> factor = broadcast(increment[k]);
#pragma GCC unroll 8
      for (int v = 0; v < TOGETHER; ++v) total[v] += factor * load(row + v * V);
    }
#pragma GCC unroll 8
    for (int v = 0; v < TOGETHER; ++v) store(to + first + v * V, total[v]);
  }
  if (first == count) return;
  for (int64_t i = first; i < count; ++i) to[i] = 0;
  for (int64_t k = 0; k < channels; ++k) {
    const Real factor = increment[k];
    for (int64_t i = first; i < count; ++i) to[i] += factor * from[k * width + i];
  }
}

// Calls use(first, count, numbers) for pieces of the weighted sum of a parameter (channels, width).
template <class Real, class F>
SLICEKIT_INLINE void in_pieces(const void *parameter, int64_t width, int64_t channels,
                               const Increment<Real> &increment, F &&use) {
  const Real *from = static_cast<const Real *>(parameter);
  Real piece[AT_ONCE];
  for (int64_t first = 0; first < width; first += AT_ONCE) {
    const int64_t count = least(AT_ONCE, width - first);
    weigh(from + first, width, count, channels, increment, piece);
    use(first, count, piece);
  }
}

template <class Real>
struct Step {
  const slicekit_step_part &part;
  int64_t channels;
  Increment<Real> increment;
  const Real *h;
  Real *out;

  template <class F>
  void pieces(int which, int64_t width, F &&use) const {
    in_pieces<Real>(part.parameters[which], width, channels, increment, use);
  }

  void keep_state() const {
    for (int64_t i = 0; i < part.dim; ++i) out[i] = h[i];
  }

  void blocks() const {
    keep_state();
    const int64_t b = part.size;
    int64_t row = 0, j = 0, start = 0;  // of the next entry: its row, its column and its block
    pieces(0, part.dim * b, [&](int64_t, int64_t count, const Real *m) {
      for (int64_t e = 0; e < count;) {
        const int64_t run = least(b - j, count - e);
        Real total = 0;
        for (int64_t i = 0; i < run; ++i) total += m[e + i] * h[start + j + i];
        out[row] += total;
        e += run, j += run;
        if (j < b) continue;
        j = 0, ++row;
        if (row % b == 0) start += b;
      }
    });
  }

  // exp(A) - I of LANES blocks at a time, one in each lane.
  void exponentiated() const {
    constexpr int64_t N = LANES<Real>;
    const int64_t b = part.size, blocks = part.dim / b;
    const bool skew = part.kind == SLICEKIT_SKEW;
    const int64_t features = skew ? b * (b - 1) / 2 : b * b;
    Real a[B * B * N], e[B * B * N], scratch[SCRATCH];
    keep_state();
    for (int64_t first = 0; first < blocks; first += N) {
      const int64_t count = least(N, blocks - first);
      for (int64_t i = 0; i < b * b * N; ++i) a[i] = 0;
      for (int64_t l = 0; l < count; ++l) {
        read_block(first + l, blocks * features, features, skew, a + l);
      }
      lanes_exponential(b, a, e, scratch);
      for (int64_t l = 0; l < count; ++l) {
        const int64_t at = (first + l) * b;
        for (int64_t i = 0; i < b; ++i) {
          for (int64_t j = 0; j < b; ++j) out[at + i] += e[(i * b + j) * N + l] * h[at + j];
        }
      }
    }
  }

  // One block's generator into its lane of a (b, b, LANES).
  void read_block(int64_t block, int64_t width, int64_t features, bool skew, Real *a) const {
    constexpr int64_t N = LANES<Real>;
    const Real *from = static_cast<const Real *>(part.parameters[0]) + block * features;
    Real entries[B * B];
    for (int64_t at = 0; at < features; at += AT_ONCE) {
      weigh(from + at, width, least(AT_ONCE, features - at), channels, increment, entries + at);
    }
    const int64_t b = part.size;
    int64_t at = 0;
    for (int64_t i = 0; i < b; ++i) {
      for (int64_t j = skew ? i + 1 : 0; j < b; ++j, ++at) {
        a[(i * b + j) * N] = entries[at];
        if (skew) a[(j * b + i) * N] = -entries[at];
      }
    }
  }

  void low_rank() const {
    const int64_t r = part.size;
    Real inner[MOST_RANK] = {};
    pieces(2, part.dim * r, [&](int64_t first, int64_t count, const Real *v) {
      for (int64_t e = 0; e < count; ++e) inner[(first + e) % r] += v[e] * h[(first + e) / r];
    });
    pieces(0, part.dim, [&](int64_t first, int64_t count, const Real *d) {
      for (int64_t i = 0; i < count; ++i) out[first + i] = h[first + i] + d[i] * h[first + i];
    });
    pieces(1, part.dim * r, [&](int64_t first, int64_t count, const Real *u) {
      for (int64_t e = 0; e < count; ++e) out[(first + e) / r] += u[e] * inner[(first + e) % r];
    });
  }

  void shared_factors() const {
    pieces(0, part.dim, [&](int64_t first, int64_t count, const Real *d) {
      for (int64_t i = 0; i < count; ++i) out[first + i] = h[first + i] + d[i] * h[first + i];
    });
    switch (part.size) {
      case 1: return low_rank_of_each<1>(1);
      case 2: return low_rank_of_each<2>(2);
      case 4: return low_rank_of_each<4>(4);
      case 8: return low_rank_of_each<8>(8);
      default: return low_rank_of_each<MOST_RANK>(part.size);
    }
  }

  // out += Σ_k Δω^k U_k V_k^T h, with r <= R; sums of several rows run beside each other.
  template <int64_t R>
  SLICEKIT_INLINE void low_rank_of_each(int64_t r) const {
    constexpr int64_t BESIDE = R <= 8 ? 8 : 1;
    const int64_t n = part.dim, rank = R < MOST_RANK ? R : r, whole = n / BESIDE * BESIDE;
    const Real *left = static_cast<const Real *>(part.parameters[1]);
    const Real *right = static_cast<const Real *>(part.parameters[2]);
    for (int64_t k = 0; k < channels; ++k, left += n * rank, right += n * rank) {
      Real sums[BESIDE * R] = {}, inner[R] = {};
      for (int64_t i = 0; i < whole; i += BESIDE) {
        for (int64_t j = 0; j < BESIDE; ++j) {
          for (int64_t s = 0; s < rank; ++s) {
            sums[j * rank + s] += right[(i + j) * rank + s] * h[i + j];
          }
        }
      }
      for (int64_t e = 0; e < BESIDE * rank; ++e) inner[e % rank] += sums[e];
      for (int64_t i = whole; i < n; ++i) {
        for (int64_t s = 0; s < rank; ++s) inner[s] += right[i * rank + s] * h[i];
      }
      for (int64_t s = 0; s < rank; ++s) inner[s] *= increment[k];
      for (int64_t i = 0; i < n; ++i) {
        Real total = 0;
        for (int64_t s = 0; s < rank; ++s) total += left[i * rank + s] * inner[s];
        out[i] += total;
      }
    }
  }

  void run() const {
    switch (part.kind) {
      case SLICEKIT_BLOCKS: return part.option ? exponentiated() : blocks();
      case SLICEKIT_SKEW: return exponentiated();
      case SLICEKIT_LOW_RANK: return low_rank();
      default: return shared_factors();
    }
  }

  // At least what lanes_workspace asks for with blocks of B rows; step_fits checks it.
  static constexpr int64_t SCRATCH = 20 * B * B * LANES<Real>;
};

// One part of all sequences, whose rows stand `dim` apart; for what is best read once for all.
template <class Real>
struct Steps {
  const slicekit_step_plan &plan;
  const slicekit_step_part &part;
  const Real *x, *state;
  Real *out;

  Increment<Real> increment(int64_t b) const {
    const int64_t given = plan.dt == 0 ? plan.channels : plan.channels - 1;
    return {x + b * given, Real(plan.dt)};
  }

  void hadamard() const {
    const Real *values = static_cast<const Real *>(part.parameters[0]);
    const int64_t n = part.dim;
    Real piece[AT_ONCE];
    for (int64_t first = 0; first < n; first += AT_ONCE) {
      const int64_t count = least(AT_ONCE, n - first);
      for (int64_t k = 0; k < plan.channels; ++k) {
        const Real *from = values + k * n + first;
        if (part.option) {
          bounded(count, from, piece);
          from = piece;
        }
        for (int64_t b = 0; b < plan.batch; ++b) {
          Real *to = out + b * plan.dim + first;
          const Real factor = increment(b)[k];
          for (int64_t i = 0; i < count; ++i) to[i] = (k ? to[i] : Real(0)) + factor * from[i];
        }
      }
    }
    const Real scale = 1 / Real(sqrt(double(n)));
    for (int64_t b = 0; b < plan.batch; ++b) {
      const Real *h = state + b * plan.dim;
      Real *to = out + b * plan.dim;
      for (int64_t i = 0; i < n; ++i) to[i] *= h[i];
      transformed(n, to);
      for (int64_t i = 0; i < n; ++i) to[i] = h[i] + to[i] * scale;
    }
  }

  static void bounded(int64_t count, const Real *from, Real *to) {
    constexpr int64_t V = WIDTH<Real>;
    for (int64_t first = 0; first < count; first += V) {
      Real few[V] = {};
      const int64_t some = least(V, count - first);
      for (int64_t i = 0; i < some; ++i) few[i] = from[first + i];
      store(few, hyperbolic_tangent<Real>(load(few)));
      for (int64_t i = 0; i < some; ++i) to[first + i] = few[i];
    }
  }

  // The Walsh-Hadamard transform, not divided by anything.
  static void transformed(int64_t n, Real *x) {
    for (int64_t s = 1; s < n; s *= 2) {
      for (int64_t i = 0; i < n; i += 2 * s) {
        for (int64_t j = i; j < i + s; ++j) {
          const Real a = x[j], b = x[j + s];
          x[j] = a + b;
          x[j + s] = a - b;
        }
      }
    }
  }

  void sparse() const {
    const Real *values = static_cast<const Real *>(part.parameters[0]);
    const int64_t *places = static_cast<const int64_t *>(part.parameters[1]);
    const int64_t n = part.dim;
    for (int64_t b = 0; b < plan.batch; ++b) {
      for (int64_t i = 0; i < n; ++i) out[b * plan.dim + i] = state[b * plan.dim + i];
    }
    int64_t start = 0, row = 0, k = 0;  // of the row of the last entry, where the next may stand too
    for (int64_t e = 0; e < part.size; ++e) {
      if (places[e] < start || places[e] >= start + n) {
        const int64_t rows = places[e] / n;
        start = rows * n, row = rows % n, k = rows / n;
      }
      const int64_t column = places[e] - start;
      for (int64_t b = 0; b < plan.batch; ++b) {
        out[b * plan.dim + row] += increment(b)[k] * values[e] * state[b * plan.dim + column];
      }
    }
  }

  void run() const {
    if (part.kind == SLICEKIT_HADAMARD) return hadamard();
    if (part.kind == SLICEKIT_SPARSE) return sparse();
    for (int64_t b = 0; b < plan.batch; ++b) {
      const int64_t at = b * plan.dim;
      Step<Real>{part, plan.channels, increment(b), state + at, out + at}.run();
    }
  }
};

// x - x is zero unless x is not finite.
template <class Real>
int64_t finite(int64_t count, const Real *x) {
  constexpr int64_t V = WIDTH<Real>;
  const int64_t whole = count / V * V;
  Vector<Real> totals = {};
  for (int64_t i = 0; i < whole; i += V) totals += load(x + i) - load(x + i);
  Real total = sum(totals);
  for (int64_t i = whole; i < count; ++i) total += x[i] - x[i];
  return total == 0 ? int64_t(SLICEKIT_OK) : int64_t(SLICEKIT_NOT_FINITE);
}

template <class Real>
void run_steps(const slicekit_step_plan &plan, const Real *x, const Real *state, Real *out) {
  int64_t at = 0;
  for (int64_t p = 0; p < plan.parts; ++p) {
    Steps<Real>{plan, plan.part[p], x, state + at, out + at}.run();
    at += plan.part[p].dim;
  }
}

// The same of a direction, whose own norm counts, and a log-norm.
template <class Real>
void run_projective(const slicekit_step_plan &plan, const Real *x, const Real *state, Real *out,
                    const slicekit_step_norms &norms) {
  const int64_t n = plan.dim;
  const Real *before = static_cast<const Real *>(norms.log_norm);
  Real *after = static_cast<Real *>(norms.out_log_norm), *unit = static_cast<Real *>(norms.unit);
  for (int64_t b = 0; b < plan.batch; ++b) {
    after[b] = before[b] + take_apart(n, state + b * n, unit + b * n);
  }
  run_steps(plan, x, unit, out);
  for (int64_t b = 0; b < plan.batch; ++b) after[b] += take_apart(n, out + b * n, out + b * n);
}

template <class Real>
int64_t run_any(const slicekit_step_plan &plan, const void *x, const void *state, void *out,
                const slicekit_step_norms *norms) {
  const Real *given = static_cast<const Real *>(x), *from = static_cast<const Real *>(state);
  Real *to = static_cast<Real *>(out);
  if (norms) {
    run_projective(plan, given, from, to, *norms);
  } else {
    run_steps(plan, given, from, to);
  }
  return finite(plan.batch * plan.dim, to);
}

}  // namespace

int64_t step_run(const slicekit_step_plan &plan, const void *x, const void *state, void *out,
                 const slicekit_step_norms *norms) {
  return plan.real == 4 ? run_any<float>(plan, x, state, out, norms)
                        : run_any<double>(plan, x, state, out, norms);
}

bool step_fits(int64_t real, int64_t block) {
  if (block > B) return false;
  return real == 4 ? lanes_workspace(block, float()) <= Step<float>::SCRATCH
                   : lanes_workspace(block, double()) <= Step<double>::SCRATCH;
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
