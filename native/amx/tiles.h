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

struct alignas(64) TileShapes {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles of full size for as long as this lives.
class Tiles {
public:
    Tiles() {
        const TileShapes shapes;
        fence();
        _tile_loadconfig(&shapes);
    }
    ~Tiles() {
        fence();
        _tile_release();
    }
    Tiles(const Tiles&) = delete;
    Tiles& operator=(const Tiles&) = delete;
};

}  // namespace whitedwarf::amx
