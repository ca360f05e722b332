#include "pick.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "blocks.h"

namespace whitedwarf {

namespace {

// Bits that compare like the floats; both zeros are one number.
uint32_t ordered_bits(float score) {
    const uint32_t bits = bits_of_float(score + 0.0f);
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

// The score of rank `top` among `count` > top scores, and how many lie above it.
struct Threshold {
    uint32_t bits;
    int64_t num_above;
};

Threshold threshold(const float* scores, int64_t count, int64_t top) {
    constexpr int kShift = 20;  // the upper 12 bits choose a bin, the rest is sorted within it
    std::vector<int64_t> bins(1 << (32 - kShift));
    for (int64_t k = 0; k < count; ++k) ++bins[ordered_bits(scores[k]) >> kShift];
    int64_t bin = int64_t(bins.size()) - 1, num_above = 0;
    while (num_above + bins[bin] < top) num_above += bins[bin--];
    std::vector<uint32_t> inside;
    inside.reserve(bins[bin]);
    for (int64_t k = 0; k < count; ++k)
        if (ordered_bits(scores[k]) >> kShift == uint32_t(bin)) inside.push_back(ordered_bits(scores[k]));
    const auto edge = inside.begin() + (top - num_above - 1);
    std::nth_element(inside.begin(), edge, inside.end(), std::greater<>());
    const uint32_t bits = *edge;
    for (const uint32_t other : inside) num_above += other > bits;
    return {bits, num_above};
}

}  // namespace

void pick_best(float* scores, int64_t count, int64_t top, int32_t* out) {
    const Threshold edge = threshold(scores, count, top);
    int64_t num_ties = top - edge.num_above;
    for (int64_t k = 0; k < count; ++k) {
        const uint32_t bits = ordered_bits(scores[k]);
        if (bits > edge.bits || (bits == edge.bits && num_ties-- > 0)) *out++ = int32_t(k);
    }
}

}  // namespace whitedwarf
