#include "byte_pairs.h"

#include <cstring>

#include "words.h"

namespace whitedwarf {

namespace {

constexpr int kMemoryBits = 14;  // words remembered, 64 bytes each: one MiB
constexpr size_t kMostIdle = 4;
constexpr size_t kLargeWord = size_t(1) << 16;  // bytes; an encoder that grew for such a word is not kept

}  // namespace

WordEncoder::WordEncoder(const ByteIds& bytes, const Merges& merges)
    : bytes_(bytes), merger_(merges), memory_(size_t(1) << kMemoryBits) {}

void WordEncoder::encode(std::string_view text, std::vector<uint32_t>& ids) {
    Words words(text);
    for (std::string_view word = words.next(); !word.empty(); word = words.next()) encode_word(word, ids);
}

void WordEncoder::encode_word(std::string_view word, std::vector<uint32_t>& ids) {
    if (word.size() == 1) {
        ids.push_back(bytes_[uint8_t(word[0])]);
    } else if (word.size() <= kLongestWord) {
        encode_short(word, ids);
    } else {
        merge(word);
        ids.insert(ids.end(), symbols_.begin(), symbols_.end());
    }
}

void WordEncoder::encode_short(std::string_view word, std::vector<uint32_t>& ids) {
    Remembered key{};
    std::memcpy(key.text.data(), word.data(), word.size());
    uint64_t hash = word.size();
    for (uint64_t part : key.text) hash = ((hash ^ part) * 0x9e3779b97f4a7c15ull) ^ (hash >> 29);
    Remembered& memory = memory_[size_t((hash * 0xd6e8feb86659fd93ull) >> (64 - kMemoryBits))];
    if (memory.size != word.size() || memory.text != key.text) {
        merge(word);
        if (symbols_.size() > kMostTokens) {
            ids.insert(ids.end(), symbols_.begin(), symbols_.end());
            return;
        }
        memory.text = key.text;
        memory.size = uint8_t(word.size());
        memory.count = uint8_t(symbols_.size());
        std::copy(symbols_.begin(), symbols_.end(), memory.ids.begin());
    }
    ids.insert(ids.end(), memory.ids.begin(), memory.ids.begin() + memory.count);
}

void WordEncoder::merge(std::string_view word) {
    symbols_.clear();
    for (char byte : word) symbols_.push_back(bytes_[uint8_t(byte)]);
    merger_.merge(symbols_);
}

bool WordEncoder::has_grown() const { return symbols_.capacity() > kLargeWord; }

std::unique_ptr<WordEncoder> BytePairs::borrow() {
    std::lock_guard<std::mutex> alone(mutex_);
    if (idle_.empty()) return std::make_unique<WordEncoder>(bytes_, merges_);
    auto encoder = std::move(idle_.back());
    idle_.pop_back();
    return encoder;
}

void BytePairs::encode(const std::vector<std::string_view>& texts, std::vector<uint32_t>& ids,
                       std::vector<size_t>& ends) {
    auto encoder = borrow();
    for (std::string_view text : texts) {
        encoder->encode(text, ids);
        ends.push_back(ids.size());
    }
    std::lock_guard<std::mutex> alone(mutex_);
    if (idle_.size() < kMostIdle && !encoder->has_grown()) idle_.push_back(std::move(encoder));
}

}  // namespace whitedwarf
