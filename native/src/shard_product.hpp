// The product of all transitions of a sequence: P = M_L ... M_1, block by block, and nothing else.
//
// It starts as the identity, and every step is applied to all its columns at once. Blocks that fit a
// vector stay in registers over the steps of a chunk. A column of a block is divided by a power of
// two before every `rescale`-th step, which is counted; rotated columns have norm one instead, and
// get it back after every `restore`-th step.
#pragma once

#include "normal_exp.hpp"
#include "panels.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

template <class Real>
using Powers = typename Format<Real>::Bits;

// The sum of a number, or the largest, over all lanes of each block of W.
template <int W, bool LARGEST, int D, class Real>
SLICEKIT_INLINE Vector<Real> over_blocks(Vector<Real> x) {
  if constexpr (D == W) {
    return x;
  } else {
    const Vector<Real> other = shuffle<Crossed<D>>(x, x);
    return over_blocks<W, LARGEST, 2 * D, Real>(LARGEST ? larger<Real>(x, other) : x + other);
  }
}

// Divides every block by the power of two below its largest modulus, which is added to `powers`.
template <int W, class Real>
SLICEKIT_INLINE void divide_blocks(Vector<Real> &x, Powers<Real> &powers) {
  using F = Format<Real>;
  using Bits = Powers<Real>;
  using Number = typename Scales<Real>::Integer;
  constexpr Number EXPONENT = Number(Scales<Real>::EXPONENT), MOST = Number(2 * F::BIAS - 1);
  const Vector<Real> size = over_blocks<W, true, 1, Real>(x < 0 ? -x : x);
  Bits bits;
  memcpy(&bits, &size, sizeof bits);
  bits = (bits & EXPONENT) >> F::FRACTION_BITS;
  bits = bits == 0 ? Bits{} + F::BIAS : bits;  // zero stays zero
  bits = bits > MOST ? Bits{} + MOST : bits;   // so that its inverse is a normal number
  powers += bits - F::BIAS;
  bits = (2 * F::BIAS - bits) << F::FRACTION_BITS;
  Vector<Real> inverse;
  memcpy(&inverse, &bits, sizeof bits);
  x *= inverse;
}

// Gives every block its norm of one back, where that is possible.
template <int W, class Real>
SLICEKIT_INLINE void restore_blocks(Vector<Real> &x) {
  const Vector<Real> ratio = Real(1) / over_blocks<W, false, 1, Real>(x * x);
  // As in restore_norms.
  const Vector<Real> guess = (1 + ratio) / 2, root = (guess + ratio / guess) / 2;
  const Vector<Real> near = ratio < Real(2) ? root : broadcast<Real>(1);
  x *= ratio > Real(0.5) ? near : broadcast<Real>(1);
}

// One sequence of a pass, on one layout.
template <class Real>
struct ShardProduct {
  using Integer = typename Scales<Real>::Integer;

  const slicekit_panels &q;
  const Layout &layout;
  const Scratch<Real> &scratch;
  int64_t b;

  static int64_t columns_of(const Part &part) { return part.is_blocks() ? part.size : part.dim; }

  Real *column(int64_t c) const { return scratch.product + c * layout.padded; }
  Integer *power(int64_t c) const { return scratch.powers + c * layout.padded; }
  Real *driven(int64_t c) const { return scratch.driven + c * layout.padded; }

  void start() const {
    for (int64_t i = 0; i < product_columns(q) * layout.padded; ++i) {
      scratch.product[i] = 0;
      scratch.powers[i] = 0;
    }
    for (int64_t i = 0; q.inputs && i < q.columns * layout.padded; ++i) scratch.driven[i] = 0;
    each_row([&](int64_t, int64_t row, int64_t place) { column(row)[place] = 1; });
  }

  // Calls f(row of the layout, row of its block or part, place in the padded state).
  template <class F>
  void each_row(F &&f) const {
    for (int64_t p = 0; p < layout.parts; ++p) {
      const Part &part = layout.part[p];
      for (int64_t i = 0; i < part.dim; ++i) {
        const int64_t row = part.state_at - layout.state_at + i;
        f(row, i % columns_of(part), layout.place[row]);
      }
    }
  }

  // Steps first, ..., first + count - 1; transition(t) is the row of the panels for step t.
  template <class F>
  void run(int64_t first, int64_t count, ptrdiff_t panel, F &&transition) const {
    for (int64_t p = 0; p < layout.parts; ++p) {
      const Part &part = layout.part[p];
      if (part.is_blocks() && part.width <= WIDTH<Real>) {
        with_width<Real>(part, [&](auto width, int size) {
          if constexpr (decltype(width)::value <= WIDTH<Real>) {
            run_blocks<decltype(width)::value>(part, size, first, count, panel, transition);
          }
        });
      } else {
        run_part(part, first, count, panel, transition);
      }
    }
    for (int64_t c = 0; q.inputs && c < q.columns; ++c) drive(c, first, count, panel, transition);
  }

  template <int W, class F>
  SLICEKIT_INLINE void run_blocks(const Part &part, int size, int64_t first, int64_t count,
                                  ptrdiff_t panel, F &&transition) const {
    for (int64_t group = 0; group < part.padded / LANES<Real>; ++group) {
      int c = 0;
      for (; c + 4 <= size; c += 4) {
        run_columns<W, 4>(part, size, group, c, first, count, panel, transition);
      }
      for (; c < size; ++c) {
        run_columns<W, 1>(part, size, group, c, first, count, panel, transition);
      }
    }
  }

  // C columns of the blocks of a lane group, from column c on.
  template <int W, int C, class F>
  SLICEKIT_INLINE void run_columns(const Part &part, int size, int64_t group, int c, int64_t first,
                                   int64_t count, ptrdiff_t panel, F &&transition) const {
    const bool rotates = part.kind == SLICEKIT_SKEW;
    const int64_t at = part.padded_at + group * LANES<Real>;
    const int64_t own = (part.panels_at + group * size) * panel;
    unrolled<VECTORS>([&](auto vector) {
      constexpr int AT = decltype(vector)::value * WIDTH<Real>;
      Vector<Real> x[C];
      Powers<Real> powers[C];
      for (int i = 0; i < C; ++i) {
        x[i] = load(column(c + i) + at + AT);
        memcpy(&powers[i], power(c + i) + at + AT, sizeof powers[i]);
      }
      for (int64_t t = first; t < first + count; ++t) {
        if (!rotates && divides_before(t, q.rescale)) {
          for (int i = 0; i < C; ++i) divide_blocks<W, Real>(x[i], powers[i]);
        }
        const Real *m = transition(t) + own + AT;
        Vector<Real> total[C][2];
        for (int i = 0; i < C; ++i) total[i][0] = x[i], total[i][1] = zero<Real>();
        unrolled<W>([&](auto index) {
          constexpr int j = decltype(index)::value;
          if (j >= size) return;
          const Vector<Real> from = load(m + j * panel);
          for (int i = 0; i < C; ++i) total[i][j % 2] += from * shuffle<Spread<W, j>>(x[i], x[i]);
        });
        for (int i = 0; i < C; ++i) x[i] = total[i][0] + total[i][1];
        if (rotates && q.restore && (t + 1) % q.restore == 0) {
          for (int i = 0; i < C; ++i) restore_blocks<W, Real>(x[i]);
        }
      }
      for (int i = 0; i < C; ++i) {
        store(column(c + i) + at + AT, x[i]);
        memcpy(power(c + i) + at + AT, &powers[i], sizeof powers[i]);
      }
    });
  }

  // Any part, column by column.
  template <class F>
  void run_part(const Part &part, int64_t first, int64_t count, ptrdiff_t panel,
                F &&transition) const {
    const int64_t columns = columns_of(part), at = part.padded_at;
    for (int64_t t = first; t < first + count; ++t) {
      const Real *m = transition(t) + part.panels_at * panel;
      for (int64_t c = 0; c < columns; ++c) {
        Real *own = column(c) + at;
        if (part.kind != SLICEKIT_SKEW && divides_before(t, q.rescale)) divide_column(part, c);
        step_part(part, m, panel, own, scratch.moved + at);
        __builtin_memcpy(own, scratch.moved + at, part.padded * sizeof(Real));
        if (part.kind == SLICEKIT_SKEW && q.restore && (t + 1) % q.restore == 0) {
          restore_column(part, own);
        }
      }
    }
  }

  // Rows of a part that mix.
  static int64_t group_of(const Part &part) { return part.is_blocks() ? part.width : part.padded; }

  void divide_column(const Part &part, int64_t c) const {
    const int64_t group = group_of(part);
    for (int64_t i = part.padded_at; i < part.padded_at + part.padded; i += group) {
      Real *numbers = column(c) + i;
      power_of_group(numbers, group, scratch.factors + i);
      const Integer exponent = exponent_of(scratch.factors[i]);
      for (int64_t r = 0; r < group; ++r) {
        numbers[r] /= scratch.factors[i];
        power(c)[i + r] += exponent;
      }
    }
  }

  void restore_column(const Part &part, Real *own) const {
    for (int64_t k = 0; k < part.blocks; ++k) {
      const Real one = 1;
      restore_block(own + k * part.width, part.size, one);
    }
  }

  // A state that starts from zero, with the inputs.
  template <class F>
  void drive(int64_t c, int64_t first, int64_t count, ptrdiff_t panel, F &&transition) const {
    const StateView<Real> view = {layout, q.columns, c};
    const Real *inputs = static_cast<const Real *>(q.inputs);
    for (int64_t t = first; t < first + count; ++t) {
      step(layout, transition(t), panel, driven(c), scratch.moved);
      view.add(inputs + (b * q.length + t) * q.dim * q.columns, scratch.moved);
      __builtin_memcpy(driven(c), scratch.moved, layout.padded * sizeof(Real));
    }
  }

  // Columns with their largest numbers near one, and what they were divided by.
  void write() const {
    const int64_t width = product_columns(q);
    for (int64_t p = 0; q.rescale && p < layout.parts; ++p) {
      for (int64_t c = 0; c < columns_of(layout.part[p]); ++c) divide_column(layout.part[p], c);
    }
    each_row([&](int64_t row, int64_t, int64_t place) {
      const int64_t at = (b * q.dim + layout.state_at + row) * width;
      for (int64_t c = 0; c < width; ++c) {
        static_cast<Real *>(q.product)[at + c] = column(c)[place];
        q.powers[at + c] = power(c)[place];
      }
    });
    for (int64_t c = 0; q.inputs && c < q.columns; ++c) {
      const StateView<Real> view = {layout, q.columns, c};
      view.write(driven(c), static_cast<Real *>(q.driven) + b * q.dim * q.columns);
    }
  }
};

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
