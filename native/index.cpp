// The indexer (fact sheet 2.5): scores of keys, and the best of them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "operations.h"
#include "row_rounding.h"
#include "spread.h"

namespace whitedwarf {

namespace {

constexpr int64_t kScoreKeys = 1024;  // keys per task where threads share one query

// A query's values as integers beside packed keys, if they lie on the FP4 grid (index_query puts them there).
class PackedQuery {
public:
    PackedQuery(const float* values, int heads, int dims)
        : codes_(heads * dims), scales_(heads * (dims / kKeyBlock)), sums_(scales_.size()) {
        for (size_t block = 0; block < scales_.size() && is_exact_; ++block) {
            int8_t* codes = codes_.data() + block * kKeyBlock;
            is_exact_ = pack(values + block * kKeyBlock, codes, scales_[block]);
            for (int i = 0; i < kKeyBlock; ++i) sums_[block] += codes[i];
        }
    }

    void give(IndexQuery& query) const {
        if (is_exact_) query.codes = codes_.data(), query.scales = scales_.data(), query.sums = sums_.data();
    }

private:
    // False if some value is not a whole number of half steps. Codes: per 8 dims the even ones, then the odd ones.
    static bool pack(const float* x, int8_t* codes, float& scale) {
        float amax = 6.0f * 0x1p-100f;
        for (int i = 0; i < kKeyBlock; ++i) amax = std::max(amax, std::fabs(x[i]));
        const int exponent = power_of_two_above(amax * (1.0f / 6.0f));
        if (exponent > 100) return false;
        const float grow = 2.0f * power_of_two(-exponent);
        scale = power_of_two(exponent - 2);
        bool is_exact = true;
        for (int i = 0; i < kKeyBlock; ++i) {
            const float steps = x[i] * grow;
            is_exact = is_exact && std::fabs(steps) <= 12.0f && steps == (steps + 0x1.8p23f) - 0x1.8p23f;
            codes[i / 8 * 8 + i % 2 * 4 + i % 8 / 2] = is_exact ? int8_t(steps) : int8_t(0);
        }
        return is_exact;
    }

    std::vector<int8_t> codes_;
    std::vector<float> scales_;
    std::vector<int32_t> sums_;
    bool is_exact_ = true;
};

// Scores of one query.
class Scorer {
public:
    Scorer(const RowLevel& level, const IndexPick& in, int64_t query) : level_(level), keys_(in.keys) {
        const int dims = in.keys.format.dims;
        query_ = {in.queries + query * in.heads * dims, in.weights + query * in.heads, in.heads, dims, {}, {}, {}};
        if (in.keys.format.kind == RowKind::packed_key) packed_.emplace(query_.values, in.heads, dims).give(query_);
    }

    void score(int64_t begin, int64_t end, float* scores) const {
        if (query_.codes)
            level_.score_packed(query_, keys_.row(begin), int64_t(keys_.format.row_bytes()), end - begin, scores);
        else
            score_decoded(begin, end, scores);
    }

private:
    void score_decoded(int64_t begin, int64_t end, float* scores) const {
        float block[kFloatKeys * 256];
        const int64_t step = std::min<int64_t>(kFloatKeys, int64_t(kFloatKeys) * 256 / query_.dims);
        for (int64_t start = begin; start < end; start += step) {
            const int64_t stop = std::min(end, start + step);
            for (int64_t k = start; k < stop; ++k)
                level_.decode_row(keys_.format, keys_.row(k), block + (k - start) * query_.dims);
            level_.score_floats(query_, block, stop - start, scores + start - begin);
        }
    }

    const RowLevel& level_;
    const StoredRows& keys_;
    IndexQuery query_;
    std::optional<PackedQuery> packed_;
};

// Bits that compare like the floats; both zeros are one number.
uint32_t ordered_bits(float score) {
    const uint32_t bits = bits_of_float(score + 0.0f);
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

// The score of rank `top` among `count` > top scores, and how many lie above it.
struct Threshold {
    uint32_t bits;
    int64_t num_above;
};

Threshold threshold(const float* scores, int64_t count, int64_t top) {
    constexpr int kShift = 20;  // the upper 12 bits choose a bin, the rest is sorted within it
    std::vector<int64_t> bins(1 << (32 - kShift));
    for (int64_t k = 0; k < count; ++k) ++bins[ordered_bits(scores[k]) >> kShift];
    int64_t bin = int64_t(bins.size()) - 1, num_above = 0;
    while (num_above + bins[bin] < top) num_above += bins[bin--];
    std::vector<uint32_t> inside;
    inside.reserve(bins[bin]);
    for (int64_t k = 0; k < count; ++k)
        if (ordered_bits(scores[k]) >> kShift == uint32_t(bin)) inside.push_back(ordered_bits(scores[k]));
    const auto edge = inside.begin() + (top - num_above - 1);
    std::nth_element(inside.begin(), edge, inside.end(), std::greater<>());
    const uint32_t bits = *edge;
    for (const uint32_t other : inside) num_above += other > bits;
    return {bits, num_above};
}

// The best `top` of the scores, ascending by row; of equal ones the lowest rows.
void pick_best(const float* scores, int64_t count, int64_t top, int32_t* out) {
    const Threshold edge = threshold(scores, count, top);
    int64_t num_ties = top - edge.num_above;
    for (int64_t k = 0; k < count; ++k) {
        const uint32_t bits = ordered_bits(scores[k]);
        if (bits > edge.bits || (bits == edge.bits && num_ties-- > 0)) *out++ = int32_t(k);
    }
}

// True if all visible keys are picked, unseen: no scores needed.
bool pick_all(int64_t count, int64_t top, int32_t* out) {
    if (count > top) return false;
    for (int64_t k = 0; k < top; ++k) out[k] = k < count ? int32_t(k) : -1;
    return true;
}

void pick_alone(const Machine& machine, const IndexPick& in) {
    share(machine.pool, in.n, [&](Tickets& tickets) {
        std::vector<float> scores;
        for (int64_t query; tickets.take(query);) {
            const int64_t count = in.counts[query];
            if (pick_all(count, in.top, in.out + query * in.top)) continue;
            scores.resize(std::max<size_t>(scores.size(), count));
            Scorer(machine.level, in, query).score(0, count, scores.data());
            pick_best(scores.data(), count, in.top, in.out + query * in.top);
        }
    });
}

void pick_together(const Machine& machine, const IndexPick& in) {
    std::vector<float> scores;
    for (int64_t query = 0; query < in.n; ++query) {
        const int64_t count = in.counts[query];
        if (pick_all(count, in.top, in.out + query * in.top)) continue;
        scores.resize(count);
        const Scorer scorer(machine.level, in, query);
        share(machine.pool, (count + kScoreKeys - 1) / kScoreKeys, [&](Tickets& tickets) {
            for (int64_t task; tickets.take(task);)
                scorer.score(task * kScoreKeys, std::min(count, (task + 1) * kScoreKeys),
                             scores.data() + task * kScoreKeys);
        });
        pick_best(scores.data(), count, in.top, in.out + query * in.top);
    }
}

void turn(const float* x, const float* turns, int64_t dims, int half, float* out) {
    const int64_t plain = dims - 2 * half;
    std::copy_n(x, plain, out);
    for (int i = 0; i < half; ++i) {
        const double first = x[plain + 2 * i], second = x[plain + 2 * i + 1];
        const double cosine = turns[2 * i], sine = turns[2 * i + 1];
        out[plain + 2 * i] = float(first * cosine - second * sine);
        out[plain + 2 * i + 1] = float(first * sine + second * cosine);
    }
}

}  // namespace

void index_query(const Machine& machine, const Query& in, bool is_packed, float* out) {
    spread(machine.pool, in.n * in.heads, 2 * in.dims, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            turn(in.x + i * in.dims, in.turns + i / in.heads * 2 * in.half, in.dims, in.half, out + i * in.dims);
            if (is_packed) machine.level.round_like_keys(out + i * in.dims, int(in.dims));
        }
    });
}

void index_pick(const Machine& machine, const IndexPick& in) {
    if (in.n >= 2 * machine.pool.threads() || machine.pool.threads() == 1)
        pick_alone(machine, in);
    else
        pick_together(machine, in);
}

}  // namespace whitedwarf
