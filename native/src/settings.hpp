// What differs between instruction sets: the width of a vector, and sizes that fit registers and
// caches. Everything else is written once, in terms of these.
#pragma once

#include <stdint.h>

namespace slicekit {
namespace SLICEKIT_ISA {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
// Rows and lane groups of a product's tile: as many sums as stay in registers.
constexpr int TILE = 6, TILE_GROUPS = 4;
// Rows of a tile of fewer lane groups.
constexpr int NARROW_TILE = 12;
// Rows and columns of a tile of matrices that stand in lanes.
constexpr int LANE_TILE_ROWS = 4, LANE_TILE_COLUMNS = 4;
// Steps made together: many, so that the parameters are read seldom, but few enough that their
// transitions stay in the cache.
constexpr int64_t ROWS = 192, FEWER_ROWS = 96, CHUNK_BYTES = 2 << 20;
// Panels whose packed parameters fit in the first-level cache beside the rest, and whose rows of a
// chunk fit in the second-level one.
constexpr int64_t PANELS_AT_ONCE = 16;
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32;
constexpr int TILE = 6, TILE_GROUPS = 1, NARROW_TILE = 6;
constexpr int LANE_TILE_ROWS = 2, LANE_TILE_COLUMNS = 4;
constexpr int64_t ROWS = 96, FEWER_ROWS = 96, CHUNK_BYTES = 2 << 20;
constexpr int64_t PANELS_AT_ONCE = 32;
#elif defined(__ARM_NEON)
constexpr int VECTOR_BYTES = 16;
constexpr int TILE = 6, TILE_GROUPS = 1, NARROW_TILE = 6;
constexpr int LANE_TILE_ROWS = 4, LANE_TILE_COLUMNS = 4;
constexpr int64_t ROWS = 96, FEWER_ROWS = 48, CHUNK_BYTES = 2 << 20;
constexpr int64_t PANELS_AT_ONCE = 32;
#else
constexpr int VECTOR_BYTES = 16;
constexpr int TILE = 3, TILE_GROUPS = 1, NARROW_TILE = 3;
constexpr int LANE_TILE_ROWS = 2, LANE_TILE_COLUMNS = 4;
constexpr int64_t ROWS = 96, FEWER_ROWS = 48, CHUNK_BYTES = 2 << 20;
constexpr int64_t PANELS_AT_ONCE = 32;
#endif

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
