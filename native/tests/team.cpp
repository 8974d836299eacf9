// Tries the team of threads: every part once, whoever calls and however often, and no thread shared.
#include "../src/team.hpp"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using slicekit::team::has_threads;
using slicekit::team::run;

namespace {

void require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

// One piece of work: how often each part was done, and which workers are at it.
struct Count {
  Count(int64_t parts, int64_t threads, int64_t nested = 0)
      : threads(threads), nested(nested), times(parts, 0), inside(threads) {}

  static void part(const void *context, int64_t part, int64_t worker) {
    Count &own = *static_cast<Count *>(const_cast<void *>(context));
    require(0 <= worker && worker < own.threads, "a worker's number is outside its range");
    require(!own.inside[worker].exchange(1), "two threads have one number");
    ++own.times[part];
    if (own.nested) Count(own.nested, own.threads).all();
    if (own.slow) std::this_thread::sleep_for(std::chrono::microseconds(200));
    own.inside[worker].store(0);
  }

  void all() {
    run(static_cast<int64_t>(times.size()), threads, part, this);
    for (int times_done : times) require(times_done == 1, "a part was not done once");
  }

  int64_t threads, nested;
  bool slow = false;
  std::vector<int> times;
  std::vector<std::atomic<int>> inside;
};

void many_rounds() {
  for (int64_t round = 0; round < 2000; ++round) Count(round % 17, 1 + round % 9).all();
}

// Rounds so far apart that the workers sleep, and so slow that the caller does.
void slow_rounds() {
  for (int64_t round = 0; round < 20; ++round) {
    Count work(1 + round % 7, 1 + round % 5);
    work.slow = true;
    work.all();
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
}

void nested() {
  for (int64_t round = 0; round < 100; ++round) Count(5, 4, 6).all();
}

void several_callers() {
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(many_rounds);
  for (std::thread &caller : callers) caller.join();
}

// A child has none of its parent's workers, not even where another thread is at work as it is made.
void forked() {
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) Count(50, 3).all();
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (!child) {
      for (int64_t round = 0; round < 100; ++round) Count(round % 17, 1 + round % 9).all();
      _exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(WIFEXITED(status) && WEXITSTATUS(status) == 3, "a child did not do its work");
  }
  over = true;
  other.join();
}

// The workers are others than the caller, and more than one of them comes.
void shared() {
  std::atomic<int64_t> seen{0};
  auto part = [](const void *context, int64_t, int64_t worker) {
    auto &workers = *static_cast<std::atomic<int64_t> *>(const_cast<void *>(context));
    workers |= int64_t{1} << worker;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  for (int round = 0; round < 100 && seen != 7; ++round) run(12, 3, part, &seen);
  require(seen == (has_threads() ? 7 : 1), "not all threads took part");
}

}  // namespace

int main(int count, char **) {
  many_rounds();
  slow_rounds();
  nested();
  several_callers();
  shared();
  if (count == 1) forked();  // an argument leaves this out: not every sanitiser can follow it
  puts("fine");
  return 0;  // while workers wait
}
