// Every kernel through the C interface, in single and double precision, for each instruction set that
// the processor runs. Returns how many cases failed, at most 100.
#include "cases.hpp"
#include "slicekit.h"
#include "slicekit_exponential.h"
#include "slicekit_given.h"
#include "slicekit_log_signatures.h"
#include "slicekit_panels.h"
#include "slicekit_selective.h"
#include "slicekit_shared_factors.h"
#include "slicekit_short_convolution.h"
#include "slicekit_slstm.h"
#include "slicekit_sparse.h"
#include "slicekit_sparse_table.h"
#include "slicekit_step.h"
#include "slicekit_table.h"
#include "slicekit_tanh.h"

using namespace cases;

namespace {

constexpr int64_t BATCH = 3, LENGTH = 9, CHANNELS = 71;
constexpr double NOT_WRITTEN = NAN;

template <class Real>
Array<Real> unwritten(size_t count) {
  return Array<Real>(count, Real(NOT_WRITTEN));
}

template <class Real>
Arrays<Real> like(const Arrays<Real> &leaves) {
  Arrays<Real> found;
  for (const Array<Real> &leaf : leaves) found.push_back(unwritten<Real>(leaf.size()));
  return found;
}

// How a scan is asked for its states.
struct Variant {
  const char *name;
  bool padded, directed, half;

  double bound() const { return half ? 0x1p-6 : 0; }
};

constexpr Variant VARIANTS[] = {{"", false, false, false},
                                {"padded ", true, false, false},
                                {"directions of ", true, true, false},
                                {"halves of ", true, false, true},
                                {"directions in halves of ", true, true, true}};
constexpr int64_t LENGTHS[BATCH] = {9, 4, 6}, RESCALE = 4;

// Those that a precision has.
template <class Real, class F>
void each_variant(F f) {
  for (const Variant &variant : VARIANTS) {
    if (!variant.half || sizeof(Real) == 4) f(variant);
  }
}

// States (batch, length, n), as a variant gives them: by step(b, t, h) where something drives.
template <class Step>
Array<double> plain_states(const Variant &variant, const Array<double> &state, int64_t n, Step step) {
  Array<double> found;
  for (int64_t b = 0; b < BATCH; ++b) {
    Array<double> h(state.begin() + b * n, state.begin() + (b + 1) * n);
    for (int64_t t = 0; t < LENGTH; ++t) {
      if (!variant.padded || t < LENGTHS[b]) h = step(b, t, h);
      double squares = 0;
      for (double x : h) squares += x * x;
      for (double x : h) found.push_back(variant.directed ? x / std::sqrt(squares) : x);
    }
  }
  return found;
}

// An array as memory is to have it: in bfloat16 or not.
template <class Real>
class InMemory {
 public:
  InMemory(const Array<Real> &numbers, bool half) : numbers_(half ? 0 : numbers.size()) {
    if (!half) numbers_ = numbers;
    for (size_t i = 0; half && i < numbers.size(); ++i) {
      const float x = static_cast<float>(numbers[i]);
      uint32_t bits;
      __builtin_memcpy(&bits, &x, sizeof bits);
      halves_.push_back(static_cast<uint16_t>(x == x ? (bits + 0x8000) >> 16 : 0x7fc0));
    }
  }

  void *data() { return halves_.empty() ? static_cast<void *>(numbers_.data()) : halves_.data(); }

  Array<Real> numbers() const {
    Array<Real> found = numbers_;
    for (uint16_t half : halves_) {
      const uint32_t bits = static_cast<uint32_t>(half) << 16;
      float x;
      __builtin_memcpy(&x, &bits, sizeof x);
      found.push_back(x);
    }
    return found;
  }

 private:
  Array<Real> numbers_;
  std::vector<uint16_t> halves_;
};

// The arrays of a problem that a variant has otherwise: states and their directions.
template <class Real>
struct VariedStates {
  template <class Problem>
  VariedStates(const Variant &given, const Array<Real> &weights, Problem &q)
      : variant(given),
        states(unwritten<Real>(weights.size()), given.half),
        directions(unwritten<Real>(weights.size()), given.half),
        in_states(weights, given.half),
        factors(weights.size(), Real(1)) {
    q.half = variant.half, q.directed = variant.directed, q.rescale = variant.directed ? RESCALE : 0;
    q.states = states.data(), q.directions = directions.data(), q.in_states = in_states.data();
    q.factors = factors.data();
  }

  Array<Real> outputs() const { return (variant.directed ? directions : states).numbers(); }

  const Variant &variant;
  InMemory<Real> states, directions, in_states;
  Array<Real> factors;
};

// And of those that take increments, which are no numbers past the end: leaf 0.
template <class Real>
struct VariedPath {
  template <class Problem>
  VariedPath(const Variant &given, const Array<Real> &path, Problem &q)
      : increments(hidden(given, path), given.half), in_increments(unwritten<Real>(path.size()), given.half) {
    q.increments = increments.data(), q.in_increments = in_increments.data();
    q.lengths = given.padded ? LENGTHS : nullptr;
  }

  static Array<Real> hidden(const Variant &variant, Array<Real> path) {
    for (int64_t row = 0; variant.padded && row < BATCH * LENGTH; ++row) {
      if (row % LENGTH < LENGTHS[row / LENGTH]) continue;
      for (int64_t i = 0; i < CHANNELS; ++i) path[row * CHANNELS + i] = Real(NOT_WRITTEN);
    }
    return path;
  }

  InMemory<Real> increments, in_increments;
};

Array<double> identity_plus(int64_t n, Array<double> a) {
  for (int64_t i = 0; i < n; ++i) a[i * n + i] += 1;
  return a;
}

Array<double> product(int64_t n, const Array<double> &a, const Array<double> &b) {
  Array<double> c(n * n, 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  return c;
}

// By its series, for small matrices.
Array<double> exponential(int64_t n, const Array<double> &a) {
  Array<double> total = identity_plus(n, Array<double>(n * n, 0)), term = total;
  for (int k = 1; k < 40; ++k) {
    term = product(n, term, a);
    for (size_t i = 0; i < term.size(); ++i) {
      term[i] /= k;
      total[i] += term[i];
    }
  }
  return total;
}

// A(Δω) of a part as a dense matrix, from its parameters as Δω weighs them.
Array<double> dense(const slicekit_part &part, const Arrays<double> &p) {
  const int64_t n = part.dim, b = part.size;
  Array<double> a(n * n, 0);
  if (part.kind == SLICEKIT_BLOCKS) {
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t j = 0; j < b; ++j) a[r * n + r / b * b + j] = p[0][r * b + j];
    }
  } else if (part.kind == SLICEKIT_SKEW) {
    const double *angle = p[0].data();
    for (int64_t first = 0; first < n; first += b) {
      for (int64_t r = 0; r < b; ++r) {
        for (int64_t j = r + 1; j < b; ++j, ++angle) {
          a[(first + r) * n + first + j] = *angle;
          a[(first + j) * n + first + r] = -*angle;
        }
      }
    }
  } else if (part.kind == SLICEKIT_LOW_RANK) {
    for (int64_t r = 0; r < n; ++r) {
      a[r * n + r] = p[0][r];
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t k = 0; k < b; ++k) a[r * n + j] += p[1][r * b + k] * p[2][j * b + k];
      }
    }
  } else {
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t j = 0; j < n; ++j) {
        const double sign = __builtin_parityll(r & j) ? -1 : 1;
        a[r * n + j] = sign / std::sqrt(double(n)) * p[0][j];
      }
    }
  }
  return a;
}

// h + F(A(Δω)) h.
Array<double> stepped(const slicekit_part &part, const Arrays<double> &parameters,
                      const double *increment, const Array<double> &h) {
  Arrays<double> weighed;
  for (const Array<double> &p : parameters) {
    const size_t columns = p.size() / CHANNELS;
    weighed.push_back(Array<double>(columns, 0));
    for (size_t e = 0; e < p.size(); ++e) weighed.back()[e % columns] += increment[e / columns] * p[e];
  }
  const int64_t n = part.dim;
  const Array<double> a = dense(part, weighed);
  const Array<double> m = part.exponential ? exponential(n, a) : identity_plus(n, a);
  Array<double> out(n, 0);
  for (int64_t x = 0; x < n; ++x) {
    for (int64_t y = 0; y < n; ++y) out[x] += m[x * n + y] * h[y];
  }
  return out;
}

std::string name_of(const slicekit_part &part) {
  return "kind " + std::to_string(part.kind) + ", dim " + std::to_string(part.dim) + ", size " +
         std::to_string(part.size) + (part.exponential ? ", exponential" : "");
}

// Leaves: increments, state, parameters.
Arrays<double> leaves_of(const slicekit_part &part, std::mt19937 &source) {
  const int64_t n = part.dim, b = part.size;
  Arrays<double> leaves = {random_numbers(source, BATCH * LENGTH * CHANNELS, 0.1),
                           random_numbers(source, BATCH * n, 1)};
  const int64_t first = part.kind == SLICEKIT_BLOCKS ? n * b
                        : part.kind == SLICEKIT_SKEW ? n / b * (b * (b - 1) / 2)
                                                     : n;
  leaves.push_back(random_numbers(source, CHANNELS * first, 0.1));
  if (part.kind == SLICEKIT_LOW_RANK) {
    for (int side = 0; side < 2; ++side) {
      leaves.push_back(random_numbers(source, CHANNELS * n * b, 0.1));
    }
  }
  return leaves;
}

Plain plain_panels(const slicekit_part &part, const Variant &variant) {
  return [part, &variant](const Arrays<double> &leaves) {
    const Arrays<double> parameters(leaves.begin() + 2, leaves.end());
    auto step = [&](int64_t b, int64_t t, const Array<double> &h) {
      return stepped(part, parameters, leaves[0].data() + (b * LENGTH + t) * CHANNELS, h);
    };
    return plain_states(variant, leaves[1], part.dim, step);
  };
}

template <class Real>
Kernel<Real> panels_kernel(const slicekit_part &part, const Variant &variant, bool keep) {
  return [part, &variant, keep](const Arrays<Real> &leaves, const Array<Real> &weights) {
    Found<Real> found{0, {}, like(leaves)};
    const void *parameters[3] = {};
    void *in_parameters[3] = {};
    for (size_t p = 0; p + 2 < leaves.size(); ++p) {
      parameters[p] = leaves[p + 2].data();
      in_parameters[p] = found.gradients[p + 2].data();
    }
    slicekit_panels q = {};
    q.real = sizeof(Real);
    q.batch = BATCH, q.length = LENGTH, q.channels = CHANNELS, q.dim = part.dim, q.columns = 1;
    q.parts = q.threads = 1;
    q.part = &part;
    q.parameters = parameters;
    q.state = leaves[1].data();
    VariedPath<Real> path(variant, leaves[0], q);
    VariedStates<Real> states(variant, weights, q);
    Array<Real> kept(keep ? slicekit_panels_kept(&q) : 0);
    q.kept = kept.empty() ? nullptr : kept.data();
    q.in_parameters = in_parameters;
    q.in_state = found.gradients[1].data();
    for (int64_t backward = 0; backward < 2; ++backward) {
      std::vector<char> work(slicekit_panels_workspace(&q, backward));
      q.workspace = work.data(), q.workspace_bytes = static_cast<int64_t>(work.size());
      found.status |= backward ? slicekit_panels_backward(&q) : slicekit_panels_forward(&q);
    }
    found.outputs = states.outputs();
    found.gradients[0] = path.in_increments.numbers();
    return found;
  };
}

// The same states step by step, also as direction and log-norm; there are no gradients.
template <class Real>
Kernel<Real> step_kernel(const slicekit_part &part, bool projective) {
  return [part, projective](const Arrays<Real> &leaves, const Array<Real> &weights) {
    Found<Real> found{0, unwritten<Real>(weights.size()), {}};
    slicekit_step_part own = {part.kind, part.dim, part.size, part.exponential, {}};
    for (size_t p = 0; p + 2 < leaves.size(); ++p) own.parameters[p] = leaves[p + 2].data();
    const slicekit_step_plan plan = {sizeof(Real), 1, CHANNELS, part.dim, 1, &own, 0};
    Array<Real> unit = unwritten<Real>(part.dim), direction = unit;
    for (int64_t b = 0; b < BATCH; ++b) {
      const Real *h = leaves[1].data() + b * part.dim;
      Real logs[2] = {0, NAN};
      for (int64_t t = 0; t < LENGTH; ++t) {
        const Real *x = leaves[0].data() + (b * LENGTH + t) * CHANNELS;
        Real *out = found.outputs.data() + (b * LENGTH + t) * part.dim;
        if (!projective) {
          found.status |= slicekit_step(&plan, x, h, out);
          h = out;
          continue;
        }
        const slicekit_step_norms norms = {&logs[0], &logs[1], unit.data()};
        found.status |= slicekit_step_projective(&plan, x, h, out, &norms);
        direction.assign(out, out + part.dim);
        for (int64_t i = 0; i < part.dim; ++i) out[i] *= std::exp(logs[1]);
        logs[0] = logs[1];
        h = direction.data();
      }
    }
    return found;
  };
}

template <class Real>
void try_panels(Trial &trial, std::mt19937 &source) {
  const slicekit_part parts[] = {
      {SLICEKIT_BLOCKS, 19, 1, 0},  {SLICEKIT_BLOCKS, 38, 2, 0},   {SLICEKIT_BLOCKS, 21, 3, 0},
      {SLICEKIT_BLOCKS, 72, 4, 0},  {SLICEKIT_BLOCKS, 25, 5, 0},   {SLICEKIT_BLOCKS, 24, 8, 0},
      {SLICEKIT_BLOCKS, 32, 16, 0}, {SLICEKIT_BLOCKS, 37, 37, 0},  {SLICEKIT_BLOCKS, 20, 4, 1},
      {SLICEKIT_BLOCKS, 20, 5, 1},  {SLICEKIT_SKEW, 24, 4, 1},     {SLICEKIT_LOW_RANK, 37, 3, 0},
      {SLICEKIT_HADAMARD, 8, 0, 0}, {SLICEKIT_HADAMARD, 64, 0, 0}};
  for (const slicekit_part &part : parts) {
    const Arrays<double> leaves = leaves_of(part, source);
    each_variant<Real>([&](const Variant &variant) {
      const std::string name = variant.name + ("panels, " + name_of(part));
      const Plain varied = plain_panels(part, variant);
      for (bool keep : {false, true}) {
        if (keep && part.exponential) continue;
        trial.run<Real>((keep ? "kept " : "") + name, leaves, varied,
                        panels_kernel<Real>(part, variant, keep), variant.bound());
      }
    });
    const Plain plain = plain_panels(part, VARIANTS[0]);
    trial.run<Real>("step, " + name_of(part), leaves, plain, step_kernel<Real>(part, false));
    trial.run<Real>("projective step, " + name_of(part), leaves, plain,
                    step_kernel<Real>(part, true));
  }
}

template <class Real>
void try_exponential(Trial &trial, std::mt19937 &source) {
  const int64_t count = 21;
  for (int64_t n : {1, 2, 3, 4, 7, 8, 16, 17}) {
    const Arrays<double> leaves = {random_numbers(source, count * n * n, 0.5)};
    trial.run<Real>(
        "exponential, " + std::to_string(n) + " rows", leaves,
        [n](const Arrays<double> &x) {
          Array<double> y;
          for (int64_t m = 0; m < count; ++m) {
            const auto from = x[0].begin() + m * n * n;
            const Array<double> e = exponential(n, Array<double>(from, from + n * n));
            y.insert(y.end(), e.begin(), e.end());
          }
          return y;
        },
        [n](const Arrays<Real> &x, const Array<Real> &weights) {
          Found<Real> found{0, unwritten<Real>(weights.size()), like(x)};
          slicekit_exponential task{};
          task.sizes = {sizeof(Real), count, n, 1};
          task.x = x[0].data(), task.y = found.outputs.data();
          task.in_y = weights.data(), task.in_x = found.gradients[0].data();
          std::vector<char> work(slicekit_exponential_workspace(&task));
          task.work = work.data(), task.work_bytes = static_cast<int64_t>(work.size());
          found.status = slicekit_exponential_forward(&task);
          found.status |= slicekit_exponential_backward(&task);
          return found;
        });
  }
}

// Leaves: diagonal, blocks, left, right (empty where the kind has none), state.
template <class Real>
void try_given(Trial &trial, std::mt19937 &source, int64_t kind, int64_t n, int64_t columns,
               int64_t block, int64_t rank) {
  const int64_t steps = BATCH * LENGTH, size = n * columns;
  const bool diagonal = kind != SLICEKIT_BLOCKS;
  const Arrays<double> leaves = {random_numbers(source, diagonal ? steps * n : 0, 0.5),
                                 random_numbers(source, steps * n * block, 0.3),
                                 random_numbers(source, steps * n * rank, 0.3),
                                 random_numbers(source, steps * n * rank, 0.3),
                                 random_numbers(source, BATCH * size, 1)};
  auto plain = [=](const Arrays<double> &x) {
    Array<double> states(steps * size, 0);
    for (int64_t s = 0; s < steps; ++s) {
      const double *h = s % LENGTH ? states.data() + (s - 1) * size : x[4].data() + s / LENGTH * size;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t c = 0; c < columns; ++c) {
          double total = diagonal ? x[0][s * n + i] * h[i * columns + c] : 0;
          for (int64_t j = 0; j < block; ++j) {
            total += x[1][(s * n + i) * block + j] * h[(i / block * block + j) * columns + c];
          }
          for (int64_t k = 0; k < rank; ++k) {
            for (int64_t j = 0; j < n; ++j) {
              total += x[2][(s * n + i) * rank + k] * x[3][(s * n + j) * rank + k] * h[j * columns + c];
            }
          }
          states[s * size + i * columns + c] = total;
        }
      }
    }
    return states;
  };
  auto kernel = [=](const Arrays<Real> &x, const Array<Real> &weights) {
    Found<Real> found{0, unwritten<Real>(weights.size()), like(x)};
    Array<Real> last(BATCH * size), in_last(BATCH * size, 0);
    slicekit_given q = {};
    q.kind = kind, q.real = sizeof(Real);
    q.batch = BATCH, q.length = LENGTH, q.dim = n, q.columns = columns;
    q.block = block, q.rank = rank, q.threads = 1;
    q.diagonal = x[0].data(), q.blocks = x[1].data(), q.left = x[2].data(), q.right = x[3].data();
    q.state = x[4].data(), q.outputs = found.outputs.data(), q.last = last.data();
    q.in_outputs = weights.data(), q.in_last = in_last.data();
    q.in_diagonal = found.gradients[0].data(), q.in_blocks = found.gradients[1].data();
    q.in_left = found.gradients[2].data(), q.in_right = found.gradients[3].data();
    q.in_state = found.gradients[4].data();
    std::vector<char> work(slicekit_given_forward_work(&q) + slicekit_given_backward_work(&q));
    q.work = work.data(), q.work_bytes = static_cast<int64_t>(work.size());
    found.status = slicekit_given_forward(&q) | slicekit_given_backward(&q);
    return found;
  };
  trial.run<Real>("given, kind " + std::to_string(kind) + ", columns " + std::to_string(columns), leaves,
                  plain, kernel);
}

template <class Real>
void try_given_kinds(Trial &trial, std::mt19937 &source) {
  for (int64_t columns : {1, 3, 37}) {
    try_given<Real>(trial, source, SLICEKIT_DIAGONAL, 19, columns, 0, 0);
    for (int64_t block : {2, 4, 9}) {
      try_given<Real>(trial, source, SLICEKIT_BLOCKS, 36, columns, block, 0);
    }
    for (int64_t rank : {1, 4, 9}) {
      try_given<Real>(trial, source, SLICEKIT_LOW_RANK, 19, columns, 0, rank);
    }
  }
}

// What sparse and shared factors have in common. Leaves: increments, state, then their own.
template <class Real, class Problem>
Problem scan_of(const Arrays<Real> &x, Found<Real> &found, int64_t n, Array<Real> &last,
                const Array<Real> &in_last) {
  Problem q = {};
  q.real = sizeof(Real);
  q.batch = BATCH, q.length = LENGTH, q.channels = CHANNELS, q.dim = n, q.columns = 1, q.threads = 1;
  q.state = x[1].data(), q.last = last.data(), q.in_last = in_last.data();
  q.in_state = found.gradients[1].data();
  return q;
}

template <class Problem>
int64_t both_passes(Problem &q, int64_t (*workspace)(const Problem *, int64_t),
                    int64_t (*forward)(const Problem *), int64_t (*backward)(const Problem *)) {
  int64_t status = 0;
  for (int64_t back = 0; back < 2; ++back) {
    std::vector<char> work(workspace(&q, back));
    q.workspace = work.data(), q.workspace_bytes = static_cast<int64_t>(work.size());
    status |= back ? backward(&q) : forward(&q);
  }
  return status;
}

// Steps through matrices that are linear in the increments: entry(channel, row, column).
template <class Entry>
Array<double> plain_linear(const Variant &variant, const Arrays<double> &x, int64_t n, const Entry &entry) {
  return plain_states(variant, x[1], n, [&](int64_t b, int64_t t, const Array<double> &h) {
    Array<double> out = h;
    for (int64_t i = 0; i < CHANNELS; ++i) {
      const double increment = x[0][(b * LENGTH + t) * CHANNELS + i];
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < n; ++c) out[r] += increment * entry(i, r, c) * h[c];
      }
    }
    return out;
  });
}

template <class Real>
void try_sparse(Trial &trial, std::mt19937 &source, const Variant &variant) {
  const int64_t n = 19;
  std::vector<int64_t> places, number(CHANNELS * n * n, -1);
  for (int64_t e = 0; e < CHANNELS * n * n; ++e) {
    if (source() % 5) continue;
    number[e] = static_cast<int64_t>(places.size());
    places.push_back(e);
  }
  const Arrays<double> leaves = {random_numbers(source, BATCH * LENGTH * CHANNELS, 0.1),
                                 random_numbers(source, BATCH * n, 1),
                                 random_numbers(source, places.size(), 0.1)};
  trial.run<Real>(
      variant.name + std::string("sparse"), leaves,
      [=, &variant](const Arrays<double> &x) {
        return plain_linear(variant, x, n, [&](int64_t i, int64_t r, int64_t c) {
          const int64_t at = number[(i * n + r) * n + c];
          return at < 0 ? 0.0 : x[2][at];
        });
      },
      [=, &variant](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, {}, like(x)};
        Array<Real> last(BATCH * n), in_last(BATCH * n, 0);
        auto q = scan_of<Real, slicekit_sparse>(x, found, n, last, in_last);
        VariedPath<Real> path(variant, x[0], q);
        VariedStates<Real> states(variant, weights, q);
        q.kept = static_cast<int64_t>(places.size()), q.places = places.data();
        q.values = x[2].data(), q.in_values = found.gradients[2].data();
        found.status = both_passes(q, slicekit_sparse_workspace, slicekit_sparse_forward,
                                   slicekit_sparse_backward);
        found.outputs = states.outputs(), found.gradients[0] = path.in_increments.numbers();
        return found;
      },
      variant.bound());
}

template <class Real>
void try_shared_factors(Trial &trial, std::mt19937 &source, const Variant &variant) {
  const int64_t n = 37, rank = 3;
  const Arrays<double> leaves = {random_numbers(source, BATCH * LENGTH * CHANNELS, 0.1),
                                 random_numbers(source, BATCH * n, 1),
                                 random_numbers(source, CHANNELS * n, 0.1),
                                 random_numbers(source, CHANNELS * n * rank, 0.1),
                                 random_numbers(source, CHANNELS * n * rank, 0.1)};
  trial.run<Real>(
      variant.name + std::string("shared factors"), leaves,
      [=, &variant](const Arrays<double> &x) {
        return plain_linear(variant, x, n, [&](int64_t i, int64_t r, int64_t c) {
          double entry = r == c ? x[2][i * n + r] : 0;
          for (int64_t k = 0; k < rank; ++k) {
            entry += x[3][(i * n + r) * rank + k] * x[4][(i * n + c) * rank + k];
          }
          return entry;
        });
      },
      [=, &variant](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, {}, like(x)};
        Array<Real> last(BATCH * n), in_last(BATCH * n, 0);
        auto q = scan_of<Real, slicekit_shared_factors>(x, found, n, last, in_last);
        VariedPath<Real> path(variant, x[0], q);
        VariedStates<Real> states(variant, weights, q);
        q.rank = rank;
        q.diagonal = x[2].data(), q.left = x[3].data(), q.right = x[4].data();
        q.in_diagonal = found.gradients[2].data(), q.in_left = found.gradients[3].data();
        q.in_right = found.gradients[4].data();
        found.status = both_passes(q, slicekit_shared_factors_workspace,
                                   slicekit_shared_factors_forward, slicekit_shared_factors_backward);
        found.outputs = states.outputs(), found.gradients[0] = path.in_increments.numbers();
        return found;
      },
      variant.bound());
}

// Leaves: steps, rates, inputs, left, readout, state.
template <class Real>
void try_selective(Trial &trial, std::mt19937 &source) {
  const int64_t channels = 21, dim = 5, length = 70, rows = BATCH * length;
  const Arrays<double> leaves = {
      random_numbers(source, rows * channels, 0.1), random_numbers(source, channels * dim, 0.5),
      random_numbers(source, rows * channels, 1),   random_numbers(source, rows * dim, 1),
      random_numbers(source, rows * dim, 1),        random_numbers(source, BATCH * channels * dim, 1)};
  trial.run<Real>(
      "selective", leaves,
      [=](const Arrays<double> &x) {
        Array<double> outputs(rows * channels, 0), h = x[5];
        for (int64_t s = 0; s < rows; ++s) {
          for (int64_t c = 0; c < channels; ++c) {
            const double step = x[0][s * channels + c], driven = step * x[2][s * channels + c];
            for (int64_t k = 0; k < dim; ++k) {
              double &state = h[(s / length * channels + c) * dim + k];
              state = std::exp(step * x[1][c * dim + k]) * state + driven * x[3][s * dim + k];
              outputs[s * channels + c] += x[4][s * dim + k] * state;
            }
          }
        }
        return outputs;
      },
      [=](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, unwritten<Real>(weights.size()), like(x)};
        const int64_t chunks = (length + SLICEKIT_SELECTIVE_CHUNK - 1) / SLICEKIT_SELECTIVE_CHUNK;
        const int64_t lanes = 64 / sizeof(Real), padded = (channels + lanes - 1) / lanes * lanes;
        Array<Real> last(BATCH * channels * dim), in_last(last.size(), 0);
        Array<Real> starts = unwritten<Real>(BATCH * chunks * dim * padded);
        slicekit_selective q = {};
        q.real = sizeof(Real);
        q.batch = BATCH, q.length = length, q.channels = channels, q.dim = dim, q.threads = 1;
        q.steps = x[0].data(), q.rates = x[1].data(), q.inputs = x[2].data(), q.left = x[3].data();
        q.readout = x[4].data(), q.state = x[5].data(), q.outputs = found.outputs.data();
        q.last = last.data(), q.starts = starts.data();
        q.in_outputs = weights.data(), q.in_last = in_last.data();
        void **gradients[] = {&q.in_steps, &q.in_rates, &q.in_inputs, &q.in_left, &q.in_readout,
                              &q.in_state};
        for (int n = 0; n < 6; ++n) *gradients[n] = found.gradients[n].data();
        std::vector<char> work(slicekit_selective_forward_work(&q) +
                               slicekit_selective_backward_work(&q));
        q.work = work.data(), q.work_bytes = static_cast<int64_t>(work.size());
        found.status = slicekit_selective_forward(&q) | slicekit_selective_backward(&q);
        return found;
      });
}

// Leaves: x, window, weight, bias.
template <class Real>
void try_short_convolution(Trial &trial, std::mt19937 &source) {
  const int64_t channels = 21, size = 4, before = size - 1;
  const Arrays<double> leaves = {random_numbers(source, BATCH * LENGTH * channels, 1),
                                 random_numbers(source, BATCH * before * channels, 1),
                                 random_numbers(source, channels * size, 1),
                                 random_numbers(source, channels, 1)};
  trial.run<Real>(
      "short convolution", leaves,
      [=](const Arrays<double> &x) {
        Array<double> outputs;
        for (int64_t b = 0; b < BATCH; ++b) {
          for (int64_t t = 0; t < LENGTH; ++t) {
            for (int64_t c = 0; c < channels; ++c) {
              double z = x[3][c];
              for (int64_t j = 0; j < size; ++j) {
                const int64_t at = t - size + 1 + j;
                z += x[2][c * size + j] * (at < 0 ? x[1][(b * before + before + at) * channels + c]
                                                  : x[0][(b * LENGTH + at) * channels + c]);
              }
              outputs.push_back(z / (1 + std::exp(-z)));
            }
          }
        }
        return outputs;
      },
      [=](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, unwritten<Real>(weights.size()), like(x)};
        slicekit_short_convolution q = {};
        q.real = sizeof(Real);
        q.batch = BATCH, q.length = LENGTH, q.channels = channels, q.size = size;
        q.activation = q.threads = 1;
        q.x = x[0].data(), q.window = x[1].data(), q.weight = x[2].data(), q.bias = x[3].data();
        q.outputs = found.outputs.data(), q.in_outputs = weights.data();
        q.in_x = found.gradients[0].data(), q.in_window = found.gradients[1].data();
        q.in_weight = found.gradients[2].data(), q.in_bias = found.gradients[3].data();
        std::vector<char> work(slicekit_short_convolution_work(&q));
        q.work = work.data(), q.work_bytes = static_cast<int64_t>(work.size());
        found.status = slicekit_short_convolution_forward(&q) | slicekit_short_convolution_backward(&q);
        return found;
      });
}

// Leaves: filtered, x, gates, recurrent, bias, hidden, cell, normaliser, stabiliser.
template <class Real>
void try_slstm(Trial &trial, std::mt19937 &source) {
  const int64_t heads = 2, n = 19, width = heads * n, lanes = 64 / sizeof(Real);
  const int64_t kept = SLICEKIT_SLSTM_KEPT * ((n + lanes - 1) / lanes * lanes);
  Arrays<double> leaves;
  for (int64_t count : {BATCH * LENGTH * width, BATCH * LENGTH * width}) {
    leaves.push_back(random_numbers(source, count, 1));
  }
  for (int64_t count : {heads * 4 * n * n, heads * 4 * n * n, heads * 4 * n}) {
    leaves.push_back(random_numbers(source, count, 0.2));
  }
  for (int i = 0; i < 4; ++i) leaves.push_back(random_numbers(source, BATCH * width, 1));
  for (double &x : leaves[7]) x = 1 + std::fabs(x);
  trial.run<Real>(
      "sLSTM", leaves,
      [=](const Arrays<double> &x) {
        Array<double> outputs(BATCH * LENGTH * width);
        for (int64_t b = 0; b < BATCH; ++b) {
          for (int64_t head = 0; head < heads; ++head) {
            const int64_t at = (b * heads + head) * n;
            Array<double> h(&x[5][at], &x[5][at] + n);
            Arrays<double> memory;
            for (int i = 6; i < 9; ++i) memory.emplace_back(&x[i][at], &x[i][at] + n);
            for (int64_t t = 0; t < LENGTH; ++t) {
              const int64_t element = (b * LENGTH + t) * width + head * n;
              Array<double> gate(4 * n);
              for (int64_t q = 0; q < 4; ++q) {
                for (int64_t e = 0; e < n; ++e) {
                  double &total = gate[q * n + e] = x[4][(head * 4 + q) * n + e];
                  for (int64_t k = 0; k < n; ++k) {
                    total += x[2][((head * 4 + q) * n + e) * n + k] * x[q < 2 ? 0 : 1][element + k];
                    total += x[3][((head * n + k) * 4 + q) * n + e] * h[k];
                  }
                }
              }
              for (int64_t e = 0; e < n; ++e) {
                double &c = memory[0][e], &norm = memory[1][e], &m = memory[2][e];
                const double held = m - std::log1p(std::exp(-gate[n + e])), i = gate[e];
                m = std::fmax(i, held);
                c = std::exp(held - m) * c;
                norm = std::exp(held - m) * norm + std::exp(i - m);
                c += std::exp(i - m) * std::tanh(gate[2 * n + e]);
                outputs[element + e] = h[e] = c / norm / (1 + std::exp(-gate[3 * n + e]));
              }
            }
          }
        }
        return outputs;
      },
      [=](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, unwritten<Real>(weights.size()), like(x)};
        Arrays<Real> last(4, unwritten<Real>(BATCH * width)), in_last(4, Array<Real>(BATCH * width, 0));
        Array<Real> keep = unwritten<Real>(heads * BATCH * LENGTH * kept);
        slicekit_slstm q = {};
        q.real = sizeof(Real);
        q.batch = BATCH, q.length = LENGTH, q.heads = heads, q.dim = n, q.threads = 1;
        q.filtered = x[0].data(), q.x = x[1].data(), q.gates = x[2].data();
        q.recurrent = x[3].data(), q.bias = x[4].data(), q.hidden = x[5].data();
        q.cell = x[6].data(), q.normaliser = x[7].data(), q.stabiliser = x[8].data();
        q.outputs = found.outputs.data(), q.kept = keep.data();
        q.last_hidden = last[0].data(), q.last_cell = last[1].data();
        q.last_normaliser = last[2].data(), q.last_stabiliser = last[3].data();
        q.in_outputs = weights.data();
        q.in_last_hidden = in_last[0].data(), q.in_last_cell = in_last[1].data();
        q.in_last_normaliser = in_last[2].data(), q.in_last_stabiliser = in_last[3].data();
        q.in_filtered = found.gradients[0].data(), q.in_x = found.gradients[1].data();
        q.in_gates = found.gradients[2].data(), q.in_recurrent = found.gradients[3].data();
        q.in_bias = found.gradients[4].data(), q.in_hidden = found.gradients[5].data();
        q.in_cell = found.gradients[6].data(), q.in_normaliser = found.gradients[7].data();
        q.in_stabiliser = found.gradients[8].data();
        std::vector<char> forward(slicekit_slstm_forward_work(&q));
        std::vector<char> backward(slicekit_slstm_backward_work(&q));
        q.work = forward.data(), q.work_bytes = static_cast<int64_t>(forward.size());
        found.status = slicekit_slstm_forward(&q);
        q.work = backward.data(), q.work_bytes = static_cast<int64_t>(backward.size());
        found.status |= slicekit_slstm_backward(&q);
        return found;
      });
}

// Depth 2: the increment of the window, and the area that each pair of channels encloses.
template <class Real>
void try_log_signatures(Trial &trial, std::mt19937 &source) {
  const int64_t d = 5, areas = d * (d - 1) / 2, size = d + areas;
  std::vector<int64_t> places, split_starts = {0}, splits, prefixes, starts = {0}, columns;
  std::vector<double> values(size, 1);
  for (int64_t i = 0; i < d; ++i) {
    places.push_back(1 + i);
    split_starts.push_back(0);
    if (i + 1 < d) prefixes.insert(prefixes.end(), {0, i, i + 1});
  }
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = i + 1; j < d; ++j) {
      places.push_back(1 + d + static_cast<int64_t>(splits.size()) / 2);
      splits.insert(splits.end(), {1 + i, 1 + j});
      split_starts.push_back(static_cast<int64_t>(splits.size()) / 2);
    }
  }
  for (int64_t e = 0; e < size; ++e) {
    columns.push_back(e);
    starts.push_back(e + 1);
  }
  const Arrays<double> leaves = {random_numbers(source, BATCH * LENGTH * d, 1)};
  trial.run<Real>(
      "log-signatures", leaves,
      [=](const Arrays<double> &x) {
        Array<double> found;
        for (int64_t b = 0; b < BATCH; ++b) {
          Array<double> path(d, 0), area(areas, 0);
          for (int64_t t = 0; t < LENGTH; ++t) {
            const double *step = x[0].data() + (b * LENGTH + t) * d;
            for (int64_t i = 0, e = 0; i < d; ++i) {
              for (int64_t j = i + 1; j < d; ++j) {
                area[e++] += (path[i] * step[j] - path[j] * step[i]) / 2;
              }
            }
            for (int64_t i = 0; i < d; ++i) path[i] += step[i];
          }
          found.insert(found.end(), path.begin(), path.end());
          found.insert(found.end(), area.begin(), area.end());
        }
        return found;
      },
      [=](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, unwritten<Real>(weights.size()), like(x)};
        slicekit_log_signatures task{};
        task.sizes = {
            sizeof(Real), BATCH, LENGTH, d, 2, 1, LENGTH, size, areas, d - 1, areas, size, 1};
        task.tables = {places.data(), split_starts.data(), splits.data(), prefixes.data(),
                       starts.data(), columns.data(),      values.data()};
        task.increments = x[0].data(), task.coefficients = found.outputs.data();
        task.in_coefficients = weights.data(), task.in_increments = found.gradients[0].data();
        std::vector<char> work(slicekit_log_signatures_workspace(&task));
        task.work = work.data(), task.work_bytes = static_cast<int64_t>(work.size());
        found.status = slicekit_log_signatures_forward(&task);
        found.status |= slicekit_log_signatures_backward(&task);
        return found;
      });
}

// Leaves: matrices (tokens, n, n) and state.
template <class Real>
void try_table(Trial &trial, std::mt19937 &source, int64_t n, const Variant &variant) {
  const int64_t tokens = 3;
  std::vector<int64_t> index(BATCH * LENGTH);
  for (int64_t &token : index) token = static_cast<int64_t>(source() % tokens);
  const Arrays<double> leaves = {random_numbers(source, tokens * n * n, 0.1),
                                 random_numbers(source, BATCH * n, 1)};
  const Variant full = {variant.name, false, variant.directed, variant.half};
  trial.run<Real>(
      variant.name + std::string("table"), leaves,
      [=](const Arrays<double> &x) {
        return plain_states(full, x[1], n, [&](int64_t b, int64_t t, const Array<double> &h) {
          Array<double> out = h;
          const double *matrix = x[0].data() + index[b * LENGTH + t] * n * n;
          for (int64_t e = 0; e < n * n; ++e) out[e / n] += matrix[e] * h[e % n];
          return out;
        });
      },
      [=](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, {}, like(x)};
        const Array<Real> in_last(BATCH * n, 0);
        slicekit_table q = {};
        q.real = sizeof(Real);
        q.batch = BATCH, q.length = LENGTH, q.dim = n, q.columns = 1, q.vocabulary = tokens, q.threads = 1;
        q.matrices = x[0].data(), q.index = index.data(), q.state = x[1].data();
        q.in_last = in_last.data();
        VariedStates<Real> states(full, weights, q);
        q.in_matrices = found.gradients[0].data(), q.in_state = found.gradients[1].data();
        found.status = both_passes(q, slicekit_table_workspace, slicekit_table_forward,
                                   slicekit_table_backward);
        found.outputs = states.outputs();
        return found;
      },
      variant.bound());
}

// Leaves: increments (tokens, channels) and values.
template <class Real>
void try_sparse_table(Trial &trial, std::mt19937 &source) {
  const int64_t n = 19, tokens = 37;
  std::vector<int64_t> places;
  for (int64_t e = 0; e < CHANNELS * n * n; ++e) {
    if (source() % 5 == 0) places.push_back(e);
  }
  const Arrays<double> leaves = {random_numbers(source, tokens * CHANNELS, 1),
                                 random_numbers(source, places.size(), 1)};
  trial.run<Real>(
      "sparse table", leaves,
      [=](const Arrays<double> &x) {
        Array<double> matrices(tokens * n * n, 0);
        for (int64_t v = 0; v < tokens; ++v) {
          for (size_t k = 0; k < places.size(); ++k) {
            const int64_t channel = places[k] / (n * n), entry = places[k] % (n * n);
            matrices[v * n * n + entry] += x[0][v * CHANNELS + channel] * x[1][k];
          }
        }
        return matrices;
      },
      [=](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, unwritten<Real>(weights.size()), like(x)};
        slicekit_sparse_table q = {};
        q.real = sizeof(Real);
        q.vocabulary = tokens, q.channels = CHANNELS, q.dim = n, q.threads = 1;
        q.kept = static_cast<int64_t>(places.size()), q.places = places.data();
        q.increments = x[0].data(), q.values = x[1].data(), q.matrices = found.outputs.data();
        q.in_matrices = weights.data(), q.in_increments = found.gradients[0].data();
        q.in_values = found.gradients[1].data();
        found.status = both_passes(q, slicekit_sparse_table_workspace, slicekit_sparse_table_forward,
                                   slicekit_sparse_table_backward);
        return found;
      });
}

template <class Real>
void try_tanh(Trial &trial, std::mt19937 &source) {
  trial.run<Real>(
      "tanh", {random_numbers(source, 101, 3)},
      [](const Arrays<double> &x) {
        Array<double> y = x[0];
        for (double &number : y) number = std::tanh(number);
        return y;
      },
      [](const Arrays<Real> &x, const Array<Real> &weights) {
        Found<Real> found{0, unwritten<Real>(weights.size()), Arrays<Real>(1)};
        slicekit_tanh q = {};
        q.real = sizeof(Real), q.batch = static_cast<int64_t>(x[0].size()), q.threads = 1;
        q.x = x[0].data(), q.y = found.outputs.data();
        found.status = slicekit_tanh_work(&q) | slicekit_tanh_forward(&q);
        return found;
      });
}

template <class Real>
void try_all(Trial &trial) {
  std::mt19937 source(1);
  try_panels<Real>(trial, source);
  try_exponential<Real>(trial, source);
  try_given_kinds<Real>(trial, source);
  each_variant<Real>([&](const Variant &variant) {
    try_sparse<Real>(trial, source, variant);
    try_shared_factors<Real>(trial, source, variant);
    for (int64_t n : {16, 19}) try_table<Real>(trial, source, n, variant);
  });
  try_sparse_table<Real>(trial, source);
  try_tanh<Real>(trial, source);
  try_selective<Real>(trial, source);
  try_short_convolution<Real>(trial, source);
  try_slstm<Real>(trial, source);
  try_log_signatures<Real>(trial, source);
}

}  // namespace

int main() {
  int failures = 0;
  for (const char *isa : {"baseline", "avx2", "avx512", "neon"}) {
    if (slicekit_use_isa(isa) != SLICEKIT_OK) continue;
    Trial trial;
    try_all<float>(trial);
    try_all<double>(trial);
    std::printf("%s: %d checks, %d failed\n", isa, trial.count(), trial.failures());
    failures += trial.failures();
  }
  return failures < 100 ? failures : 100;
}
