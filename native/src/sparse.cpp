// Sparse recurrence: which kernel takes which sequences, and the sum of the threads' gradients.
#include "sparse_narrow.hpp"
#include "sparse_wide.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace sparse {

// A(Δω) of a chunk of steps has ROW dim² numbers; beyond this they would leave any cache.
constexpr int64_t LARGEST_NARROW_DIM = 256;

constexpr Parts BY_ROW{CHANNEL, ROW_INDEX, COLUMN};
constexpr Parts BY_COLUMN{CHANNEL, COLUMN, ROW_INDEX};
constexpr Parts ELEMENTS{ROW_INDEX, COLUMN, CHANNEL};
constexpr Parts TRANSPOSED_ELEMENTS{COLUMN, ROW_INDEX, CHANNEL};

// Whether steps should be in lanes rather than sequences: compares lanes in all, idle ones too.
// Forming A(Δω) and reading it back costs about half as much again.
template <class Real>
bool is_narrow(const slicekit_sparse &n) {
  const int64_t narrow = n.batch * round_up(n.length, LANES<Real>);
  const int64_t wide = n.length * round_up(n.batch, LANES<Real>);
  return n.dim <= LARGEST_NARROW_DIM && 3 * narrow < 2 * wide;
}

template <class Real>
int64_t lane_groups(const slicekit_sparse &n) {
  return round_up(n.batch, LANES<Real>) / LANES<Real>;
}

// The batch is divided among threads by sequences, or by whole lane groups of them. The division
// depends on nothing but the sizes, and so do the sums' orders.
template <class Real>
int64_t part_count(const slicekit_sparse &n) {
  const int64_t units = is_narrow<Real>(n) ? n.batch : lane_groups<Real>(n);
  return most<int64_t>(1, least(n.threads, units));
}

// Work space of a pass: what `Shared` takes once, and a kernel's for each part.
template <class Real, class Shared, class Narrow, class Wide>
struct Space {
  Space(Workspace &space, const slicekit_sparse &n)
      : parts(part_count<Real>(n)), shared(space, n, parts) {
    Workspace one(nullptr);
    is_narrow<Real>(n) ? (void)Narrow(one, n) : (void)Wide(one, n);
    part_bytes = one.needed();
    memory = space.take<char>(parts * part_bytes);
  }

  Workspace of(int64_t part) const { return Workspace(memory + part * part_bytes); }

  int64_t parts;
  Shared shared;
  int64_t part_bytes;
  char *memory;
};

template <class Real>
struct ForwardShared {
  ForwardShared(Workspace &space, const slicekit_sparse &n, int64_t)
      : order(is_narrow<Real>(n) ? TRANSPOSED_ELEMENTS : BY_ROW),
        maker(space, n.channels, n.dim, n.kept),
        lists(maker.take(space, order, false)) {}

  Parts order;
  ListMaker<Real> maker;
  Lists<Real> lists;
};

template <class Real>
struct BackwardShared {
  BackwardShared(Workspace &space, const slicekit_sparse &n, int64_t parts)
      : order(is_narrow<Real>(n) ? ELEMENTS : BY_COLUMN),
        maker(space, n.channels, n.dim, n.kept),
        by_row(maker.take(space, BY_ROW, true)),
        lists(maker.take(space, order, false)),
        in_values(space.take<Real>(parts * n.kept)) {}

  Parts order;
  ListMaker<Real> maker;
  Lists<Real> by_row, lists;
  Real *in_values;  // (parts, kept), in the order of by_row
};

template <class Real>
using ForwardSpace = Space<Real, ForwardShared<Real>, NarrowForward<Real>, WideForward<Real>>;

template <class Real>
using BackwardSpace = Space<Real, BackwardShared<Real>, NarrowBackward<Real>, WideBackward<Real>>;

template <int N>
struct Count {
  static constexpr int value = N;
};

// Calls run(Count<G>, team) for teams of G lane groups until a part's sequences are done.
template <class Real, class Run>
void for_teams(const slicekit_sparse &n, int64_t part, int64_t parts, Run run) {
  const int64_t groups = lane_groups<Real>(n), stop = groups * (part + 1) / parts;
  for (int64_t group = groups * part / parts; group < stop; group += GROUPS) {
    const int64_t count = least<int64_t>(GROUPS, stop - group), first = group * LANES<Real>;
    const int64_t sequences = least<int64_t>(count * LANES<Real>, n.batch - first);
    for (int64_t column = 0; column < n.columns; ++column) {
      const Team team{first, sequences, column};
      switch (count) {
        case 3: run(Count<3>(), team); break;
        case 2: run(Count<2>(), team); break;
        case 1: run(Count<1>(), team); break;
      }
    }
  }
}

// Calls run(sequence, column) for each of a part.
template <class Run>
void for_sequences(const slicekit_sparse &n, int64_t part, int64_t parts, Run run) {
  const int64_t stop = n.batch * (part + 1) / parts;
  for (int64_t sequence = n.batch * part / parts; sequence < stop; ++sequence) {
    for (int64_t column = 0; column < n.columns; ++column) run(sequence, column);
  }
}

template <class Real>
void forward_part(const slicekit_sparse &n, const Arrays<Real> &arrays,
                  const ForwardSpace<Real> &space, int64_t part) {
  Workspace own = space.of(part);
  const Lists<Real> &lists = space.shared.lists;
  if (is_narrow<Real>(n)) {
    NarrowForward<Real> kernel(own, n);
    for_sequences(n, part, space.parts, [&](int64_t sequence, int64_t column) {
      kernel.run(arrays, lists, sequence, column);
    });
  } else {
    WideForward<Real> kernel(own, n);
    for_teams<Real>(n, part, space.parts, [&](auto count, const Team &team) {
      kernel.template run<decltype(count)::value>(arrays, lists, team);
    });
  }
}

template <class Real>
void backward_part(const slicekit_sparse &n, const Arrays<Real> &arrays,
                   const BackwardSpace<Real> &space, int64_t part) {
  Workspace own = space.of(part);
  const Lists<Real> &by_row = space.shared.by_row, &lists = space.shared.lists;
  Real *in_values = space.shared.in_values + part * n.kept;
  for (int64_t k = 0; k < n.kept; ++k) in_values[k] = 0;
  if (is_narrow<Real>(n)) {
    NarrowBackward<Real> kernel(own, n);
    for_sequences(n, part, space.parts, [&](int64_t sequence, int64_t column) {
      kernel.run(arrays, by_row, lists, sequence, column, in_values);
    });
  } else {
    WideBackward<Real> kernel(own, n);
    for_teams<Real>(n, part, space.parts, [&](auto count, const Team &team) {
      kernel.template run<decltype(count)::value>(arrays, by_row, lists, team, in_values);
    });
  }
}

template <class Real>
int64_t workspace(const slicekit_sparse &n, bool backward) {
  Workspace space(nullptr);
  backward ? (void)BackwardSpace<Real>(space, n) : (void)ForwardSpace<Real>(space, n);
  return space.needed();
}

template <class Real>
void forward(const slicekit_sparse &n) {
  const Arrays<Real> arrays(n);
  Workspace memory(n.workspace);
  ForwardSpace<Real> space(memory, n);
  space.shared.maker.fill(space.shared.lists, space.shared.order, arrays.values, arrays.places);
  each_part(space.parts, n.threads,
            [&](int64_t part, int64_t) { forward_part(n, arrays, space, part); });
}

template <class Real>
void backward(const slicekit_sparse &n) {
  const Arrays<Real> arrays(n);
  Workspace memory(n.workspace);
  BackwardSpace<Real> space(memory, n);
  auto &shared = space.shared;
  shared.maker.fill(shared.by_row, BY_ROW, arrays.values, arrays.places);
  shared.maker.fill(shared.lists, shared.order, arrays.values, arrays.places);
  each_part(space.parts, n.threads,
            [&](int64_t part, int64_t) { backward_part(n, arrays, space, part); });
  for (int64_t k = 0; k < n.kept; ++k) {
    Real total = 0;
    for (int64_t part = 0; part < space.parts; ++part) total += shared.in_values[part * n.kept + k];
    arrays.in_values[shared.by_row.origins[k]] = total;
  }
}

}  // namespace sparse

int64_t sparse_workspace(const slicekit_sparse &problem, bool backward) {
  return problem.real == 4 ? sparse::workspace<float>(problem, backward)
                           : sparse::workspace<double>(problem, backward);
}

void sparse_forward(const slicekit_sparse &problem) {
  problem.real == 4 ? sparse::forward<float>(problem) : sparse::forward<double>(problem);
}

void sparse_backward(const slicekit_sparse &problem) {
  problem.real == 4 ? sparse::backward<float>(problem) : sparse::backward<double>(problem);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
