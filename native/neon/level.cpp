// The NEON level (with the dot product instructions of ARMv8.2).
#include "neon/vectors.h"

namespace whitedwarf {
namespace {

// Four unpacked rows, or four decoded rows and one unpacked.
int64_t scratch_bytes(int64_t cols) {
    const int64_t padded = padded_columns(cols);
    return kStripRows * (strip_stride(padded) + int64_t(sizeof(float)) * padded);
}

}  // namespace

const Level kNeon = {"neon",        quantise_in_order, neon::multiply, neon::multiply_float,
                     scratch_bytes, neon::decode,      swiglu_row};

}  // namespace whitedwarf
