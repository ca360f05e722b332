// What the processor can multiply at most: loops that touch registers only, the measuring stick for prefill.
#pragma once

#include <cstdint>
#include <vector>

namespace whitedwarf {

// One way to multiply and add. `run` repeats it and returns the operations done (a multiplication and an addition each
// count one).
struct Peak {
    const char* level;       // of level.h, or amx
    const char* arithmetic;  // int8, bf16 or f32
    int64_t (*run)(int64_t rounds);
};

// Those that this CPU and operating system can run.
std::vector<Peak> available_peaks();

}  // namespace whitedwarf
