// The fits of the K formats and of IQ2_XXS, for the blocks of a batch side by side: [element][block].
//
// Compiled once per CPU level, which has set kLanes to its registers' width in floats. Internal linkage: blocks.h.
#pragma once

#include <cmath>

#include "quantize.h"

namespace whitedwarf {
namespace {

typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef int32_t LaneInts __attribute__((vector_size(4 * kLanes)));

constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number, halves to even
constexpr float kTiny = 1e-15f;          // below this a group counts as all zero

inline Lanes load(const float* p) { return *reinterpret_cast<const Lanes*>(p); }
inline void store(float* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }
inline Lanes spread_lanes(float v) { return v - Lanes{}; }
inline Lanes choose(LaneInts mask, Lanes yes, Lanes no) { return mask ? yes : no; }
inline Lanes least(Lanes a, Lanes b) { return choose(b < a, b, a); }
inline Lanes most(Lanes a, Lanes b) { return choose(b > a, b, a); }
inline Lanes nearest(Lanes v) { return (v + kRounder) - kRounder; }
inline Lanes magnitude(Lanes v) { return reinterpret_cast<Lanes>(reinterpret_cast<LaneInts>(v) & 0x7fffffff); }
inline Lanes root(Lanes v) {
    Lanes out;
    for (int lane = 0; lane < kLanes; ++lane) out[lane] = __builtin_sqrtf(v[lane]);
    return out;
}
// Whole numbers 0..most; not-a-numbers become zero.
inline Lanes code_of(Lanes v, float most_code) {
    const Lanes limit = spread_lanes(most_code);
    return nearest(choose(v > 0.0f, choose(v < limit, v, limit), Lanes{}));
}

// Values of one group of every block, and what the fit makes of them. Whole numbers are kept as floats.
template <int kElements>
struct alignas(64) Group {
    float x[kElements][kBatchBlocks];
    float w[kElements][kBatchBlocks];
    float codes[kElements][kBatchBlocks];
    float trial[kElements][kBatchBlocks];
};

// Inverse scales to try: (first + step * i + most code) / range, i = 0..steps.
struct RangeSearch {
    float first;
    float step;
    int steps;
};

// x ~ scale * code - offset, offset >= 0: the best of all trials, each solved by weighted least squares.
template <int kElements, bool kAbsolute>
void fit_range(Group<kElements>& group, int lane, int most_code, const RangeSearch& search, float* scale_out,
               float* offset_out) {
    Lanes low = load(group.x[0] + lane), high = low, sum_w = load(group.w[0] + lane), sum_x = sum_w * low;
    for (int i = 1; i < kElements; ++i) {
        const Lanes x = load(group.x[i] + lane), w = load(group.w[i] + lane);
        low = least(low, x);
        high = most(high, x);
        sum_w += w;
        sum_x += w * x;
    }
    low = least(low, Lanes{});
    const Lanes start = low;
    const LaneInts flat = ~((float(most_code) / (high - low)) < INFINITY) | ~(high > low);
    high = choose(flat, low + 1.0f, high);
    const auto error_of = [&](const float (*codes)[kBatchBlocks], Lanes scale, Lanes offset) {
        Lanes error{};
        for (int i = 0; i < kElements; ++i) {
            const Lanes difference = scale * load(codes[i] + lane) + offset - load(group.x[i] + lane);
            error += load(group.w[i] + lane) * (kAbsolute ? magnitude(difference) : difference * difference);
        }
        return error;
    };
    const Lanes first_inverse = float(most_code) / (high - low);
    Lanes scale = 1.0f / first_inverse;
    for (int i = 0; i < kElements; ++i)
        store(group.codes[i] + lane, code_of(first_inverse * (load(group.x[i] + lane) - low), float(most_code)));
    Lanes best = error_of(group.codes, scale, low);
    for (int step = 0; step <= search.steps; ++step) {
        // The range is measured from the best offset so far, not from the smallest value: the original drifts this way.
        const Lanes inverse = (search.first + search.step * float(step) + float(most_code)) / (high - low);
        Lanes sum_l{}, sum_ll{}, sum_xl{};
        for (int i = 0; i < kElements; ++i) {
            const Lanes x = load(group.x[i] + lane), code = code_of(inverse * (x - low), float(most_code));
            store(group.trial[i] + lane, code);
            const Lanes weighted = load(group.w[i] + lane) * code;
            sum_l += weighted;
            sum_ll += weighted * code;
            sum_xl += weighted * x;
        }
        const Lanes determinant = sum_w * sum_ll - sum_l * sum_l;
        const LaneInts is_solvable = determinant > 0.0f;
        Lanes trial_scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
        Lanes trial_low = (sum_ll * sum_x - sum_l * sum_xl) / determinant;
        const LaneInts is_positive = trial_low > 0.0f;
        trial_scale = choose(is_positive, sum_xl / sum_ll, trial_scale);
        trial_low = choose(is_positive, Lanes{}, trial_low);
        const Lanes error = error_of(group.trial, trial_scale, trial_low);
        const LaneInts is_better = is_solvable & (error < best);
        best = choose(is_better, error, best);
        scale = choose(is_better, trial_scale, scale);
        low = choose(is_better, trial_low, low);
        for (int i = 0; i < kElements; ++i)
            store(group.codes[i] + lane,
                  choose(is_better, load(group.trial[i] + lane), load(group.codes[i] + lane)));
    }
    for (int i = 0; i < kElements; ++i)
        store(group.codes[i] + lane, choose(flat, Lanes{}, load(group.codes[i] + lane)));
    store(scale_out + lane, choose(flat, Lanes{}, scale));
    store(offset_out + lane, -choose(flat, start, low));
}

// A byte's worth of a whole number: the original keeps codes in bytes, where one below zero counts as 255.
inline Lanes as_byte(Lanes code) { return choose(code < 0.0f, code + 256.0f, code); }

// x ~ scale * code, code 0..most_code: nine starts, then five sweeps that change one code at a time.
// x and w are [count][block]; codes come out as bytes would hold them. Returns the scales.
inline Lanes fit_scale(int count, const float (*x)[kBatchBlocks], const float (*w)[kBatchBlocks],
                       float (*codes)[kBatchBlocks], int lane, int most_code) {
    const Lanes limit = spread_lanes(float(most_code)), floor = spread_lanes(-255.0f);
    Lanes largest{};
    for (int i = 0; i < count; ++i) largest = most(largest, load(x[i] + lane));
    const LaneInts is_empty = ~(largest >= kTiny);
    largest = choose(is_empty, spread_lanes(1.0f), largest);
    Lanes chosen = float(most_code) / largest, best{};
    for (int shift = -5; shift <= 4; ++shift) {
        const bool is_start = shift == -5;
        if (shift == 0) continue;
        const Lanes inverse = is_start ? chosen : (0.1f * float(shift) + float(most_code)) / largest;
        const Lanes scale = 1.0f / inverse;
        Lanes error{};
        for (int i = 0; i < count; ++i) {
            const Lanes value = load(x[i] + lane), code = nearest(most(inverse * value, floor));
            const Lanes difference = value - scale * (is_start ? as_byte(code) : least(code, limit));
            error += load(w[i] + lane) * difference * difference;
        }
        const LaneInts is_better = error < best;
        if (is_start) {
            best = error;
        } else {
            best = choose(is_better, error, best);
            chosen = choose(is_better, inverse, chosen);
        }
    }
    Lanes sum_xl{}, sum_ll{};
    for (int i = 0; i < count; ++i) {
        const Lanes value = load(x[i] + lane), weight = load(w[i] + lane);
        const Lanes code = least(nearest(most(chosen * value, floor)), limit);
        store(codes[i] + lane, as_byte(code));
        sum_xl += weight * value * code;
        sum_ll += weight * code * code;
    }
    for (int sweep = 0; sweep < 5; ++sweep) {
        LaneInts any{};
        for (int i = 0; i < count; ++i) {
            const Lanes value = load(x[i] + lane), weight = load(w[i] + lane), code = load(codes[i] + lane);
            Lanes rest_xl = sum_xl - weight * value * code, rest_ll = sum_ll - weight * code * code;
            const LaneInts is_usable = (rest_xl > 0.0f) & (rest_ll > 0.0f);
            const Lanes ratio = choose(is_usable, value * rest_ll / rest_xl, Lanes{});
            const Lanes trial = nearest(most(least(ratio, limit), floor));
            rest_xl += weight * value * trial;
            rest_ll += weight * trial * trial;
            const LaneInts is_better = is_usable & (trial != code) &
                                       (rest_xl * rest_xl * sum_ll > sum_xl * sum_xl * rest_ll);
            store(codes[i] + lane, choose(is_better, as_byte(trial), code));
            sum_xl = choose(is_better, rest_xl, sum_xl);
            sum_ll = choose(is_better, rest_ll, sum_ll);
            any |= is_better;
        }
        int32_t moved = 0;
        for (int i = 0; i < kLanes; ++i) moved |= any[i];
        if (!moved) break;
    }
    for (int i = 0; i < count; ++i)
        store(codes[i] + lane, choose(is_empty, Lanes{}, load(codes[i] + lane)));
    return choose(~is_empty & (sum_ll > 0.0f), sum_xl / sum_ll, Lanes{});
}

}  // namespace
}  // namespace whitedwarf
