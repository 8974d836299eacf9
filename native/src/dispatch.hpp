// Kernels exist once for each instruction set, in a namespace of its name; this chooses one.
#pragma once

#include "slicekit.h"

namespace slicekit {

// Each includes those before it. On other processors than x86-64 there is a baseline alone.
enum class Isa { BASELINE, AVX2, AVX512 };

// The one in use.
Isa isa();

}  // namespace slicekit

#if defined(SLICEKIT_HAS_AVX2)
#define SLICEKIT_IF_AVX2(...) __VA_ARGS__
#else
#define SLICEKIT_IF_AVX2(...)
#endif
#if defined(SLICEKIT_HAS_AVX512)
#define SLICEKIT_IF_AVX512(...) __VA_ARGS__
#else
#define SLICEKIT_IF_AVX512(...)
#endif

// Declares functions in the namespace of every instruction set.
#define SLICEKIT_DECLARE(...) \
  namespace slicekit { \
  SLICEKIT_IF_AVX512(namespace avx512 { __VA_ARGS__ }) \
  SLICEKIT_IF_AVX2(namespace avx2 { __VA_ARGS__ }) \
  namespace baseline { __VA_ARGS__ } \
  }

// Calls `function(arguments...)` of the instruction set in use.
#define SLICEKIT_CALL(function, ...) \
  (SLICEKIT_IF_AVX512(slicekit::isa() == slicekit::Isa::AVX512 \
                          ? slicekit::avx512::function(__VA_ARGS__) :) \
   SLICEKIT_IF_AVX2(slicekit::isa() == slicekit::Isa::AVX2 \
                        ? slicekit::avx2::function(__VA_ARGS__) :) \
   slicekit::baseline::function(__VA_ARGS__))
