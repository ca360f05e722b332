// Q4_K and Q2_K: a range fit per group, then one float16 scale and offset per block with small integer shares of them.
// After quantize_lanes.h, once per CPU level.
#pragma once

#include <cstring>

#include "half.h"
#include "quantize_lanes.h"

namespace whitedwarf {
namespace {

// How a K format cuts its 256 weights and how many steps its integers have.
template <int kBlockElements, int kCode, int kSmall>
struct KShape {
    static constexpr int kElements = kBlockElements;  // of a group
    static constexpr int kGroups = 256 / kBlockElements;
    static constexpr int kMaxCode = kCode;
    static constexpr int kMaxSmall = kSmall;
};
using Q4Shape = KShape<32, 15, 63>;
using Q2Shape = KShape<16, 3, 15>;
constexpr RangeSearch kImportanceSearch = {-0.9f, 0.05f, 36};
constexpr RangeSearch kQ4Search = {-1.0f, 0.1f, 20};
constexpr RangeSearch kQ2Search = {-0.5f, 0.1f, 15};

// One batch: what the groups of every block were fitted to.
template <class Shape>
struct alignas(64) KBatch {
    float scales[Shape::kGroups][kBatchBlocks];
    float offsets[Shape::kGroups][kBatchBlocks];
    float weights[Shape::kGroups][kBatchBlocks];
    float small_scales[Shape::kGroups][kBatchBlocks];  // whole numbers
    float small_offsets[Shape::kGroups][kBatchBlocks];
    uint16_t scale[kBatchBlocks];  // float16
    uint16_t offset[kBatchBlocks];
    uint8_t codes[kBatchBlocks][256];
};

// A batch's blocks, with as many again as are missing from sixteen.
struct BatchRows {
    const float* x[kBatchBlocks];
    const float* q[kBatchBlocks];  // importances
};

inline BatchRows batch_rows(const BlockSource& source, int64_t first, int count) {
    BatchRows rows;
    for (int lane = 0; lane < kBatchBlocks; ++lane) {
        const int64_t block = first + (lane < count ? lane : count - 1), size = source.layout->block;
        rows.x[lane] = source.values + block * size;
        rows.q[lane] = source.importances ? source.importances + block % source.importance_blocks * size : nullptr;
    }
    return rows;
}

// rows[lane][first + i] -> out[i][lane]
inline void side_by_side(const float* const* rows, int first, int count, float (*out)[kBatchBlocks]) {
    for (int lane = 0; lane < kBatchBlocks; ++lane)
        for (int i = 0; i < count; ++i) out[i][lane] = rows[lane][first + i];
}

// Sum of squares of each block in index order.
inline void sum_squares(const float* const* rows, int first, int count, float* out) {
    alignas(64) float squares[kBatchBlocks] = {};
    for (int i = first; i < first + count; ++i)
        for (int lane = 0; lane < kBatchBlocks; ++lane) squares[lane] += rows[lane][i] * rows[lane][i];
    for (int lane = 0; lane < kBatchBlocks; ++lane) out[lane] = squares[lane];
}

// w = importance * sqrt(variance + x^2), in place of the importances in w.
inline void weigh(const float (*x)[kBatchBlocks], float (*w)[kBatchBlocks], int count, const float* variance) {
    for (int i = 0; i < count; ++i)
        for (int lane = 0; lane < kBatchBlocks; lane += kLanes) {
            const Lanes value = load(x[i] + lane);
            store(w[i] + lane, load(w[i] + lane) * root(load(variance + lane) + value * value));
        }
}

// One float16 for all groups of a block, and the nearest shares, the largest group getting all of them.
template <class Shape>
void share_largest(const float (*values)[kBatchBlocks], int lane, uint16_t* stored, float (*small)[kBatchBlocks],
                   EncodeFaults& faults) {
    float largest = 0;
    for (int j = 0; j < Shape::kGroups; ++j) largest = values[j][lane] > largest ? values[j][lane] : largest;
    const float inverse = largest > 0 ? float(Shape::kMaxSmall) / largest : 0.0f;
    for (int j = 0; j < Shape::kGroups; ++j) {
        const float share = inverse * values[j][lane];
        const float rounded = (share + kRounder) - kRounder;
        small[j][lane] = !(inverse < INFINITY) || !(rounded > 0) ? 0.0f
                         : rounded < Shape::kMaxSmall            ? rounded
                                                                 : float(Shape::kMaxSmall);
    }
    stored[lane] = checked_half(largest / float(Shape::kMaxSmall), faults);
}

template <class Shape>
void share(KBatch<Shape>& batch, bool has_importances, EncodeFaults& faults) {
    if (!has_importances) {
        for (int lane = 0; lane < kBatchBlocks; ++lane) {
            share_largest<Shape>(batch.scales, lane, batch.scale, batch.small_scales, faults);
            share_largest<Shape>(batch.offsets, lane, batch.offset, batch.small_offsets, faults);
        }
        return;
    }
    alignas(64) float scale[kBatchBlocks], offset[kBatchBlocks];
    for (int lane = 0; lane < kBatchBlocks; lane += kLanes) {
        store(scale + lane, fit_scale(Shape::kGroups, batch.scales, batch.weights, batch.small_scales, lane,
                                      Shape::kMaxSmall));
        store(offset + lane, fit_scale(Shape::kGroups, batch.offsets, batch.weights, batch.small_offsets, lane,
                                       Shape::kMaxSmall));
    }
    for (int lane = 0; lane < kBatchBlocks; ++lane) {
        batch.scale[lane] = checked_half(scale[lane], faults);
        batch.offset[lane] = checked_half(offset[lane], faults);
    }
}

// Codes for the scales as stored; a group whose stored scale is zero keeps the codes of its fit.
template <class Shape>
void requantise(KBatch<Shape>& batch, const BatchRows& rows) {
    for (int lane = 0; lane < kBatchBlocks; ++lane) {
        const float scale = float_of_half(batch.scale[lane]), offset = float_of_half(batch.offset[lane]);
        for (int j = 0; j < Shape::kGroups; ++j) {
            const float d = scale * batch.small_scales[j][lane], m = offset * batch.small_offsets[j][lane];
            if (d == 0) continue;
            const float* x = rows.x[lane] + j * Shape::kElements;
            uint8_t* codes = batch.codes[lane] + j * Shape::kElements;
            for (int i = 0; i < Shape::kElements; ++i) {
                const float code = (x[i] + m) / d, above = code > 0 ? code : 0.0f;
                const float within = above < Shape::kMaxCode ? above : float(Shape::kMaxCode);
                codes[i] = uint8_t(int((within + kRounder) - kRounder));
            }
        }
    }
}

template <class Shape, bool kAbsolute>
void fit_groups(KBatch<Shape>& batch, const BatchRows& rows, const RangeSearch& search, float variance_factor,
                bool has_importances) {
    static_assert(Shape::kElements <= 32);
    Group<Shape::kElements> group;
    alignas(64) float variance[kBatchBlocks];
    sum_squares(rows.x, 0, 256, variance);
    for (float& v : variance) v = variance_factor * v / 256.0f;
    for (int j = 0; j < Shape::kGroups; ++j) {
        side_by_side(rows.x, j * Shape::kElements, Shape::kElements, group.x);
        if (has_importances) {
            side_by_side(rows.q, j * Shape::kElements, Shape::kElements, group.w);
            weigh(group.x, group.w, Shape::kElements, variance);
        } else {
            alignas(64) float spread[kBatchBlocks] = {};
            if (!kAbsolute) {  // Q4_K: how far the group's values spread, too
                sum_squares(rows.x, j * Shape::kElements, Shape::kElements, spread);
                for (float& v : spread) v = __builtin_sqrtf(v / float(Shape::kElements));
            }
            for (int i = 0; i < Shape::kElements; ++i)
                for (int lane = 0; lane < kBatchBlocks; lane += kLanes)
                    store(group.w[i] + lane, load(spread + lane) + magnitude(load(group.x[i] + lane)));
        }
        for (int lane = 0; lane < kBatchBlocks; lane += kLanes) {
            Lanes total{};
            for (int i = 0; i < Shape::kElements; ++i) total += load(group.w[i] + lane);
            store(batch.weights[j] + lane, total);
            fit_range<Shape::kElements, kAbsolute>(group, lane, Shape::kMaxCode, search, batch.scales[j],
                                                   batch.offsets[j]);
        }
        for (int lane = 0; lane < kBatchBlocks; ++lane)
            for (int i = 0; i < Shape::kElements; ++i)
                batch.codes[lane][j * Shape::kElements + i] = uint8_t(int(group.codes[i][lane]));
    }
}

template <class Shape>
void write_codes(const KBatch<Shape>& batch, int lane, uint8_t* out) {
    const uint8_t* codes = batch.codes[lane];
    if constexpr (Shape::kMaxCode == 15) {
        for (int run = 0; run < 4; ++run)
            for (int i = 0; i < 32; ++i) {
                const uint8_t* c = codes + run * 64 + i;
                out[run * 32 + i] = uint8_t(c[0] | c[32] << 4);
            }
    } else {
        for (int half = 0; half < 2; ++half)
            for (int i = 0; i < 32; ++i) {
                const uint8_t* c = codes + half * 128 + i;
                out[half * 32 + i] = uint8_t(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
            }
    }
}

inline void write_q4_k(const KBatch<Q4Shape>& batch, int lane, uint8_t* out) {
    std::memcpy(out, &batch.scale[lane], 2);
    std::memcpy(out + 2, &batch.offset[lane], 2);
    uint8_t* packed = out + 4;
    for (int j = 0; j < 4; ++j) {
        const int low = int(batch.small_scales[j][lane]), high = int(batch.small_scales[j + 4][lane]);
        const int low_offset = int(batch.small_offsets[j][lane]), high_offset = int(batch.small_offsets[j + 4][lane]);
        packed[j] = uint8_t(low | high >> 4 << 6);
        packed[j + 4] = uint8_t(low_offset | high_offset >> 4 << 6);
        packed[j + 8] = uint8_t((high & 15) | (high_offset & 15) << 4);
    }
    write_codes(batch, lane, out + 16);
}

inline void write_q2_k(const KBatch<Q2Shape>& batch, int lane, uint8_t* out) {
    for (int j = 0; j < 16; ++j)
        out[j] = uint8_t(int(batch.small_scales[j][lane]) | int(batch.small_offsets[j][lane]) << 4);
    write_codes(batch, lane, out + 16);
    std::memcpy(out + 80, &batch.scale[lane], 2);
    std::memcpy(out + 82, &batch.offset[lane], 2);
}

inline void encode_q4_k(const BlockSource& source, int64_t first, int count, uint8_t* out, EncodeFaults& faults) {
    const BatchRows rows = batch_rows(source, first, count);
    const bool has_importances = source.importances != nullptr;
    KBatch<Q4Shape> batch;
    fit_groups<Q4Shape, false>(batch, rows, has_importances ? kImportanceSearch : kQ4Search, 2.0f, has_importances);
    share(batch, has_importances, faults);
    requantise(batch, rows);
    for (int lane = 0; lane < count; ++lane) write_q4_k(batch, lane, out + lane * 144);
}

inline void encode_q2_k(const BlockSource& source, int64_t first, int count, uint8_t* out, EncodeFaults& faults) {
    const BatchRows rows = batch_rows(source, first, count);
    const bool has_importances = source.importances != nullptr;
    KBatch<Q2Shape> batch;
    if (has_importances)
        fit_groups<Q2Shape, false>(batch, rows, kImportanceSearch, 1.0f, true);
    else
        fit_groups<Q2Shape, true>(batch, rows, kQ2Search, 1.0f, false);
    share(batch, has_importances, faults);
    requantise(batch, rows);
    for (int lane = 0; lane < count; ++lane) write_q2_k(batch, lane, out + lane * 84);
}

}  // namespace
}  // namespace whitedwarf
