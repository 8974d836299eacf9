#include "dispatch.hpp"

#include <string.h>

#include <atomic>
#include <initializer_list>

#include "team.hpp"

namespace slicekit {
namespace {

#if defined(__aarch64__)
constexpr const char *NAMES[] = {"neon", "avx2", "avx512"};
#else
constexpr const char *NAMES[] = {"baseline", "avx2", "avx512"};
#endif

// Whether the library has it, the processor runs it and the operating system saves its registers.
bool runs(Isa isa) {
  switch (isa) {
    case Isa::BASELINE: return true;
#if defined(SLICEKIT_HAS_AVX2)
    case Isa::AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#if defined(SLICEKIT_HAS_AVX512)
    case Isa::AVX512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    default: return false;
  }
}

Isa best() {
  for (const Isa isa : {Isa::AVX512, Isa::AVX2}) {
    if (runs(isa)) return isa;
  }
  return Isa::BASELINE;
}

std::atomic<Isa> &chosen() {
  static std::atomic<Isa> isa(best());
  return isa;
}

}  // namespace

Isa isa() { return chosen().load(std::memory_order_relaxed); }

}  // namespace slicekit

extern "C" {

int64_t slicekit_interface(void) { return 15; }

const char *slicekit_isa(void) { return slicekit::NAMES[static_cast<int>(slicekit::isa())]; }

int64_t slicekit_use_isa(const char *name) {
  using slicekit::Isa;
  if (!name) return SLICEKIT_BAD_POINTER;
  for (const Isa isa : {Isa::BASELINE, Isa::AVX2, Isa::AVX512}) {
    if (strcmp(name, slicekit::NAMES[static_cast<int>(isa)]) || !slicekit::runs(isa)) continue;
    slicekit::chosen().store(isa, std::memory_order_relaxed);
    return SLICEKIT_OK;
  }
  return SLICEKIT_BAD_OPTION;
}

int64_t slicekit_has_threads(void) { return slicekit::team::has_threads(); }

}  // extern "C"
