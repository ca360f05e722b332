// IQ2_XXS: eight weights share one of 256 grid points and seven sign bits. After quantize_k.h, once per CPU level,
// which has also defined nearest_point.
#pragma once

#include "iq2_neighbours.h"
#include "quantize_k.h"

namespace whitedwarf {
namespace {

constexpr int kIq2Group = 32;
constexpr int kTopLevel = 3;  // codes 0, 1, 2 stand for the levels 1, 3, 5

// One group of every block of a batch.
struct alignas(64) Iq2Group {
    float x[kIq2Group][kBatchBlocks];  // as they are
    float w[kIq2Group][kBatchBlocks];
    float folded[kIq2Group][kBatchBlocks];  // magnitudes; one that changed sides is negative
    float codes[kIq2Group][kBatchBlocks];
    int32_t signs[4][kBatchBlocks];
    int32_t words[4][kBatchBlocks];  // grid entries
    int32_t best_words[4][kBatchBlocks];
    float folded_rows[kBatchBlocks][kIq2Group];
    float root_rows[kBatchBlocks][kIq2Group];  // roots of w
    float inverse[kBatchBlocks];
    float scale[kBatchBlocks];
    int32_t is_used[kBatchBlocks];  // lanes that are not all zero: all bits set
};

inline LaneInts load_ints(const int32_t* p) { return *reinterpret_cast<const LaneInts*>(p); }
inline void store_ints(int32_t* p, LaneInts v) { *reinterpret_cast<LaneInts*>(p) = v; }

// Magnitudes and sign bits; where the negatives of eight are odd in number, the cheapest weight changes sides.
inline void fold_signs(Iq2Group& group, int lane) {
    for (int k = 0; k < 4; ++k) {
        LaneInts bits{}, cheapest{}, odd{};
        Lanes least_cost{};
        for (int i = 0; i < 8; ++i) {
            const Lanes x = load(group.x[8 * k + i] + lane), cost = load(group.w[8 * k + i] + lane) * x * x;
            const LaneInts is_negative = x < 0.0f;
            odd ^= is_negative;
            bits |= is_negative & (1 << i);
            const LaneInts is_cheaper = i == 0 ? ~LaneInts{} : cost < least_cost;
            least_cost = choose(is_cheaper, cost, least_cost);
            cheapest = (is_cheaper & i) | (~is_cheaper & cheapest);
        }
        for (int i = 0; i < 8; ++i) {
            const Lanes x = load(group.x[8 * k + i] + lane);
            const LaneInts flips = odd & (cheapest == i);
            const Lanes size = choose(x < 0.0f, -x, x);
            store(group.folded[8 * k + i] + lane, choose(flips, -size, size));
            bits ^= flips & (1 << i);
        }
        store_ints(group.signs[k] + lane, bits & 127);
    }
}

inline void keep_rows(Iq2Group& group) {
    for (int i = 0; i < kIq2Group; ++i)
        for (int lane = 0; lane < kBatchBlocks; ++lane) {
            group.folded_rows[lane][i] = group.folded[i][lane];
            group.root_rows[lane][i] = __builtin_sqrtf(group.w[i][lane]);
        }
}

// group.words for the magnitudes times group.inverse; group.scale is one over it, as far as the caller cares.
inline void choose_points(Iq2Group& group, int count) {
    const Iq2Neighbours& table = iq2_neighbours();
    for (int k = 0; k < 4; ++k) {
        alignas(64) int32_t tuples[kBatchBlocks];
        for (int lane = 0; lane < kBatchBlocks; lane += kLanes) {
            Lanes tuple{};
            float power = 1;
            for (int i = 0; i < 8; ++i, power *= 3) {
                const Lanes scaled = load(group.inverse + lane) * load(group.folded[8 * k + i] + lane);
                tuple += code_of(0.5f * (scaled - 1.0f), 2.0f) * power;
            }
            store_ints(tuples + lane, __builtin_convertvector(tuple, LaneInts));
        }
        for (int lane = 0; lane < count; ++lane) {
            if (!group.is_used[lane]) continue;
            const Iq2List& list = table.lists[size_t(tuples[lane])];
            group.words[k][lane] = list.count ? nearest_point(table.words.data() + list.first, list.count,
                                                              group.folded_rows[lane] + 8 * k,
                                                              group.root_rows[lane] + 8 * k, group.scale[lane])
                                              : list.word;
        }
    }
}

// Sums of w * x * q and of w * q * q over the group, in index order, q being the levels of group.words.
inline void solve(const Iq2Group& group, int lane, Lanes& sum_xq, Lanes& sum_qq) {
    sum_xq = sum_qq = Lanes{};
    for (int k = 0; k < 4; ++k) {
        const LaneInts word = load_ints(group.words[k] + lane);
        for (int i = 0; i < 8; ++i) {
            const Lanes q = __builtin_convertvector((word >> (2 * i) & 3) * 2 + 1, Lanes);
            const Lanes w = load(group.w[8 * k + i] + lane);
            sum_xq += w * load(group.folded[8 * k + i] + lane) * q;
            sum_qq += w * q * q;
        }
    }
}

// Thirteen trials around the first scale; out come the best one's scale and words.
inline void try_scales(Iq2Group& group, int count, const float* reach, float* scale) {
    alignas(64) float best[kBatchBlocks] = {};
    for (int shift = -6; shift <= 6; ++shift) {
        for (int lane = 0; lane < kBatchBlocks; lane += kLanes) {
            const Lanes inverse = (float(2 * kTopLevel - 1) + float(shift) * 0.1f) / load(reach + lane);
            store(group.inverse + lane, inverse);
            store(group.scale + lane, 1.0f / inverse);
        }
        choose_points(group, count);
        for (int lane = 0; lane < kBatchBlocks; lane += kLanes) {
            Lanes sum_xq, sum_qq;
            solve(group, lane, sum_xq, sum_qq);
            const Lanes top = load(best + lane), solved = sum_xq / sum_qq;
            const LaneInts is_better =
                load_ints(group.is_used + lane) & (sum_qq > 0.0f) & (sum_xq * sum_xq > top * sum_qq);
            store(best + lane, choose(is_better, solved * sum_xq, top));
            store(scale + lane, choose(is_better, solved, load(scale + lane)));
            for (int k = 0; k < 4; ++k)
                store_ints(group.best_words[k] + lane, (is_better & load_ints(group.words[k] + lane)) |
                                                           (~is_better & load_ints(group.best_words[k] + lane)));
        }
    }
}

// Points once more at the scale found, and the scale that suits them.
inline void refine(Iq2Group& group, int count, float* scale) {
    for (int lane = 0; lane < kBatchBlocks; ++lane) {
        const bool is_positive = scale[lane] > 0;
        group.scale[lane] = is_positive ? scale[lane] : 1.0f;
        group.inverse[lane] = 1.0f / group.scale[lane];
    }
    choose_points(group, count);
    for (int lane = 0; lane < kBatchBlocks; lane += kLanes) {
        const LaneInts is_positive = load(scale + lane) > 0.0f;
        for (int k = 0; k < 4; ++k)
            store_ints(group.words[k] + lane, (is_positive & load_ints(group.words[k] + lane)) |
                                                  (~is_positive & load_ints(group.best_words[k] + lane)));
        Lanes sum_xq, sum_qq;
        solve(group, lane, sum_xq, sum_qq);
        store(scale + lane, choose(is_positive & (sum_qq > 0.0f), sum_xq / sum_qq, load(scale + lane)));
    }
}

// Scales of one group of every block; group.words and group.signs say the rest. Zero: the group is all zero.
inline void fit_iq2_group(Iq2Group& group, int count, float* scale) {
    alignas(64) float reach[kBatchBlocks];
    for (int lane = 0; lane < kBatchBlocks; lane += kLanes) {
        fold_signs(group, lane);
        Lanes largest = load(group.folded[0] + lane);
        for (int i = 1; i < kIq2Group; ++i) largest = most(largest, load(group.folded[i] + lane));
        const Lanes first = fit_scale(kIq2Group, group.folded, group.w, group.codes, lane, kTopLevel + 1);
        const Lanes wide = first * float(kTopLevel);
        const LaneInts is_used = (largest >= kTiny) & (wide > 0.0f);
        store_ints(group.is_used + lane, is_used);
        store(reach + lane, choose(is_used, wide, spread_lanes(1.0f)));
        store(scale + lane, choose(is_used, first, Lanes{}));
        for (int k = 0; k < 4; ++k) {
            store_ints(group.words[k] + lane, LaneInts{});
            store_ints(group.best_words[k] + lane, LaneInts{});
        }
    }
    keep_rows(group);
    try_scales(group, count, reach, scale);
    refine(group, count, scale);
    for (int lane = 0; lane < kBatchBlocks; ++lane) {
        const bool is_negative = scale[lane] < 0;
        scale[lane] = is_negative ? -scale[lane] : scale[lane];
        for (int k = 0; k < 4; ++k) {
            int32_t& signs = group.signs[k][lane];
            signs = !group.is_used[lane] ? 0 : is_negative ? ~signs & 127 : signs;
        }
    }
}

// Where the two words of a group lie in a block, without the scale's four bits.
inline void write_iq2_group(const Iq2Group& group, int lane, uint8_t* out) {
    const Iq2Neighbours& table = iq2_neighbours();
    uint32_t points = 0, signs = 0;
    for (int k = 0; k < 4; ++k) {
        points |= uint32_t(table.index[size_t(group.words[k][lane])]) << (8 * k);
        signs |= uint32_t(group.signs[k][lane]) << (7 * k);
    }
    std::memcpy(out, &points, 4);
    std::memcpy(out + 4, &signs, 4);
}

// One float16 for the block and four bits a group.
inline void write_iq2_scales(const float (*scales)[kBatchBlocks], int lane, uint8_t* out, EncodeFaults& faults) {
    float largest = 0;
    for (int j = 0; j < 8; ++j) {
        const bool is_larger = scales[j][lane] > largest || !(scales[j][lane] < INFINITY);
        largest = is_larger ? scales[j][lane] : largest;
    }
    if (largest == 0) {
        std::memset(out, 0, 66);
        return;
    }
    const float scale = largest / 31.0f, inverse = 1.0f / scale;
    const uint16_t stored = checked_half(scale, faults);
    std::memcpy(out, &stored, 2);
    for (int j = 0; j < 8; ++j) {
        const float share = ((0.5f * (inverse * scales[j][lane] - 1.0f)) + kRounder) - kRounder;
        const uint32_t step = share > 0 ? (share < 15 ? uint32_t(share) : 15u) : 0u;
        out[2 + 8 * j + 7] = uint8_t(out[2 + 8 * j + 7] | step << 4);
    }
}

inline void encode_iq2_xxs(const BlockSource& source, int64_t first, int count, uint8_t* out, EncodeFaults& faults) {
    const BatchRows rows = batch_rows(source, first, count);
    Iq2Group group;
    alignas(64) float variance[kBatchBlocks], scales[8][kBatchBlocks];
    sum_squares(rows.x, 0, 256, variance);
    for (float& v : variance) v /= 256.0f;
    for (int j = 0; j < 8; ++j) {
        side_by_side(rows.x, j * kIq2Group, kIq2Group, group.x);
        side_by_side(rows.q, j * kIq2Group, kIq2Group, group.w);
        weigh(group.x, group.w, kIq2Group, variance);
        fit_iq2_group(group, count, scales[j]);
        for (int lane = 0; lane < count; ++lane) write_iq2_group(group, lane, out + lane * 66 + 2 + 8 * j);
    }
    for (int lane = 0; lane < count; ++lane) write_iq2_scales(scales, lane, out + lane * 66, faults);
}

}  // namespace
}  // namespace whitedwarf
