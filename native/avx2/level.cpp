// The AVX2 level (with FMA, F16C and BMI2).
#include "avx2/vectors.h"

namespace whitedwarf {
namespace {

// Four unpacked rows, or four decoded rows and one unpacked.
int64_t scratch_bytes(int64_t cols) {
    const int64_t padded = padded_columns(cols);
    return kStripRows * (strip_stride(padded) + int64_t(sizeof(float)) * padded);
}

}  // namespace

const Level kAvx2 = {"avx2",        quantise_in_order, avx2::multiply, avx2::multiply_float,
                     scratch_bytes, avx2::decode,      swiglu_row};

}  // namespace whitedwarf
