// Which thread of a parallel region this is; without OpenMP there is only one.
#pragma once

#include "simd.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace slicekit {
namespace SLICEKIT_ISA {

SLICEKIT_INLINE int64_t this_thread() {
#if defined(_OPENMP)
  return omp_get_thread_num();
#else
  return 0;
#endif
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
