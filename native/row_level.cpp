#include "row_level.h"

#include <cstring>
#include <initializer_list>

namespace whitedwarf {

const RowLevel& row_level(const char* name) {
#if defined(__x86_64__) || defined(_M_X64)
#if defined(WHITEDWARF_AMX)
    if (std::strcmp(name, "amx") == 0) return amx_rows();
#endif
    const std::initializer_list<const RowLevel*> levels = {&kAvx2Rows, &kAvx512Rows};
#elif defined(__aarch64__) || defined(_M_ARM64)
    const std::initializer_list<const RowLevel*> levels = {&kNeonRows};
#else
    const std::initializer_list<const RowLevel*> levels = {};
#endif
    for (const RowLevel* level : levels)
        if (std::strcmp(name, level->name) == 0) return *level;
    return kScalarRows;
}

}  // namespace whitedwarf
