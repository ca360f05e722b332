#include "quantize.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <mutex>

namespace whitedwarf {

const QuantizeLevel& quantize_level(const char* name) {
#if defined(__x86_64__) || defined(_M_X64)
    if (std::strcmp(name, "amx") == 0) return kAvx512Quantize;
    const std::initializer_list<const QuantizeLevel*> levels = {&kAvx2Quantize, &kAvx512Quantize};
#elif defined(__aarch64__) || defined(_M_ARM64)
    const std::initializer_list<const QuantizeLevel*> levels = {&kNeonQuantize};
#else
    const std::initializer_list<const QuantizeLevel*> levels = {};
#endif
    for (const QuantizeLevel* level : levels)
        if (std::strcmp(name, level->name) == 0) return *level;
    return kScalarQuantize;
}

bool can_encode(int type) {
    switch (type) {
        case F16:
        case BF16:
        case Q8_0:
        case MXFP4:
        case Q2_K:
        case Q4_K:
        case IQ2_XXS: return true;
        default: return false;
    }
}

// Blocks that one item of the pool's work takes: as many floats whatever the format.
static int64_t item_blocks(const Layout& layout) { return int64_t(kBatchBlocks) * std::max(1, 256 / layout.block); }

EncodeFaults encode_blocks(Pool& pool, const QuantizeLevel& level, const BlockSource& source, int64_t num_blocks,
                           uint8_t* out) {
    EncodeFaults faults;
    std::mutex gathering;
    const int64_t item = item_blocks(*source.layout);
    pool.split((num_blocks + item - 1) / item, [&](int64_t begin, int64_t end, int) {
        EncodeFaults own;
        const int64_t last = std::min(end * item, num_blocks);
        for (int64_t first = begin * item; first < last; first += kBatchBlocks) {
            const int count = int(std::min<int64_t>(kBatchBlocks, last - first));
            level.encode(source, first, count, out + first * source.layout->bytes, own);
        }
        const std::lock_guard<std::mutex> alone(gathering);
        faults.has_infinity |= own.has_infinity;
        faults.largest = std::max(faults.largest, own.largest);
    });
    return faults;
}

}  // namespace whitedwarf
