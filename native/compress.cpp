// Pooling of windows into compressed rows (fact sheet 2.4).
#include <vector>

#include "operations.h"
#include "spread.h"

namespace whitedwarf {

namespace {

// The windows that one group pools, oldest first; returns how many. The group at 0 has nothing before it.
int windows_of(const Compress& in, int64_t group, PoolWindow* windows) {
    const int64_t own = (group * in.ratio - in.first) * in.width;
    const bool is_overlapping = in.width == 2 * in.format.dims;
    int num_windows = 0;
    if (is_overlapping && group > 0) {
        const int64_t before = own - in.ratio * in.width;
        windows[num_windows++] = {in.values + before, in.gates + before, in.ape, in.width, in.ratio};
    }
    const int64_t half = is_overlapping ? in.format.dims : 0;
    windows[num_windows++] = {in.values + own + half, in.gates + own + half, in.ape + half, in.width, in.ratio};
    return num_windows;
}

}  // namespace

void compress(const Machine& machine, const Compress& in) {
    const int64_t dims = in.format.dims, row_bytes = int64_t(in.format.row_bytes());
    spread(machine.pool, in.end_group - in.first_group, 2 * in.ratio * dims, [&](int64_t begin, int64_t end) {
        std::vector<float> row(dims);
        for (int64_t i = begin; i < end; ++i) {
            PoolWindow windows[2];
            const int num_windows = windows_of(in, in.first_group + i, windows);
            machine.level.pool_rows(windows, num_windows, dims, row.data());
            machine.level.norm_turn(row.data(), in.norm, in.turns + i * 2 * in.half, dims, in.half, in.epsilon,
                                    row.data());
            encode_row(in.format, row.data(), in.out + i * row_bytes);
        }
    });
}

}  // namespace whitedwarf
