// Memory that is about to be written for the first time, in pages of some megabytes if the system has
// them: with the usual ones, to have the memory of many states takes longer than to compute them.
#pragma once

#include <stdint.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace slicekit {

// Bytes of a large page, and those of an array from which on they are worth a word with the system.
constexpr intptr_t LARGE_PAGE = 2 << 20;
constexpr int64_t WORTH_LARGE_PAGES = 2 * LARGE_PAGE;

// Asks for large pages for those that lie in an array as a whole. It is advice: if it can't be had,
// nothing is lost.
inline void prefer_large_pages(void *array, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes < WORTH_LARGE_PAGES) return;
  const intptr_t start = reinterpret_cast<intptr_t>(array), mask = ~(LARGE_PAGE - 1);
  const intptr_t first = (start + LARGE_PAGE - 1) & mask, stop = (start + bytes) & mask;
  if (first < stop) madvise(reinterpret_cast<void *>(first), stop - first, MADV_HUGEPAGE);
#else
  (void)array, (void)bytes;
#endif
}

}  // namespace slicekit
