// The routed feed-forward network: every selected expert's weights are read once per call.
//
// Two parallel phases. First (expert, 32 rows of gate and up): the products, SwiGLU, the routing weight, and - a tile
// being exactly one activation block - the quantisation of the middle. Then (expert, 32 rows of down). Each product
// is kept per (token, slot) and the slots are added in slot order, so the sum does not depend on the grouping.
#include <algorithm>

#include "kernels.h"

namespace whitedwarf {
namespace {

constexpr int64_t kProductBytes = 8 << 20;  // of the (token, slot) products kept at once

// The (token, slot) pairs sorted by expert; order within an expert is that of the tokens.
struct Plan {
    struct Group {
        int32_t expert;
        int64_t begin, count;  // pairs
    };
    std::vector<Group> groups;
    std::vector<int32_t> token;     // pair -> token
    std::vector<int32_t> slot;      // pair -> token * slots + slot
    std::vector<int32_t> position;  // token * slots + slot -> pair
    std::vector<int32_t> identity;  // pair -> pair

    Plan(const Routing& routing, int64_t experts) {
        const int64_t pairs = routing.tokens * routing.slots;
        std::vector<int64_t> start(experts + 1);
        for (int64_t i = 0; i < pairs; ++i) ++start[routing.ids[i] + 1];
        for (int64_t e = 0; e < experts; ++e) {
            if (start[e + 1]) groups.push_back({int32_t(e), start[e], start[e + 1]});
            start[e + 1] += start[e];
        }
        token.resize(pairs), slot.resize(pairs), position.resize(pairs), identity.resize(pairs);
        for (int64_t i = 0; i < pairs; ++i) {
            const int64_t pair = start[routing.ids[i]]++;
            token[pair] = int32_t(i / routing.slots);
            slot[pair] = int32_t(i);
            position[i] = identity[pair] = int32_t(pair);
        }
    }
};

// Where a tile of the middle goes: floats, or straight to integers.
struct Middle {
    float* floats;  // (pairs, F)
    IntegerRows integers;
    int64_t width;  // F

    void store(const Level& level, int64_t pair, int64_t first, int count, const float* h) const {
        if (!integers.granule) {
            std::copy(h, h + count, floats + pair * width + first);
            return;
        }
        level.quantise(h, first, count, integers, pair);
    }
};

int tile_height(int64_t rows, int64_t first) { return int(std::min<int64_t>(kTileRows, rows - first)); }

}  // namespace

void Kernels::experts(const float* x, const Routing& routing, const FeedForward& ffn, float* out, bool quality) {
    const MatrixView &gate = ffn.gate, &up = ffn.up, &down = ffn.down;
    const int64_t width = gate.rows, depth = down.rows, pairs = routing.tokens * routing.slots;
    const Plan plan(routing, gate.experts);
    int64_t longest = 0;
    for (const auto& group : plan.groups) longest = std::max(longest, group.count);

    const Activations for_gate = prepare(x, routing.tokens, gate, quality, input_);
    const bool is_shared = up.layout->granule == gate.layout->granule;
    const Activations for_up = is_shared ? for_gate : prepare(x, routing.tokens, up, quality, second_input_);

    const bool is_float = quality || down.layout->granule == 0;
    Middle middle{nullptr, {}, width};
    if (is_float)
        middle.floats = reinterpret_cast<float*>(middle_.reserve(pairs * width * int64_t(sizeof(float))));
    else
        middle.integers = reserve_integers(middle_, pairs, width, down.layout->granule);

    const int64_t kernel_bytes = aligned(std::max(level_.scratch_bytes(gate.cols), level_.scratch_bytes(down.cols)));
    reserve_thread_scratch(kernel_bytes + 2 * longest * kTileRows * int64_t(sizeof(float)));

    const int64_t tiles = (width + kTileRows - 1) / kTileRows;
    pool_.split(int64_t(plan.groups.size()) * tiles, [&](int64_t begin, int64_t end, int thread) {
        uint8_t* scratch = thread_scratch(thread);
        auto* g = reinterpret_cast<float*>(scratch + kernel_bytes);
        auto* u = g + longest * kTileRows;
        for (int64_t item = begin; item < end; ++item) {
            const auto& group = plan.groups[item / tiles];
            const int64_t first = item % tiles * kTileRows;
            const int height = tile_height(width, first);
            const RowList list{plan.token.data() + group.begin, group.count};
            multiply_tile(gate, group.expert, first, height, for_gate, list, {g, kTileRows}, scratch);
            multiply_tile(up, group.expert, first, height, for_up, list, {u, kTileRows}, scratch);
            for (int64_t i = 0; i < group.count; ++i) {
                const int64_t pair = group.begin + i;
                float *gi = g + i * kTileRows, *ui = u + i * kTileRows;
                level_.swiglu(gi, ui, height, ffn.limit, routing.weights[plan.slot[pair]], gi);
                middle.store(level_, pair, first, height, gi);
            }
        }
    });

    // The products of many tokens are made panel by panel (of down's rows) to bound the memory.
    const Activations for_down{{middle.floats, width}, middle.integers};
    const int64_t fitting = kProductBytes / (int64_t(sizeof(float)) * std::max<int64_t>(pairs, 1));
    const int64_t least = int64_t(kTileRows) * pool_.threads();
    const int64_t panel = std::min(depth, std::max(least, fitting / least * least));
    auto* products = reinterpret_cast<float*>(products_.reserve(pairs * panel * int64_t(sizeof(float))));
    for (int64_t at = 0; at < depth; at += panel) {
        const int64_t panel_rows = std::min(panel, depth - at), panel_tiles = (panel_rows + kTileRows - 1) / kTileRows;
        pool_.split(int64_t(plan.groups.size()) * panel_tiles, [&](int64_t begin, int64_t end, int thread) {
            for (int64_t item = begin; item < end; ++item) {
                const auto& group = plan.groups[item / panel_tiles];
                const int64_t first = item % panel_tiles * kTileRows;
                multiply_tile(down, group.expert, at + first, tile_height(panel_rows, first), for_down,
                              {plan.identity.data() + group.begin, group.count},
                              {products + group.begin * panel + first, panel}, thread_scratch(thread));
            }
        });
        pool_.split(routing.tokens, [&](int64_t begin, int64_t end, int) {
            for (int64_t token = begin; token < end; ++token) {
                float* sum = out + token * depth + at;
                for (int64_t k = 0; k < routing.slots; ++k) {
                    const float* product = products + plan.position[token * routing.slots + k] * panel;
                    for (int64_t i = 0; i < panel_rows; ++i) sum[i] = k ? sum[i] + product[i] : product[i];
                }
            }
        });
    }
}

}  // namespace whitedwarf
