// Steps of one sequence through all parts, on padded states.
#pragma once

#include "block_step.hpp"
#include "hadamard_step.hpp"
#include "low_rank_step.hpp"
#include "scales.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// out = h + F h of one part; m is the row of its panels that holds F. What is read soon, if there is
// anything, is asked for: by the Walsh-Hadamard transform, whose states are large, on its way.
template <class Real>
SLICEKIT_INLINE void step_part(const Part &part, const Real *m, ptrdiff_t panel, const Real *h,
                               Real *out, const Real *soon = nullptr) {
  if (part.kind == SLICEKIT_HADAMARD) return step_hadamard(part, m, panel, h, out, soon ? soon : h);
  if (soon) ask_for(soon, part.dim);
  if (part.is_blocks()) {
    step_blocks(part, m, panel, h, out);
  } else {
    step_low_rank(part, m, panel, h, out);
  }
}

// The same of all parts.
template <class Real>
SLICEKIT_INLINE void step(const Layout &layout, const Real *m, ptrdiff_t panel, const Real *h,
                          Real *out, const Real *soon = nullptr) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    const int64_t at = part.padded_at;
    step_part(part, m + part.panels_at * panel, panel, h + at, out + at, soon ? soon + part.state_at : soon);
  }
}

// next = add + g + F^T g, and in_m (+)= the gradient of F. What is read soon is asked for, as above.
template <Taken TAKEN, class Real>
SLICEKIT_INLINE void adjoint_step(const Layout &layout, const Real *m, ptrdiff_t panel, Real *in_m,
                                  ptrdiff_t in_panel, const Real *g, const Real *h, const Real *add,
                                  Real *next, Real *scratch, const Real *soon, const Real *soon_too) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    const Real *own = m + part.panels_at * panel;
    Real *in_own = in_m + part.panels_at * in_panel;
    const int64_t at = part.padded_at;
    const Real *first = soon ? soon + part.state_at : nullptr;
    const Real *second = soon_too ? soon_too + part.state_at : nullptr;
    if (part.kind == SLICEKIT_HADAMARD) {
      adjoint_hadamard<TAKEN>(part, own, in_own, panel, in_panel, g + at, h + at, add + at, next + at,
                              scratch, first ? first : g + at, second ? second : g + at);
      continue;
    }
    if (first) ask_for(first, part.dim);
    if (second) ask_for(second, part.dim);
    if (part.is_blocks()) {
      adjoint_blocks<TAKEN>(part, own, in_own, panel, in_panel, g + at, h + at, add + at, next + at);
    } else {
      adjoint_low_rank<TAKEN>(part, own, in_own, panel, in_panel, g + at, h + at, add + at, next + at);
    }
  }
}

// Between states (dim, columns) of a whole problem and the padded state of one layout and column.
template <class Real>
struct StateView {
  const Layout &layout;
  int64_t columns, column;

  ptrdiff_t first() const { return layout.state_at * columns + column; }

  void read(const Real *from, Real *padded) const {
    from += first();
    if (in_runs()) {
      return each_run([&](int64_t at, int64_t place, int64_t count) {
        __builtin_memcpy(padded + place, from + at, count * sizeof(Real));
      });
    }
    for (int64_t i = 0; i < layout.dim; ++i) padded[layout.place[i]] = from[i * columns];
  }
  void add(const Real *from, Real *padded) const {
    from += first();
    for (int64_t i = 0; i < layout.dim; ++i) padded[layout.place[i]] += from[i * columns];
  }
  void write(const Real *padded, Real *to) const {
    to += first();
    if (in_runs()) {
      return each_run([&](int64_t at, int64_t place, int64_t count) {
        __builtin_memcpy(to + at, padded + place, count * sizeof(Real));
      });
    }
    for (int64_t i = 0; i < layout.dim; ++i) to[i * columns] = padded[layout.place[i]];
  }

 private:
  bool in_runs() const { return layout.together && columns == 1; }

  // Calls f(at, place, count) for the numbers of each part.
  template <class F>
  void each_run(F f) const {
    for (int64_t p = 0; p < layout.parts; ++p) {
      const Part &part = layout.part[p];
      f(part.state_at - layout.state_at, part.padded_at, part.dim);
    }
  }
};

// The power of two below the largest modulus of some numbers, for each of them.
template <class Real>
SLICEKIT_INLINE void power_of_group(const Real *numbers, int64_t count, Real *powers) {
  Real largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Real modulus = numbers[i] < 0 ? -numbers[i] : numbers[i];
    largest = modulus > largest ? modulus : largest;
  }
  largest = power_of_two(largest);
  for (int64_t i = 0; i < count; ++i) powers[i] = largest;
}

// What a padded state is divided by: blocks apart from each other, and other parts as a whole.
template <class Real>
inline void powers_of_groups(const Layout &layout, const Real *padded, Real *powers) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    const int64_t at = part.padded_at;
    const int64_t group = part.is_blocks() ? part.width : part.padded;
    if (group == 1) {
      for (int64_t i = at; i < at + part.padded; ++i) {
        powers[i] = power_of_two(padded[i] < 0 ? -padded[i] : padded[i]);
      }
      continue;
    }
    for (int64_t i = at; i < at + part.padded; i += group) {
      power_of_group(padded + i, group, powers + i);
    }
  }
}

// Squared norms of the blocks of every rotated part, in their order.
template <class Real>
inline void rotated_norms(const Layout &layout, const Real *padded, Real *norms) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    if (part.kind != SLICEKIT_SKEW) continue;
    for (int64_t k = 0; k < part.blocks; ++k) {
      const Real *block = padded + part.padded_at + k * part.width;
      Real total = 0;
      for (int64_t i = 0; i < part.size; ++i) total += block[i] * block[i];
      *norms++ = total;
    }
  }
}

// After a division of the padded state by `factors`.
template <class Real>
inline void divide_norms(const Layout &layout, const Real *factors, Real *norms) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    if (part.kind != SLICEKIT_SKEW) continue;
    for (int64_t k = 0; k < part.blocks; ++k, ++norms) {
      const Real factor = factors[part.padded_at + k * part.width];
      *norms = *norms / factor / factor;
    }
  }
}

// Gives a block its squared norm back, where that is possible.
template <class Real>
SLICEKIT_INLINE void restore_block(Real *block, int64_t size, Real norm) {
  Real now = 0;
  for (int64_t i = 0; i < size; ++i) now += block[i] * block[i];
  const Real ratio = norm / now;
  if (!(ratio > Real(0.5) && ratio < Real(2))) return;
  // The ratio is close to one, so one step of Newton's method from one is its square root.
  const Real guess = (1 + ratio) / 2, root = (guess + ratio / guess) / 2;
  for (int64_t i = 0; i < size; ++i) block[i] *= root;
}

// The same of every rotated block.
template <class Real>
inline void restore_norms(const Layout &layout, Real *padded, const Real *norms) {
  for (int64_t p = 0; p < layout.parts; ++p) {
    const Part &part = layout.part[p];
    if (part.kind != SLICEKIT_SKEW) continue;
    for (int64_t k = 0; k < part.blocks; ++k) {
      restore_block(padded + part.padded_at + k * part.width, part.size, *norms++);
    }
  }
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
