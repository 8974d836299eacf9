// The scan with shared factors: parts of the batch for the threads, and the sum of their gradients.
#include "shared_factors_backward.hpp"
#include "shared_factors_forward.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace shared_factors {

// A part of the batch for each thread; it depends on nothing but the sizes, and so do all sums.
inline int64_t part_count(const Problem &n) {
  return most<int64_t>(1, least(n.threads, n.batch));
}

// The sizes for a problem of which each part has its share of the sequences.
template <class Real>
Sizes<Real> sizes_of_part(const Problem &n) {
  const int64_t parts = part_count(n);
  Problem part = n;
  part.batch = (n.batch + parts - 1) / parts;
  return Sizes<Real>(part);
}

// Calls run(sequence, sequences) for the teams of one part.
template <class Real, class Run>
void for_teams(const Problem &n, const Sizes<Real> &size, int64_t part, Run run) {
  const int64_t parts = part_count(n), stop = n.batch * (part + 1) / parts;
  for (int64_t first = n.batch * part / parts; first < stop; first += size.sequences) {
    run(first, least(size.sequences, stop - first));
  }
}

// A piece of work space for each part, as large as Piece(space, n, size) takes.
template <class Piece, class Real>
struct Pieces {
  Pieces(Workspace &space, const Problem &n, const Sizes<Real> &size) : n_(n), size_(size) {
    Workspace one(nullptr);
    Piece(one, n, size);
    bytes_ = one.needed();
    memory_ = space.take<char>(part_count(n) * bytes_);
  }

  Piece of(int64_t part) const {
    Workspace own(memory_ + part * bytes_);
    return Piece(own, n_, size_);
  }

 private:
  const Problem &n_;
  const Sizes<Real> &size_;
  int64_t bytes_;
  char *memory_;
};

template <class Real>
struct ForwardSpace {
  ForwardSpace(Workspace &space, const Problem &n, const Sizes<Real> &size)
      : panels(space, n, size), passes(space, n, size) {}

  ForwardPanels<Real> panels;
  Pieces<Forward<Real>, Real> passes;
};

template <class Real>
struct BackwardSpace {
  BackwardSpace(Workspace &space, const Problem &n, const Sizes<Real> &size)
      : panels(space, n, size), passes(space, n, size), gradients(space, n, size) {}

  BackwardPanels<Real> panels;
  Pieces<Backward<Real>, Real> passes;
  Pieces<Gradients<Real>, Real> gradients;
};

template <class Real>
int64_t workspace(const Problem &n, bool backward) {
  const Sizes<Real> size = sizes_of_part<Real>(n);
  Workspace space(nullptr);
  backward ? (void)BackwardSpace<Real>(space, n, size) : (void)ForwardSpace<Real>(space, n, size);
  return space.needed();
}

template <class Real>
void forward(const Problem &n) {
  const Sizes<Real> size = sizes_of_part<Real>(n);
  Workspace memory(n.workspace);
  ForwardSpace<Real> space(memory, n, size);
  space.panels.fill(n, size);
  each_part(part_count(n), n.threads, [&](int64_t part, int64_t) {
    Forward<Real> pass = space.passes.of(part);
    for_teams(n, size, part, [&](int64_t sequence, int64_t sequences) {
      pass.run(space.panels, sequence, sequences);
    });
  });
}

template <class Real>
void backward(const Problem &n) {
  const Sizes<Real> size = sizes_of_part<Real>(n);
  Workspace memory(n.workspace);
  BackwardSpace<Real> space(memory, n, size);
  space.panels.fill(n, size);
  const int64_t parts = part_count(n);
  each_part(parts, n.threads, [&](int64_t part, int64_t) {
    Backward<Real> pass = space.passes.of(part);
    Gradients<Real> gradients = space.gradients.of(part);
    gradients.clear();
    for_teams(n, size, part, [&](int64_t sequence, int64_t sequences) {
      pass.run(space.panels, gradients, sequence, sequences);
    });
  });
  Gradients<Real> total = space.gradients.of(0);
  for (int64_t part = 1; part < parts; ++part) total.add(space.gradients.of(part));
  total.write(n, size);
}

}  // namespace shared_factors

int64_t shared_factors_workspace(const slicekit_shared_factors &problem, bool backward) {
  return problem.real == 4 ? shared_factors::workspace<float>(problem, backward)
                           : shared_factors::workspace<double>(problem, backward);
}

void shared_factors_forward(const slicekit_shared_factors &problem) {
  problem.real == 4 ? shared_factors::forward<float>(problem)
                    : shared_factors::forward<double>(problem);
}

void shared_factors_backward(const slicekit_shared_factors &problem) {
  problem.real == 4 ? shared_factors::backward<float>(problem)
                    : shared_factors::backward<double>(problem);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
