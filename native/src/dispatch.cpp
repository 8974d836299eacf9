#include "dispatch.hpp"

namespace slicekit {

bool use_avx2() {
#if defined(SLICEKIT_HAS_AVX2)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace slicekit

extern "C" {

int64_t slicekit_interface(void) { return 3; }

const char *slicekit_isa(void) { return slicekit::use_avx2() ? "avx2" : "baseline"; }

int64_t slicekit_has_openmp(void) {
#if defined(_OPENMP)
  return 1;
#else
  return 0;
#endif
}

}  // extern "C"
