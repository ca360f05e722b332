// What the pre-tokenizer wants to know of a character: the Unicode classes of recipe.md 10, as one byte each.
#pragma once

#include <cstdint>

namespace whitedwarf {

// Kinds exclude one another (checked where the ranges are made). Letters are \p{L} and \p{M}, signs \p{P} and \p{S},
// numbers \p{N}; blanks are \s without CR and LF.
enum Kind : uint8_t { kOther = 0, kLetter = 1, kSign = 2, kNumber = 3, kBlank = 4, kLineEnd = 5 };

// Set for the ideographs and kana that are cut out of a text before words are.
constexpr uint8_t kIdeographic = 8;
constexpr uint8_t kKindMask = 7;

// One byte for each code point up to U+10FFFF: a Kind, and kIdeographic.
const uint8_t* character_classes();

}  // namespace whitedwarf
