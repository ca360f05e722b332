#include "bindings.h"

namespace whitedwarf {

void bind_attention(nb::class_<Kernels>&) {}

}  // namespace whitedwarf
