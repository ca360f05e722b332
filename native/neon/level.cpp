// The NEON level (with the dot product instructions of ARMv8.2).
#include "neon/vectors.h"

namespace whitedwarf {
namespace {

int64_t scratch_bytes(int64_t cols) {
    const int64_t integer = kStripRows * strip_stride(padded_columns(cols));
    const int64_t floating = neon::float_scratch_bytes(cols);
    return integer > floating ? integer : floating;
}

}  // namespace

const Level kNeon = {"neon",        quantise_in_order, neon::multiply, neon::multiply_float,
                     scratch_bytes, neon::decode,      swiglu_row};

}  // namespace whitedwarf
