// Compares every level this machine has with the scalar one, bit for bit, over every format. Prints "<level> equal" for
// each; exit status 1 on a difference. Buffers have exactly the bytes they need, for the address sanitizer.
#include <cstdio>
#include <random>
#include <vector>

#include "kernels.h"

using namespace whitedwarf;

namespace {

std::mt19937 random_bits(1);

float random_float() { return float(int(random_bits() % 2001) - 1000) / 500.0f; }

// Random blocks; the bytes that hold float16 scales get the exponent of a number near 2^-7.
std::vector<uint8_t> random_weights(const Layout& layout, int64_t rows, int64_t cols) {
    std::vector<uint8_t> data(rows * cols / layout.block * layout.bytes);
    for (auto& byte : data) byte = uint8_t(random_bits());
    const int halves = layout.type == Q2_K ? 80 : layout.type == Q3_K ? 108 : layout.type == Q6_K ? 208 : 0;
    for (size_t block = 0; block < data.size(); block += layout.bytes) {
        if (layout.type == MXFP4) data[block] = uint8_t(120 + random_bits() % 8);
        if (layout.type == F32) data[block + 3] = uint8_t(0x3d | (data[block + 3] & 0x80));
        if (layout.type == F16 || layout.type == BF16) data[block + 1] = uint8_t(0x2c | (data[block + 1] & 0x80));
        if (layout.granule == 0 || layout.type == MXFP4) continue;
        data[block + halves + 1] = uint8_t(0x20 | (data[block + halves + 1] & 3));
        if (layout.has_min) data[block + halves + 3] = uint8_t(0x20 | (data[block + halves + 3] & 3));
    }
    return data;
}

bool is_equal(const char* what, const Layout& layout, int64_t rows, int64_t cols, int64_t n,
              const std::vector<float>& a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i)
        if (bits_of_float(a[i]) != bits_of_float(b[i])) {
            std::printf("%s %s (%ld x %ld, n %ld): element %zu is %.9g at the scalar level, %.9g here\n", what,
                        layout.name, long(rows), long(cols), long(n), i, a[i], b[i]);
            return false;
        }
    return true;
}

bool check_linear(Kernels& scalar, Kernels& fast, const Layout& layout, int64_t rows, int64_t cols, int64_t n) {
    const auto data = random_weights(layout, rows, cols);
    const MatrixView view{&layout, data.data(), 1, rows, cols};
    std::vector<float> x(n * cols);
    for (auto& value : x) value = random_float();
    bool good = true;
    for (bool quality : {false, true}) {
        std::vector<float> a(n * rows), b(n * rows);
        scalar.linear(x.data(), n, view, 1, a.data(), quality);
        fast.linear(x.data(), n, view, 1, b.data(), quality);
        good &= is_equal(quality ? "float product" : "integer product", layout, rows, cols, n, a, b);
    }
    std::vector<float> a(rows * cols), b(rows * cols);
    scalar.decode_rows(view, nullptr, rows, a.data());
    fast.decode_rows(view, nullptr, rows, b.data());
    return is_equal("decode", layout, rows, cols, n, a, b) && good;
}

bool check_experts(Kernels& scalar, Kernels& fast, const Layout& layout) {
    const int64_t experts = 3, width = 256, depth = 256, tokens = 5, slots = 2;
    const auto gate = random_weights(layout, experts * width, depth),
               up = random_weights(layout, experts * width, depth);
    const auto down = random_weights(layout, experts * depth, width);
    const FeedForward ffn{{&layout, gate.data(), experts, width, depth},
                          {&layout, up.data(), experts, width, depth},
                          {&layout, down.data(), experts, depth, width},
                          2.0f};
    // The shared network is the first of the experts.
    FeedForward shared = ffn;
    shared.gate.experts = shared.up.experts = shared.down.experts = 1;
    std::vector<float> x(tokens * depth), weights(tokens * slots), a(tokens * depth), b(tokens * depth);
    std::vector<int32_t> ids(tokens * slots);
    for (auto& value : x) value = random_float();
    for (auto& value : weights) value = random_float();
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t((i + i / 2) % experts);
    const Routing routing{tokens, slots, ids.data(), weights.data()};
    scalar.experts(x.data(), routing, ffn, &shared, a.data(), false);
    fast.experts(x.data(), routing, ffn, &shared, b.data(), false);
    const bool is_good = is_equal("experts", layout, width, depth, tokens, a, b);

    // One expert at a time, of which only its own bytes are there.
    std::vector<uint8_t> is_met(tokens);
    for (int64_t e = 0; e < experts; ++e) {
        std::vector<int32_t> own(ids);
        for (auto& id : own) id = id == e ? id : -1;
        std::vector<std::vector<const uint8_t*>> apart(3, std::vector<const uint8_t*>(experts));
        std::vector<std::vector<uint8_t>> copies;
        FeedForward one = ffn;
        int part = 0;
        for (MatrixView* view : {&one.gate, &one.up, &one.down}) {
            copies.emplace_back(view->row(e, 0), view->row(e, 0) + view->matrix_bytes());
            apart[part][e] = copies.back().data();
            *view = {view->layout, nullptr, experts, view->rows, view->cols, apart[part++].data()};
        }
        const Routing round{tokens, slots, own.data(), weights.data(), is_met.data()};
        fast.experts(x.data(), round, one, e + 1 == experts ? &shared : nullptr, b.data(), false);
    }
    return is_equal("experts in rounds", layout, width, depth, tokens, a, b) && is_good;
}

}  // namespace

int main() {
    Kernels scalar(1, kScalar);
    bool good = true;
    for (const Level* level : available_levels()) {
        if (level == &kScalar) continue;
        Kernels fast(2, *level);
        bool equal = true;
        for (const Layout& layout : kLayouts) {
            const int64_t unit = layout.block == 1 ? 7 : layout.block;
            for (int64_t blocks : {1, 3, 9})
                for (int64_t n : {1, 2, 4, 13, 41}) equal &= check_linear(scalar, fast, layout, 37, blocks * unit, n);
            equal &= check_linear(scalar, fast, layout, 32, 6 * 256, 35);
            equal &= check_experts(scalar, fast, layout);
        }
        std::printf("%s %s\n", level->name, equal ? "equal" : "different");
        good &= equal;
    }
    return good ? 0 : 1;
}
