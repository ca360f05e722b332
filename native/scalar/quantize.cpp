// The encoders with what every machine of this architecture has.
namespace whitedwarf {
namespace {
constexpr int kLanes = 4;
}
}  // namespace whitedwarf

#include "quantize_point.h"

#include "quantize_level.h"

namespace whitedwarf {
const QuantizeLevel kScalarQuantize = {"scalar", encode_batch};
}
