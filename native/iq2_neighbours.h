// Which grid points of IQ2_XXS may replace a tuple of codes that is not on the grid.
//
// A tuple is eight codes 0..2, numbered in base 3 with the first code lowest. Its neighbours are the grid points in the
// two smallest shells of squared distance (of the levels 1, 3, 5), sorted by distance, then by index.
#pragma once

#include <cstdint>
#include <vector>

namespace whitedwarf {

constexpr int kIq2Tuples = 6561;
constexpr int kIq2Run = 16;  // lists are padded to multiples of this by their last entry

struct Iq2List {
    int32_t first;   // into words
    uint16_t count;  // with padding; 0: the tuple is on the grid
    uint16_t word;   // the tuple, two bits a code
};

struct Iq2Neighbours {
    std::vector<Iq2List> lists;   // per tuple
    std::vector<uint16_t> words;  // the neighbours as grid entries, two bits a code
    std::vector<uint8_t> index;   // of a grid entry, by its 16-bit word

    Iq2Neighbours();
};

// Made at the first call.
const Iq2Neighbours& iq2_neighbours();

}  // namespace whitedwarf
