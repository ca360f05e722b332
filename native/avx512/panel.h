// A panel: 32 weight rows unpacked and interleaved, so that one vector holds a few columns of 16 rows. What products of
// many activation rows read, here and in amx/.
//
// It is cut into chunks of a few superblocks, and in a chunk granules come lane by lane (level.h: granule s adds to lane
// s mod lanes). So a lane's sums stay in registers through a chunk, the panel is read from one end to the other, and the
// activations that meet a chunk stay in the nearest cache until all lanes have met them.
#pragma once

#include "avx512/vectors.h"

namespace whitedwarf::avx512 {

constexpr int kHalves = kTileRows / 16;
constexpr int kStepBytes = 4 * kTileRows;  // a step: four columns of every row
constexpr int kChunk = 4;                  // superblocks

struct Panel {
    uint8_t* codes;  // (chunks, lanes, superblocks of a chunk, granule / 4 steps, 2 halves, 16 rows, 4 columns)
    float* scales;   // (chunks, lanes, superblocks of a chunk, 2 halves, 16 rows)
    float* mins;     // likewise; for formats with mins
    int64_t superblocks;
    int granule;

    // Never functions of their own, like those of IntegerRows. The first superblock of a chunk is a multiple of kChunk.
    [[gnu::always_inline]] int64_t granule_at(int64_t superblock, int lane) const {
        const int lanes = kSuperblock / granule;
        return (superblock / kChunk * lanes + lane) * kChunk + superblock % kChunk;
    }
    [[gnu::always_inline]] uint8_t* codes_at(int64_t superblock, int lane) const {
        return codes + granule_at(superblock, lane) * granule * kTileRows;
    }
    [[gnu::always_inline]] int64_t scales_at(int64_t superblock, int lane) const {
        return granule_at(superblock, lane) * kTileRows;
    }
    [[gnu::always_inline]] int chunk_size(int64_t first) const {
        return superblocks - first < kChunk ? int(superblocks - first) : kChunk;
    }
};

// Codes of formats without mins come as unsigned bytes, 128 too large, or as they are.
enum class Signs { kOffset, kPlain };

// What a panel is made of: weight rows [0, num_rows), num_rows <= kTileRows; the others are repetitions.
struct PanelSource {
    const Layout& layout;
    Signs signs;
    const uint8_t* weights;
    int64_t row_bytes;
    int num_rows;
    int64_t cols;

    // The panel of superblocks [first, first + most), or to the last; `first` is a multiple of kChunk. Lies in `scratch`.
    Panel build(int64_t first, int64_t most, uint8_t* scratch) const;
};

int64_t panel_scratch_bytes(int64_t padded);

// Up to so many activation rows a panel is built and met chunk by chunk: what they sum up fits beside it in the cache.
constexpr int64_t kChunkedRows = 32;
constexpr int64_t chunked_sums_bytes() { return kChunkedRows * 16 * kTileRows * int64_t(sizeof(float)); }

// The tree of level.h over lanes that lie in vectors, 16 results to each.
template <int kLanes>
static inline __m512 sum_vectors(__m512 lanes[kLanes]) {
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] = _mm512_add_ps(lanes[i], lanes[i + half]);
    return lanes[0];
}

// Which of a half's 16 rows there are.
static inline __mmask16 rows_of_half(int num_rows, int half) {
    const int left = num_rows - 16 * half;
    return left >= 16 ? 0xffff : left > 0 ? __mmask16((1 << left) - 1) : 0;
}

}  // namespace whitedwarf::avx512
