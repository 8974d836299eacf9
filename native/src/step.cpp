// One step through each kind of part, reading the parameters once, where they stand.

#include <math.h>

#include "exponential_lanes.hpp"
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

  void hadamard() const {
    const Real *values = static_cast<const Real *>(part.parameters[0]);
    for (int64_t i = 0; i < part.dim; ++i) {
      Real d = 0;
      for (int64_t k = 0; k < channels; ++k) {
        const Real value = values[k * part.dim + i];
        d += increment[k] * (part.option ? Real(tanh(value)) : value);
      }
      out[i] = d * h[i];
    }
    for (int64_t s = 1; s < part.dim; s *= 2) {
      for (int64_t i = 0; i < part.dim; i += 2 * s) {
        for (int64_t j = i; j < i + s; ++j) {
          const Real x = out[j], y = out[j + s];
          out[j] = x + y;
          out[j + s] = x - y;
        }
      }
    }
    const Real scale = 1 / Real(sqrt(double(part.dim)));
    for (int64_t i = 0; i < part.dim; ++i) out[i] = h[i] + out[i] * scale;
  }

  void sparse() const {
    const Real *values = static_cast<const Real *>(part.parameters[0]);
    const int64_t *places = static_cast<const int64_t *>(part.parameters[1]);
    const int64_t n = part.dim;
    keep_state();
    for (int64_t e = 0; e < part.size; ++e) {
      const int64_t column = places[e] % n, row = places[e] / n % n;
      out[row] += increment[places[e] / (n * n)] * values[e] * h[column];
    }
  }

  void shared_factors() const {
    const int64_t r = part.size, n = part.dim;
    const Real *left = static_cast<const Real *>(part.parameters[1]);
    const Real *right = static_cast<const Real *>(part.parameters[2]);
    pieces(0, n, [&](int64_t first, int64_t count, const Real *d) {
      for (int64_t i = 0; i < count; ++i) out[first + i] = h[first + i] + d[i] * h[first + i];
    });
    for (int64_t k = 0; k < channels; ++k, left += n * r, right += n * r) {
      Real inner[MOST_RANK] = {};
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t s = 0; s < r; ++s) inner[s] += right[i * r + s] * h[i];
      }
      for (int64_t s = 0; s < r; ++s) inner[s] *= increment[k];
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t s = 0; s < r; ++s) out[i] += left[i * r + s] * inner[s];
      }
    }
  }

  void run() const {
    switch (part.kind) {
      case SLICEKIT_BLOCKS: return part.option ? exponentiated() : blocks();
      case SLICEKIT_SKEW: return exponentiated();
      case SLICEKIT_LOW_RANK: return low_rank();
      case SLICEKIT_HADAMARD: return hadamard();
      case SLICEKIT_SPARSE: return sparse();
      default: return shared_factors();
    }
  }

  // At least what lanes_workspace asks for with blocks of B rows; step_fits checks it.
  static constexpr int64_t SCRATCH = 20 * B * B * LANES<Real>;
};

template <class Real>
int64_t run_steps(const slicekit_step_plan &plan, const Real *x, const Real *state, Real *out) {
  const int64_t given = plan.dt == 0 ? plan.channels : plan.channels - 1;
  Real total = 0;
  for (int64_t b = 0; b < plan.batch; ++b, x += given) {
    for (int64_t p = 0; p < plan.parts; ++p) {
      const slicekit_step_part &part = plan.part[p];
      Step<Real>{part, plan.channels, {x, Real(plan.dt)}, state, out}.run();
      for (int64_t i = 0; i < part.dim; ++i) total += out[i] - out[i];
      state += part.dim, out += part.dim;
    }
  }
  return total == 0 ? int64_t(SLICEKIT_OK) : int64_t(SLICEKIT_NOT_FINITE);
}

}  // namespace

int64_t step_run(const slicekit_step_plan &plan, const void *x, const void *state, void *out) {
  if (plan.real == 4) {
    return run_steps(plan, static_cast<const float *>(x), static_cast<const float *>(state),
                     static_cast<float *>(out));
  }
  return run_steps(plan, static_cast<const double *>(x), static_cast<const double *>(state),
                   static_cast<double *>(out));
}

bool step_fits(int64_t real, int64_t block) {
  if (block > B) return false;
  return real == 4 ? lanes_workspace(block, float()) <= Step<float>::SCRATCH
                   : lanes_workspace(block, double()) <= Step<double>::SCRATCH;
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
