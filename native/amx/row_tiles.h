// The tile registers. Internal linkage: see blocks.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace whitedwarf::amx {

constexpr int kTile = 16;         // rows of a tile, and columns of 32 bits
constexpr int kRowBytes = 64;
constexpr int kTileBytes = 1024;

// What the compiler does not know of tiles: that they read and write memory.
static inline void fence() { asm volatile("" ::: "memory"); }

struct alignas(64) RowTileShapes {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles of full size, until release_tiles. No object does it: cleaning up after exceptions would need code of the
// library's in this level (blocks.h).
static inline void take_tiles() {
    const RowTileShapes shapes;
    fence();
    _tile_loadconfig(&shapes);
}

static inline void release_tiles() {
    fence();
    _tile_release();
}

}  // namespace whitedwarf::amx
