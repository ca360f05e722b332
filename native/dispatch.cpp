// Which levels this machine can run.
#include "kernels.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
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
#elif defined(__aarch64__) || defined(_M_ARM64)
    if (has_neon()) levels.push_back(&kNeon);
#endif
    return levels;
}

}  // namespace whitedwarf
