// What the NEON files share. Internal linkage: see blocks.h.
#pragma once

#include <arm_neon.h>

#include "arithmetic.h"

namespace whitedwarf::neon {

static inline float half_at(const uint8_t* p) {
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(load_u16(p)))), 0);
}

// Codes at this level: signed bytes for formats without mins.
Unpack unpacker(Type type);

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch);
void multiply_float(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x,
                    RowList list, Output out, uint8_t* scratch);
void decode(const Layout& layout, const uint8_t* weights, int64_t cols, float* out, uint8_t* scratch);
int64_t float_scratch_bytes(int64_t cols);

}  // namespace whitedwarf::neon
