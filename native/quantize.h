// Floats to the blocks of GGUF's weight formats, by the searches of the fact sheet's section 5.3.
//
// Promise: every level gives the same bits, those of the sequential description in float32 with its sums in index
// order. Sixteen blocks are worked on side by side, one in each lane, so that no sum is ever reordered.
#pragma once

#include <cstdint>

#include "blocks.h"
#include "pool.h"

namespace whitedwarf {

constexpr int kBatchBlocks = 16;  // blocks side by side

// What is to be encoded. Block b reads values + b * layout.block, and importances
// + (b % importance_blocks) * layout.block.
struct BlockSource {
    const Layout* layout;
    const float* values;
    const float* importances;   // null: without an imatrix
    int64_t importance_blocks;  // blocks that the importances cover; 1 when there are none
};

// What cannot be written; the bytes of such a block are undefined.
struct EncodeFaults {
    bool has_infinity = false;  // a value that is inf or NaN
    float largest = 0;          // magnitude of a value or scale that float16 cannot hold; 0: none
};

struct QuantizeLevel {
    const char* name;
    // Blocks [first, first + count), count <= kBatchBlocks; out is where block `first` goes.
    void (*encode)(const BlockSource& source, int64_t first, int count, uint8_t* out, EncodeFaults& faults);
};

extern const QuantizeLevel kScalarQuantize;
#if defined(__x86_64__) || defined(_M_X64)
extern const QuantizeLevel kAvx2Quantize;
extern const QuantizeLevel kAvx512Quantize;
#elif defined(__aarch64__) || defined(_M_ARM64)
extern const QuantizeLevel kNeonQuantize;
#endif

// The encoders beside the matmul kernels of that name.
const QuantizeLevel& quantize_level(const char* name);

// Types that can be written.
bool can_encode(int type);

// All blocks, with all threads of the pool.
EncodeFaults encode_blocks(Pool& pool, const QuantizeLevel& level, const BlockSource& source, int64_t num_blocks,
                           uint8_t* out);

}  // namespace whitedwarf
