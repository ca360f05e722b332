#include "merges.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace whitedwarf {

namespace {

constexpr size_t kShort = 48;  // symbols up to which looking at every pair beats a queue
constexpr uint32_t kNone = 0xffffffff;

uint64_t entry(uint32_t rank, uint32_t node) { return uint64_t(rank) << 32 | node; }

}  // namespace

Merges::Merges(const std::vector<Merge>& merges) {
    const size_t size = std::bit_ceil(std::max<size_t>(2 * merges.size(), 16));
    shift_ = 64 - std::countr_zero(size);
    slots_.assign(size, {0, 0, kNoRank});
    whole_.reserve(merges.size());
    for (const Merge& merge : merges) {
        slots_[slot(merge.left, merge.right)] = {merge.left, merge.right, uint32_t(whole_.size())};
        whole_.push_back(merge.whole);
    }
}

// The pair's own slot, or the empty one where it would go; at least half of all are empty.
size_t Merges::slot(uint32_t left, uint32_t right) const {
    const uint64_t key = uint64_t(left) << 32 | right;
    size_t place = size_t((key * 0x9e3779b97f4a7c15ull) >> shift_);
    const auto is_other = [&](const Slot& s) { return s.rank != kNoRank && (s.left != left || s.right != right); };
    while (is_other(slots_[place])) place = (place + 1) & (slots_.size() - 1);
    return place;
}

uint32_t Merges::rank(uint32_t left, uint32_t right) const { return slots_[slot(left, right)].rank; }

void Merger::merge(std::vector<uint32_t>& symbols) {
    if (symbols.size() < 2) return;
    if (symbols.size() <= kShort)
        merge_short(symbols);
    else
        merge_long(symbols);
}

void Merger::merge_short(std::vector<uint32_t>& symbols) {
    ranks_.clear();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) ranks_.push_back(merges_.rank(symbols[i], symbols[i + 1]));
    while (!ranks_.empty()) {
        const auto best = std::min_element(ranks_.begin(), ranks_.end());
        if (*best == kNoRank) return;
        const size_t i = size_t(best - ranks_.begin());
        symbols[i] = merges_.whole(*best);
        symbols.erase(symbols.begin() + i + 1);
        ranks_.erase(best);
        if (i > 0) ranks_[i - 1] = merges_.rank(symbols[i - 1], symbols[i]);
        if (i < ranks_.size()) ranks_[i] = merges_.rank(symbols[i], symbols[i + 1]);
    }
}

void Merger::merge_long(std::vector<uint32_t>& symbols) {
    const uint32_t count = uint32_t(symbols.size());
    nodes_.clear();
    queue_.clear();
    for (uint32_t i = 0; i < count; ++i)
        nodes_.push_back({symbols[i], kNoRank, i ? i - 1 : kNone, i + 1 < count ? i + 1 : kNone});
    for (uint32_t i = 0; i + 1 < count; ++i) {
        nodes_[i].rank = merges_.rank(symbols[i], symbols[i + 1]);
        if (nodes_[i].rank != kNoRank) queue_.push_back(entry(nodes_[i].rank, i));
    }
    std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
    while (!queue_.empty()) {
        std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
        const uint64_t best = queue_.back();
        queue_.pop_back();
        // A pair that has changed since lies under its new rank, if anywhere.
        if (nodes_[uint32_t(best)].rank == uint32_t(best >> 32)) join(uint32_t(best));
    }
    symbols.clear();
    for (uint32_t i = 0; i != kNone; i = nodes_[i].next) symbols.push_back(nodes_[i].id);
}

void Merger::join(uint32_t node) {
    const uint32_t gone = nodes_[node].next;
    nodes_[node].id = merges_.whole(nodes_[node].rank);
    nodes_[node].next = nodes_[gone].next;
    nodes_[gone].rank = kNoRank;
    if (nodes_[node].next != kNone) nodes_[nodes_[node].next].previous = node;
    set_rank(node);
    if (nodes_[node].previous != kNone) set_rank(nodes_[node].previous);
}

void Merger::set_rank(uint32_t node) {
    const uint32_t next = nodes_[node].next;
    nodes_[node].rank = next == kNone ? kNoRank : merges_.rank(nodes_[node].id, nodes_[next].id);
    if (nodes_[node].rank == kNoRank) return;
    queue_.push_back(entry(nodes_[node].rank, node));
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

}  // namespace whitedwarf
