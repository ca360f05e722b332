// The best of many scores, in plain code: RowLevel::pick_best of levels without a better one. Compiled once, for every
// machine: what it takes from the standard library must not exist in a level's version (blocks.h).
#pragma once

#include <cstdint>

namespace whitedwarf {

void pick_best(float* scores, int64_t count, int64_t top, int32_t* out);

}  // namespace whitedwarf
