// The best of a list of grid points, one after the other: for levels without registers to search several at once.
#pragma once

#include <cstdint>

namespace whitedwarf {
namespace {

// The word of least sum of root * (scale * level - x)^2 over its eight codes; of equal ones the first.
inline int nearest_point(const uint16_t* words, int count, const float* x, const float* roots, float scale) {
    float costs[8][4];
    for (int i = 0; i < 8; ++i)
        for (int code = 0; code < 4; ++code) {
            const float difference = scale * float(2 * code + 1) - x[i];
            costs[i][code] = roots[i] * difference * difference;
        }
    int found = words[0];
    float best = __builtin_inff();
    for (int n = 0; n < count; ++n) {
        float cost = costs[0][words[n] & 3];
        for (int i = 1; i < 8; ++i) cost += costs[i][words[n] >> (2 * i) & 3];
        if (cost < best) {
            best = cost;
            found = words[n];
        }
    }
    return found;
}

}  // namespace
}  // namespace whitedwarf
