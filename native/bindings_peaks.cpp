// Methods of Kernels that measure the processor itself.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>

#include "bindings.h"
#include "peaks.h"

namespace whitedwarf {
namespace {

using namespace nb::literals;

constexpr int64_t kRunsPerThread = 16;  // a thread that comes late does fewer

std::vector<std::string> peak_names() {
    std::vector<std::string> names;
    for (const Peak& peak : available_peaks()) names.push_back(std::string(peak.level) + " " + peak.arithmetic);
    return names;
}

int64_t run_peak(Kernels& self, const std::string& level, const std::string& arithmetic, int64_t rounds) {
    if (rounds < 1) throw std::invalid_argument("rounds must be 1 or more; got " + std::to_string(rounds));
    for (const Peak& peak : available_peaks()) {
        if (level != peak.level || arithmetic != peak.arithmetic) continue;
        std::atomic<int64_t> operations{0};
        run_unlocked(self, [&] {
            self.pool().split(self.pool().threads() * kRunsPerThread, [&](int64_t begin, int64_t end, int) {
                for (int64_t run = begin; run < end; ++run) operations += peak.run(rounds);
            });
        });
        return operations;
    }
    throw std::invalid_argument("this CPU has no " + level + " " + arithmetic + " to run; see peaks()");
}

}  // namespace

void bind_peaks(nb::class_<Kernels>& kernels) {
    kernels
        .def_static("peaks", peak_names, "Level and arithmetic, with a space between, of each register-only loop that this CPU can run.")
        .def("run_peak", run_peak, "level"_a, "arithmetic"_a, "rounds"_a,
             "Multiply and add in registers with all threads; returns the operations done.");
}

}  // namespace whitedwarf
