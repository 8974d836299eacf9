// The products of given_matrix.hpp for vector states, columns = 1: vectors run along the rows.
//
// Complex transitions are diagonal, so that only real numbers meet a rank above one.
#pragma once

#include "given_thin.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace given {

template <class Number>
struct VectorState {
  // One column; as MatrixState is made.
  int64_t columns;
  ptrdiff_t row;

  template <bool ADJOINT>
  void update(const Terms<Number> &terms, Number *after) const {
    const bool elementwise = terms.diagonal || terms.input.dense || terms.input.left;
    if (elementwise || terms.rank <= 1) rows_of<ADJOINT>(terms, after);
    if (terms.rank == 1) add_multiple(terms.rows, terms.factor, terms.inner[0], after);
    if constexpr (IS_REAL<Number>) {
      if (terms.rank > 1) {
        with_width<Number>(terms.rank, [&](auto products) {
          products.act(terms.rows, terms.factor, terms.inner, after, elementwise);
        });
      }
    }
  }

  template <bool ADJOINT>
  void contract(int64_t rows, int64_t rank, const Number *factor, const Number *y,
                Number *inner) const {
    if (rank == 1) inner[0] = dot<ADJOINT>(rows, factor, y);
    if constexpr (IS_REAL<Number>) {
      if (rank > 1) {
        with_width<Number>(rank, [&](auto products) {
          products.template adjoint<ADJOINT>(rows, factor, y, inner);
        });
      }
    }
  }

  template <bool FLIP>
  void row_dots(int64_t rows, int64_t rank, const Number *y, const Number *x, Number *dots) const {
    if constexpr (IS_REAL<Number>) {
      if (rank > 1) {
        return with_width<Number>(rank, [&](auto products) { products.outer(rows, y, x, dots); });
      }
    }
    for_packs_backwards<Number>(rows, [&](auto zero, int64_t i) {
      using L = Lanes<decltype(zero)>;
      L::store(dots + i, conj<FLIP>(L::load(y + i)) * L::broadcast(conj<!FLIP>(x[0])));
    });
  }

  void diagonal_dots(int64_t rows, const Number *y, const Number *x, Number *dots) const {
    for_packs_backwards<Number>(rows, [&](auto zero, int64_t i) {
      using L = Lanes<decltype(zero)>;
      L::store(dots + i, L::load(y + i) * conj<true>(L::load(x + i)));
    });
  }

  void block_update(int64_t rows, int64_t b, const Number *blocks, const Number *before,
                    const Input<Number> &input, Number *after) const {
    const bool driven = input.dense || input.left;
    if (driven) rows_of<false>({rows, nullptr, nullptr, 0, nullptr, nullptr, input}, after);
    with_width<Number>(b, [=](auto products) {
      const int64_t n = products.width;
      for (int64_t i = 0; i < rows; i += n) {
        products.act(n, blocks + i * n, before + i, after + i, driven);
      }
    });
  }

  void block_pull(int64_t rows, int64_t b, const Number *blocks, const Number *before,
                  const Number *cotangent, Number *in_blocks, Number *earlier) const {
    with_width<Number>(b, [=](auto products) {
      const int64_t n = products.width;
      for (int64_t i = rows - n; i >= 0; i -= n) {
        products.outer(n, cotangent + i, before + i, in_blocks + i * n);
        products.template adjoint<true>(n, blocks + i * n, cotangent + i, earlier + i);
      }
    });
  }

  void add(int64_t rows, const Input<Number> &own, Number *y) const {
    const Number one = own.left ? own.right[0] : Number{};
    for_packs<Number>(rows, [&](auto zero, int64_t i) {
      using V = decltype(zero);
      using L = Lanes<V>;
      V sum = L::load(y + i);
      if (own.dense) sum += L::load(own.dense + i);
      if (own.left) sum += conj<true>(L::load(own.left + i)) * L::broadcast(one);
      L::store(y + i, sum);
    });
  }

  void copy(int64_t rows, const Number *from, Number *to) const {
    for_packs<Number>(rows, [&](auto zero, int64_t i) {
      using L = Lanes<decltype(zero)>;
      L::store(to + i, L::load(from + i));
    });
  }

  void divide(int64_t rows, const Number *from, const RealOf<Number> *factors, Number *to) const {
    for_packs<Number>(rows, [&](auto zero, int64_t i) {
      using L = Lanes<decltype(zero)>;
      L::store(to + i, L::load(from + i) / L::load_real(factors + i));
    });
  }

 private:
  template <bool ADJOINT>
  SLICEKIT_INLINE static void rows_of(const Terms<Number> &terms, Number *after) {
    const Input<Number> &u = terms.input;
    auto body = [&](auto zero, int64_t i) {
      using V = decltype(zero);
      using L = Lanes<V>;
      V sum = u.dense ? L::load(u.dense + i) : V{};
      if (u.left) sum += conj<ADJOINT>(L::load(u.left + i)) * L::broadcast(u.right[0]);
      if (terms.diagonal) {
        sum += conj<ADJOINT>(L::load(terms.diagonal + i)) * L::load(terms.before + i);
      }
      L::store(after + i, sum);
    };
    if (ADJOINT) return for_packs_backwards<Number>(terms.rows, body);
    for_packs<Number>(terms.rows, body);
  }

  SLICEKIT_INLINE static void add_multiple(int64_t rows, const Number *x, Number factor,
                                           Number *y) {
    for_packs<Number>(rows, [&](auto zero, int64_t i) {
      using L = Lanes<decltype(zero)>;
      L::store(y + i, L::load(y + i) + L::load(x + i) * L::broadcast(factor));
    });
  }

  // Σ_i x_i y_i, or Σ_i conj(x_i) y_i.
  template <bool ADJOINT>
  SLICEKIT_INLINE static Number dot(int64_t count, const Number *x, const Number *y) {
    using L = Lanes<Pack<Number>>;
    Pack<Number> sums[2] = {};
    int64_t i = 0;
    for (; i + 2 * L::COUNT <= count; i += 2 * L::COUNT) {
#pragma GCC unroll 2
      for (int p = 0; p < 2; ++p) {
        const int64_t at = i + p * L::COUNT;
        sums[p] += conj<ADJOINT>(L::load(x + at)) * L::load(y + at);
      }
    }
    Number total = L::sum(sums[0] + sums[1]);
    for (; i < count; ++i) total += conj<ADJOINT>(x[i]) * y[i];
    return total;
  }
};

}  // namespace given
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
