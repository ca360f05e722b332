// Attention over stored rows (fact sheet 2.3).
//
// A query takes its keys in a fixed order, oldest window row first, then compressed rows ascending, in blocks of
// kAttendKeys counted from its own first key: its result cannot depend on where the batch was cut or how it was split.
// Rows are decoded block by block into float scratch, once per query, and serve all heads as keys and as values.
#include "operations.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "spread.h"

namespace whitedwarf {

namespace {

constexpr int kHeadUnit = 4;                 // heads that a kernel takes at once
constexpr int kTeamKeys = 16 * kAttendKeys;  // keys decoded between two meetings of threads that share a query

std::unique_ptr<float[]> unset_floats(int64_t count) { return std::make_unique_for_overwrite<float[]>(size_t(count)); }

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

    void decode(const RowLevel& level, int64_t begin, int64_t end, float* out) const {
        for (int64_t k = begin; k < end; ++k, out += in_.queries.dims) {
            if (k < num_recent_) {
                level.decode_row(in_.window.format, in_.window.row(oldest_ + k - in_.window.first), out);
            } else {
                const int64_t i = k - num_recent_;
                const int64_t row = in_.picked ? picked_[i] : i;
                level.decode_row(in_.compressed.format, in_.compressed.row(row - in_.compressed.first), out);
            }
        }
    }

private:
    const Attention& in_;
    int64_t oldest_;
    int64_t num_recent_;
    int64_t num_compressed_ = 0;
    std::vector<int32_t> picked_;
};

// Running softmax of some heads of one query.
class Attending {
public:
    Attending(const Attention& in, int64_t query, int first_head, int num_heads, float* top, float* sum)
        : in_(in), query_(query), first_head_(first_head) {
        const int64_t offset = (query * in.queries.heads + first_head) * in.queries.dims;
        heads_ = {in.queries.x + offset, num_heads, top, sum, in.out + offset};
    }

    // The sink is a score without a value.
    void start() {
        std::copy_n(in_.sinks + first_head_, heads_.count, heads_.top);
        std::fill_n(heads_.sum, heads_.count, 1.0f);
        std::fill_n(heads_.out, heads_.count * in_.queries.dims, 0.0f);
    }

    void take(const RowLevel& level, const float* keys, int64_t num_keys, float* scores) {
        const float scale = float(1.0 / std::sqrt(double(in_.queries.dims)));
        for (int64_t k = 0; k < num_keys; k += kAttendKeys)
            level.attend(heads_, keys + k * in_.queries.dims, int(std::min<int64_t>(kAttendKeys, num_keys - k)),
                         in_.queries.dims, scale, scores);
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

    const Attention& in_;
    int64_t query_;
    int first_head_;
    Heads heads_;
};

// One thread, one query, all heads.
void attend_alone(const Machine& machine, const Attention& in) {
    const int heads = in.queries.heads;
    share(machine.pool, in.queries.n, [&](Tickets& tickets) {
        const auto block = unset_floats(kAttendKeys * in.queries.dims);
        std::vector<float> scores(heads * kAttendKeys), top(heads), sum(heads);
        for (int64_t query; tickets.take(query);) {
            const Keys keys(in, query);
            Attending attending(in, query, 0, heads, top.data(), sum.data());
            attending.start();
            for (int64_t k = 0; k < keys.count(); k += kAttendKeys) {
                const int64_t end = std::min(keys.count(), k + kAttendKeys);
                keys.decode(machine.level, k, end, block.get());
                attending.take(machine.level, block.get(), end - k, scores.data());
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
void attend_together(const Machine& machine, const Attention& in) {
    const int heads = in.queries.heads, group_heads = heads_per_task(heads, machine.pool.threads());
    const int num_groups = (heads + group_heads - 1) / group_heads;
    const int64_t dims = in.queries.dims;
    const auto rows = unset_floats(kTeamKeys * dims);
    std::vector<float> top(heads), sum(heads);
    for (int64_t query = 0; query < in.queries.n; ++query) {
        const Keys keys(in, query);
        for (int64_t begin = 0; begin < keys.count(); begin += kTeamKeys) {
            const int64_t end = std::min<int64_t>(keys.count(), begin + kTeamKeys);
            spread(machine.pool, end - begin, dims / 4, [&](int64_t from, int64_t to) {
                keys.decode(machine.level, begin + from, begin + to, rows.get() + from * dims);
            });
            share(machine.pool, num_groups, [&](Tickets& tickets) {
                std::vector<float> scores(group_heads * kAttendKeys);
                for (int64_t group; tickets.take(group);) {
                    const int first = int(group) * group_heads, count = std::min(group_heads, heads - first);
                    Attending attending(in, query, first, count, top.data() + first, sum.data() + first);
                    if (begin == 0) attending.start();
                    attending.take(machine.level, rows.get(), end - begin, scores.data());
                    if (end == keys.count()) attending.finish();
                }
            });
        }
    }
}

}  // namespace

void query(const Machine& machine, const Query& in, double epsilon, float* out) {
    spread(machine.pool, in.n * in.heads, in.dims / 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            machine.level.norm_turn(in.x + i * in.dims, nullptr, in.turns + i / in.heads * 2 * in.half, in.dims,
                                    in.half, epsilon, out + i * in.dims);
    });
}

void attention(const Machine& machine, const Attention& in) {
    if (in.queries.n >= 2 * machine.pool.threads() || machine.pool.threads() == 1)
        attend_alone(machine, in);
    else
        attend_together(machine, in);
}

}  // namespace whitedwarf
