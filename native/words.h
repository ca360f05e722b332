// DeepSeek's pre-tokenizer ("joyai-llm") without regular expressions: cuts text into the words that BPE sees.
//
// The three expressions of prompt/tokenizer.py, one after the other on what the one before left: numbers in threes;
// runs of ideographs and kana; then, in each stretch between those, at every place the first of
//   1. an ASCII sign and the ASCII letters after it
//   2. letters and marks, with one leading character that is no letter, sign or line end
//   3. signs, with one leading space, and the line ends after them
//   4. blanks up to the last line end among them
//   5. blanks, without the last when something follows in the stretch
// What nothing matches is a word of its own. A stretch never sees its neighbours, so its end counts as the end of text.
#pragma once

#include <cstdint>
#include <string_view>

#include "characters.h"

namespace whitedwarf {

// Walks over valid UTF-8 once, from word to word; takes linear time whatever the text.
class Words {
public:
    explicit Words(std::string_view text);

    // The next word, never empty; empty at the end.
    std::string_view next();

private:
    struct Character {
        uint8_t kind;  // a Kind with kIdeographic; kEnd behind the last one
        int size;
    };

    Character at(const char* place) const;
    bool continues(const Character& character) const;
    const char* match(const char* place) const;
    const char* run(const char* place, uint8_t kind) const;
    const char* signs(const char* place) const;
    const char* blanks(const char* place) const;
    const char* numbers(const char* place) const;

    const uint8_t* classes_;
    const char* place_;
    const char* end_;
    uint8_t zone_ = 0;  // kIdeographic or 0: which stretch the walk is in
};

}  // namespace whitedwarf
