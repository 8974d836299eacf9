// A team of threads that nobody has to wait for.
//
// The parts of a piece of work are claimed one by one, by its caller and by the team's workers. A
// worker that gets no turn on a busy machine claims nothing, and the caller does its parts: it waits
// only for parts that somebody has begun. Workers that find nothing to do soon sleep.
//
// Everything here is compiled once, for every processor; see simd.hpp.
#pragma once

#include <stdint.h>

namespace slicekit {
namespace team {

using Work = void (*)(const void *context, int64_t part, int64_t worker);

// Calls work(context, part, worker) for part = 0, ..., parts - 1, each once, on `threads` threads at
// most, and returns when all are done. Every thread has its own number, 0 <= worker < threads.
//
// Runs on the caller alone while the team is at work already: for another thread, or for a part of
// its work that calls this again.
void run(int64_t parts, int64_t threads, Work work, const void *context);

// Whether the library was built with threads.
bool has_threads();

// As many threads as OMP_NUM_THREADS says, or else as there are processors.
int64_t usual_threads();

}  // namespace team
}  // namespace slicekit
