// What the AMX files call in each other.
#pragma once

#include "level.h"

namespace whitedwarf::amx {

// Integer products; many activation rows through tiles, fewer as the AVX-512 level does it.
void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch);
int64_t scratch_bytes(int64_t cols);

}  // namespace whitedwarf::amx
