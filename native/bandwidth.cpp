// Reads memory as fast as all threads can: the measuring stick for decode, which is bound by it.
//
// The same plain code at every level. What makes it wait for memory and not for itself is the prefetch: without it
// narrow registers keep too few lines on their way (8 GB/s a thread where wide loads and this one reach 12 to 15).
#include "kernels.h"

#include <cstring>

namespace whitedwarf {

namespace {

constexpr int kLanes = 32;  // independent sums
constexpr int kLine = 64;
constexpr uintptr_t kAhead = 8192;  // bytes; past the end it is harmless

// Into the second cache: the nearest has too few entries for lines on their way.
void prefetch(const uint8_t* bytes) {
    for (int at = 0; at < kLanes * 8; at += kLine)
        __builtin_prefetch(reinterpret_cast<const void*>(uintptr_t(bytes) + kAhead + uintptr_t(at)), 0, 2);
}

uint64_t fold(const uint8_t* bytes, int64_t words) {
    uint64_t sums[kLanes] = {};
    const int64_t whole = words / kLanes * kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
        prefetch(bytes + i * 8);
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
