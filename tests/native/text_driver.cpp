// Words and merges under the sanitizers: random valid UTF-8, cut and merged, must come back byte for byte.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "byte_pairs.h"
#include "words.h"

using namespace whitedwarf;

namespace {

void append(std::string& text, uint32_t code) {
    if (code < 0x80) {
        text += char(code);
    } else if (code < 0x800) {
        text += char(0xc0 | code >> 6);
        text += char(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        text += char(0xe0 | code >> 12);
        text += char(0x80 | (code >> 6 & 0x3f));
        text += char(0x80 | (code & 0x3f));
    } else {
        text += char(0xf0 | code >> 18);
        text += char(0x80 | (code >> 12 & 0x3f));
        text += char(0x80 | (code >> 6 & 0x3f));
        text += char(0x80 | (code & 0x3f));
    }
}

std::string random_text(std::mt19937& random) {
    const uint32_t limits[] = {0x80, 0x100, 0x3100, 0xa000, 0x110000};
    std::string text;
    for (uint32_t count = random() % 60; count > 0; --count) {
        const uint32_t code = random() % limits[random() % 5];
        const uint32_t repeats = random() % 8 ? 1 : random() % 90;
        for (uint32_t i = 0; i < repeats && (code < 0xd800 || code > 0xdfff); ++i) append(text, code);
    }
    return text;
}

// Ids below 256 are bytes; each merge makes a new one of two earlier ones.
std::vector<Merge> random_merges(std::mt19937& random, std::vector<std::string>& spelt) {
    std::vector<Merge> merges;
    for (uint32_t i = 0; i < 400; ++i) {
        const uint32_t left = uint32_t(random() % spelt.size()), right = uint32_t(random() % spelt.size());
        merges.push_back({left, right, uint32_t(spelt.size())});
        spelt.push_back(spelt[left] + spelt[right]);
    }
    return merges;
}

bool is_whole(const std::string& text) {
    Words words(text);
    std::string joined;
    for (auto word = words.next(); !word.empty(); word = words.next()) joined += word;
    return joined == text;
}

}  // namespace

int main() {
    std::mt19937 random(1);
    ByteIds bytes{};
    std::vector<std::string> spelt;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        bytes[byte] = byte;
        spelt.emplace_back(1, char(byte));
    }
    const auto merges = random_merges(random, spelt);
    BytePairs pairs(bytes, merges);
    for (int run = 0; run < 3000; ++run) {
        const std::string text = random_text(random);
        std::vector<uint32_t> ids;
        std::vector<size_t> ends;
        pairs.encode({text, text}, ids, ends);
        std::string decoded;
        for (uint32_t id : ids) decoded += spelt[id];
        if (!is_whole(text) || decoded != text + text || ends.size() != 2) return std::printf("differs\n"), 1;
    }
    std::printf("whole\n");
}
