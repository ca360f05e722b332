// Float products: the 16 lanes of level.h are two registers.
#include "avx2/vectors.h"
#include "float_panels.h"

namespace whitedwarf::avx2 {
namespace {

constexpr int kDecodedRows = 4;

template <Type kType>
__m256 load8(const uint8_t* row, int64_t k) {
    if constexpr (kType == F32) return _mm256_loadu_ps(reinterpret_cast<const float*>(row + 4 * k));
    const __m128i halves = load16(row + 2 * k);
    if constexpr (kType == F16) return _mm256_cvtph_ps(halves);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

// kRows weight rows times kInputs activation rows; their product is at most 4, for want of registers.
template <Type kType, int kRows, int kInputs>
void multiply_block(const uint8_t* weights, int64_t row_bytes, const FloatRows& x, const int32_t* rows, Output out) {
    constexpr int kWeightBytes = kType == F32 ? 4 : 2;
    const float* inputs[kInputs];
    for (int t = 0; t < kInputs; ++t) inputs[t] = x.x + rows[t] * x.cols;
    __m256 acc[kRows][kInputs][2];
    for (auto& row : acc)
        for (auto& pair : row) pair[0] = pair[1] = _mm256_setzero_ps();
    int64_t k = 0;
    for (; k + 16 <= x.cols; k += 16)
        for (int half = 0; half < 2; ++half) {
            __m256 in[kInputs];
            for (int t = 0; t < kInputs; ++t) in[t] = _mm256_loadu_ps(inputs[t] + k + 8 * half);
            for (int r = 0; r < kRows; ++r) {
                // The same place of the rows that come next: these here are read once.
                if (kRows > 1 && half == 0 && k % (64 / kWeightBytes) == 0)
                    prefetch_ahead(weights + r * row_bytes + kWeightBytes * k, kRows * row_bytes);
                const __m256 w = load8<kType>(weights + r * row_bytes, k + 8 * half);
                for (int t = 0; t < kInputs; ++t) acc[r][t][half] = _mm256_fmadd_ps(w, in[t], acc[r][t][half]);
            }
        }
    for (int t = 0; t < kInputs; ++t)
        for (int r = 0; r < kRows; ++r) {
            alignas(32) float lanes[kFloatLanes];
            _mm256_store_ps(lanes, acc[r][t][0]);
            _mm256_store_ps(lanes + 8, acc[r][t][1]);
            for (int64_t i = k; i < x.cols; ++i)
                lanes[i - k] =
                    __builtin_fmaf(float_weight(kType, weights + r * row_bytes, i), inputs[t][i], lanes[i - k]);
            out.data[t * out.stride + r] = sum_lanes(lanes, kFloatLanes);
        }
}

template <Type kType, int kRows, int kInputs>
void multiply_strip(const uint8_t* weights, int64_t row_bytes, const FloatRows& x, RowList list, Output out) {
    int64_t i = 0;
    const auto from = [&] { return Output{out.data + i * out.stride, out.stride}; };
    for (; i + kInputs <= list.count; i += kInputs)
        multiply_block<kType, kRows, kInputs>(weights, row_bytes, x, list.rows + i, from());
    for (; i < list.count; ++i) multiply_block<kType, kRows, 1>(weights, row_bytes, x, list.rows + i, from());
}

template <Type kType, int kRows, int kInputs>
void multiply_plain(const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x, RowList list,
                    Output out) {
    int r = 0;
    const auto from = [&] { return Output{out.data + r, out.stride}; };
    for (; r + kRows <= num_rows; r += kRows)
        multiply_strip<kType, kRows, kInputs>(weights + r * row_bytes, row_bytes, x, list, from());
    for (; r < num_rows; ++r) multiply_strip<kType, 1, 4>(weights + r * row_bytes, row_bytes, x, list, from());
}

template <Type kType>
void decode_plain(const uint8_t* row, int64_t cols, float* out) {
    int64_t k = 0;
    for (; k + 8 <= cols; k += 8) _mm256_storeu_ps(out + k, load8<kType>(row, k));
    for (; k < cols; ++k) out[k] = float_weight(kType, row, k);
}

// The register tile of float_panels.h: half of the lanes, then the other half, so that twelve sums are enough.
struct Tile {
    static constexpr int kRows = 4, kInputs = 3;

    static void copy(const float* x, int64_t cols, float* to) {
        decode_plain<F32>(reinterpret_cast<const uint8_t*>(x), cols, to);
    }

    static void add(const float* w, const float* x, int64_t cols, float* lanes) {
        for (int half = 0; half < 2; ++half) add_half(w + 8 * half, x + 8 * half, cols, lanes + 8 * half);
    }

    static void add_half(const float* w, const float* x, int64_t cols, float* lanes) {
        __m256 acc[kRows][kInputs];
        for (int r = 0; r < kRows; ++r)
            for (int t = 0; t < kInputs; ++t) acc[r][t] = _mm256_load_ps(lanes + (r * kInputs + t) * kFloatLanes);
        for (int64_t k = 0; k < cols; k += kFloatLanes) {
            __m256 in[kInputs];
            for (int t = 0; t < kInputs; ++t) in[t] = _mm256_load_ps(x + t * kPanelColumns + k);
            for (int r = 0; r < kRows; ++r) {
                const __m256 row = _mm256_load_ps(w + r * kPanelColumns + k);
                for (int t = 0; t < kInputs; ++t) acc[r][t] = _mm256_fmadd_ps(row, in[t], acc[r][t]);
            }
        }
        for (int r = 0; r < kRows; ++r)
            for (int t = 0; t < kInputs; ++t) _mm256_store_ps(lanes + (r * kInputs + t) * kFloatLanes, acc[r][t]);
    }

    static void finish(const float* lanes, float* results) {
        for (int r = 0; r < kRows; ++r)
            for (int t = 0; t < kInputs; ++t, lanes += kFloatLanes)
                results[t * kRows + r] = sum_lanes8(_mm256_add_ps(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8)));
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
void multiply_type(const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x, RowList list,
                   Output out, uint8_t* scratch) {
    if (list.count >= kManyInputs)
        multiply_many<kType>(weights, row_bytes, num_rows, x, list, out, scratch);
    else if (list.count == 1)
        multiply_plain<kType, 4, 1>(weights, row_bytes, num_rows, x, list, out);
    else
        multiply_plain<kType, 2, 2>(weights, row_bytes, num_rows, x, list, out);
}

void decode_codes(const Layout& layout, const Unpacked& w, int64_t cols, float* out) {
    for (int64_t k = 0; k < cols; k += 8) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(w.codes + k));
        const __m256i code = layout.has_min ? _mm256_cvtepu8_epi32(bytes) : _mm256_cvtepi8_epi32(bytes);
        const int64_t s = k / layout.granule;
        const __m256 scaled = _mm256_mul_ps(_mm256_set1_ps(w.scales[s]), _mm256_cvtepi32_ps(code));
        _mm256_storeu_ps(out + k, layout.has_min ? _mm256_sub_ps(scaled, _mm256_set1_ps(w.mins[s])) : scaled);
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
    unpacker(layout.type)(weights, cols, w);
    decode_codes(layout, w, cols, out);
}

void multiply_float(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x,
                    RowList list, Output out, uint8_t* scratch) {
    switch (layout.type) {
        case F32:
            return multiply_type<F32>(weights, row_bytes, num_rows, x, list, out, scratch);
        case F16:
            return multiply_type<F16>(weights, row_bytes, num_rows, x, list, out, scratch);
        case BF16:
            return multiply_type<BF16>(weights, row_bytes, num_rows, x, list, out, scratch);
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
        multiply_type<F32>(scratch, decoded_bytes, count, x, list, {out.data + r, out.stride}, rest);
    }
}

int64_t float_scratch_bytes(int64_t cols) {
    const int64_t padded = padded_columns(cols), unpacked = unpacked_bytes(padded);
    return kTileRows * int64_t(sizeof(float)) * padded + (unpacked > kPanelBytes ? unpacked : kPanelBytes);
}

}  // namespace whitedwarf::avx2
