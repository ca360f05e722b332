// Integer products of many activation rows: a panel of 32 weight rows (panel.h) is built once, then meets some activation
// rows at a time, 16 weight rows to a vector. A lane of level.h after the other, with all sums in registers.
#include <algorithm>

#include "avx512/panel.h"
#include "avx512/products.h"
#include "avx512/superblock.h"

namespace whitedwarf::avx512 {
namespace {

constexpr int kMostRows = 6;  // activation rows at once: 12 sums of integers and 12 of floats fill the registers

template <int kRows>
struct Inputs {
    const int8_t* q[kRows];
    const float *scales[kRows], *sums[kRows];
    const int32_t* offsets[kRows];

    Inputs(const IntegerRows& x, const int32_t* rows) {
        for (int t = 0; t < kRows; ++t) {
            q[t] = x.q + rows[t] * x.pitch();
            scales[t] = x.scales + rows[t] * x.stride();
            sums[t] = x.sums + rows[t] * x.stride();
            offsets[t] = x.offsets + rows[t] * x.stride();
        }
    }
};

// Four columns of an activation row, sixteen times: those of a granule's `step` in superblock.h's order.
template <int kGranule>
__m512i broadcast_columns(const int8_t* q, int64_t superblock, int lane, int step) {
    const int in_block = kGranule == 16 ? step * 64 + lane * 4 : step / 2 * 64 + lane * 8 + step % 2 * 4;
    int32_t four;
    std::memcpy(&four, q + superblock * kSuperblock + in_block, 4);
    return _mm512_set1_epi32(four);
}

// What a chunk adds to one lane of the products of kRows activation rows with the panel.
template <int kGranule, bool kHasMin, int kRows>
[[gnu::always_inline]] inline void add_lane(const Panel& w, const Inputs<kRows>& x, int64_t chunk, int lane,
                                            float* sums) {
    constexpr int kPerGranule = kGranule / 16, kSteps = kGranule / 4;
    __m512 acc[kRows][kHalves];
    for (int t = 0; t < kRows; ++t)
        for (int half = 0; half < kHalves; ++half) acc[t][half] = _mm512_load_ps(sums + (t * kHalves + half) * 16);
    const uint8_t* codes = w.codes_at(chunk, lane);
    const float *scales = w.scales + w.scales_at(chunk, lane), *mins = w.mins + w.scales_at(chunk, lane);
    const int64_t end = chunk + w.chunk_size(chunk);
    for (int64_t at = chunk; at < end; ++at, scales += kTileRows, mins += kTileRows) {
        const int64_t s = 16 * at + lane * kPerGranule;
        __m512i p[kRows][kHalves];
        for (int t = 0; t < kRows; ++t)
            for (auto& half : p[t]) half = kHasMin ? _mm512_setzero_si512() : _mm512_set1_epi32(x.offsets[t][s]);
#pragma GCC unroll 8
        for (int step = 0; step < kSteps; ++step, codes += kStepBytes) {
            const __m512i weights[kHalves] = {_mm512_load_si512(codes), _mm512_load_si512(codes + 64)};
            for (int t = 0; t < kRows; ++t) {
                const __m512i in = broadcast_columns<kGranule>(x.q[t], at, lane, step);
                for (int half = 0; half < kHalves; ++half)
                    p[t][half] = _mm512_dpbusd_epi32(p[t][half], weights[half], in);
            }
        }
        for (int half = 0; half < kHalves; ++half) {
            const __m512 scale = _mm512_load_ps(scales + 16 * half);
            for (int t = 0; t < kRows; ++t) {
                const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[t][s]));
                acc[t][half] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(p[t][half]), both, acc[t][half]);
                if (!kHasMin) continue;
                const __m512 min = _mm512_load_ps(mins + 16 * half);
                acc[t][half] = _mm512_fnmadd_ps(min, _mm512_set1_ps(x.sums[t][s]), acc[t][half]);
            }
        }
    }
    for (int t = 0; t < kRows; ++t)
        for (int half = 0; half < kHalves; ++half) _mm512_store_ps(sums + (t * kHalves + half) * 16, acc[t][half]);
}

template <int kGranule, bool kHasMin, int kRows>
void multiply_block(const Panel& w, const IntegerRows& x, const int32_t* rows, int num_rows, Output out) {
    constexpr int kLanes = kSuperblock / kGranule;
    const Inputs<kRows> inputs(x, rows);
    alignas(64) float sums[kLanes][kRows][kHalves][16] = {};
    for (int64_t chunk = 0; chunk < w.superblocks; chunk += kChunk)
        for (int lane = 0; lane < kLanes; ++lane)
            add_lane<kGranule, kHasMin, kRows>(w, inputs, chunk, lane, sums[lane][0][0]);
    for (int t = 0; t < kRows; ++t)
        for (int half = 0; half < kHalves; ++half) {
            __m512 lanes[kLanes];
            for (int i = 0; i < kLanes; ++i) lanes[i] = _mm512_load_ps(sums[i][t][half]);
            float* to = out.data + t * out.stride + 16 * half;
            _mm512_mask_storeu_ps(to, rows_of_half(num_rows, half), sum_vectors<kLanes>(lanes));
        }
}

using MultiplyBlock = void (*)(const Panel& w, const IntegerRows& x, const int32_t* rows, int num_rows, Output out);

template <int kGranule, bool kHasMin>
MultiplyBlock block_multiplier(int64_t rows) {
    constexpr MultiplyBlock kBlocks[kMostRows] = {
        multiply_block<kGranule, kHasMin, 1>, multiply_block<kGranule, kHasMin, 2>,
        multiply_block<kGranule, kHasMin, 3>, multiply_block<kGranule, kHasMin, 4>,
        multiply_block<kGranule, kHasMin, 5>, multiply_block<kGranule, kHasMin, 6>};
    return kBlocks[rows - 1];
}

}  // namespace

int64_t tile_scratch_bytes(int64_t padded) { return panel_scratch_bytes(padded); }

void multiply_tile(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                   const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const Panel panel = build_panel(layout, Signs::kOffset, weights, row_bytes, num_rows, cols, scratch);
    const auto multiplier = layout.granule == 32 ? layout.has_min ? block_multiplier<32, true> : block_multiplier<32, false>
                            : layout.has_min     ? block_multiplier<16, true>
                                                 : block_multiplier<16, false>;
    // Blocks of nearly the same size: a single row left over would pay for a whole one.
    int64_t blocks = (list.count + kMostRows - 1) / kMostRows;
    for (int64_t i = 0; blocks > 0; --blocks) {
        const int64_t rows = (list.count - i + blocks - 1) / blocks;
        multiplier(rows)(panel, x, list.rows + i, num_rows, {out.data + i * out.stride, out.stride});
        i += rows;
    }
}

}  // namespace whitedwarf::avx512
