// The AVX-512 level (F, BW, DQ, VL, VBMI, VNNI; and GFNI).
#include "arithmetic.h"
#include "avx512/products.h"

namespace whitedwarf {
namespace {

int64_t scratch_bytes(int64_t cols) {
    const int64_t integer = avx512::tile_scratch_bytes(padded_columns(cols));
    const int64_t floating = avx512::float_scratch_bytes(cols);
    return integer > floating ? integer : floating;
}

}  // namespace

const Level kAvx512 = {"avx512",      avx512::quantise, avx512::multiply, avx512::multiply_float,
                       scratch_bytes, avx512::decode,   swiglu_row};

}  // namespace whitedwarf
