// Plain text to token ids: words, and the merges of each, with the tokens of short words remembered.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "merges.h"

namespace whitedwarf {

using ByteIds = std::array<uint32_t, 256>;

// What one thread needs to encode. It remembers the tokens of words in a table of fixed size.
class WordEncoder {
public:
    WordEncoder(const ByteIds& bytes, const Merges& merges);

    // Appends the tokens of a text, which must be valid UTF-8.
    void encode(std::string_view text, std::vector<uint32_t>& ids);

    // Whether a very long word has left it with much working memory.
    bool has_grown() const;

private:
    static constexpr size_t kLongestWord = 24;  // bytes
    static constexpr size_t kMostTokens = 9;
    struct Remembered {
        std::array<uint64_t, kLongestWord / 8> text;  // zeros behind its end
        uint8_t size, count;                          // size 0: nothing yet
        std::array<uint32_t, kMostTokens> ids;
    };
    static_assert(sizeof(Remembered) == 64);

    void encode_word(std::string_view word, std::vector<uint32_t>& ids);
    void encode_short(std::string_view word, std::vector<uint32_t>& ids);
    void merge(std::string_view word);

    const ByteIds& bytes_;
    Merger merger_;
    std::vector<uint32_t> symbols_;
    std::vector<Remembered> memory_;
};

// Immutable but for its word encoders, of which a thread takes one at a time: may be shared between threads. Between
// calls it keeps a few megabytes at most.
class BytePairs {
public:
    BytePairs(const ByteIds& bytes, const std::vector<Merge>& merges) : bytes_(bytes), merges_(merges) {}

    // The tokens of each text one after the other; `ends` are where each text's stop.
    void encode(const std::vector<std::string_view>& texts, std::vector<uint32_t>& ids, std::vector<size_t>& ends);

private:
    std::unique_ptr<WordEncoder> borrow();

    const ByteIds bytes_;
    const Merges merges_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<WordEncoder>> idle_;
};

}  // namespace whitedwarf
