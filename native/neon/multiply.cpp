// Integer products with the dot product instruction, in the order of level.h.
#include "neon/vectors.h"

namespace whitedwarf::neon {
namespace {

// Codes of formats with mins are at most 31, so they are the same signed or unsigned.
int32x4_t products(const uint8_t* codes, const int8_t* q, int32x4_t sum) {
    return vdotq_s32(sum, vreinterpretq_s8_u8(vld1q_u8(codes)), vld1q_s8(q));
}

// Sums of four granules in a row.
template <int kGranule>
int32x4_t four_sums(const uint8_t* codes, const int8_t* q) {
    const auto at = [&](int i) {
        const int k = i * kGranule;
        int32x4_t sum = products(codes + k, q + k, vdupq_n_s32(0));
        if (kGranule == 32) sum = products(codes + k + 16, q + k + 16, sum);
        return sum;
    };
    return vpaddq_s32(vpaddq_s32(at(0), at(1)), vpaddq_s32(at(2), at(3)));
}

template <int kGranule, bool kHasMin>
float dot(const Unpacked& w, const IntegerRows& x, int64_t row) {
    constexpr int kLanes = kSuperblock / kGranule;
    const int8_t* q = x.q + row * x.pitch();
    const float *scales = x.scales + row * x.stride(), *sums = x.sums + row * x.stride();
    float32x4_t acc[kLanes / 4];
    for (auto& lanes : acc) lanes = vdupq_n_f32(0.0f);
    for (int64_t s = 0; s < x.granules(); s += kLanes)
        for (int i = 0; i < kLanes / 4; ++i) {
            const int64_t at = s + 4 * i;
            const int32x4_t p = four_sums<kGranule>(w.codes + at * kGranule, q + at * kGranule);
            const float32x4_t scale = vmulq_f32(vld1q_f32(w.scales + at), vld1q_f32(scales + at));
            acc[i] = vfmaq_f32(acc[i], vcvtq_f32_s32(p), scale);
            if (kHasMin) acc[i] = vfmsq_f32(acc[i], vld1q_f32(w.mins + at), vld1q_f32(sums + at));
        }
    float lanes[kLanes];
    for (int i = 0; i < kLanes / 4; ++i) vst1q_f32(lanes + 4 * i, acc[i]);
    return sum_lanes(lanes, kLanes);
}

}  // namespace

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const Dot chosen = layout.granule == 32 ? layout.has_min ? dot<32, true> : dot<32, false>
                       : layout.has_min     ? dot<16, true>
                                            : dot<16, false>;
    multiply_strips(layout, unpacker(layout.type), chosen, weights, row_bytes, num_rows, cols, x, list, out, scratch);
}

}  // namespace whitedwarf::neon
