// The sLSTM over a batch: what runs on which thread.
//
// Heads are independent, and so are slabs of sequences but for the gradients of the weights. Those are
// made in a few pieces, whose number does not depend on the threads, and added up in order.
#include "slstm_passes.hpp"
#include "threads.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace slstm {

namespace {

// Pieces of a head's slabs.
constexpr int64_t MOST_PIECES = 4;

template <class Real>
struct Plan {
  Sizes<Real> sizes;
  int64_t pieces, threads;

  explicit Plan(const slicekit_slstm &task)
      : sizes(task), pieces(least(sizes.slabs, MOST_PIECES)),
        threads(least(task.threads, task.heads * pieces)) {}
};

// The work space of a pass: a room for each thread and, backwards, sums for each head's pieces.
template <class Real>
struct Spaces {
  char *rooms;
  int64_t room_bytes;
  Sums<Real> sums;

  Spaces(Workspace &work, const Plan<Real> &plan, bool backward)
      : rooms(nullptr), room_bytes(0),
        sums(work, plan.sizes, backward ? plan.sizes.heads * plan.pieces : 0) {
    Workspace alone(nullptr);
    Room<Real>(alone, plan.sizes, backward);
    room_bytes = round_up(alone.needed(), 64);
    rooms = work.take<char>(plan.threads * room_bytes);
  }

  Room<Real> room(const Plan<Real> &plan, int64_t worker, bool backward) const {
    Workspace own(rooms + worker * room_bytes);
    return Room<Real>(own, plan.sizes, backward);
  }
};

template <class Real>
int64_t measure(const slicekit_slstm &task, bool backward) {
  Workspace work(nullptr);
  Spaces<Real>(work, Plan<Real>(task), backward);
  return work.needed();
}

template <class Real>
void forward_all(const slicekit_slstm &task) {
  const Plan<Real> plan(task);
  Workspace work(task.work);
  const Spaces<Real> spaces(work, plan, false);
  each_part(task.heads * plan.pieces, plan.threads, [&](int64_t number, int64_t worker) {
    const Room<Real> room = spaces.room(plan, worker, false);
    Passes<Real> passes(task, plan.sizes, room, number / plan.pieces);
    passes.pack_forward();
    for (int64_t s = number % plan.pieces; s < plan.sizes.slabs; s += plan.pieces) passes.forward(s);
  });
}

// Of one head: adds its pieces' sums up and puts them where they are wanted.
template <class Real>
void put_sums(const slicekit_slstm &task, const Plan<Real> &plan, const Sums<Real> &all, int64_t head) {
  constexpr int64_t N = LANES<Real>;
  const Sizes<Real> &n = plan.sizes;
  const Sums<Real> total(all, n, head * plan.pieces);
  for (int64_t piece = 1; piece < plan.pieces; ++piece) {
    const Sums<Real> other(all, n, head * plan.pieces + piece);
    const Real *const from[3] = {other.gates, other.recurrent, other.bias};
    int which = 0;
    total.each(n, [&](Real *to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) to[i] += from[which][i];
      ++which;
    });
  }
  Real *in_gates = static_cast<Real *>(task.in_gates) + head * 4 * n.dim * n.dim;
  Real *in_recurrent = static_cast<Real *>(task.in_recurrent) + head * 4 * n.dim * n.dim;
  Real *in_bias = static_cast<Real *>(task.in_bias) + head * 4 * n.dim;
  for (int64_t q = 0; q < 4; ++q) {
    gather(total.bias + q * n.padded, n, in_bias + q * n.dim);
    for (int64_t g = 0; g < n.groups; ++g) {
      const int64_t e = g * N, count = least(N, n.dim - e), at = (q * n.groups + g) * n.dim * N;
      lanes::from_lanes(total.gates + at, count, n.dim, in_gates + (q * n.dim + e) * n.dim);
      for (int64_t k = 0; k < n.dim; ++k) {
        for (int64_t l = 0; l < count; ++l) {
          in_recurrent[(k * 4 + q) * n.dim + e + l] = total.recurrent[at + k * N + l];
        }
      }
    }
  }
}

template <class Real>
void backward_all(const slicekit_slstm &task) {
  const Plan<Real> plan(task);
  Workspace work(task.work);
  const Spaces<Real> spaces(work, plan, true);
  each_part(task.heads * plan.pieces, plan.threads, [&](int64_t number, int64_t worker) {
    const Room<Real> room = spaces.room(plan, worker, true);
    const Sums<Real> sums(spaces.sums, plan.sizes, number);
    sums.each(plan.sizes, [](Real *to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) to[i] = 0;
    });
    Passes<Real> passes(task, plan.sizes, room, number / plan.pieces);
    passes.pack_backward();
    for (int64_t s = number % plan.pieces; s < plan.sizes.slabs; s += plan.pieces) {
      passes.backward(s, sums);
    }
  });
  for (int64_t head = 0; head < task.heads; ++head) put_sums(task, plan, spaces.sums, head);
}

}  // namespace

int64_t work(const slicekit_slstm &task, bool backward) {
  return task.real == 4 ? measure<float>(task, backward) : measure<double>(task, backward);
}

void forward(const slicekit_slstm &task) {
  task.real == 4 ? forward_all<float>(task) : forward_all<double>(task);
}

void backward(const slicekit_slstm &task) {
  task.real == 4 ? backward_all<float>(task) : backward_all<double>(task);
}

}  // namespace slstm
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
