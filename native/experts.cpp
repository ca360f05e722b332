// The feed-forward networks of one layer: every selected expert's weights are read once per call, the shared expert's
// too, in one call.
//
// Two parallel phases. First (expert, 32 rows of gate and up): the products, SwiGLU, the routing weight, and - a tile
// being exactly one activation block - the quantisation of the middle. Then panels of down's rows: each walks all
// experts in ascending order, and the shared one last, and adds what they give to the tokens' sums. The order of a
// token's sum is that of its own experts, whatever the batch, and no product has to be kept.
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels.h"
#include "spread.h"

namespace whitedwarf {
namespace {

constexpr int64_t kFewTokens = 16;  // up to here a piece of work is so small that it may be cut finer
constexpr int kFineRuns = 64, kFinestRuns = 128;  // per thread
// Panels per thread: each reads the whole middle, so many tokens want few.
constexpr int kPanels = 8, kFewPanels = 32;

// One expert and the (token, slot) pairs that selected it.
struct Group {
    int32_t expert;
    int64_t begin, count;
};

// The pairs of one network sorted by expert; order within an expert is that of the tokens.
struct Plan {
    std::vector<Group> groups;
    std::vector<int32_t> token;     // pair -> token
    std::vector<float> weight;      // pair -> routing weight
    std::vector<int32_t> identity;  // pair -> pair
    std::vector<bool> is_first;     // pair -> nothing has been added to the token before
    std::vector<bool> is_met;       // token -> something has been added to it after this network
    int64_t longest = 0;

    Plan(const Routing& routing, int64_t experts) : is_met(routing.tokens) {
        const int64_t picks = routing.tokens * routing.slots;
        std::vector<int64_t> start(experts + 1);
        for (int64_t i = 0; i < picks; ++i)
            if (routing.ids[i] >= 0) ++start[routing.ids[i] + 1];
        for (int64_t e = 0; e < experts; ++e) {
            if (start[e + 1]) groups.push_back({int32_t(e), start[e], start[e + 1]});
            longest = std::max(longest, start[e + 1]);
            start[e + 1] += start[e];
        }
        const int64_t pairs = start[experts];
        token.resize(pairs), weight.resize(pairs), identity.resize(pairs), is_first.resize(pairs);
        for (int64_t i = 0; i < picks; ++i) {
            if (routing.ids[i] < 0) continue;
            const int64_t pair = start[routing.ids[i]]++;
            token[pair] = int32_t(i / routing.slots);
            weight[pair] = routing.weights[i];
        }
        for (int64_t i = 0; routing.is_met && i < routing.tokens; ++i) is_met[i] = routing.is_met[i];
        for (int64_t pair = 0; pair < pairs; ++pair) {
            identity[pair] = int32_t(pair);
            is_first[pair] = !is_met[token[pair]];
            is_met[token[pair]] = true;
        }
    }

    // Every token meets the one expert there is; of those that `is_met` says, others have been added before.
    explicit Plan(std::vector<bool> is_met)
        : groups{{0, 0, int64_t(is_met.size())}},
          token(is_met.size()),
          weight(is_met.size(), 1.0f),
          is_first(is_met),
          is_met(is_met.size(), true),
          longest(int64_t(is_met.size())) {
        is_first.flip();
        std::iota(token.begin(), token.end(), 0);
        identity = token;
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

    Activations activations() const { return {{floats, width}, integers}; }
};

// One network with its pairs, its input in the forms that gate and up want, and its middle.
struct Network {
    const FeedForward& ffn;
    Plan plan;
    bool is_gathered;  // integers come one row for each pair, in the order of the plan, not one for each token
    Activations for_gate{}, for_up{};
    Middle middle{};

    RowList rows(const Group& group, const Activations& x) const {
        const auto& rows = is_gathered && x.integers.granule ? plan.identity : plan.token;
        return {rows.data() + group.begin, group.count};
    }

    int64_t tiles() const { return pieces(ffn.gate.rows, kTileRows); }
    int64_t items() const { return int64_t(plan.groups.size()) * tiles(); }
};

int tile_height(int64_t rows, int64_t first) { return int(std::min<int64_t>(kTileRows, rows - first)); }

// 32 rows of gate and up of one group, and what they leave in the middle. `products` has room for both tiles.
void fill_middle(const Kernels& kernels, const Network& network, int64_t item, float* products, uint8_t* scratch) {
    const Plan& plan = network.plan;
    const FeedForward& ffn = network.ffn;
    const Group& group = plan.groups[item / network.tiles()];
    const int64_t first = item % network.tiles() * kTileRows;
    const int height = tile_height(ffn.gate.rows, first);
    float *g = products, *u = products + group.count * kTileRows;
    const auto multiply = [&](const MatrixView& w, const Activations& x, float* to) {
        kernels.multiply_tile(w, group.expert, first, height, x, network.rows(group, x), {to, kTileRows}, scratch);
    };
    multiply(ffn.gate, network.for_gate, g);
    multiply(ffn.up, network.for_up, u);
    for (int64_t i = 0; i < group.count; ++i, g += kTileRows, u += kTileRows) {
        const int64_t pair = group.begin + i;
        kernels.level().swiglu(g, u, height, ffn.limit, plan.weight[pair], g);
        network.middle.store(kernels.level(), pair, first, height, g);
    }
}

// Rows begin .. end - 1 of down of all groups, added to the tokens' sums. `products` has room for one tile.
void add_rows(const Kernels& kernels, const Network& network, int64_t begin, int64_t end, float* out, float* products,
              uint8_t* scratch) {
    const Plan& plan = network.plan;
    const MatrixView& down = network.ffn.down;
    const Activations middle = network.middle.activations();
    for (const Group& group : plan.groups)
        for (int64_t first = begin; first < end; first += kTileRows) {
            const int height = tile_height(end, first);
            const RowList list{plan.identity.data() + group.begin, group.count};
            kernels.multiply_tile(down, group.expert, first, height, middle, list, {products, kTileRows}, scratch);
            for (int64_t i = 0; i < group.count; ++i) {
                const int64_t pair = group.begin + i;
                const float* product = products + i * kTileRows;
                float* sum = out + plan.token[pair] * down.rows + first;
                if (plan.is_first[pair])
                    for (int k = 0; k < height; ++k) sum[k] = product[k];
                else
                    for (int k = 0; k < height; ++k) sum[k] += product[k];
            }
        }
}

}  // namespace

// Input in each form that some weights want, made once; of the listed rows of x, or of all in their order.
class Kernels::Inputs {
public:
    Inputs(Kernels& kernels, const float* x, int64_t rows, const int32_t* list, bool quality, Scratch* scratch)
        : kernels_(kernels), x_(x), rows_(rows), list_(list), quality_(quality), scratch_(scratch) {}

    Activations operator()(const MatrixView& w) {
        const int granule = quality_ ? 0 : w.layout->granule;
        if (granule == 0) return {{x_, w.cols}, {}};
        for (const Activations& made : made_)
            if (made.integers.granule == granule) return made;
        made_.push_back({{x_, w.cols}, kernels_.reserve_integers(scratch_[made_.size()], rows_, w.cols, granule)});
        kernels_.pool_.split(rows_, [&](int64_t begin, int64_t end, int) {
            for (int64_t row = begin; row < end; ++row)
                kernels_.level_.quantise(x_ + (list_ ? list_[row] : row) * w.cols, 0, w.cols, made_.back().integers,
                                         row);
        });
        return made_.back();
    }

private:
    Kernels& kernels_;
    const float* x_;
    int64_t rows_;
    const int32_t* list_;
    bool quality_;
    Scratch* scratch_;               // one for each granule
    std::vector<Activations> made_;  // of granules 32 and 16
};

void Kernels::experts(const float* x, const Routing& routing, const FeedForward& routed, const FeedForward* shared,
                      float* out, bool quality) {
    const int64_t tokens = routing.tokens, depth = routed.down.rows;
    // The shared expert's tiles are the largest: they are handed out first.
    std::vector<Network> networks;
    Plan picks(routing, routed.gate.experts);
    if (routing.is_met) std::copy(picks.is_met.begin(), picks.is_met.end(), routing.is_met);
    if (shared) networks.push_back({*shared, Plan(picks.is_met), false});
    networks.push_back({routed, std::move(picks), tokens > kFewTokens});

    Inputs inputs(*this, x, tokens, nullptr, quality, inputs_);
    // Many tokens: an expert's rows lie side by side, or every tile of weights would have to gather them.
    const auto& pairs_in_order = networks.back().plan.token;
    Inputs gathered(*this, x, int64_t(pairs_in_order.size()), pairs_in_order.data(), quality, gathered_);
    int64_t longest = 0, kernel_bytes = 0, items = 0;
    for (Network& network : networks) {
        const FeedForward& ffn = network.ffn;
        Inputs& own = network.is_gathered ? gathered : inputs;
        network.for_gate = own(ffn.gate);
        network.for_up = own(ffn.up);
        Scratch& scratch = &network == &networks.front() ? middle_ : second_middle_;
        network.middle = Middle{nullptr, {}, ffn.gate.rows};
        const int64_t pairs = int64_t(network.plan.token.size());
        if (quality || ffn.down.layout->granule == 0)
            network.middle.floats =
                reinterpret_cast<float*>(scratch.reserve(pairs * ffn.gate.rows * int64_t(sizeof(float))));
        else
            network.middle.integers = reserve_integers(scratch, pairs, ffn.gate.rows, ffn.down.layout->granule);
        longest = std::max(longest, network.plan.longest);
        for (const MatrixView* w : {&ffn.gate, &ffn.down})
            kernel_bytes = std::max(kernel_bytes, level_.scratch_bytes(w->cols));
        items += network.items();
    }
    kernel_bytes = aligned(kernel_bytes);
    reserve_thread_scratch(kernel_bytes + 2 * longest * kTileRows * int64_t(sizeof(float)));
    const auto products = [&](int thread) { return reinterpret_cast<float*>(thread_scratch(thread) + kernel_bytes); };

    const int runs = tokens <= kFewTokens ? kFinestRuns : kFineRuns;
    deal(pool_, items, runs, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t item = begin; item < end; ++item) {
            const bool is_in_first = item < networks.front().items();
            const Network& network = is_in_first ? networks.front() : networks.back();
            const int64_t own = is_in_first ? item : item - networks.front().items();
            fill_middle(*this, network, own, products(thread), thread_scratch(thread));
        }
    });

    const int64_t wanted = int64_t(pool_.threads()) * (tokens <= kFewTokens ? kFewPanels : kPanels);
    const int64_t panels = std::min(pieces(depth, kTileRows), wanted);
    const int64_t panel = pieces(pieces(depth, kTileRows), panels) * kTileRows;
    deal(pool_, pieces(depth, panel), kFinestRuns, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t item = begin; item < end; ++item)
            for (size_t n = networks.size(); n-- > 0;)
                add_rows(*this, networks[n], item * panel, std::min((item + 1) * panel, depth), out, products(thread),
                         thread_scratch(thread));
    });
}

}  // namespace whitedwarf
