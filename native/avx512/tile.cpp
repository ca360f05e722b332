// Integer products of many activation rows: a panel of 32 weight rows (panel.h) is built once, then meets some activation
// rows at a time, 16 weight rows to a vector. A lane of level.h after the other, with all sums in registers.
//
// With not so many rows the panel is built and met chunk by chunk and never leaves the nearest cache; all rows' sums wait
// in memory meanwhile.
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

    // From superblock `first` on.
    Inputs(const IntegerRows& x, const int32_t* rows, int64_t first) {
        for (int t = 0; t < kRows; ++t) {
            const int64_t s = rows[t] * x.stride() + 16 * first;
            q[t] = x.q + rows[t] * x.pitch() + kSuperblock * first;
            scales[t] = x.scales + s;
            sums[t] = x.sums + s;
            offsets[t] = x.offsets + s;
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

// Adds the products of kRows activation rows, from superblock `first` on, with the panel.
template <int kGranule, bool kHasMin, int kRows>
void add_block(const Panel& w, const IntegerRows& x, const int32_t* rows, int64_t first, float* sums) {
    constexpr int kLanes = kSuperblock / kGranule;
    const Inputs<kRows> inputs(x, rows, first);
    for (int64_t chunk = 0; chunk < w.superblocks; chunk += kChunk)
        for (int lane = 0; lane < kLanes; ++lane)
            add_lane<kGranule, kHasMin, kRows>(w, inputs, chunk, lane, sums + lane * kRows * kTileRows);
}

using AddBlock = void (*)(const Panel& w, const IntegerRows& x, const int32_t* rows, int64_t first, float* sums);

template <int kGranule, bool kHasMin>
constexpr AddBlock kBlocks[kMostRows] = {add_block<kGranule, kHasMin, 1>, add_block<kGranule, kHasMin, 2>,
                                         add_block<kGranule, kHasMin, 3>, add_block<kGranule, kHasMin, 4>,
                                         add_block<kGranule, kHasMin, 5>, add_block<kGranule, kHasMin, 6>};

// Blocks of nearly the same size: a single row left over would pay for a whole one.
struct Blocks {
    int64_t rows;

    int64_t count() const { return (rows + kMostRows - 1) / kMostRows; }
    int64_t begin(int64_t i) const { return rows * i / count(); }
};

// Sums (lanes, rows, 32) to results.
template <int kLanes>
void finish_block(const float* sums, int64_t rows, int num_rows, Output out) {
    for (int64_t t = 0; t < rows; ++t)
        for (int half = 0; half < kHalves; ++half) {
            __m512 lanes[kLanes];
            for (int i = 0; i < kLanes; ++i) lanes[i] = _mm512_load_ps(sums + (i * rows + t) * kTileRows + 16 * half);
            float* to = out.data + t * out.stride + 16 * half;
            _mm512_mask_storeu_ps(to, rows_of_half(num_rows, half), sum_vectors<kLanes>(lanes));
        }
}

template <int kGranule, bool kHasMin>
void multiply_granules(const PanelSource& weights, const IntegerRows& x, RowList list, Output out, uint8_t* scratch,
                       float* sums) {
    constexpr int kLanes = kSuperblock / kGranule;
    const Blocks blocks{list.count};
    const bool is_chunked = list.count <= kChunkedRows;
    const auto sums_of = [&](int64_t i) { return sums + (is_chunked ? blocks.begin(i) * kLanes * kTileRows : 0); };
    const auto add = [&](const Panel& panel, int64_t i, int64_t first) {
        const int64_t begin = blocks.begin(i), rows = blocks.begin(i + 1) - begin;
        if (first == 0) std::memset(sums_of(i), 0, size_t(rows * kLanes * kTileRows) * sizeof(float));
        kBlocks<kGranule, kHasMin>[rows - 1](panel, x, list.rows + begin, first, sums_of(i));
    };
    const auto finish = [&](int64_t i) {
        const int64_t begin = blocks.begin(i), rows = blocks.begin(i + 1) - begin;
        finish_block<kLanes>(sums_of(i), rows, weights.num_rows, {out.data + begin * out.stride, out.stride});
    };
    const int64_t superblocks = x.padded / kSuperblock, step = is_chunked ? kChunk : superblocks;
    for (int64_t first = 0; first < superblocks; first += step) {
        const Panel panel = weights.build(first, step, scratch);
        for (int64_t i = 0; i < blocks.count(); ++i) {
            add(panel, i, first);
            if (!is_chunked) finish(i);
        }
    }
    for (int64_t i = 0; is_chunked && i < blocks.count(); ++i) finish(i);
}

}  // namespace

int64_t tile_scratch_bytes(int64_t padded) { return chunked_sums_bytes() + panel_scratch_bytes(padded); }

void multiply_tile(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                   const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const PanelSource source{layout, Signs::kOffset, weights, row_bytes, num_rows, cols};
    const auto multiply = layout.granule == 32 ? layout.has_min ? multiply_granules<32, true>
                                                                : multiply_granules<32, false>
                          : layout.has_min     ? multiply_granules<16, true>
                                               : multiply_granules<16, false>;
    multiply(source, x, list, out, scratch + chunked_sums_bytes(), reinterpret_cast<float*>(scratch));
}

}  // namespace whitedwarf::avx512
