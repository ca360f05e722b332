// The indexer (fact sheet 2.5): scores of keys, and the best of them.
#include <algorithm>
#include <vector>

#include "index_query.h"
#include "operations.h"
#include "spread.h"

namespace whitedwarf {

namespace {

constexpr int64_t kScoreKeys = 1024;  // keys per task where threads share one query
constexpr int64_t kBlockQueries = 8;  // queries that share the unpacking of keys

// Scores of queries [first, first + count).
class Scorer {
public:
    Scorer(const RowLevel& level, const IndexPick& in, int64_t first, int count) : level_(level), keys_(in.keys) {
        const int dims = in.keys.format.dims;
        queries_.reserve(size_t(count));
        packed_.reserve(size_t(count));
        for (int64_t query = first; query < first + count; ++query) {
            queries_.push_back({in.queries + query * in.heads * dims, in.weights + query * in.heads, in.heads, dims, {},
                                {}, {}, {}, {}, {}});
            if (in.keys.format.kind != RowKind::packed_key) continue;
            packed_.emplace_back(queries_.back()).give(queries_.back());
            has_codes_ = has_codes_ && queries_.back().codes;
        }
        has_codes_ = has_codes_ && !packed_.empty();
    }

    // Query q's go to scores + q * pitch.
    void score(int64_t begin, int64_t end, float* scores, int64_t pitch) const {
        const int64_t stride = int64_t(keys_.format.row_bytes());
        if (has_codes_)
            return level_.score_block(queries_.data(), int(queries_.size()), keys_.row(begin), stride, end - begin,
                                      scores, pitch);
        for (const IndexQuery& query : queries_) {
            if (query.codes)
                level_.score_packed(query, keys_.row(begin), stride, end - begin, scores);
            else
                score_decoded(query, begin, end, scores);
            scores += pitch;
        }
    }

private:
    void score_decoded(const IndexQuery& query, int64_t begin, int64_t end, float* scores) const {
        float block[kFloatKeys * 256];
        const int64_t step = std::min<int64_t>(kFloatKeys, int64_t(kFloatKeys) * 256 / query.dims);
        for (int64_t start = begin; start < end; start += step) {
            const int64_t stop = std::min(end, start + step);
            for (int64_t k = start; k < stop; ++k)
                level_.decode_row(keys_.format, keys_.row(k), block + (k - start) * query.dims);
            level_.score_floats(query, block, stop - start, scores + start - begin);
        }
    }

    const RowLevel& level_;
    const StoredRows& keys_;
    std::vector<IndexQuery> queries_;
    std::vector<PackedQuery> packed_;
    bool has_codes_ = true;
};

// True if all visible keys are picked, unseen: no scores needed.
bool pick_all(int64_t count, int64_t top, int32_t* out) {
    if (count > top) return false;
    for (int64_t k = 0; k < top; ++k) out[k] = k < count ? int32_t(k) : -1;
    return true;
}

// Neighbouring queries see nearly the same keys: each key is unpacked once for all of a block.
void pick_block(const RowLevel& level, const IndexPick& in, int64_t first, int count, std::vector<float>& scores) {
    const int64_t most = *std::max_element(in.counts + first, in.counts + first + count);
    if (most > in.top) {
        scores.resize(std::max<size_t>(scores.size(), size_t(most * count)));
        Scorer(level, in, first, count).score(0, most, scores.data(), most);
    }
    for (int q = 0; q < count; ++q) {
        int32_t* out = in.out + (first + q) * in.top;
        if (!pick_all(in.counts[first + q], in.top, out))
            level.pick_best(scores.data() + q * most, in.counts[first + q], in.top, out);
    }
}

void pick_alone(const Machine& machine, const IndexPick& in) {
    const int64_t fair = in.n / machine.pool.threads() / 2, block = std::clamp<int64_t>(fair, 1, kBlockQueries);
    share(machine.pool, (in.n + block - 1) / block, [&](Tickets& tickets) {
        std::vector<float> scores;
        for (int64_t task; tickets.take(task);)
            pick_block(machine.level, in, task * block, int(std::min(block, in.n - task * block)), scores);
    });
}

void pick_together(const Machine& machine, const IndexPick& in) {
    std::vector<float> scores;
    for (int64_t query = 0; query < in.n; ++query) {
        const int64_t count = in.counts[query];
        if (pick_all(count, in.top, in.out + query * in.top)) continue;
        scores.resize(count);
        const Scorer scorer(machine.level, in, query, 1);
        share(machine.pool, (count + kScoreKeys - 1) / kScoreKeys, [&](Tickets& tickets) {
            for (int64_t task; tickets.take(task);)
                scorer.score(task * kScoreKeys, std::min(count, (task + 1) * kScoreKeys),
                             scores.data() + task * kScoreKeys, 0);
        });
        machine.level.pick_best(scores.data(), count, in.top, in.out + query * in.top);
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
