// The AMX level: AVX-512's, with integer products of many activation rows on tiles.
#include "amx/products.h"
#include "avx512/products.h"

namespace whitedwarf {

const Level kAmx = {"amx",
                    avx512::quantise_twice,
                    amx::multiply,
                    avx512::multiply_float,
                    amx::scratch_bytes,
                    avx512::decode,
                    avx512::swiglu};

}  // namespace whitedwarf
