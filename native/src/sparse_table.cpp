// Sums of sparse matrices for the rows of a table, with the rows of the table (tokens) in lanes.
//
// Places ascend by channel, row and column. A row of all matrices is made at a time, (dim, tokens): the
// entries of one channel in it follow each other and share the increments of that channel.
#include "lanes.hpp"
#include "slicekit_sparse_table.h"
#include "sparse_sums.hpp"
#include "threads.hpp"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse_table {

using sparse::add_product;
using sparse::Lanes;
using sparse::load_lanes;
using sparse::store_lanes;

// Lane groups of tokens side by side: as many as leave registers for the sums.
constexpr int G = VECTORS <= 2 ? 4 : 2;

// Tokens that are worked on together.
template <class Real>
constexpr int64_t STRIP = G * LANES<Real>;

inline int64_t part_count(const slicekit_sparse_table &n) {
  return most<int64_t>(1, least(n.threads, n.dim));
}

template <class Real>
int64_t strips(const slicekit_sparse_table &n) {
  return (n.vocabulary + STRIP<Real> - 1) / STRIP<Real>;
}

// Between (tokens, channels) and (strips, channels, STRIP); lanes beyond the last token are zero.
template <class Real>
void to_strips(const slicekit_sparse_table &n, const Real *rows, Real *lanes) {
  for (int64_t s = 0; s < strips<Real>(n); ++s) {
    for (int64_t i = 0; i < n.channels; ++i) {
      for (int64_t l = 0; l < STRIP<Real>; ++l) {
        const int64_t v = s * STRIP<Real> + l;
        *lanes++ = v < n.vocabulary ? rows[v * n.channels + i] : Real(0);
      }
    }
  }
}

// Calls f(e, tokens, full) for squares of LANES columns from e and lane groups of a strip's tokens.
template <class Real, class F>
SLICEKIT_INLINE void each_square(int64_t dim, int64_t tokens, F f) {
  constexpr int64_t N = LANES<Real>;
  for (int64_t c = 0; c < dim; c += N) {
    for (int64_t l = 0; l < tokens; l += N) f(c, l, c + N <= dim && l + N <= tokens);
  }
}

// What a thread works with: some rows of the matrices, one after the other.
template <class Real>
class Rows {
 public:
  static constexpr int64_t S = STRIP<Real>;

  Rows(Workspace &space, const slicekit_sparse_table &problem) : n_(problem) {
    begins_ = space.take<int64_t>(n_.channels);
    ends_ = space.take<int64_t>(n_.channels);
    entries_ = space.take<Real>(round_up(n_.dim, LANES<Real>) * S);
    in_increments_ = space.take<Real>(strips<Real>(n_) * n_.channels * S);
  }

  void make(const Real *increments, int64_t first, int64_t stop) {
    const Real *values = static_cast<const Real *>(n_.values);
    open(first);
    for (int64_t r = first; r < stop; ++r) {
      next_row(r);
      for (int64_t s = 0; s < strips<Real>(n_); ++s) {
        for (int64_t e = 0; e < n_.dim * S; ++e) entries_[e] = 0;
        each_channel(r, [&](int64_t i, const int64_t *place, const int64_t *end, int64_t origin) {
          const Lanes<G, Real> x = load_lanes<G>(increments + (s * n_.channels + i) * S, L);
          const Real *value = values + (place - n_.places);
          for (; place < end; ++place, ++value) {
            Real *entry = entries_ + (*place - origin) * S;
            Lanes<G, Real> sum = load_lanes<G>(entry, L);
            add_scaled(sum, *value, x);
            store_lanes(entry, L, sum);
          }
        });
        write(r, s);
      }
    }
  }

  void pull(const Real *increments, int64_t first, int64_t stop) {
    const Real *values = static_cast<const Real *>(n_.values);
    Real *in_values = static_cast<Real *>(n_.in_values);
    for (int64_t e = 0; e < strips<Real>(n_) * n_.channels * S; ++e) in_increments_[e] = 0;
    open(first);
    for (int64_t r = first; r < stop; ++r) {
      next_row(r);
      for (int64_t s = 0; s < strips<Real>(n_); ++s) {
        read(r, s);
        each_channel(r, [&](int64_t i, const int64_t *place, const int64_t *end, int64_t origin) {
          const int64_t at = (s * n_.channels + i) * S;
          const Lanes<G, Real> x = load_lanes<G>(increments + at, L);
          Lanes<G, Real> in_x = load_lanes<G>(in_increments_ + at, L);
          const Real *value = values + (place - n_.places);
          Real *in_value = in_values + (place - n_.places);
          for (; place < end; ++place, ++value, ++in_value) {
            const Lanes<G, Real> g = load_lanes<G>(entries_ + (*place - origin) * S, L);
            add_scaled(in_x, *value, g);
            Lanes<G, Real> product{};
            add_product(product, x, g);
            const Real total = sum(added<Real>(product.x));
            *in_value = s ? *in_value + total : total;
          }
          store_lanes(in_increments_ + at, L, in_x);
        });
      }
    }
  }

  const Real *in_increments() const { return in_increments_; }

 private:
  static constexpr int64_t L = LANES<Real>;

  static SLICEKIT_INLINE void add_scaled(Lanes<G, Real> &to, Real factor, const Lanes<G, Real> &x) {
    const Vector<Real> f = broadcast(factor);
#pragma GCC unroll 12
    for (int v = 0; v < VECTORS * G; ++v) to.x[v] += f * x.x[v];
  }

  // Finds where each channel's entries of row `first` begin.
  void open(int64_t first) {
    int64_t k = 0;
    for (int64_t i = 0; i < n_.channels; ++i) {
      const int64_t origin = (i * n_.dim + first) * n_.dim;
      int64_t above = n_.kept;
      while (k < above) {
        const int64_t middle = (k + above) / 2;
        if (n_.places[middle] < origin) {
          k = middle + 1;
        } else {
          above = middle;
        }
      }
      ends_[i] = k;
    }
  }

  // Places that are looked at together.
  static constexpr int64_t AT_ONCE = 16;

  // Moves every channel on to its entries of row r, and asks for those of the next.
  void next_row(int64_t r) {
    for (int64_t i = 0; i < n_.channels; ++i) {
      const int64_t k = begins_[i] = ends_[i];
      const int64_t count = count_below(k, (i * n_.dim + r + 1) * n_.dim);
      ends_[i] = k + count;
      ask_for(n_.places + k + count, AT_ONCE);
      ask_for(static_cast<const Real *>(n_.values) + k + count, AT_ONCE);
    }
  }

  // How many places from the k-th on are below `stop`: there are few, and without a branch by which to
  // guess where they end.
  int64_t count_below(int64_t k, int64_t stop) const {
    const int64_t first = k;
    for (; k + AT_ONCE <= n_.kept; k += AT_ONCE) {
      int64_t below = 0;
#pragma GCC unroll 4
      for (int64_t half = AT_ONCE / 2; half; half /= 2) {
        below += half * (n_.places[k + below + half - 1] < stop);
      }
      below += n_.places[k + below] < stop;
      if (below < AT_ONCE) return k + below - first;
    }
    while (k < n_.kept && n_.places[k] < stop) ++k;
    return k - first;
  }

  // Calls f(channel, its first place in row r, beyond its last, the place of column 0).
  template <class F>
  SLICEKIT_INLINE void each_channel(int64_t r, F f) {
    for (int64_t i = 0; i < n_.channels; ++i) {
      f(i, n_.places + begins_[i], n_.places + ends_[i], (i * n_.dim + r) * n_.dim);
    }
  }

  // Row r of a strip's matrices, from or to its entries (dim, STRIP).
  void write(int64_t r, int64_t s) {
    const int64_t apart = n_.dim * n_.dim, tokens = least(S, n_.vocabulary - s * S);
    Real *row = static_cast<Real *>(n_.matrices) + s * S * apart + r * n_.dim;
    each_square<Real>(n_.dim, tokens, [&](int64_t c, int64_t l, bool full) {
      if (full) return transpose_square<Real>(entries_ + c * S + l, S, row + l * apart + c, apart);
      Real square[L * L];
      transpose_square<Real>(entries_ + c * S + l, S, square, L);
      for (int64_t v = l; v < least(l + L, tokens); ++v) {
        copy(square + (v - l) * L, least(L, n_.dim - c), row + v * apart + c);
      }
    });
  }

  void read(int64_t r, int64_t s) {
    const int64_t apart = n_.dim * n_.dim, tokens = least(S, n_.vocabulary - s * S);
    const Real *row = static_cast<const Real *>(n_.in_matrices) + s * S * apart + r * n_.dim;
    each_square<Real>(n_.dim, S, [&](int64_t c, int64_t l, bool) {
      if (c + L <= n_.dim && l + L <= tokens) {
        return transpose_square<Real>(row + l * apart + c, apart, entries_ + c * S + l, S);
      }
      Real square[L * L] = {};
      for (int64_t v = l; v < least(l + L, tokens); ++v) {
        copy(row + v * apart + c, least(L, n_.dim - c), square + (v - l) * L);
      }
      transpose_square<Real>(square, L, entries_ + c * S + l, S);
    });
  }

  static SLICEKIT_INLINE void copy(const Real *from, int64_t count, Real *to) {
    if (count == L) return (void)__builtin_memcpy(to, from, L * sizeof(Real));
    for (int64_t e = 0; e < count; ++e) to[e] = from[e];
  }

  const slicekit_sparse_table &n_;
  int64_t *begins_, *ends_;
  Real *entries_, *in_increments_;
};

// The increments in lanes, then a piece of work space for each part.
template <class Real>
struct Space {
  Space(Workspace &space, const slicekit_sparse_table &problem) : n(problem) {
    increments = space.take<Real>(strips<Real>(n) * n.channels * STRIP<Real>);
    Workspace one(nullptr);
    Rows<Real>(one, n);
    bytes = one.needed();
    memory = space.take<char>(part_count(n) * bytes);
  }

  Rows<Real> of(int64_t part) const {
    Workspace own(memory + part * bytes);
    return Rows<Real>(own, n);
  }

  const slicekit_sparse_table &n;
  Real *increments;
  int64_t bytes;
  char *memory;
};

template <class Real>
int64_t workspace(const slicekit_sparse_table &n) {
  Workspace space(nullptr);
  Space<Real>(space, n);
  return space.needed();
}

template <class Real>
void run(const slicekit_sparse_table &n, bool backward) {
  Workspace memory(n.workspace);
  const Space<Real> space(memory, n);
  to_strips(n, static_cast<const Real *>(n.increments), space.increments);
  const int64_t parts = part_count(n);
  each_part(parts, n.threads, [&](int64_t part, int64_t) {
    Rows<Real> rows = space.of(part);
    const int64_t first = n.dim * part / parts, stop = n.dim * (part + 1) / parts;
    backward ? rows.pull(space.increments, first, stop) : rows.make(space.increments, first, stop);
  });
  if (!backward) return;
  Real *in_increments = static_cast<Real *>(n.in_increments);
  for (int64_t v = 0; v < n.vocabulary; ++v) {
    const int64_t s = v / STRIP<Real>, l = v % STRIP<Real>;
    for (int64_t i = 0; i < n.channels; ++i) {
      Real total = 0;
      for (int64_t part = 0; part < parts; ++part) {
        total += space.of(part).in_increments()[(s * n.channels + i) * STRIP<Real> + l];
      }
      in_increments[v * n.channels + i] = total;
    }
  }
}

}  // namespace sparse_table

int64_t sparse_table_workspace(const slicekit_sparse_table &problem) {
  return problem.real == 4 ? sparse_table::workspace<float>(problem)
                           : sparse_table::workspace<double>(problem);
}

void sparse_table_run(const slicekit_sparse_table &problem, bool backward) {
  problem.real == 4 ? sparse_table::run<float>(problem, backward)
                    : sparse_table::run<double>(problem, backward);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
