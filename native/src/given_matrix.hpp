// Products with matrix states (rows, columns): vectors run along a row's columns.
//
// With A of size (rows, rank), X of size (rank, columns) and Y of size (rows, columns) there are
// three: Y = D Y' + A X (update), X = A^T Y (contract) and A = Y X^T (row_dots). A step, its adjoint
// and its gradients are made of them, whatever the kind of transition. ADJOINT takes conjugates of
// D, A and the input's left factor, and runs from the last row to the first (for_packs_backwards
// says why).
#pragma once

#include "given.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace given {

// What a state is made of: diagonal * before + factor inner + input. Null pointers leave terms out.
template <class Number>
struct Terms {
  int64_t rows;
  const Number *diagonal, *before;
  int64_t rank;
  const Number *factor, *inner;
  Input<Number> input;
};

// Packs of columns that a tile keeps in registers.
template <class Number>
constexpr int TILE_PACKS = IS_REAL<Number> ? 4 : 2;

// Rows whose sums over columns are formed together.
constexpr int DOTS = 4;

// Inner sizes from which on two rows share what they load.
constexpr int64_t DEEP = 8;

template <class Number>
struct MatrixState {
  int64_t columns;
  ptrdiff_t row;

  // after = diagonal before + factor inner + input; in place unless inner is a part of before.
  template <bool ADJOINT>
  void update(const Terms<Number> &terms, Number *after) const {
    for_tiles([&](auto tile, int64_t c) {
      update_tile<ADJOINT>(tile, row, from_column(terms, c), after + c);
    });
  }

  // inner = factor^T y, or factor^* y.
  template <bool ADJOINT>
  void contract(int64_t rows, int64_t rank, const Number *factor, const Number *y,
                Number *inner) const {
    for_tiles([&](auto tile, int64_t c) {
      int64_t k = 0;
      for (; k + 2 <= rank; k += 2) {
        sums_of<ADJOINT, 2>(tile, row, rows, rank, factor + k, y + c, inner + k * row + c);
      }
      if (k < rank) {
        sums_of<ADJOINT, 1>(tile, row, rows, rank, factor + k, y + c, inner + k * row + c);
      }
    });
  }

  // dots[i, k] = Σ_c y[i, c] conj(x[k, c]), or with FLIP the conjugate of that.
  template <bool FLIP>
  void row_dots(int64_t rows, int64_t rank, const Number *y, const Number *x, Number *dots) const {
    for (int64_t k = 0; k < rank; ++k) {
      some_dots<FLIP>(rows, y, x + k * row, 0, dots + k, rank, false);
    }
  }

  // The product of the state itself with a vector x, as conj(x) is x for real numbers.
  void times(int64_t rows, const Number *y, const Number *x, Number *product, bool add) const {
    some_dots<false>(rows, y, x, 0, product, 1, add);
  }

  // dots[i] = Σ_c y[i, c] conj(x[i, c]).
  void diagonal_dots(int64_t rows, const Number *y, const Number *x, Number *dots) const {
    some_dots<false>(rows, y, x, row, dots, 1, false);
  }

  // after = BlockDiag(blocks) before + input.
  void block_update(int64_t rows, int64_t b, const Number *blocks, const Number *before,
                    const Input<Number> &input, Number *after) const {
    for (int64_t i = 0; i < rows; i += b, blocks += b * b) {
      const Number *inner = before + i * row;
      update<false>({b, nullptr, nullptr, b, blocks, inner, input.from(i, row)}, after + i * row);
    }
  }

  // earlier = BlockDiag(blocks)^T cotangent, and the gradients of the blocks.
  void block_pull(int64_t rows, int64_t b, const Number *blocks, const Number *before,
                  const Number *cotangent, Number *in_blocks, Number *earlier) const {
    for (int64_t i = 0; i < rows; i += b, blocks += b * b, in_blocks += b * b) {
      const Number *g = cotangent + i * row;
      row_dots<false>(b, b, g, before + i * row, in_blocks);
      contract<false>(b, b, blocks, g, earlier + i * row);
    }
  }

  // y += own, as `update` does it with ADJOINT.
  void add(int64_t rows, const Input<Number> &own, Number *y) const {
    each(rows, [&](auto zero, int64_t i, int64_t c) {
      using V = decltype(zero);
      using L = Lanes<V>;
      V sum = L::load(y + i * row + c);
      if (own.dense) sum += L::load(own.dense + i * row + c);
      if (own.left) sum += L::broadcast(conj<true>(own.left[i])) * L::load(own.right + c);
      L::store(y + i * row + c, sum);
    });
  }

  void copy(int64_t rows, const Number *from, Number *to) const {
    each(rows, [&](auto zero, int64_t i, int64_t c) {
      using L = Lanes<decltype(zero)>;
      L::store(to + i * row + c, L::load(from + i * row + c));
    });
  }

  // Each number by its own factor.
  void divide(int64_t rows, const Number *from, const RealOf<Number> *factors, Number *to) const {
    each(rows, [&](auto zero, int64_t i, int64_t c) {
      using L = Lanes<decltype(zero)>;
      L::store(to + i * row + c, L::load(from + i * row + c) / L::load_real(factors + i * row + c));
    });
  }

 private:
  template <class V, int PACKS>
  struct Tile {};

  // body(tile, c) for tiles that begin at column c and cover all columns.
  template <class Body>
  SLICEKIT_INLINE void for_tiles(Body body) const {
    constexpr int N = TILE_PACKS<Number>;
    constexpr int64_t WIDE = N * Lanes<Pack<Number>>::COUNT;
    int64_t c = 0;
    for (; c + WIDE <= columns; c += WIDE) body(Tile<Pack<Number>, N>{}, c);
    for_packs<Number>(columns - c, [&](auto zero, int64_t more) {
      body(Tile<decltype(zero), 1>{}, c + more);
    });
  }

  // body(zero, i, c) for the packs of each row i that begin at column c.
  template <class Body>
  SLICEKIT_INLINE void each(int64_t rows, Body body) const {
    for (int64_t i = 0; i < rows; ++i) {
      for_packs<Number>(columns, [&](auto zero, int64_t c) { body(zero, i, c); });
    }
  }

  static Terms<Number> from_column(Terms<Number> terms, int64_t c) {
    advance(c, terms.before, terms.inner, terms.input.dense, terms.input.right);
    return terms;
  }

  // By value, so that the compiler knows that nothing it stores changes what it was given.
  template <bool ADJOINT, class T>
  static void update_tile(T tile, ptrdiff_t row, Terms<Number> terms, Number *after) {
    const int64_t pairs = terms.rank >= DEEP ? terms.rows / 2 : 0;
    for (int64_t n = 2 * pairs; n < terms.rows; ++n) {
      const int64_t i = ADJOINT ? terms.rows - 1 - n + 2 * pairs : n;
      rows_of<ADJOINT, 1>(tile, row, terms, i, after + i * row);
    }
    for (int64_t n = 0; n < pairs; ++n) {
      const int64_t i = 2 * (ADJOINT ? pairs - 1 - n : n);
      rows_of<ADJOINT, 2>(tile, row, terms, i, after + i * row);
    }
  }

  template <bool ADJOINT, int ROWS, class V, int PACKS>
  SLICEKIT_INLINE static void rows_of(Tile<V, PACKS>, ptrdiff_t row, const Terms<Number> &terms,
                                      int64_t i, Number *after) {
    using L = Lanes<V>;
    V sums[ROWS][PACKS] = {};
    auto each_sum = [&](auto body) SLICEKIT_INLINE_LAMBDA {
#pragma GCC unroll 2
      for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 4
        for (int p = 0; p < PACKS; ++p) body(sums[r][p], r, p * L::COUNT);
      }
    };
    const Input<Number> &u = terms.input;
    if (u.dense) {
      const Number *dense = u.dense + i * row;
      each_sum([&](V &sum, int r, int c) { sum = L::load(dense + r * row + c); });
    }
    if (u.left) {
      each_sum([&](V &sum, int r, int c) {
        sum += L::broadcast(conj<ADJOINT>(u.left[i + r])) * L::load(u.right + c);
      });
    }
    if (terms.diagonal) {
      const Number *before = terms.before + i * row;
      each_sum([&](V &sum, int r, int c) {
        sum += L::broadcast(conj<ADJOINT>(terms.diagonal[i + r])) * L::load(before + r * row + c);
      });
    }
    const Number *factor = terms.factor + i * terms.rank, *inner = terms.inner;
    for (int64_t k = 0; k < terms.rank; ++k, inner += row) {
      each_sum([&](V &sum, int r, int c) {
        sum += L::broadcast(conj<ADJOINT>(factor[r * terms.rank + k])) * L::load(inner + c);
      });
    }
    each_sum([&](V &sum, int r, int c) { L::store(after + r * row + c, sum); });
  }

  // RANKS rows of factor^T y; even and odd rows apart, so that additions need not wait.
  template <bool ADJOINT, int RANKS, class V, int PACKS>
  SLICEKIT_INLINE static void sums_of(Tile<V, PACKS>, ptrdiff_t row, int64_t rows, int64_t rank,
                                      const Number *factor, const Number *y, Number *inner) {
    using L = Lanes<V>;
    constexpr int STRIDE = RANKS == 1 ? 2 : 1;
    V sums[STRIDE][RANKS][PACKS] = {};
    auto add_row = [&](int64_t i, V(&to)[RANKS][PACKS]) SLICEKIT_INLINE_LAMBDA {
#pragma GCC unroll 4
      for (int p = 0; p < PACKS; ++p) {
        const V x = L::load(y + i * row + p * L::COUNT);
#pragma GCC unroll 2
        for (int k = 0; k < RANKS; ++k) {
          to[k][p] += L::broadcast(conj<ADJOINT>(factor[i * rank + k])) * x;
        }
      }
    };
    const int64_t whole = rows / STRIDE * STRIDE;
    if (whole < rows) add_row(whole, sums[0]);
    for (int64_t n = 0; n < whole; n += STRIDE) {
      const int64_t i = ADJOINT ? whole - STRIDE - n : n;
#pragma GCC unroll 2
      for (int s = 0; s < STRIDE; ++s) add_row(i + s, sums[s]);
    }
#pragma GCC unroll 2
    for (int k = 0; k < RANKS; ++k) {
#pragma GCC unroll 4
      for (int p = 0; p < PACKS; ++p) {
        const V sum = STRIDE == 1 ? sums[0][k][p] : sums[0][k][p] + sums[STRIDE - 1][k][p];
        L::store(inner + k * row + p * L::COUNT, sum);
      }
    }
  }

  // dots[i * stride] = Σ_c y[i, c] conj(x[i * x_row + c]).
  template <bool FLIP>
  SLICEKIT_INLINE void some_dots(int64_t rows, const Number *y, const Number *x, ptrdiff_t x_row,
                                 Number *dots, ptrdiff_t stride, bool add) const {
    int64_t i = 0;
    for (; i + DOTS <= rows; i += DOTS) {
      dot<FLIP, DOTS>(y + i * row, x + i * x_row, x_row, dots + i * stride, stride, add);
    }
    for (; i < rows; ++i) {
      dot<FLIP, 1>(y + i * row, x + i * x_row, x_row, dots + i * stride, stride, add);
    }
  }

  template <bool FLIP, int ROWS>
  SLICEKIT_INLINE void dot(const Number *y, const Number *x, ptrdiff_t x_row, Number *dots,
                           ptrdiff_t stride, bool add) const {
    using L = Lanes<Pack<Number>>;
    Pack<Number> sums[DOTS] = {};
    Number totals[DOTS];
    int64_t c = 0;
    for (; c + L::COUNT <= columns; c += L::COUNT) {
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        sums[r] += L::load(y + r * row + c) * conj<true>(L::load(x + r * x_row + c));
      }
    }
    sum_four<Number>(sums, totals);
    for (; c < columns; ++c) {
      for (int r = 0; r < ROWS; ++r) totals[r] += y[r * row + c] * conj<true>(x[r * x_row + c]);
    }
    for (int r = 0; r < ROWS; ++r) {
      const Number before = add ? dots[r * stride] : Number{};
      dots[r * stride] = before + conj<FLIP>(totals[r]);
    }
  }
};

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
