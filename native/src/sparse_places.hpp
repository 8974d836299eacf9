// Where the kept entries of sparse matrices stand, as every interface with them checks it.
#pragma once

#include "slicekit.h"

namespace slicekit {

// Places must ascend strictly, from 0 on and below `entries`.
inline int64_t check_places(const int64_t *places, int64_t kept, int64_t entries) {
  int64_t previous = -1;
  for (int64_t k = 0; k < kept; ++k) {
    if (places[k] <= previous) return SLICEKIT_BAD_INDEX;
    previous = places[k];
  }
  return previous < entries ? SLICEKIT_OK : SLICEKIT_BAD_INDEX;
}

}  // namespace slicekit
