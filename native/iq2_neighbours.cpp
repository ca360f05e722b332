#include "iq2_neighbours.h"

#include <algorithm>

#include "blocks.h"

namespace whitedwarf {
namespace {

uint16_t word_of(int tuple) {
    int word = 0;
    for (int i = 0; i < 8; ++i, tuple /= 3) word |= tuple % 3 << (2 * i);
    return uint16_t(word);
}

// Squared distance of the levels 2 * code + 1.
int distance(uint16_t a, uint16_t b) {
    int total = 0;
    for (int i = 0; i < 16; i += 2) {
        const int difference = 2 * ((a >> i & 3) - (b >> i & 3));
        total += difference * difference;
    }
    return total;
}

// Points as distance * 256 + index, so that sorting them is the order of the list.
std::vector<int> two_shells(uint16_t word) {
    std::vector<int> points(256);
    for (int i = 0; i < 256; ++i) points[size_t(i)] = distance(word, kIq2Grid[i]) << 8 | i;
    std::sort(points.begin(), points.end());
    const int nearest = points[0] >> 8;
    const auto second = std::find_if(points.begin(), points.end(), [&](int p) { return p >> 8 != nearest; });
    const int farther = second == points.end() ? nearest : *second >> 8;
    points.erase(std::find_if(points.begin(), points.end(), [&](int p) { return p >> 8 > farther; }), points.end());
    return points;
}

}  // namespace

Iq2Neighbours::Iq2Neighbours() : lists(kIq2Tuples), index(1 << 16, 0) {
    std::vector<bool> is_on_grid(1 << 16, false);
    for (int i = 0; i < 256; ++i) {
        index[kIq2Grid[i]] = uint8_t(i);
        is_on_grid[kIq2Grid[i]] = true;
    }
    for (int tuple = 0; tuple < kIq2Tuples; ++tuple) {
        Iq2List& list = lists[size_t(tuple)];
        list = {int32_t(words.size()), 0, word_of(tuple)};
        if (is_on_grid[list.word]) continue;
        for (int point : two_shells(list.word)) words.push_back(kIq2Grid[point & 255]);
        while (words.size() % kIq2Run) words.push_back(words.back());
        list.count = uint16_t(int32_t(words.size()) - list.first);
    }
}

const Iq2Neighbours& iq2_neighbours() {
    static const Iq2Neighbours made;
    return made;
}

}  // namespace whitedwarf
