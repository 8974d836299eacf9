// Banks of filters: a group of them at a time, over tiles of time that stay in the cache.
#include "slicekit_filter_bank.h"

#include "threads.hpp"
#include "workspace.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace filter_bank {

namespace {

using V = Vector<float>;
typedef int32_t I __attribute__((vector_size(sizeof(V))));

constexpr int64_t WIDE = WIDTH<float>, TILE = 512, TAPS = SLICEKIT_TAPS;

// Where a thread works: u behind its history, and of a tile every filter's z.
struct Room {
  float *u, *z;
  int64_t u_size, z_size;

  Room(Workspace &work, const slicekit_filter_bank &task) {
    u_size = round_up((TAPS - 1) * task.dilation + task.length + WIDE, WIDE);
    z_size = task.filters * TILE;
    u = work.take<float>(task.threads * u_size);
    z = work.take<float>(task.threads * z_size);
  }
};

SLICEKIT_INLINE V choose(I mask, V yes, V no) { return mask ? yes : no; }

double sum_of(V x) {
  double total = 0;
  for (int64_t i = 0; i < WIDE; ++i) total += x[i];
  return total;
}

// One group of filters over one series.
struct Group {
  const slicekit_filter_bank &task;
  int64_t number, group;
  float *u, *z;
  int64_t length;

  Group(const slicekit_filter_bank &task, const Room &room, int64_t worker, int64_t number,
        int64_t group)
      : task(task), number(number), group(group), length(task.lengths[number]) {
    u = room.u + worker * room.u_size;
    z = room.z + worker * room.z_size;
  }

  int64_t before() const { return (TAPS - 1) * task.dilation; }

  // u from 8 dilation steps before the first on, and zeros behind its end.
  void mix() const {
    const int64_t row = task.history + task.length;
    const int64_t from = task.history ? task.history - before() : 0;
    const int64_t all = task.history ? before() + length : length;
    float *to = task.history ? u : u + before();
    for (int64_t t = 0; t < all; ++t) to[t] = 0;
    for (int64_t c = 0; c < task.channels; ++c) {
      const float factor = task.mixes[group * task.channels + c];
      if (factor == 0) continue;
      const float *x = task.x + (number * task.channels + c) * row + from;
      for (int64_t t = 0; t < all; ++t) to[t] += factor * x[t];
    }
    if (!task.history) {
      for (int64_t t = 0; t < before(); ++t) u[t] = u[before()];
    }
    for (int64_t t = 0; t < WIDE; ++t) u[before() + length + t] = 0;
  }

  void run() const {
    mix();
    for (int64_t begin = 0; begin < length; begin += TILE) {
      const int64_t size = least(TILE, length - begin);
      for (int64_t k = 0; k < task.filters; ++k) filter(k, begin, size);
      race(size);
      for (int64_t k = 0; k < task.stretched; ++k) stretch(k, begin, size);
    }
  }

  // z of a tile, and its pools; lanes past the end are not counted.
  void filter(int64_t k, int64_t begin, int64_t size) const {
    const int64_t which = group * task.filters + k, d = task.dilation;
    const float *w = task.weights + which * TAPS, *at = u + begin;
    float *zs = z + k * TILE;
    V taps[TAPS];
    for (int64_t j = 0; j < TAPS; ++j) taps[j] = broadcast(w[TAPS - 1 - j]);
    const int64_t whole = size / WIDE * WIDE;
    V sum = zero<float>(), squares = zero<float>(), largest = broadcast(-__builtin_inff());
    for (int64_t t = 0; t < size; t += WIDE) {
      V value = taps[0] * load(at + t);
      for (int64_t j = 1; j < TAPS; ++j) value += taps[j] * load(at + t + j * d);
      store(zs + t, value);
    }
    for (int64_t t = 0; t < whole; t += WIDE) {
      const V value = load(zs + t);
      sum += value;
      squares += value * value;
      largest = choose(value > largest, value, largest);
    }
    double *pools =
        task.pools + ((number * task.groups + group) * task.filters + k) * SLICEKIT_POOLS;
    const float *b = task.thresholds + which * SLICEKIT_THRESHOLDS;
    double sums = sum_of(sum), all_squares = sum_of(squares), top = pools[4];
    int64_t counts[SLICEKIT_THRESHOLDS];
    above(zs, whole, b, counts);
    for (int64_t i = 0; i < WIDE; ++i) top = most<double>(top, largest[i]);
    for (int64_t t = whole; t < size; ++t) {
      sums += zs[t];
      all_squares += zs[t] * zs[t];
      top = most<double>(top, zs[t]);
      for (int64_t q = 0; q < SLICEKIT_THRESHOLDS; ++q) counts[q] += zs[t] > b[q];
    }
    for (int64_t q = 0; q < SLICEKIT_THRESHOLDS; ++q) pools[q] += counts[q];
    pools[4] = top;
    pools[5] += sums;
    pools[6] += all_squares;
  }

  static void above(const float *zs, int64_t whole, const float *b, int64_t *counts) {
    const V b0 = broadcast(b[0]), b1 = broadcast(b[1]), b2 = broadcast(b[2]), b3 = broadcast(b[3]);
    I c0{}, c1{}, c2{}, c3{};
    for (int64_t t = 0; t < whole; t += WIDE) {
      const V value = load(zs + t);
      c0 -= value > b0;
      c1 -= value > b1;
      c2 -= value > b2;
      c3 -= value > b3;
    }
    for (int64_t q = 0; q < SLICEKIT_THRESHOLDS; ++q) counts[q] = 0;
    for (int64_t i = 0; i < WIDE; ++i) {
      counts[0] += c0[i];
      counts[1] += c1[i];
      counts[2] += c2[i];
      counts[3] += c3[i];
    }
  }

  // Which filter leads, and which is last.
  void race(int64_t size) const {
    double *lead = task.leaders + (number * task.groups + group) * 2 * task.filters;
    double *last = lead + task.filters;
    V led[8] = {};
    I lost[8] = {};
    const bool few = task.filters <= 8;
    for (int64_t t = 0; t < size; t += WIDE) {
      V high = load(z + t), low = high;
      I first{}, worst{};
      for (int64_t k = 1; k < task.filters; ++k) {
        const V value = load(z + k * TILE + t);
        const I number_k = I{} + static_cast<int32_t>(k);
        const I more = value > high, less = value < low;
        high = more ? value : high;
        first = more ? number_k : first;
        low = less ? value : low;
        worst = less ? number_k : worst;
      }
      if (few && t + WIDE <= size) {
        for (int32_t k = 0; k < task.filters; ++k) {
          led[k] += first == I{} + k ? high : zero<float>();
          lost[k] -= worst == I{} + k;
        }
      } else {
        for (int64_t i = 0; i < WIDE && t + i < size; ++i) {
          lead[first[i]] += high[i];
          last[worst[i]] += 1;
        }
      }
    }
    for (int64_t k = 0; few && k < task.filters; ++k) {
      lead[k] += sum_of(led[k]);
      for (int64_t i = 0; i < WIDE; ++i) last[k] += lost[k][i];
    }
  }

  // How long a filter stays above its second threshold, and where it is large.
  void stretch(int64_t k, int64_t begin, int64_t size) const {
    const int64_t which = group * task.filters + k;
    const float b = task.thresholds[which * SLICEKIT_THRESHOLDS + 1], *zs = z + k * TILE;
    double *own = task.stretches +
                  ((number * task.groups + group) * task.stretched + k) * SLICEKIT_STRETCHES;
    const int64_t first = task.begun[number] + begin;
    int64_t run = static_cast<int64_t>(own[0]), longest = static_cast<int64_t>(own[1]), places = 0;
    float top = zs[0];
    for (int64_t t = 0; t < size; ++t) {
      const bool high = zs[t] > b;
      run = high ? run + 1 : 0;
      longest = most(longest, run);
      places += high ? first + t : 0;
      top = most(top, zs[t]);
    }
    own[0] = static_cast<double>(run);
    own[1] = static_cast<double>(longest);
    own[3] += static_cast<double>(places);
    if (!(top > own[4])) return;
    int64_t t = 0;
    while (zs[t] != top) ++t;
    own[2] = static_cast<double>(first + t);
    own[4] = top;
  }
};

}  // namespace

int64_t work(const slicekit_filter_bank &task) {
  Workspace space(nullptr);
  Room(space, task);
  return space.needed();
}

void pool(const slicekit_filter_bank &task) {
  Workspace space(task.work);
  const Room room(space, task);
  each_part(task.cases, task.threads, [&](int64_t number, int64_t worker) {
    for (int64_t group = 0; group < task.groups; ++group) {
      Group(task, room, worker, number, group).run();
    }
  });
}

}  // namespace filter_bank
}  // namespace SLICEKIT_ISA
}  // namespace slicekit
