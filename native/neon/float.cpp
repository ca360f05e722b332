// Float products: the 16 lanes of level.h are four registers.
#include "float_panels.h"
#include "neon/vectors.h"

namespace whitedwarf::neon {
namespace {

constexpr int kDecodedRows = 4;
constexpr int kQuarters = kFloatLanes / 4;

template <Type kType>
float32x4_t load4(const uint8_t* row, int64_t k) {
    if constexpr (kType == F32) return vreinterpretq_f32_u8(vld1q_u8(row + 4 * k));
    const uint16x4_t halves = vreinterpret_u16_u8(vld1_u8(row + 2 * k));
    if constexpr (kType == F16) return vcvt_f32_f16(vreinterpret_f16_u16(halves));
    return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
}

template <Type kType, int kRows, int kInputs>
void multiply_block(const uint8_t* weights, int64_t row_bytes, const FloatRows& x, const int32_t* rows, Output out) {
    constexpr int kWeightBytes = kType == F32 ? 4 : 2;
    const float* inputs[kInputs];
    for (int t = 0; t < kInputs; ++t) inputs[t] = x.x + rows[t] * x.cols;
    float32x4_t acc[kRows][kInputs][kQuarters];
    for (auto& row : acc)
        for (auto& input : row)
            for (auto& lanes : input) lanes = vdupq_n_f32(0.0f);
    int64_t k = 0;
    for (; k + kFloatLanes <= x.cols; k += kFloatLanes)
        for (int i = 0; i < kQuarters; ++i) {
            float32x4_t in[kInputs];
            for (int t = 0; t < kInputs; ++t) in[t] = vld1q_f32(inputs[t] + k + 4 * i);
            for (int r = 0; r < kRows; ++r) {
                // The same place of the rows that come next: these here are read once.
                if (kRows > 1 && i == 0 && k % (64 / kWeightBytes) == 0)
                    prefetch_ahead(weights + r * row_bytes + kWeightBytes * k, kRows * row_bytes);
                const float32x4_t w = load4<kType>(weights + r * row_bytes, k + 4 * i);
                for (int t = 0; t < kInputs; ++t) acc[r][t][i] = vfmaq_f32(acc[r][t][i], w, in[t]);
            }
        }
    for (int t = 0; t < kInputs; ++t)
        for (int r = 0; r < kRows; ++r) {
            float lanes[kFloatLanes];
            for (int i = 0; i < kQuarters; ++i) vst1q_f32(lanes + 4 * i, acc[r][t][i]);
            for (int64_t i = k; i < x.cols; ++i)
                lanes[i - k] =
                    __builtin_fmaf(float_weight(kType, weights + r * row_bytes, i), inputs[t][i], lanes[i - k]);
            out.data[t * out.stride + r] = sum_lanes(lanes, kFloatLanes);
        }
}

template <Type kType, int kRows, int kInputs>
void multiply_plain(const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x, RowList list,
                    Output out) {
    int r = 0;
    for (; r + kRows <= num_rows; r += kRows) {
        int64_t i = 0;
        const auto from = [&] { return Output{out.data + i * out.stride + r, out.stride}; };
        for (; i + kInputs <= list.count; i += kInputs)
            multiply_block<kType, kRows, kInputs>(weights + r * row_bytes, row_bytes, x, list.rows + i, from());
        for (; i < list.count; ++i)
            multiply_block<kType, kRows, 1>(weights + r * row_bytes, row_bytes, x, list.rows + i, from());
    }
    for (; r < num_rows; ++r)
        for (int64_t i = 0; i < list.count; ++i)
            multiply_block<kType, 1, 1>(weights + r * row_bytes, row_bytes, x, list.rows + i,
                                        {out.data + i * out.stride + r, out.stride});
}

template <Type kType>
void decode_plain(const uint8_t* row, int64_t cols, float* out) {
    int64_t k = 0;
    for (; k + 4 <= cols; k += 4) vst1q_f32(out + k, load4<kType>(row, k));
    for (; k < cols; ++k) out[k] = float_weight(kType, row, k);
}

// The register tile of float_panels.h: a quarter of the lanes at a time, so that sixteen sums are enough.
struct Tile {
    static constexpr int kRows = 4, kInputs = 4;

    static void copy(const float* x, int64_t cols, float* to) {
        decode_plain<F32>(reinterpret_cast<const uint8_t*>(x), cols, to);
    }

    static void add(const float* w, const float* x, int64_t cols, float* lanes) {
        for (int i = 0; i < kQuarters; ++i) add_quarter(w + 4 * i, x + 4 * i, cols, lanes + 4 * i);
    }

    static void add_quarter(const float* w, const float* x, int64_t cols, float* lanes) {
        float32x4_t acc[kRows][kInputs];
        for (int r = 0; r < kRows; ++r)
            for (int t = 0; t < kInputs; ++t) acc[r][t] = vld1q_f32(lanes + (r * kInputs + t) * kFloatLanes);
        for (int64_t k = 0; k < cols; k += kFloatLanes) {
            float32x4_t in[kInputs];
            for (int t = 0; t < kInputs; ++t) in[t] = vld1q_f32(x + t * kPanelColumns + k);
            for (int r = 0; r < kRows; ++r) {
                const float32x4_t row = vld1q_f32(w + r * kPanelColumns + k);
                for (int t = 0; t < kInputs; ++t) acc[r][t] = vfmaq_f32(acc[r][t], row, in[t]);
            }
        }
        for (int r = 0; r < kRows; ++r)
            for (int t = 0; t < kInputs; ++t) vst1q_f32(lanes + (r * kInputs + t) * kFloatLanes, acc[r][t]);
    }

    static void finish(const float* lanes, float* results) {
        for (int r = 0; r < kRows; ++r)
            for (int t = 0; t < kInputs; ++t, lanes += kFloatLanes) {
                const auto at = [&](int i) { return vld1q_f32(lanes + 4 * i); };
                const float32x4_t four = vaddq_f32(vaddq_f32(at(0), at(2)), vaddq_f32(at(1), at(3)));
                const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
                results[t * kRows + r] = vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
            }
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
    else
        multiply_plain<kType, 2, 2>(weights, row_bytes, num_rows, x, list, out);
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
    for (int64_t k = 0; k < cols; ++k) {
        const int64_t s = k / layout.granule;
        const float scaled = w.scales[s] * float(int8_t(w.codes[k]));
        out[k] = layout.has_min ? scaled - w.mins[s] : scaled;
    }
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

}  // namespace whitedwarf::neon
