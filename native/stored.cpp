// Rows on their way into the cache and out of it.
#include <vector>

#include "operations.h"
#include "spread.h"

namespace whitedwarf {

void kv_rows(const Machine& machine, const KvRows& rows) {
    const int64_t dims = rows.format.dims, turn_size = 2 * rows.half, row_bytes = int64_t(rows.format.row_bytes());
    spread(machine.pool, rows.n, 4 * dims, [&](int64_t begin, int64_t end) {
        std::vector<float> row(dims);
        for (int64_t i = begin; i < end; ++i) {
            machine.level.norm_turn(rows.x + i * dims, rows.norm, rows.turns + i * turn_size, dims, rows.half,
                                    rows.epsilon, row.data());
            encode_row(rows.format, row.data(), rows.out + i * row_bytes);
        }
    });
}

void encode_rows(const Machine& machine, const RowFormat& format, const float* x, int64_t n, uint8_t* out) {
    const int64_t dims = format.dims, row_bytes = int64_t(format.row_bytes());
    spread(machine.pool, n, 4 * dims, [&](int64_t begin, int64_t end) {
        std::vector<float> row(dims);
        for (int64_t i = begin; i < end; ++i) {
            row.assign(x + i * dims, x + (i + 1) * dims);
            encode_row(format, row.data(), out + i * row_bytes);
        }
    });
}

void decode_rows(const Machine& machine, const StoredRows& rows, float* out) {
    const int64_t dims = rows.format.dims;
    spread(machine.pool, rows.count, dims / 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) machine.level.decode_row(rows.format, rows.row(i), out + i * dims);
    });
}

}  // namespace whitedwarf
