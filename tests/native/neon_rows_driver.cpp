// Compares the NEON row kernels with the scalar ones, bit for bit; exit status 1 on a difference.
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "row_level.h"
#include "row_rounding.h"

using namespace whitedwarf;

namespace {

std::mt19937 random_bits(1);
bool all_equal = true;

std::vector<float> random_floats(size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (auto& value : values) value = normal(random_bits);
    return values;
}

void expect_equal(const char* what, int dims, const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return;
    std::printf("%s differs at %d dims\n", what, dims);
    all_equal = false;
}

// Runs `body(level, out)` at both levels and compares what it wrote.
template <typename Body>
void compare(const char* what, int dims, size_t size, const Body& body) {
    std::vector<float> a(size), b(size);
    body(kScalarRows, a.data());
    body(row_level("neon"), b.data());
    expect_equal(what, dims, a, b);
}

std::vector<uint8_t> stored(const RowFormat& format, int count) {
    std::vector<uint8_t> data(count * format.row_bytes());
    for (int i = 0; i < count; ++i) {
        auto row = random_floats(format.dims);
        encode_row(format, row.data(), data.data() + i * format.row_bytes());
    }
    return data;
}

void check_rows(int dims) {
    const auto x = random_floats(4 * dims), weight = random_floats(dims), turns = random_floats(16);
    const auto post = random_floats(4), mix = random_floats(16);
    for (RowKind kind : {RowKind::f32, RowKind::f16, RowKind::packed_kv, RowKind::packed_kv_f16, RowKind::packed_key}) {
        const RowFormat format{kind, dims, 16};
        const auto row = stored(format, 1);
        compare("decode_row", dims, dims, [&](auto& level, float* out) { level.decode_row(format, row.data(), out); });
    }
    compare("norm_turn", dims, dims, [&](auto& level, float* out) {
        level.norm_turn(x.data(), weight.data(), turns.data(), dims, 8, 1e-6, out);
    });
    compare("mix_streams", dims, dims,
            [&](auto& level, float* out) { level.mix_streams(x.data(), post.data(), 4, dims, out); });
    compare("spread_streams", dims, 4 * dims, [&](auto& level, float* out) {
        level.spread_streams(x.data(), weight.data(), post.data(), mix.data(), 4, dims, out);
    });
    compare("round_like_keys", dims, dims, [&](auto& level, float* out) {
        std::memcpy(out, x.data(), dims * sizeof(float));
        level.round_like_keys(out, dims);
    });
    const auto values = random_floats(8 * dims), gates = random_floats(8 * dims), ape = random_floats(8 * dims);
    const PoolWindow window{values.data(), gates.data(), ape.data(), dims, 8};
    compare("pool_rows", dims, dims, [&](auto& level, float* out) { level.pool_rows(&window, 1, dims, out); });
}

void check_attend(int dims, int heads, int num_keys) {
    const RowFormat format{RowKind::packed_kv, dims, 16};
    const auto queries = random_floats(heads * dims);
    const auto keys = stored(format, num_keys);
    std::vector<StoredRow> rows;
    for (int k = 0; k < num_keys; ++k) rows.push_back({&format, keys.data() + k * format.row_bytes()});
    compare("attend", dims, heads * (dims + 2), [&](auto& level, float* out) {
        const AttendKernels& kernels = level.attend_kernels(format, format);
        std::vector<float> scores(heads * kernels.block_keys);
        std::vector<uint8_t> block(kernels.block_bytes(format));
        kernels.take_keys(rows.data(), num_keys, format, block.data());
        float* top = out + heads * dims;
        const Heads state{queries.data(), nullptr, heads, top, top + heads, out};
        for (int round = 0; round < 2; ++round)
            kernels.attend(state, block.data(), num_keys, format, 0.125f, scores.data());
    });
}

void check_scores(int dims, int heads, int num_keys) {
    const RowFormat format{RowKind::packed_key, dims, 0};
    const auto keys = stored(format, num_keys);
    const auto weights = random_floats(heads), values = random_floats(heads * dims);
    const auto floats = random_floats(num_keys * dims);
    std::vector<int8_t> codes(heads * dims);
    std::vector<float> scales(heads * dims / kKeyBlock, 0.25f);
    std::vector<int32_t> sums(scales.size());
    for (size_t i = 0; i < codes.size(); ++i) sums[i / kKeyBlock] += codes[i] = kMxfp4Codes[random_bits() % 16];
    const IndexQuery query{values.data(), weights.data(), heads, dims, codes.data(), scales.data(), sums.data(),
                           {},            {},             {}};
    compare("score_packed", dims, num_keys, [&](auto& level, float* out) {
        level.score_packed(query, keys.data(), int64_t(format.row_bytes()), num_keys, out);
    });
    compare("score_floats", dims, num_keys,
            [&](auto& level, float* out) { level.score_floats(query, floats.data(), num_keys, out); });
}

}  // namespace

int main() {
    if (std::strcmp(row_level("neon").name, "neon") != 0) return std::printf("no NEON level\n"), 1;
    for (int dims : {32, 64, 128, 512}) {
        check_rows(dims);
        for (int heads : {1, 3, 8})
            for (int num_keys : {1, 5, 64}) {
                check_attend(dims, heads, num_keys);
                check_scores(dims, heads, num_keys);
            }
    }
    std::printf(all_equal ? "equal\n" : "different\n");
    return all_equal ? 0 : 1;
}
