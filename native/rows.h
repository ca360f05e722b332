// Stored KV rows and index keys: their layout, and the official FP8/FP4 rounding (fact sheet 2.7) in plain code.
//
// The functions here are the specification; ops/rows.py is the same in numpy, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace whitedwarf {

// packed_kv is the rounding of the official model and nothing else; packed_kv_f16 also rounds the rotary tail to f16.
enum class RowKind : int { f32 = 0, f16 = 1, packed_kv = 2, packed_key = 3, packed_kv_f16 = 4 };

constexpr int kKvBlock = 64;   // values under one scale in a packed KV row
constexpr int kKeyBlock = 32;  // values under one scale in a packed key
constexpr int kMaxRowDims = 4096;

// One stored row of `dims` values, the last `rope_dims` of them rotary.
struct RowFormat {
    RowKind kind;
    int dims;
    int rope_dims;

    // Never functions of their own: the linker might keep one level's copy for all (blocks.h).
    [[gnu::always_inline]] int plain() const { return dims - rope_dims; }
    [[gnu::always_inline]] int tail_offset() const { return plain() + (plain() + kKvBlock - 1) / kKvBlock; }  // of packed rows, in bytes
    size_t row_bytes() const;
};

// Encode one row of floats; a packed block with an inf or a NaN in it decodes to NaN. `x` is also scratch: packed keys are rotated in place.
void encode_row(const RowFormat& format, float* x, uint8_t* out);

// Decode one row. Packed keys stay in their rotated frame.
void decode_row(const RowFormat& format, const uint8_t* row, float* out);

// Normalised Walsh-Hadamard transform in natural order; dims is a power of two.
void hadamard(float* x, int dims);

// Nearest-even float16.
uint16_t to_f16(float value);

}  // namespace whitedwarf
