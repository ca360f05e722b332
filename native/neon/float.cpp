// Float products: the 16 lanes of level.h are four registers.
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
            return multiply_plain<F32, 2, 2>(weights, row_bytes, num_rows, x, list, out);
        case F16:
            return multiply_plain<F16, 2, 2>(weights, row_bytes, num_rows, x, list, out);
        case BF16:
            return multiply_plain<BF16, 2, 2>(weights, row_bytes, num_rows, x, list, out);
        default:
            break;
    }
    const int64_t decoded_bytes = sizeof(float) * padded_columns(x.cols);
    for (int r = 0; r < num_rows; r += kDecodedRows) {
        const int count = num_rows - r < kDecodedRows ? num_rows - r : kDecodedRows;
        for (int i = 0; i < count; ++i)
            decode(layout, weights + (r + i) * row_bytes, x.cols, reinterpret_cast<float*>(scratch + i * decoded_bytes),
                   scratch + kDecodedRows * decoded_bytes);
        multiply_plain<F32, 2, 2>(scratch, decoded_bytes, count, x, list, {out.data + r, out.stride});
    }
}

}  // namespace whitedwarf::neon
