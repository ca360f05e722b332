// Attention over stored rows (fact sheet 2.3).
//
// A query takes its keys in a fixed order, oldest window row first, then compressed rows ascending, in blocks of
// AttendKernels::block_keys counted from its own first key: its result cannot depend on where the batch was cut or how it was split.
// Rows are decoded block by block into a level's own form, once per query, and serve all heads as keys and as values.
#include "operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "scratch.h"
#include "spread.h"

namespace whitedwarf {

namespace {

constexpr int64_t kTeamBlocks = 16;  // blocks of keys decoded between two meetings of threads that share a query

// The rows one query sees, in order.
class Keys {
public:
    Keys(const AttendKernels& kernels, const Attention& in, int64_t query)
        : kernels_(kernels),
          in_(in),
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
    int64_t blocks() const { return (count() + kernels_.block_keys - 1) / kernels_.block_keys; }
    int in_block(int64_t block) const {
        return int(std::min<int64_t>(kernels_.block_keys, count() - block * kernels_.block_keys));
    }

    void take(int64_t block, uint8_t* out) const {
        StoredRow rows[kAttendKeys];
        for (int i = 0; i < in_block(block); ++i) rows[i] = row(block * kernels_.block_keys + i);
        kernels_.take_keys(rows, in_block(block), in_.window.format, out);
    }

private:
    StoredRow row(int64_t key) const {
        if (key < num_recent_) return {&in_.window.format, in_.window.row(oldest_ + key - in_.window.first)};
        const int64_t i = key - num_recent_, number = in_.picked ? picked_[i] : i;
        return {&in_.compressed.format, in_.compressed.row(number - in_.compressed.first)};
    }

    const AttendKernels& kernels_;
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
    float* scores;  // (heads, block_keys)
};

// Running softmax of some heads of one query.
class Attending {
public:
    Attending(const AttendKernels& kernels, const Attention& in, int64_t query, int first_head, int num_heads,
              const Room& room)
        : kernels_(kernels), in_(in), query_(query), first_head_(first_head), scores_(room.scores) {
        const int64_t offset = (query * in.queries.heads + first_head) * in.queries.dims;
        heads_ = {in.queries.x + offset, room.taken, num_heads, room.top, room.sum, in.out + offset};
    }

    // The sink is a score without a value.
    void start() {
        std::copy_n(in_.sinks + first_head_, heads_.count, heads_.top);
        std::fill_n(heads_.sum, heads_.count, 1.0f);
        kernels_.start(heads_, in_.window.format);
    }

    void take(const uint8_t* block, int num_keys) {
        const float scale = float(1.0 / std::sqrt(double(in_.queries.dims)));
        kernels_.attend(heads_, block, num_keys, in_.window.format, scale, scores_);
    }

    void finish() {
        kernels_.finish(heads_, in_.window.format);
        const int half = in_.queries.half;
        for (int h = 0; h < heads_.count; ++h)
            turn_back(heads_.out + (h + 1) * in_.queries.dims - 2 * half, in_.queries.turns + query_ * 2 * half, half);
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

    const AttendKernels& kernels_;
    const Attention& in_;
    int64_t query_;
    int first_head_;
    float* scores_;
    Heads heads_;
};

const AttendKernels& kernels_for(const Machine& machine, const Attention& in) {
    const bool has_compressed = in.compressed.count > 0;
    return machine.level.attend_kernels(in.window.format, has_compressed ? in.compressed.format : in.window.format);
}

// One thread, one query, all heads.
void attend_alone(const Machine& machine, const Attention& in) {
    const AttendKernels& kernels = kernels_for(machine, in);
    const int heads = in.queries.heads;
    share(machine.pool, in.queries.n, [&](Tickets& tickets) {
        thread_local Scratch block, taken;  // kept: asking the system for new pages costs more than decoding rows
        std::vector<float> scores(heads * kernels.block_keys), top(heads), sum(heads);
        block.reserve(kernels.block_bytes(in.window.format));
        const Room room{taken.reserve(kernels.query_bytes(heads, in.window.format)), top.data(), sum.data(),
                        scores.data()};
        for (int64_t query; tickets.take(query);) {
            const Keys keys(kernels, in, query);
            Attending attending(kernels, in, query, 0, heads, room);
            attending.start();
            for (int64_t b = 0; b < keys.blocks(); ++b) {
                keys.take(b, block.data());
                attending.take(block.data(), keys.in_block(b));
            }
            attending.finish();
        }
    });
}

// Two tasks per thread: few, because each reads all keys.
int heads_per_task(int heads, int unit, int threads) {
    const int units = (heads + unit - 1) / unit;
    return unit * ((units + 2 * threads - 1) / (2 * threads));
}

// Threads share the queries one after the other: first they decode blocks together, then each takes some heads.
class Team {
public:
    Team(const Machine& machine, const Attention& in)
        : machine_(machine), kernels_(kernels_for(machine, in)), in_(in),
          group_heads_(heads_per_task(in.queries.heads, kernels_.head_unit, machine.pool.threads())),
          num_groups_((in.queries.heads + group_heads_ - 1) / group_heads_),
          block_bytes_(aligned(kernels_.block_bytes(in.window.format))),
          query_bytes_(aligned(kernels_.query_bytes(group_heads_, in.window.format))),
          top_(in.queries.heads), sum_(in.queries.heads), blocks_(kept(0)), taken_(kept(1)) {
        taken_.reserve(num_groups_ * query_bytes_);
    }

    void attend(int64_t query) {
        const Keys keys(kernels_, in_, query);
        blocks_.reserve(std::min(kTeamBlocks, keys.blocks()) * block_bytes_);
        for (int64_t begin = 0; begin < keys.blocks(); begin += kTeamBlocks) {
            const int64_t end = std::min(keys.blocks(), begin + kTeamBlocks);
            spread(machine_.pool, end - begin, kernels_.block_keys * in_.queries.dims / 4, [&](int64_t from, int64_t to) {
                for (int64_t b = from; b < to; ++b) keys.take(begin + b, blocks_.data() + b * block_bytes_);
            });
            share(machine_.pool, num_groups_, [&](Tickets& tickets) { take(query, keys, begin, end, tickets); });
        }
    }

private:
    static Scratch& kept(int which) {
        thread_local Scratch scratch[2];
        return scratch[which];
    }

    void take(int64_t query, const Keys& keys, int64_t begin, int64_t end, Tickets& tickets) {
        std::vector<float> scores(group_heads_ * kernels_.block_keys);
        for (int64_t group; tickets.take(group);) {
            const int first = int(group) * group_heads_, count = std::min(group_heads_, in_.queries.heads - first);
            const Room room{taken_.data() + group * query_bytes_, top_.data() + first, sum_.data() + first,
                            scores.data()};
            Attending attending(kernels_, in_, query, first, count, room);
            if (begin == 0) attending.start();
            for (int64_t b = begin; b < end; ++b)
                attending.take(blocks_.data() + (b - begin) * block_bytes_, keys.in_block(b));
            if (end == keys.blocks()) attending.finish();
        }
    }

    const Machine& machine_;
    const AttendKernels& kernels_;
    const Attention& in_;
    int group_heads_;
    int num_groups_;
    int64_t block_bytes_;
    int64_t query_bytes_;
    std::vector<float> top_, sum_;
    Scratch& blocks_;
    Scratch& taken_;
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
