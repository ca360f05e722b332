// An index query's values as integers beside packed keys, if they lie on the FP4 grid (index_query puts them there).
#pragma once

#include <cmath>
#include <vector>

#include "row_level.h"
#include "row_rounding.h"

namespace whitedwarf {

// Blocks under one power of two: scales differ by at most 2^3, so that codes of 12 become 96 at most and a product of
// 128 of them stays an exact float, as do all sums on the way to it. Scales and weights are far from the ends of float
// range, so that multiplying by the scale last changes no bit.
constexpr int kAlignedSpread = 3;
constexpr int kMostAlignedExponent = 20;
constexpr float kLeastAlignedWeight = 0x1p-40f, kMostAlignedWeight = 0x1p40f;
constexpr int kAlignedDims = 128;

class PackedQuery {
public:
    PackedQuery(const IndexQuery& query)
        : query_(query), num_blocks_(query.dims / kKeyBlock), codes_(size_t(query.heads) * query.dims),
          scales_(size_t(query.heads) * num_blocks_), sums_(scales_.size()), exponents_(scales_.size()) {
        for (size_t block = 0; block < scales_.size() && is_exact_; ++block) is_exact_ = pack(block);
        if (is_exact_ && query.dims == kAlignedDims) align();
    }

    void give(IndexQuery& query) const {
        if (!is_exact_) return;
        query.codes = codes_.data(), query.scales = scales_.data(), query.sums = sums_.data();
        if (is_aligned_)
            query.aligned = aligned_.data(), query.factors = factors_.data(), query.aligned_sums = aligned_sums_.data();
    }

private:
    // False if some value is not a whole number of half steps. Codes: per 8 dims the even ones, then the odd ones.
    bool pack(size_t block) {
        const float* x = query_.values + block * kKeyBlock;
        int8_t* codes = codes_.data() + block * kKeyBlock;
        const int exponent = power_of_two_above(largest_magnitude(x, kKeyBlock, 6.0f * 0x1p-100f) * (1.0f / 6.0f));
        if (exponent > 100) return false;
        const float grow = 2.0f * power_of_two(-exponent);
        scales_[block] = power_of_two(exponent - 2);
        exponents_[block] = exponent - 2;
        int32_t steps[kKeyBlock];
        int32_t is_off = 0, sum = 0;
        for (int i = 0; i < kKeyBlock; ++i) {
            const float step = x[i] * grow, limited = at_least_at_most(step);
            steps[i] = int32_t((limited + 0x1.8p23f) - 0x1.8p23f);
            is_off |= int32_t(float(steps[i]) != step);
            sum += steps[i];
        }
        sums_[block] = sum;
        for (int i = 0; i < kKeyBlock; i += 8)
            for (int pair = 0; pair < 4; ++pair) {
                codes[i + pair] = int8_t(steps[i + 2 * pair]);
                codes[i + 4 + pair] = int8_t(steps[i + 2 * pair + 1]);
            }
        return !is_off;
    }

    // NaN becomes a number, which it then differs from.
    static float at_least_at_most(float x) {
        const float low = x > -12.0f ? x : -12.0f;
        return low < 12.0f ? low : 12.0f;
    }

    void align() {
        aligned_.resize(codes_.size());
        factors_.resize(size_t(query_.heads));
        aligned_sums_.resize(size_t(query_.heads));
        is_aligned_ = true;
        for (int head = 0; head < query_.heads && is_aligned_; ++head) is_aligned_ = align_head(head);
    }

    bool align_head(int head) {
        const int* exponents = exponents_.data() + head * num_blocks_;
        int least = exponents[0], most = exponents[0];
        for (int b = 1; b < num_blocks_; ++b) {
            least = exponents[b] < least ? exponents[b] : least;
            most = exponents[b] > most ? exponents[b] : most;
        }
        const float weight = query_.weights[head], size = std::fabs(weight);
        const bool is_usual = weight == 0.0f || (size >= kLeastAlignedWeight && size <= kMostAlignedWeight);
        if (!is_usual || most - least > kAlignedSpread || least < -kMostAlignedExponent || most > kMostAlignedExponent)
            return false;
        factors_[head] = weight * power_of_two(least);
        int32_t sum = 0;
        for (int b = 0; b < num_blocks_; ++b) {
            const size_t block = size_t(head) * num_blocks_ + b;
            const int grow = 1 << (exponents[b] - least);
            for (int i = 0; i < kKeyBlock; ++i)
                aligned_[block * kKeyBlock + i] = int8_t(codes_[block * kKeyBlock + i] * grow);
            sum += sums_[block] * grow;
        }
        aligned_sums_[head] = sum;
        return true;
    }

    const IndexQuery& query_;
    int num_blocks_;
    std::vector<int8_t> codes_;
    std::vector<float> scales_;
    std::vector<int32_t> sums_;
    std::vector<int> exponents_;
    std::vector<int8_t> aligned_;
    std::vector<float> factors_;
    std::vector<int32_t> aligned_sums_;
    bool is_exact_ = true, is_aligned_ = false;
};

}  // namespace whitedwarf
