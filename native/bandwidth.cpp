// Reads memory as fast as all threads can: the measuring stick for decode, which is bound by it.
#include "kernels.h"

#include <cstring>

namespace whitedwarf {

namespace {

constexpr int kLanes = 32;  // independent sums: enough loads in flight on any core

uint64_t fold(const uint8_t* bytes, int64_t words) {
    uint64_t sums[kLanes] = {};
    const int64_t whole = words / kLanes * kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
        uint64_t block[kLanes];
        std::memcpy(block, bytes + i * 8, sizeof block);
        for (int lane = 0; lane < kLanes; ++lane) sums[lane] ^= block[lane];
    }
    uint64_t all = 0;
    for (uint64_t sum : sums) all ^= sum;
    for (int64_t i = whole; i < words; ++i) {
        uint64_t word;
        std::memcpy(&word, bytes + i * 8, sizeof word);
        all ^= word;
    }
    return all;
}

}  // namespace

uint64_t Kernels::read_all(const uint8_t* bytes, int64_t size) {
    std::vector<uint64_t> sums(size_t(pool_.threads()));
    pool_.split(size / 8, [&](int64_t begin, int64_t end, int thread) {
        sums[size_t(thread)] ^= fold(bytes + begin * 8, end - begin);
    });
    uint64_t all = 0;
    for (uint64_t sum : sums) all ^= sum;
    return all;
}

}  // namespace whitedwarf
