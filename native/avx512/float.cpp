// Float products: 16 lanes, several weight rows at a time. Quantised weights are decoded to floats first.
#include "avx512/products.h"
#include "avx512/superblock.h"
#include "float_panels.h"

namespace whitedwarf::avx512 {
namespace {

constexpr int kDecodedRows = 4;

// Sixteen weights from column k on; with a mask, only those (the rest are zero).
template <Type kType>
__m512 load16(const uint8_t* row, int64_t k) {
    if constexpr (kType == F32) return _mm512_loadu_ps(row + 4 * k);
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 2 * k));
    if constexpr (kType == F16) return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

template <Type kType>
__m512 load_masked(const uint8_t* row, int64_t k, __mmask16 used) {
    if constexpr (kType == F32) return _mm512_maskz_loadu_ps(used, row + 4 * k);
    const __m256i halves = _mm256_maskz_loadu_epi16(used, row + 2 * k);
    if constexpr (kType == F16) return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

__mmask16 first_columns(int64_t count) { return __mmask16((1u << count) - 1); }

template <Type kType, int kRows, int kInputs>
void multiply_block(const uint8_t* weights, int64_t row_bytes, const FloatRows& x, const int32_t* rows, Output out) {
    constexpr int kWeightBytes = kType == F32 ? 4 : 2;
    const float* inputs[kInputs];
    for (int t = 0; t < kInputs; ++t) inputs[t] = x.x + rows[t] * x.cols;
    __m512 acc[kRows][kInputs];
    for (int r = 0; r < kRows; ++r)
        for (int t = 0; t < kInputs; ++t) acc[r][t] = _mm512_setzero_ps();
    int64_t k = 0;
    for (; k + 16 <= x.cols; k += 16) {
        __m512 in[kInputs];
        for (int t = 0; t < kInputs; ++t) in[t] = _mm512_loadu_ps(inputs[t] + k);
        for (int r = 0; r < kRows; ++r) {
            // The same place of the rows that come next: these here are read once.
            if (kRows > 1 && k % (64 / kWeightBytes) == 0)
                prefetch_ahead(weights + r * row_bytes + kWeightBytes * k, kRows * row_bytes);
            const __m512 w = load16<kType>(weights + r * row_bytes, k);
            for (int t = 0; t < kInputs; ++t) acc[r][t] = _mm512_fmadd_ps(w, in[t], acc[r][t]);
        }
    }
    if (k < x.cols) {
        const __mmask16 used = first_columns(x.cols - k);
        for (int r = 0; r < kRows; ++r) {
            const __m512 w = load_masked<kType>(weights + r * row_bytes, k, used);
            for (int t = 0; t < kInputs; ++t)
                acc[r][t] = _mm512_mask3_fmadd_ps(w, _mm512_maskz_loadu_ps(used, inputs[t] + k), acc[r][t], used);
        }
    }
    for (int t = 0; t < kInputs; ++t)
        for (int r = 0; r < kRows; ++r) out.data[t * out.stride + r] = sum_lanes16(acc[r][t]);
}

template <Type kType, int kRows>
void multiply_strip(const uint8_t* weights, int64_t row_bytes, const FloatRows& x, RowList list, Output out) {
    int64_t i = 0;
    const auto from = [&] { return Output{out.data + i * out.stride, out.stride}; };
    for (; i + 4 <= list.count; i += 4) multiply_block<kType, kRows, 4>(weights, row_bytes, x, list.rows + i, from());
    for (; i + 2 <= list.count; i += 2) multiply_block<kType, kRows, 2>(weights, row_bytes, x, list.rows + i, from());
    for (; i < list.count; ++i) multiply_block<kType, kRows, 1>(weights, row_bytes, x, list.rows + i, from());
}

template <Type kType>
void multiply_plain(const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x, RowList list,
                    Output out) {
    int r = 0;
    const auto from = [&] { return Output{out.data + r, out.stride}; };
    for (; r + 4 <= num_rows; r += 4) multiply_strip<kType, 4>(weights + r * row_bytes, row_bytes, x, list, from());
    for (; r < num_rows; ++r) multiply_strip<kType, 1>(weights + r * row_bytes, row_bytes, x, list, from());
}

template <Type kType>
void decode_plain(const uint8_t* row, int64_t cols, float* out) {
    int64_t k = 0;
    for (; k + 16 <= cols; k += 16) _mm512_storeu_ps(out + k, load16<kType>(row, k));
    const __mmask16 used = first_columns(cols - k);
    _mm512_mask_storeu_ps(out + k, used, load_masked<kType>(row, k, used));
}

// Four vectors -> one whose quarter i holds what the tree of level.h makes of the i-th one's lanes, but for four lanes.
__m512 fold_to_quarters(__m512 a, __m512 b, __m512 c, __m512 d) {
    const __m512 first = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    const __m512 second = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    return _mm512_add_ps(_mm512_shuffle_f32x4(first, second, 0x88), _mm512_shuffle_f32x4(first, second, 0xdd));
}

// Of every quarter the sums of a's four lanes and b's: (i, i + 2) of a, then of b.
__m512 fold_pair(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}

// The register tile of float_panels.h.
struct Tile {
    static constexpr int kRows = 4, kInputs = 4;

    static void copy(const float* x, int64_t cols, float* to) {
        decode_plain<F32>(reinterpret_cast<const uint8_t*>(x), cols, to);
    }

    static void add(const float* w, const float* x, int64_t cols, float* lanes) {
        __m512 acc[kRows][kInputs];
        for (int r = 0; r < kRows; ++r)
            for (int t = 0; t < kInputs; ++t) acc[r][t] = _mm512_load_ps(lanes + (r * kInputs + t) * 16);
        for (int64_t k = 0; k < cols; k += 16) {
            __m512 in[kInputs];
            for (int t = 0; t < kInputs; ++t) in[t] = _mm512_load_ps(x + t * kPanelColumns + k);
            for (int r = 0; r < kRows; ++r) {
                const __m512 row = _mm512_load_ps(w + r * kPanelColumns + k);
                for (int t = 0; t < kInputs; ++t) acc[r][t] = _mm512_fmadd_ps(row, in[t], acc[r][t]);
            }
        }
        for (int r = 0; r < kRows; ++r)
            for (int t = 0; t < kInputs; ++t) _mm512_store_ps(lanes + (r * kInputs + t) * 16, acc[r][t]);
    }

    static void finish(const float* lanes, float* results) {
        __m512 quarters[kRows];
        for (int r = 0; r < kRows; ++r) {
            const auto at = [&](int t) { return _mm512_load_ps(lanes + (r * kInputs + t) * 16); };
            quarters[r] = fold_to_quarters(at(0), at(1), at(2), at(3));
        }
        const __m512 first = fold_pair(quarters[0], quarters[1]), second = fold_pair(quarters[2], quarters[3]);
        _mm512_storeu_ps(results, _mm512_add_ps(_mm512_shuffle_ps(first, second, 0x88),
                                                _mm512_shuffle_ps(first, second, 0xdd)));
    }
};

template <Type kType>
void multiply_many(const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x, RowList list,
                   Output out, uint8_t* scratch) {
    multiply_panels<Tile>(num_rows, x, list, out, scratch, [&](int r, int64_t first, int64_t count, float* to) {
        decode_plain<kType>(weights + r * row_bytes + (kType == F32 ? 4 : 2) * first, count, to);
    });
}

template <Type kType>
void multiply_any(const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x, RowList list,
                  Output out, uint8_t* scratch) {
    if (list.count < kManyInputs) return multiply_plain<kType>(weights, row_bytes, num_rows, x, list, out);
    multiply_many<kType>(weights, row_bytes, num_rows, x, list, out, scratch);
}

// Sixteen codes from column k on, in order (superblock.h has theirs).
__m128i sixteen_codes(const uint8_t* codes, int64_t k, int granule) {
    const uint8_t* first = codes + k / kSuperblock * kSuperblock + k % kSuperblock / granule * (granule / 4);
    if (granule == 32) {
        first += k % 32 / 8 * 64;
        return _mm_unpacklo_epi64(_mm_loadu_si64(first), _mm_loadu_si64(first + 64));
    }
    return _mm_setr_epi32(int32_t(load_u32(first)), int32_t(load_u32(first + 64)), int32_t(load_u32(first + 128)),
                          int32_t(load_u32(first + 192)));
}

void decode_codes(const Layout& layout, const Unpacked& w, int64_t cols, float* out) {
    const __m512i offset = _mm512_set1_epi32(layout.has_min ? 0 : kOffset);
    for (int64_t k = 0; k < cols; k += 16) {
        const __m128i bytes = sixteen_codes(w.codes, k, layout.granule);
        const __m512 code = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32(bytes), offset));
        const __m512 scaled = _mm512_mul_ps(_mm512_set1_ps(w.scales[k / 16]), code);
        _mm512_storeu_ps(out + k, layout.has_min ? _mm512_sub_ps(scaled, _mm512_set1_ps(w.mins[k / 16])) : scaled);
    }
}

}  // namespace

void decode(const Layout& layout, const uint8_t* weights, int64_t cols, float* out, uint8_t* scratch) {
    switch (layout.type) {
        case F32:
            return decode_plain<F32>(weights, cols, out);
        case F16:
            return decode_plain<F16>(weights, cols, out);
        case BF16:
            return decode_plain<BF16>(weights, cols, out);
        default:
            break;
    }
    const Unpacked w = unpacked_in(scratch, padded_columns(cols));
    unpack(layout.type, weights, cols, w);
    decode_codes(layout, w, cols, out);
}

void multiply_float(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x,
                    RowList list, Output out, uint8_t* scratch) {
    switch (layout.type) {
        case F32:
            return multiply_any<F32>(weights, row_bytes, num_rows, x, list, out, scratch);
        case F16:
            return multiply_any<F16>(weights, row_bytes, num_rows, x, list, out, scratch);
        case BF16:
            return multiply_any<BF16>(weights, row_bytes, num_rows, x, list, out, scratch);
        default:
            break;
    }
    // A few decoded rows at a time for a few activations, more of them for many.
    const int64_t decoded_bytes = sizeof(float) * padded_columns(x.cols);
    const int together = list.count < kManyInputs ? kDecodedRows : kTileRows;
    uint8_t* rest = scratch + together * decoded_bytes;
    for (int r = 0; r < num_rows; r += together) {
        const int count = num_rows - r < together ? num_rows - r : together;
        for (int i = 0; i < count; ++i)
            decode(layout, weights + (r + i) * row_bytes, x.cols, reinterpret_cast<float*>(scratch + i * decoded_bytes),
                   rest);
        multiply_any<F32>(scratch, decoded_bytes, count, x, list, {out.data + r, out.stride}, rest);
    }
}

int64_t float_scratch_bytes(int64_t cols) {
    const int64_t padded = padded_columns(cols), unpacked = unpacked_bytes(padded);
    return kTileRows * int64_t(sizeof(float)) * padded + (unpacked > kPanelBytes ? unpacked : kPanelBytes);
}

}  // namespace whitedwarf::avx512
