// Which levels this machine can run.
#include "kernels.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace whitedwarf {
namespace {

#if defined(__x86_64__) || defined(_M_X64)
// Not every compiler knows this name; the registers are AVX's, which has_avx2 asks for.
bool has_f16c() {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

// The compiler's run-time library also asks the operating system (xgetbv) whether it saves the wide registers.
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
           has_f16c();
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("gfni");
}

#if defined(WHITEDWARF_AMX) && defined(__linux__) && defined(__x86_64__)
// Not every compiler knows the names of these either. Linux saves the tiles of a process that has asked for them only.
bool has_amx() {
    unsigned a, b, c, d;
    if (!has_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    constexpr unsigned kTiles = 1u << 24, kInt8 = 1u << 25, kBfloat = 1u << 22, kBfloatVectors = 1u << 5;
    if (~d & (kTiles | kInt8 | kBfloat)) return false;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & kBfloatVectors)) return false;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool has_amx() { return false; }
#endif
#elif defined(__aarch64__) || defined(_M_ARM64)
// Apple's and Microsoft's machines of this architecture all have the dot product instructions.
bool has_neon() {
#if defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return true;
#endif
}
#endif

}  // namespace

std::vector<const Level*> available_levels() {
    std::vector<const Level*> levels = {&kScalar};
#if defined(__x86_64__) || defined(_M_X64)
    if (has_avx2()) levels.push_back(&kAvx2);
    if (has_avx512()) levels.push_back(&kAvx512);
#if defined(WHITEDWARF_AMX)
    if (has_amx()) levels.push_back(&kAmx);
#endif
#elif defined(__aarch64__) || defined(_M_ARM64)
    if (has_neon()) levels.push_back(&kNeon);
#endif
    return levels;
}

}  // namespace whitedwarf
