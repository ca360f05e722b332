// Attention over stored rows (fact sheet 2.3).
//
// A query takes its keys in a fixed order, oldest window row first, then compressed rows ascending, in blocks of
// kAttendKeys counted from its own first key: its result cannot depend on where the batch was cut or how it was split.
// Rows are decoded block by block into a level's own form, once per query, and serve all heads as keys and as values.
#include "operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "scratch.h"
#include "spread.h"

namespace whitedwarf {

namespace {

constexpr int kHeadUnit = 4;         // heads that a kernel takes at once
constexpr int64_t kTeamBlocks = 16;  // blocks of keys decoded between two meetings of threads that share a query

// The rows one query sees, in order.
class Keys {
public:
    Keys(const Attention& in, int64_t query)
        : in_(in),
          oldest_(std::max<int64_t>(0, in.positions[query] - in.window_length + 1)),
          num_recent_(in.positions[query] + 1 - oldest_) {
        if (in.picked) {
            for (int64_t k = 0; k < in.num_picked; ++k)
                if (in.picked[query * in.num_picked + k] >= 0) picked_.push_back(in.picked[query * in.num_picked + k]);
            num_compressed_ = int64_t(picked_.size());
        } else if (in.counts) {
            num_compressed_ = in.counts[query];
        }
    }

    int64_t count() const { return num_recent_ + num_compressed_; }
    int64_t blocks() const { return (count() + kAttendKeys - 1) / kAttendKeys; }
    int in_block(int64_t block) const { return int(std::min<int64_t>(kAttendKeys, count() - block * kAttendKeys)); }

    void take(const RowLevel& level, int64_t block, uint8_t* out) const {
        StoredRow rows[kAttendKeys];
        for (int i = 0; i < in_block(block); ++i) rows[i] = row(block * kAttendKeys + i);
        level.take_keys(rows, in_block(block), in_.queries.dims, out);
    }

private:
    StoredRow row(int64_t key) const {
        if (key < num_recent_) return {&in_.window.format, in_.window.row(oldest_ + key - in_.window.first)};
        const int64_t i = key - num_recent_, number = in_.picked ? picked_[i] : i;
        return {&in_.compressed.format, in_.compressed.row(number - in_.compressed.first)};
    }

    const Attention& in_;
    int64_t oldest_;
    int64_t num_recent_;
    int64_t num_compressed_ = 0;
    std::vector<int32_t> picked_;
};

// Where the running softmax of some heads is kept.
struct Room {
    uint8_t* taken;
    float* top;
    float* sum;
    float* scores;  // (heads, kAttendKeys)
};

// Running softmax of some heads of one query.
class Attending {
public:
    Attending(const RowLevel& level, const Attention& in, int64_t query, int first_head, int num_heads,
              const Room& room)
        : level_(level), in_(in), query_(query), first_head_(first_head), room_(room) {
        const int64_t offset = (query * in.queries.heads + first_head) * in.queries.dims;
        heads_ = {in.queries.x + offset, room.taken, num_heads, room.top, room.sum, in.out + offset};
    }

    // The sink is a score without a value.
    void start() {
        std::copy_n(in_.sinks + first_head_, heads_.count, heads_.top);
        std::fill_n(heads_.sum, heads_.count, 1.0f);
        std::fill_n(heads_.out, heads_.count * in_.queries.dims, 0.0f);
        level_.take_queries(heads_.queries, heads_.count, in_.queries.dims, room_.taken);
    }

    void take(const uint8_t* block, int num_keys) {
        const float scale = float(1.0 / std::sqrt(double(in_.queries.dims)));
        level_.attend(heads_, block, num_keys, in_.queries.dims, scale, room_.scores);
    }

    // Divide by the sum and turn the rotary tail back.
    void finish() {
        const int half = in_.queries.half;
        const float* turns = in_.queries.turns + query_ * 2 * half;
        for (int h = 0; h < heads_.count; ++h) {
            float* out = heads_.out + h * in_.queries.dims;
            for (int64_t i = 0; i < in_.queries.dims; ++i) out[i] /= heads_.sum[h];
            turn_back(out + in_.queries.dims - 2 * half, turns, half);
        }
    }

private:
    static void turn_back(float* tail, const float* turns, int half) {
        for (int i = 0; i < half; ++i) {
            const double first = tail[2 * i], second = tail[2 * i + 1];
            const double cosine = turns[2 * i], sine = turns[2 * i + 1];
            tail[2 * i] = float(first * cosine + second * sine);
            tail[2 * i + 1] = float(second * cosine - first * sine);
        }
    }

    const RowLevel& level_;
    const Attention& in_;
    int64_t query_;
    int first_head_;
    Room room_;
    Heads heads_;
};

// One thread, one query, all heads.
void attend_alone(const Machine& machine, const Attention& in) {
    const RowLevel& level = machine.level;
    const int heads = in.queries.heads;
    const int64_t dims = in.queries.dims;
    share(machine.pool, in.queries.n, [&](Tickets& tickets) {
        Scratch block, taken;
        std::vector<float> scores(heads * kAttendKeys), top(heads), sum(heads);
        block.reserve(level.block_bytes(dims));
        const Room room{taken.reserve(level.query_bytes(heads, dims)), top.data(), sum.data(), scores.data()};
        for (int64_t query; tickets.take(query);) {
            const Keys keys(in, query);
            Attending attending(level, in, query, 0, heads, room);
            attending.start();
            for (int64_t b = 0; b < keys.blocks(); ++b) {
                keys.take(level, b, block.data());
                attending.take(block.data(), keys.in_block(b));
            }
            attending.finish();
        }
    });
}

// Two tasks per thread: few, because each reads all keys.
int heads_per_task(int heads, int threads) {
    const int units = (heads + kHeadUnit - 1) / kHeadUnit;
    return kHeadUnit * ((units + 2 * threads - 1) / (2 * threads));
}

// Threads share the queries one after the other: first they decode blocks together, then each takes some heads.
class Team {
public:
    Team(const Machine& machine, const Attention& in)
        : machine_(machine), level_(machine.level), in_(in),
          group_heads_(heads_per_task(in.queries.heads, machine.pool.threads())),
          num_groups_((in.queries.heads + group_heads_ - 1) / group_heads_),
          block_bytes_(aligned(level_.block_bytes(in.queries.dims))),
          query_bytes_(aligned(level_.query_bytes(group_heads_, in.queries.dims))),
          top_(in.queries.heads), sum_(in.queries.heads) {
        taken_.reserve(num_groups_ * query_bytes_);
    }

    void attend(int64_t query) {
        const Keys keys(in_, query);
        blocks_.reserve(std::min(kTeamBlocks, keys.blocks()) * block_bytes_);
        for (int64_t begin = 0; begin < keys.blocks(); begin += kTeamBlocks) {
            const int64_t end = std::min(keys.blocks(), begin + kTeamBlocks);
            spread(machine_.pool, end - begin, kAttendKeys * in_.queries.dims / 4, [&](int64_t from, int64_t to) {
                for (int64_t b = from; b < to; ++b) keys.take(level_, begin + b, blocks_.data() + b * block_bytes_);
            });
            share(machine_.pool, num_groups_, [&](Tickets& tickets) { take(query, keys, begin, end, tickets); });
        }
    }

private:
    void take(int64_t query, const Keys& keys, int64_t begin, int64_t end, Tickets& tickets) {
        std::vector<float> scores(group_heads_ * kAttendKeys);
        for (int64_t group; tickets.take(group);) {
            const int first = int(group) * group_heads_, count = std::min(group_heads_, in_.queries.heads - first);
            const Room room{taken_.data() + group * query_bytes_, top_.data() + first, sum_.data() + first,
                            scores.data()};
            Attending attending(level_, in_, query, first, count, room);
            if (begin == 0) attending.start();
            for (int64_t b = begin; b < end; ++b)
                attending.take(blocks_.data() + (b - begin) * block_bytes_, keys.in_block(b));
            if (end == keys.blocks()) attending.finish();
        }
    }

    const Machine& machine_;
    const RowLevel& level_;
    const Attention& in_;
    int group_heads_;
    int num_groups_;
    int64_t block_bytes_;
    int64_t query_bytes_;
    std::vector<float> top_, sum_;
    Scratch blocks_, taken_;
};

}  // namespace

void query(const Machine& machine, const Query& in, double epsilon, float* out) {
    spread(machine.pool, in.n * in.heads, in.dims / 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            machine.level.norm_turn(in.x + i * in.dims, nullptr, in.turns + i / in.heads * 2 * in.half, in.dims,
                                    in.half, epsilon, out + i * in.dims);
    });
}

void attention(const Machine& machine, const Attention& in) {
    if (in.queries.n >= 2 * machine.pool.threads() || machine.pool.threads() == 1) {
        attend_alone(machine, in);
    } else {
        Team team(machine, in);
        for (int64_t query = 0; query < in.queries.n; ++query) team.attend(query);
    }
}

}  // namespace whitedwarf
