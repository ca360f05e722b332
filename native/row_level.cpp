#include "row_level.h"

#include <cstring>

namespace whitedwarf {

// On ARM the plain code is the vector code: NEON and FMA belong to the baseline there.
const RowLevel& row_level(const char* name) {
#if defined(__x86_64__) || defined(_M_X64)
    if (std::strcmp(name, "avx512") == 0) return kAvx512Rows;
    if (std::strcmp(name, "avx2") == 0) return kAvx2Rows;
#endif
    static_cast<void>(name);
    return kScalarRows;
}

}  // namespace whitedwarf
