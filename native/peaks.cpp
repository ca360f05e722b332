// Register-only loops of every level, in one file: each function asks for its own instructions.
//
// Enough independent sums hide the latency of one instruction (4 or 5 cycles, two units). Sums start from an opaque zero
// and end in a volatile, so that the compiler neither works them out nor leaves them away.
#include "peaks.h"

#include <string.h>

#include "kernels.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) || defined(_M_ARM64)
#include <arm_neon.h>
#endif

namespace whitedwarf {
namespace {

[[maybe_unused]] volatile int32_t sink;

[[maybe_unused]] int32_t opaque(int32_t value) {
    volatile int32_t hidden = value;
    return hidden;
}

#if defined(__x86_64__) || defined(_M_X64)

constexpr int kSums = 12;  // of 16 registers at least; two more are the factors

[[gnu::target("avx2")]] int64_t avx2_int8(int64_t rounds) {
    constexpr int kFewSums = 8;  // the chain is one addition only
    __m256i a = _mm256_set1_epi8(char(opaque(3)));
    const __m256i b = _mm256_set1_epi8(char(opaque(2))), ones = _mm256_set1_epi16(int16_t(opaque(1)));
    __m256i sums[kFewSums];
    for (auto& sum : sums) sum = _mm256_set1_epi32(opaque(0));
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 8
        for (auto& sum : sums) {
            asm volatile("" : "+x"(a));  // could be another one: the product is worked out each time
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
        }
    }
    __m256i all = sums[0];
    for (const auto& sum : sums) all = _mm256_xor_si256(all, sum);
    sink = _mm256_extract_epi32(all, 0);
    return rounds * kFewSums * 64;
}

[[gnu::target("avx2,fma")]] int64_t avx2_f32(int64_t rounds) {
    const __m256 a = _mm256_set1_ps(float(opaque(1))), b = _mm256_set1_ps(float(opaque(0)));
    __m256 sums[kSums];
    for (auto& sum : sums) sum = _mm256_set1_ps(float(opaque(0)));
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
        for (auto& sum : sums) sum = _mm256_fmadd_ps(a, sum, b);
    }
    __m256 all = sums[0];
    for (const auto& sum : sums) all = _mm256_add_ps(all, sum);
    sink = int32_t(_mm256_cvtss_f32(all));
    return rounds * kSums * 16;
}

[[gnu::target("avx512f,avx512vnni")]] int64_t avx512_int8(int64_t rounds) {
    const __m512i a = _mm512_set1_epi32(opaque(0x01010101)), b = _mm512_set1_epi32(opaque(0x02020202));
    __m512i sums[kSums];
    for (auto& sum : sums) sum = _mm512_set1_epi32(opaque(0));
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
        for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
    }
    __m512i all = sums[0];
    for (const auto& sum : sums) all = _mm512_xor_si512(all, sum);
    sink = _mm512_cvtsi512_si32(all);
    return rounds * kSums * 128;
}

[[gnu::target("avx512f")]] int64_t avx512_f32(int64_t rounds) {
    const __m512 a = _mm512_set1_ps(float(opaque(1))), b = _mm512_set1_ps(float(opaque(0)));
    __m512 sums[kSums];
    for (auto& sum : sums) sum = _mm512_set1_ps(float(opaque(0)));
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
        for (auto& sum : sums) sum = _mm512_fmadd_ps(a, sum, b);
    }
    __m512 all = sums[0];
    for (const auto& sum : sums) all = _mm512_add_ps(all, sum);
    sink = int32_t(_mm512_cvtss_f32(all));
    return rounds * kSums * 32;
}

struct alignas(64) TileConfig {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

// The compiler's own header says of a configuration that only its first bytes are read and written (GCC 12).
inline void touch(TileConfig* config) { asm volatile("" : : "r"(config) : "memory"); }

// Eight full tiles; whatever was configured before comes back.
[[gnu::target("amx-tile")]] TileConfig configure_tiles() {
    TileConfig before{}, full{};
    touch(&before);
    _tile_storeconfig(&before);
    touch(&before);
    full.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
        full.row_bytes[tile] = 64;
        full.rows[tile] = 16;
    }
    touch(&full);
    _tile_loadconfig(&full);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    return before;
}

[[gnu::target("amx-tile")]] void restore_tiles(const TileConfig& before) {
    TileConfig config = before;
    touch(&config);
    if (config.palette)
        _tile_loadconfig(&config);
    else
        _tile_release();
}

constexpr int64_t kTileSums = 16 * 16;  // of one product of tiles

[[gnu::target("amx-tile,amx-int8")]] int64_t amx_int8(int64_t rounds) {
    const TileConfig before = configure_tiles();
    for (int64_t i = 0; i < rounds; ++i) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    restore_tiles(before);
    return rounds * 4 * kTileSums * 64 * 2;
}

[[gnu::target("amx-tile,amx-bf16")]] int64_t amx_bf16(int64_t rounds) {
    const TileConfig before = configure_tiles();
    for (int64_t i = 0; i < rounds; ++i) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    restore_tiles(before);
    return rounds * 4 * kTileSums * 32 * 2;
}

// Linux gives the tile registers to who asks for them; granted once, all later threads have them.
bool has_amx() {
#if defined(__linux__)
    constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (kBf16 | kTile | kInt8)) != (kBf16 | kTile | kInt8))
        return false;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
}

#elif defined(__aarch64__) || defined(_M_ARM64)

constexpr int kSums = 16;

#if defined(__clang__)
#define WHITEDWARF_DOTPROD [[gnu::target("dotprod")]]
#else
#define WHITEDWARF_DOTPROD [[gnu::target("arch=armv8.2-a+dotprod")]]
#endif

WHITEDWARF_DOTPROD int64_t neon_int8(int64_t rounds) {
    const int8x16_t a = vdupq_n_s8(int8_t(opaque(1))), b = vdupq_n_s8(int8_t(opaque(2)));
    int32x4_t sums[kSums];
    for (auto& sum : sums) sum = vdupq_n_s32(opaque(0));
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (auto& sum : sums) sum = vdotq_s32(sum, a, b);
    }
    int32x4_t all = sums[0];
    for (const auto& sum : sums) all = veorq_s32(all, sum);
    sink = vgetq_lane_s32(all, 0);
    return rounds * kSums * 32;
}

int64_t neon_f32(int64_t rounds) {
    const float32x4_t a = vdupq_n_f32(float(opaque(1))), b = vdupq_n_f32(float(opaque(0)));
    float32x4_t sums[kSums];
    for (auto& sum : sums) sum = vdupq_n_f32(float(opaque(0)));
    for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (auto& sum : sums) sum = vfmaq_f32(sum, a, b);
    }
    float32x4_t all = sums[0];
    for (const auto& sum : sums) all = vaddq_f32(all, sum);
    sink = int32_t(vgetq_lane_f32(all, 0));
    return rounds * kSums * 8;
}

#endif

}  // namespace

std::vector<Peak> available_peaks() {
    std::vector<Peak> peaks;
    for (const Level* level : available_levels()) {
#if defined(__x86_64__) || defined(_M_X64)
        if (!strcmp(level->name, "avx2")) {
            peaks.push_back({"avx2", "int8", avx2_int8});
            peaks.push_back({"avx2", "f32", avx2_f32});
        }
        if (!strcmp(level->name, "avx512")) {
            peaks.push_back({"avx512", "int8", avx512_int8});
            peaks.push_back({"avx512", "f32", avx512_f32});
        }
#elif defined(__aarch64__) || defined(_M_ARM64)
        if (!strcmp(level->name, "neon")) {
            peaks.push_back({"neon", "int8", neon_int8});
            peaks.push_back({"neon", "f32", neon_f32});
        }
#else
        (void)level;
#endif
    }
#if defined(__x86_64__) || defined(_M_X64)
    if (has_amx()) {
        peaks.push_back({"amx", "int8", amx_int8});
        peaks.push_back({"amx", "bf16", amx_bf16});
    }
#endif
    return peaks;
}

}  // namespace whitedwarf
