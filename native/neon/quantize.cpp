// The encoders on NEON, four blocks in a register.
namespace whitedwarf {
namespace {
constexpr int kLanes = 4;
}
}  // namespace whitedwarf

#include "quantize_point.h"

#include "quantize_level.h"

namespace whitedwarf {
const QuantizeLevel kNeonQuantize = {"neon", encode_batch};
}
