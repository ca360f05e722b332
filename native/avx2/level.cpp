// The AVX2 level (with FMA, F16C and BMI2).
#include "avx2/vectors.h"

namespace whitedwarf {
namespace {

int64_t scratch_bytes(int64_t cols) {
    const int64_t integer = kStripRows * strip_stride(padded_columns(cols));
    const int64_t floating = avx2::float_scratch_bytes(cols);
    return integer > floating ? integer : floating;
}

}  // namespace

const Level kAvx2 = {"avx2",        quantise_in_order, avx2::multiply, avx2::multiply_float,
                     scratch_bytes, avx2::decode,      swiglu_row};

}  // namespace whitedwarf
