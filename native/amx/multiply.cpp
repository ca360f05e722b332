// Integer products of many activation rows on AMX tiles: 16 activation rows and 16 weight rows at a time, 32 columns
// deep, since every granule has scales of its own. The panel is AVX-512's (avx512/panel.h).
//
// What takes the time is not the tiles but what comes after: a vector for each activation row is converted, scaled and
// added. Tiles are stored to one buffer while the sums of the other are taken in. With granules of 16 that is twice the
// work for as many products, and the tiles gain nothing: AVX-512 does those.
#include "amx/products.h"
#include "amx/tiles.h"
#include "avx512/panel.h"
#include "avx512/products.h"

namespace whitedwarf::amx {
namespace {

using avx512::kHalves;
using avx512::kStepBytes;
using avx512::Panel;

constexpr int64_t kEnoughRows = 24;  // for fewer AVX-512 is as fast, which wastes no rows of a tile
constexpr int kPair = 2;             // superblocks whose tiles are in flight together

// Up to 16 activation rows.
struct Inputs {
    const int8_t* q;  // columns in their own order, rows `pitch` bytes apart
    int64_t pitch;
    const float *scales[kTileInputs], *sums[kTileInputs];
    int count;
};

// Products of a granule in each of two superblocks.
struct alignas(64) Products {
    int32_t of[kPair][kHalves][kTileInputs][16];
};

// The granules of one lane in superblocks [first, first + kCount).
template <int kGranule, int kCount>
[[gnu::always_inline]] inline void multiply_tiles(const Panel& w, const Inputs& x, int64_t first, int lane,
                                                  Products& to) {
    const uint8_t* codes = w.codes_at(first, lane);
    const int8_t* q = x.q + first * kSuperblock + lane * kGranule;
    _tile_loadd(4, q, x.pitch);
    _tile_loadd(6, codes, kStepBytes);
    _tile_loadd(7, codes + 64, kStepBytes);
    _tile_zero(0);
    _tile_zero(1);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    if (kCount == 2) {
        codes += kGranule * kTileRows;
        _tile_loadd(5, q + kSuperblock, x.pitch);
        _tile_loadd(6, codes, kStepBytes);
        _tile_loadd(7, codes + 64, kStepBytes);
        _tile_zero(2);
        _tile_zero(3);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_stored(0, to.of[0][0], 64);
    _tile_stored(1, to.of[0][1], 64);
    if (kCount == 2) {
        _tile_stored(2, to.of[1][0], 64);
        _tile_stored(3, to.of[1][1], 64);
    }
    order_memory();
}

// Adds their scaled products to the sums.
template <int kGranule, bool kHasMin, int kCount>
[[gnu::always_inline]] inline void take_in(const Panel& w, const Inputs& x, int64_t first, int lane,
                                           const Products& from, float (*sums)[kHalves][16]) {
    const int64_t s = 16 * first + lane * (kGranule / 16), at = w.scales_at(first, lane);
    __m512 scales[kCount][kHalves], mins[kCount][kHalves];
    for (int i = 0; i < kCount; ++i)
        for (int half = 0; half < kHalves; ++half) {
            scales[i][half] = _mm512_load_ps(w.scales + at + i * kTileRows + 16 * half);
            if (kHasMin) mins[i][half] = _mm512_load_ps(w.mins + at + i * kTileRows + 16 * half);
        }
#pragma GCC unroll 4
    for (int t = 0; t < x.count; ++t) {
        __m512 acc[kHalves] = {_mm512_load_ps(sums[t][0]), _mm512_load_ps(sums[t][1])};
        for (int i = 0; i < kCount; ++i) {
            const __m512 scale = _mm512_set1_ps(x.scales[t][s + 16 * i]);
            const __m512 sum = _mm512_set1_ps(kHasMin ? x.sums[t][s + 16 * i] : 0.0f);
            for (int half = 0; half < kHalves; ++half) {
                const __m512 product = _mm512_cvtepi32_ps(_mm512_load_si512(from.of[i][half][t]));
                acc[half] = _mm512_fmadd_ps(product, _mm512_mul_ps(scales[i][half], scale), acc[half]);
                if (kHasMin) acc[half] = _mm512_fnmadd_ps(mins[i][half], sum, acc[half]);
            }
        }
        for (int half = 0; half < kHalves; ++half) _mm512_store_ps(sums[t][half], acc[half]);
    }
}

// Adds the products with the panel to sums (lanes, x.count).
template <int kGranule, bool kHasMin>
void add_inputs(const Panel& w, const Inputs& x, float (*sums)[kHalves][16]) {
    constexpr int kLanes = kSuperblock / kGranule;
    Products products[2];
    const int64_t pairs = w.superblocks / kPair;
    const auto multiply_at = [&](int64_t item) {
        multiply_tiles<kGranule, kPair>(w, x, item / kLanes * kPair, int(item % kLanes), products[item % 2]);
    };
    if (pairs) multiply_at(0);
    for (int64_t item = 0; item < pairs * kLanes; ++item) {
        if (item + 1 < pairs * kLanes) multiply_at(item + 1);
        const int lane = int(item % kLanes);
        take_in<kGranule, kHasMin, kPair>(w, x, item / kLanes * kPair, lane, products[item % 2], sums + lane * x.count);
    }
    for (int lane = 0; w.superblocks % kPair && lane < kLanes; ++lane) {
        multiply_tiles<kGranule, 1>(w, x, w.superblocks - 1, lane, products[lane % 2]);
        take_in<kGranule, kHasMin, 1>(w, x, w.superblocks - 1, lane, products[lane % 2], sums + lane * x.count);
    }
}

template <int kLanes>
void finish_inputs(const float (*sums)[kHalves][16], int count, int num_rows, Output out) {
    for (int t = 0; t < count; ++t)
        for (int half = 0; half < kHalves; ++half) {
            __m512 lanes[kLanes];
            for (int i = 0; i < kLanes; ++i) lanes[i] = _mm512_load_ps(sums[i * count + t][half]);
            float* to = out.data + t * out.stride + 16 * half;
            _mm512_mask_storeu_ps(to, avx512::rows_of_half(num_rows, half), avx512::sum_vectors<kLanes>(lanes));
        }
}

// `count` listed rows. Tiles need them at equal distances: copied where the list has others.
Inputs inputs_of(const IntegerRows& x, const int32_t* rows, int count, int8_t* copies) {
    Inputs result{x.columns + rows[0] * x.pitch(), x.pitch(), {}, {}, count};
    bool is_even = true;
    for (int t = 0; t < count; ++t) {
        result.scales[t] = x.scales + rows[t] * x.stride();
        result.sums[t] = x.sums + rows[t] * x.stride();
        is_even &= rows[t] - rows[0] == (rows[1 % count] - rows[0]) * t;
    }
    if (is_even) {
        result.pitch *= rows[1 % count] - rows[0];
        return result;
    }
    result.q = copies;
    for (int t = 0; t < count; ++t) {
        const int8_t* from = x.columns + rows[t] * x.pitch();
        for (int64_t k = 0; k < x.padded; k += 64)
            _mm512_store_si512(copies + t * x.pitch() + k, avx512::load64(from + k));
    }
    order_memory();
    return result;
}

// Activation rows in blocks of one size, for one configuration of the tiles: the last may repeat rows of the one before.
struct Blocks {
    int64_t rows;

    int64_t count() const { return (rows + kTileInputs - 1) / kTileInputs; }
    int64_t size() const { return (rows + count() - 1) / count(); }
    int64_t begin(int64_t i) const { return (i + 1) * size() <= rows ? i * size() : rows - size(); }
};

template <bool kHasMin>
void multiply_inputs(const Panel& panel, const IntegerRows& x, RowList list, int num_rows, Output out, int8_t* copies) {
    constexpr int kGranule = 32, kLanes = kSuperblock / kGranule;
    const Blocks blocks{list.count};
    const int size = int(blocks.size());
    configure_tiles(TileShapes(size, kGranule));
    alignas(64) float sums[kLanes * kTileInputs][kHalves][16];
    for (int64_t i = 0; i < blocks.count(); ++i) {
        std::memset(sums, 0, size_t(kLanes * size) * sizeof(sums[0]));
        const Inputs inputs = inputs_of(x, list.rows + blocks.begin(i), size, copies);
        add_inputs<kGranule, kHasMin>(panel, inputs, sums);
        finish_inputs<kLanes>(sums, size, num_rows, {out.data + blocks.begin(i) * out.stride, out.stride});
    }
    _tile_release();
}

int64_t copies_bytes(int64_t padded) { return kTileInputs * (padded + 64); }

}  // namespace

int64_t scratch_bytes(int64_t cols) {
    const int64_t padded = padded_columns(cols);
    const int64_t panel = copies_bytes(padded) + avx512::panel_scratch_bytes(padded);
    const int64_t others = kAvx512.scratch_bytes(cols);
    return panel > others ? panel : others;
}

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    if (layout.granule != 32 || list.count < kEnoughRows)
        return avx512::multiply(layout, weights, row_bytes, num_rows, cols, x, list, out, scratch);
    const avx512::PanelSource source{layout, avx512::Signs::kPlain, weights, row_bytes, num_rows, cols};
    const Panel panel = source.build(0, x.padded / kSuperblock, scratch + copies_bytes(x.padded));
    const auto multiply = layout.has_min ? multiply_inputs<true> : multiply_inputs<false>;
    multiply(panel, x, list, num_rows, out, reinterpret_cast<int8_t*>(scratch));
}

}  // namespace whitedwarf::amx
