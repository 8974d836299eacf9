#include "team.hpp"

#include <stdlib.h>

#if defined(SLICEKIT_THREADS)
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#endif

namespace slicekit {
namespace team {
namespace {

void run_alone(int64_t parts, Work work, const void *context) {
  for (int64_t part = 0; part < parts; ++part) work(context, part, 0);
}

#if defined(SLICEKIT_THREADS)

constexpr int64_t MOST_WORKERS = 255;

// How long a thread looks for work, or for the end of it, before it sleeps: longer than the pause
// between two pieces of work of one kernel, and little to those who want the processor meanwhile.
constexpr std::chrono::microseconds PATIENCE(30);

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `ready` within some microseconds.
template <class Ready>
bool soon(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + PATIENCE;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

// A bed: whoever lies in it has said so, and is woken by others.
struct Bed {
  std::mutex mutex;
  std::condition_variable woken;
  std::atomic<bool> asleep{false};
};

class Team {
 public:
  // Takes the team, unless it is at work.
  bool take() { return !taken_.exchange(true, std::memory_order_acquire); }
  void leave() { taken_.store(false, std::memory_order_release); }

  void run(int64_t parts, int64_t threads, Work work, const void *context) {
    hire(threads - 1);
    done_.store(0, std::memory_order_relaxed);
    parts_.store(parts, std::memory_order_relaxed);
    threads_.store(threads, std::memory_order_relaxed);
    work_.store(work, std::memory_order_relaxed);
    context_.store(context, std::memory_order_relaxed);
    left_.store(((left_.load(std::memory_order_relaxed) >> 32) + 1) << 32 | uint64_t(parts),
                std::memory_order_seq_cst);
    wake_followers(0);
    while (do_a_part(0)) continue;
    wait(parts);
  }

 private:
  // So that there are `count` workers, or as many as the system gives us.
  void hire(int64_t count) {
    if (count > MOST_WORKERS) count = MOST_WORKERS;
    while (workers_ < count) {
      try {
        const int64_t worker = workers_ + 1;
        std::thread([this, worker] { serve(worker); }).detach();
        ++workers_;
      } catch (const std::exception &) {
        return;
      }
    }
  }

  // A worker's life; it ends with the process.
  void serve(int64_t worker) {
    uint64_t known = 0;
    for (;;) {
      if (!soon([&] { return wanted(worker); })) sleep(worker);
      const uint64_t now = left_.load(std::memory_order_relaxed) >> 32;
      if (now != known) wake_followers(worker);
      known = now;
      while (do_a_part(worker)) continue;
    }
  }

  bool wanted(int64_t worker) const {
    return uint32_t(left_.load(std::memory_order_seq_cst)) &&
           worker < threads_.load(std::memory_order_relaxed);
  }

  // Claims a part and does it, unless all are claimed. What is read of the work before the claim is
  // of the same work: there is no other before all parts of this one are claimed, and then `left_`
  // has changed.
  bool do_a_part(int64_t worker) {
    uint64_t left = left_.load(std::memory_order_acquire);
    for (;;) {
      const int64_t parts = parts_.load(std::memory_order_relaxed);
      const int64_t threads = threads_.load(std::memory_order_relaxed);
      const Work work = work_.load(std::memory_order_relaxed);
      const void *context = context_.load(std::memory_order_relaxed);
      const int64_t unclaimed = uint32_t(left);
      if (!unclaimed || worker >= threads) return false;
      if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        continue;
      }
      work(context, parts - unclaimed, worker);
      if (done_.fetch_add(1, std::memory_order_seq_cst) + 1 == parts &&
          caller_.asleep.load(std::memory_order_seq_cst)) {
        const std::lock_guard<std::mutex> lock(caller_.mutex);
        caller_.woken.notify_one();
      }
      return true;
    }
  }

  // For the parts that others have claimed.
  void wait(int64_t parts) {
    auto ready = [&] { return done_.load(std::memory_order_seq_cst) == parts; };
    if (soon(ready)) return;
    std::unique_lock<std::mutex> lock(caller_.mutex);
    caller_.asleep.store(true, std::memory_order_seq_cst);
    caller_.woken.wait(lock, ready);
    caller_.asleep.store(false, std::memory_order_relaxed);
  }

  void sleep(int64_t worker) {
    Bed &bed = beds_[worker];
    std::unique_lock<std::mutex> lock(bed.mutex);
    bed.asleep.store(true, std::memory_order_seq_cst);
    bed.woken.wait(lock, [&] { return !bed.asleep.load(std::memory_order_relaxed) || wanted(worker); });
    bed.asleep.store(false, std::memory_order_relaxed);
  }

  // Each wakes two, and they wake two each. Who can't be woken at once is left alone: a worker that
  // comes late, or not at all, is missed by nobody.
  void wake_followers(int64_t worker) {
    const int64_t threads = threads_.load(std::memory_order_relaxed);
    for (int64_t next = 2 * worker + 1; next <= 2 * worker + 2 && next <= MOST_WORKERS; ++next) {
      Bed &bed = beds_[next];
      if (next >= threads || !bed.asleep.load(std::memory_order_seq_cst)) continue;
      if (!bed.mutex.try_lock()) continue;
      bed.asleep.store(false, std::memory_order_relaxed);
      bed.mutex.unlock();
      bed.woken.notify_one();
    }
  }

  std::atomic<bool> taken_{false};
  int64_t workers_ = 0;

  // The work: which it is (upper half) and how many of its parts nobody has claimed (lower half).
  alignas(64) std::atomic<uint64_t> left_{0};
  std::atomic<int64_t> parts_{0}, threads_{0};
  std::atomic<Work> work_{nullptr};
  std::atomic<const void *> context_{nullptr};
  alignas(64) std::atomic<int64_t> done_{0};

  Bed caller_, beds_[MOST_WORKERS + 1];
};

// Never destroyed: its workers sleep in it when the process ends.
std::atomic<Team *> the_team{nullptr};

// A process that was forked has none of its parent's threads, and hires its own.
void forget() { the_team.store(nullptr, std::memory_order_relaxed); }
const bool forgets = pthread_atfork(nullptr, nullptr, forget) == 0;

Team *team() {
  Team *found = the_team.load(std::memory_order_acquire);
  if (found) return found;
  Team *made = forgets ? new (std::nothrow) Team : nullptr;
  if (!made || the_team.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
  delete made;
  return found;
}

#endif

}  // namespace

#if defined(SLICEKIT_THREADS)

void run(int64_t parts, int64_t threads, Work work, const void *context) {
  if (parts <= 1 || threads <= 1 || parts > UINT32_MAX) return run_alone(parts, work, context);
  Team *own = team();
  if (!own || !own->take()) return run_alone(parts, work, context);
  own->run(parts, threads < parts ? threads : parts, work, context);
  own->leave();
}

bool has_threads() { return true; }

int64_t usual_threads() {
  const char *wish = getenv("OMP_NUM_THREADS");
  const long wished = wish ? strtol(wish, nullptr, 10) : 0;
  if (wished > 0) return wished;
#if defined(__linux__)
  cpu_set_t ours;
  if (!pthread_getaffinity_np(pthread_self(), sizeof(ours), &ours)) return CPU_COUNT(&ours);
#endif
  return std::thread::hardware_concurrency() ? std::thread::hardware_concurrency() : 1;
}

#else

void run(int64_t parts, int64_t, Work work, const void *context) { run_alone(parts, work, context); }

bool has_threads() { return false; }

int64_t usual_threads() { return 1; }

#endif

}  // namespace team
}  // namespace slicekit
