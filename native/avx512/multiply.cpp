// Integer products. A few activation rows: straight from the blocks. Many: interleaved tiles, tile.cpp.
// Both follow the order of level.h, so the choice does not show in the result.
#include "avx512/formats.h"
#include "avx512/products.h"

namespace whitedwarf::avx512 {
namespace {

constexpr int64_t kFewRows = 4;  // up to here the interleaving does not pay (multiply_type knows the cases)

// One activation row, a superblock at a time.
template <int kGranule, bool kHasMin>
struct Input {
    const int8_t* q;
    const float *scales, *sums;
    const int32_t* offsets;

    Input() = default;
    Input(const IntegerRows& x, int64_t row)
        : q(x.q + row * x.pitch()),
          scales(x.scales + row * x.stride()),
          sums(x.sums + row * x.stride()),
          offsets(x.offsets + row * x.stride()) {}

    // With granules of 32, both elements of a pair carry the sum of the pair.
    __m512 add_product(__m512 acc, const Superblock& w, int64_t at) const {
        __m512i p = kHasMin ? _mm512_setzero_si512() : load64(offsets + 16 * at);
        for (int t = 0; t < 4; ++t) p = _mm512_dpbusd_epi32(p, w.codes[t], load64(q + 256 * at + 64 * t));
        if (kGranule == 32) p = _mm512_add_epi32(p, _mm512_shuffle_epi32(p, _MM_PERM_CDAB));
        const __m512 scale = _mm512_mul_ps(w.scales, _mm512_loadu_ps(scales + 16 * at));
        acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(p), scale, acc);
        return kHasMin ? _mm512_fnmadd_ps(w.mins, _mm512_loadu_ps(sums + 16 * at), acc) : acc;
    }
};

template <int kGranule>
float sum(__m512 acc) {
    if (kGranule == 16) return sum_lanes16(acc);
    const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    return sum_lanes8(_mm512_castps512_ps256(_mm512_permutexvar_ps(evens, acc)));
}

struct Weights {
    const uint8_t* data;
    int64_t row_bytes;
    int num_rows;
    int64_t cols;
};

// Asks for the weights some 4 KB ahead, which was measured to help (docs/log.md); why, no counter was asked.
// Not for MXFP4, which lost a sixth by it (docs/log.md).
template <Type kType>
void prefetch(const uint8_t* block) {
    constexpr const Layout& kLayout = kLayouts[layout_index(kType)];
    constexpr int kBytes = kLayout.bytes * (kSuperblock / kLayout.block), kLine = 64;
    constexpr uintptr_t kAhead = 4096;
    for (int i = 0; kType != MXFP4 && i < kBytes; i += kLine)
        _mm_prefetch(reinterpret_cast<const char*>(uintptr_t(block) + kAhead + uintptr_t(i)), _MM_HINT_T0);
}

// Straight from the blocks: each is decoded once, in registers, and meets kInputs activation rows.
template <Type kType, int kGranule, bool kHasMin, int kInputs>
void multiply_direct(const Weights& w, const IntegerRows& x, const int32_t* rows, Output out) {
    using In = Input<kGranule, kHasMin>;
    const Format<kType> format;
    In inputs[kInputs];
    for (int i = 0; i < kInputs; ++i) inputs[i] = In(x, rows[i]);
    const int64_t count = w.cols / kSuperblock, block_bytes = w.row_bytes / count;
    for (int r = 0; r < w.num_rows; ++r) {
        const uint8_t* row = w.data + r * w.row_bytes;
        __m512 acc[kInputs];
        for (auto& lanes : acc) lanes = _mm512_setzero_ps();
        for (int64_t at = 0; at < count; ++at) {
            prefetch<kType>(row + at * block_bytes);
            const Superblock block = format.load(row + at * block_bytes);
            for (int i = 0; i < kInputs; ++i) acc[i] = inputs[i].add_product(acc[i], block, at);
        }
        for (int i = 0; i < kInputs; ++i) out.data[i * out.stride + r] = sum<kGranule>(acc[i]);
    }
}

// For rows that end inside a superblock.
template <Type kType, int kGranule, bool kHasMin>
void multiply_unpacked(const Weights& w, const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const Unpacked row = unpacked_in(scratch, x.padded);
    for (int r = 0; r < w.num_rows; ++r) {
        unpack(kType, w.data + r * w.row_bytes, w.cols, row);
        for (int64_t i = 0; i < list.count; ++i) {
            const Input<kGranule, kHasMin> input(x, list.rows[i]);
            __m512 acc = _mm512_setzero_ps();
            for (int64_t at = 0; at < x.padded / kSuperblock; ++at) {
                Superblock block;
                for (int t = 0; t < 4; ++t) block.codes[t] = load64(row.codes + 256 * at + 64 * t);
                block.scales = _mm512_loadu_ps(row.scales + 16 * at);
                if (kHasMin) block.mins = _mm512_loadu_ps(row.mins + 16 * at);
                acc = input.add_product(acc, block, at);
            }
            out.data[i * out.stride + r] = sum<kGranule>(acc);
        }
    }
}

template <Type kType, int kGranule, bool kHasMin>
void multiply_type(const Weights& w, const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    if (w.cols % kSuperblock) return multiply_unpacked<kType, kGranule, kHasMin>(w, x, list, out, scratch);
    switch (list.count) {
        case 1:
            return multiply_direct<kType, kGranule, kHasMin, 1>(w, x, list.rows, out);
        case 2:
            return multiply_direct<kType, kGranule, kHasMin, 2>(w, x, list.rows, out);
        case 3:
            return multiply_direct<kType, kGranule, kHasMin, 3>(w, x, list.rows, out);
        case 4:
            return multiply_direct<kType, kGranule, kHasMin, 4>(w, x, list.rows, out);
        default:
            return;
    }
}

}  // namespace

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    if (list.count > kFewRows) return multiply_tile(layout, weights, row_bytes, num_rows, cols, x, list, out, scratch);
    const Weights w{weights, row_bytes, num_rows, cols};
    switch (layout.type) {
        case Q8_0:
            return multiply_type<Q8_0, 32, false>(w, x, list, out, scratch);
        case Q2_K:
            return multiply_type<Q2_K, 16, true>(w, x, list, out, scratch);
        case Q3_K:
            return multiply_type<Q3_K, 16, false>(w, x, list, out, scratch);
        case Q4_K:
            return multiply_type<Q4_K, 32, true>(w, x, list, out, scratch);
        case Q5_K:
            return multiply_type<Q5_K, 32, true>(w, x, list, out, scratch);
        case Q6_K:
            return multiply_type<Q6_K, 16, false>(w, x, list, out, scratch);
        case IQ2_XXS:
            return multiply_type<IQ2_XXS, 32, false>(w, x, list, out, scratch);
        case MXFP4:
            return multiply_type<MXFP4, 32, false>(w, x, list, out, scratch);
        default:
            return;
    }
}

}  // namespace whitedwarf::avx512
