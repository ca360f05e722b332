// IQ2_XXS as tables of eight bytes, made by the compiler: for levels without byte permutes across a whole register.
#pragma once

#include "blocks.h"

namespace whitedwarf {

struct Iq2Words {
    uint64_t grid[256] = {};   // eight magnitudes
    uint64_t signs[128] = {};  // 0xff where negative
};

static constexpr Iq2Words make_iq2_words() {
    Iq2Words words;
    for (int entry = 0; entry < 256; ++entry)
        for (int i = 0; i < 8; ++i)
            words.grid[entry] |= uint64_t(kIq2Magnitudes[kIq2Grid[entry] >> (2 * i) & 3]) << (8 * i);
    for (unsigned seven = 0; seven < 128; ++seven)
        for (int i = 0; i < 8; ++i)
            if (iq2_signs(seven) >> i & 1) words.signs[seven] |= uint64_t(0xff) << (8 * i);
    return words;
}

constexpr Iq2Words kIq2Words = make_iq2_words();

}  // namespace whitedwarf
