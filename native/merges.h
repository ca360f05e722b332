// The merges of a byte-level BPE vocabulary, and how they turn one word into tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace whitedwarf {

constexpr uint32_t kNoRank = 0xffffffff;

// Two tokens that stand beside each other become one.
struct Merge {
    uint32_t left, right, whole;
};

// Immutable after construction, so it may be shared between threads.
class Merges {
public:
    // In order of priority; of equal pairs the last one counts, as in Hugging Face's BPE.
    explicit Merges(const std::vector<Merge>& merges);

    // The place of a pair in the order; kNoRank when it is never merged.
    uint32_t rank(uint32_t left, uint32_t right) const;
    uint32_t whole(uint32_t rank) const { return whole_[rank]; }

private:
    struct Slot {
        uint32_t left, right, rank;
    };

    size_t slot(uint32_t left, uint32_t right) const;

    std::vector<Slot> slots_;  // open addressing; an empty one has no rank
    std::vector<uint32_t> whole_;
    int shift_;
};

// Merges the symbols of one word, always the best pair first and of equals the leftmost, until none is left.
// Takes n log n time. Keeps its working memory from word to word.
class Merger {
public:
    explicit Merger(const Merges& merges) : merges_(merges) {}

    // In place: `symbols` are the ids of the word's bytes before and its tokens after.
    void merge(std::vector<uint32_t>& symbols);

private:
    struct Node {
        uint32_t id, rank, previous, next;  // rank is that of the pair with the next node
    };

    void merge_short(std::vector<uint32_t>& symbols);
    void merge_long(std::vector<uint32_t>& symbols);
    void set_rank(uint32_t node);
    void join(uint32_t node);

    const Merges& merges_;
    std::vector<uint32_t> ranks_;
    std::vector<Node> nodes_;
    std::vector<uint64_t> queue_;  // rank and node of a pair that was there at some time; the least is on top
};

}  // namespace whitedwarf
