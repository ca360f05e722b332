// Compares the encoders of every level this machine has with the scalar ones, byte for byte. Prints "<level> equal" for
// each; exit status 1 on a difference. Buffers have exactly the bytes they need, for the address sanitizer.
#include <cstdio>
#include <random>
#include <vector>

#include "quantize.h"

using namespace whitedwarf;

namespace {

std::mt19937 random_bits(1);
constexpr int kBlocks = 19;  // not a multiple of what is worked on side by side

std::vector<const QuantizeLevel*> levels() {
    std::vector<const QuantizeLevel*> found;
#if defined(__x86_64__) || defined(_M_X64)
    if (__builtin_cpu_supports("avx2")) found.push_back(&kAvx2Quantize);
    if (__builtin_cpu_supports("avx512vbmi")) found.push_back(&kAvx512Quantize);
#elif defined(__aarch64__)
    found.push_back(&kNeonQuantize);
#endif
    return found;
}

std::vector<float> random_values(int64_t count, int kind) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (auto& value : values) {
        value = 0.03f * normal(random_bits);
        if (kind == 1 && random_bits() % 4) value = 0;
        if (kind == 2) value *= float(1u << random_bits() % 20);
        if (kind == 3) value = value < 0 ? -0.25f : 0.25f;
    }
    return values;
}

std::vector<uint8_t> encode(Pool& pool, const QuantizeLevel& level, const BlockSource& source) {
    std::vector<uint8_t> out(size_t(kBlocks * source.layout->bytes));
    const EncodeFaults faults = encode_blocks(pool, level, source, kBlocks, out.data());
    if (faults.has_infinity || faults.largest > 0) std::printf("%s: faults of sound numbers\n", source.layout->name);
    return out;
}

bool check(Pool& pool, const QuantizeLevel& level, const Layout& layout) {
    for (int kind = 0; kind < 4; ++kind)
        for (bool has_importances : {false, true}) {
            if (layout.type == IQ2_XXS && !has_importances) continue;
            const auto values = random_values(int64_t(kBlocks) * layout.block, kind);
            std::vector<float> importances = random_values(layout.block, 0);
            for (auto& value : importances) value *= value;
            const BlockSource source{&layout, values.data(), has_importances ? importances.data() : nullptr, 1};
            if (encode(pool, level, source) == encode(pool, kScalarQuantize, source)) continue;
            std::printf("%s: %s differs, kind %d, importances %d\n", level.name, layout.name, kind, has_importances);
            return false;
        }
    return true;
}

}  // namespace

int main() {
    Pool pool(2);
    bool all_good = true;
    for (const QuantizeLevel* level : levels()) {
        bool is_good = true;
        for (const Layout& layout : kLayouts)
            if (can_encode(layout.type)) is_good &= check(pool, *level, layout);
        if (is_good) std::printf("%s equal\n", level->name);
        all_good &= is_good;
    }
    return all_good ? 0 : 1;
}
