// The scalar level: slow, obvious, and the specification of the others.
#include "arithmetic.h"

namespace whitedwarf {
namespace {

float dot(const Layout& layout, const Unpacked& w, const IntegerRows& x, int64_t row) {
    const int granule = layout.granule, lanes = kSuperblock / granule;
    const int8_t* q = x.q + row * x.pitch();
    const float* scales = x.scales + row * x.stride();
    const float* sums = x.sums + row * x.stride();
    float acc[16] = {};
    for (int64_t s = 0; s < x.granules(); ++s) {
        int32_t product = 0;
        for (int64_t k = s * granule; k < (s + 1) * granule; ++k) product += int8_t(w.codes[k]) * q[k];
        acc[s % lanes] = __builtin_fmaf(float(product), w.scales[s] * scales[s], acc[s % lanes]);
        if (layout.has_min) acc[s % lanes] = __builtin_fmaf(-w.mins[s], sums[s], acc[s % lanes]);
    }
    return sum_lanes(acc, lanes);
}

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const Unpacked w = unpacked_in(scratch, x.padded);
    clear_padding(layout, cols, w);
    for (int r = 0; r < num_rows; ++r) {
        scalar_unpack(layout.type)(weights + r * row_bytes, cols, w);
        for (int64_t i = 0; i < list.count; ++i) out.data[i * out.stride + r] = dot(layout, w, x, list.rows[i]);
    }
}

void decode(const Layout& layout, const uint8_t* weights, int64_t cols, float* out, uint8_t* scratch) {
    if (layout.granule == 0) {
        for (int64_t k = 0; k < cols; ++k) out[k] = float_weight(layout.type, weights, k);
        return;
    }
    const Unpacked w = unpacked_in(scratch, padded_columns(cols));
    scalar_unpack(layout.type)(weights, cols, w);
    for (int64_t k = 0; k < cols; ++k) {
        const int64_t s = k / layout.granule;
        const float scaled = w.scales[s] * float(int8_t(w.codes[k]));
        out[k] = layout.has_min ? scaled - w.mins[s] : scaled;
    }
}

float dot_float(const float* w, const float* x, int64_t cols) {
    float acc[kFloatLanes] = {};
    for (int64_t k = 0; k < cols; ++k) acc[k % kFloatLanes] = __builtin_fmaf(w[k], x[k], acc[k % kFloatLanes]);
    return sum_lanes(acc, kFloatLanes);
}

void multiply_float(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x,
                    RowList list, Output out, uint8_t* scratch) {
    auto* row = reinterpret_cast<float*>(scratch);
    for (int r = 0; r < num_rows; ++r) {
        decode(layout, weights + r * row_bytes, x.cols, row, scratch + sizeof(float) * padded_columns(x.cols));
        for (int64_t i = 0; i < list.count; ++i)
            out.data[i * out.stride + r] = dot_float(row, x.x + list.rows[i] * x.cols, x.cols);
    }
}

int64_t scratch_bytes(int64_t cols) {
    return sizeof(float) * padded_columns(cols) + unpacked_bytes(padded_columns(cols));
}

}  // namespace

const Level kScalar = {"scalar", quantise_in_order, multiply, multiply_float, scratch_bytes, decode, swiglu_row};

}  // namespace whitedwarf
