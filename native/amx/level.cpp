// The AMX level: that of avx512 on a machine that also has tiles (of int8 and bfloat16) and bfloat16 vectors.
#include "level.h"

namespace whitedwarf {

const Level& amx_level() {
    static const Level level = [] {
        Level same = kAvx512;
        same.name = "amx";
        return same;
    }();
    return level;
}

}  // namespace whitedwarf
