// The row kernels of a machine with tiles: those of avx512, but for attention over packed rows and index scores.
#include "amx/attention.h"
#include "amx/index.h"

namespace whitedwarf {
namespace {

const AttendKernels& attend_kernels(const RowFormat& window, const RowFormat& compressed) {
    const bool fits = amx::fits(window) && amx::fits(compressed) && window.rope_dims == compressed.rope_dims;
    return fits ? amx::kAttention : kAvx512Rows.attend_kernels(window, compressed);
}

RowLevel with_tiles() {
    RowLevel level = kAvx512Rows;
    level.name = "amx";
    level.attend_kernels = attend_kernels;
    level.score_block = amx::score_block;
    return level;
}

}  // namespace

const RowLevel& amx_rows() {
    static const RowLevel level = with_tiles();
    return level;
}

}  // namespace whitedwarf
