// The tile registers of AMX: what this level uses them for, and their instructions as the compiler has to see them.
// Internal linkage: see blocks.h.
#pragma once

#include <immintrin.h>

#include "level.h"

namespace whitedwarf::amx {

constexpr int kTileInputs = 16;  // activation rows in a tile
constexpr int kSums = 0, kInputs = 4, kWeights = 6;  // first tile of each kind: four, two and two

// The operand of ldtilecfg.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};

    TileShapes(int inputs, int granule) {
        for (int i = 0; i < 4; ++i) set(kSums + i, inputs, 64);
        for (int i = 0; i < 2; ++i) set(kInputs + i, inputs, granule), set(kWeights + i, granule / 4, 64);
    }
    void set(int tile, int count, int bytes) { rows[tile] = uint8_t(count), row_bytes[tile] = uint16_t(bytes); }
};

// GCC's intrinsics do not tell the compiler that they read and write memory.
static inline void order_memory() { asm volatile("" ::: "memory"); }

// To be undone by _tile_release: a thread that leaves its tiles configured makes every switch of threads save 8 KB.
static inline void configure_tiles(const TileShapes& shapes) {
    order_memory();
    _tile_loadconfig(&shapes);
}

}  // namespace whitedwarf::amx
