// The AMX level: AVX-512's, with integer products of many activation rows on tiles.
#include "amx/products.h"
#include "avx512/products.h"

namespace whitedwarf {

const Level kAmx = [] {
    Level level = kAvx512;
    level.name = "amx";
    level.quantise = avx512::quantise_twice;
    level.multiply = amx::multiply;
    level.scratch_bytes = amx::scratch_bytes;
    return level;
}();

}  // namespace whitedwarf
