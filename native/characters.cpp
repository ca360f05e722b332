#include "characters.h"

#include <algorithm>
#include <vector>

#include "character_ranges.h"

namespace whitedwarf {

namespace {

constexpr uint32_t kCodePoints = 0x110000;

std::vector<uint8_t> make_classes() {
    std::vector<uint8_t> classes(kCodePoints, kOther);
    for (const CharacterRange& range : kCharacterRanges)
        std::fill(classes.begin() + range.first, classes.begin() + range.last + 1, range.kind);
    const CharacterRange ideographic[] = {{0x4e00, 0x9fa5, 0}, {0x3040, 0x309f, 0}, {0x30a0, 0x30ff, 0}};
    for (const CharacterRange& range : ideographic)
        for (uint32_t code = range.first; code <= range.last; ++code) classes[code] |= kIdeographic;
    return classes;
}

}  // namespace

const uint8_t* character_classes() {
    static const std::vector<uint8_t> classes = make_classes();
    return classes.data();
}

}  // namespace whitedwarf
