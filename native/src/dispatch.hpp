// Kernels exist once for each instruction set, in a namespace of its name; this chooses one.
#pragma once

#include "slicekit.h"

namespace slicekit {

// Whether the processor runs AVX2 and FMA; looked up on every call, which costs a few cycles.
bool use_avx2();

}  // namespace slicekit

// Calls `function(arguments...)` of the best instruction set; function is declared in each of them.
#if defined(SLICEKIT_HAS_AVX2)
#define SLICEKIT_CALL(function, ...) \
  (slicekit::use_avx2() ? slicekit::avx2::function(__VA_ARGS__) \
                        : slicekit::baseline::function(__VA_ARGS__))
#define SLICEKIT_DECLARE(...) \
  namespace slicekit { \
  namespace avx2 { __VA_ARGS__ } \
  namespace baseline { __VA_ARGS__ } \
  }
#else
#define SLICEKIT_CALL(function, ...) slicekit::baseline::function(__VA_ARGS__)
#define SLICEKIT_DECLARE(...) \
  namespace slicekit { \
  namespace baseline { __VA_ARGS__ } \
  }
#endif
