// Kernels.encode: floats to the blocks of a weight format.
#include <nanobind/stl/optional.h>

#include "bindings_checks.h"
#include "quantize.h"

namespace whitedwarf {
namespace {

using namespace nb::literals;

// How many blocks `count` numbers make.
int64_t whole_blocks(const char* name, int64_t count, const Layout& layout) {
    require(count % layout.block == 0, name, " come in blocks of ", layout.block, " for ", layout.name, "; got ",
            count);
    return count / layout.block;
}

nb::tuple encode(Kernels& self, int type, const Floats& values, const std::optional<Floats>& importances,
                 const BytesOut& out) {
    require(can_encode(type), "no encoder for GGUF type ", type);
    const Layout& layout = kLayouts[layout_index(type)];
    check_ndim("values", values, 1);
    check_ndim("out", out, 1);
    const int64_t blocks = whole_blocks("values", int64_t(values.shape(0)), layout);
    check("out", out, {blocks * layout.bytes});
    BlockSource source{&layout, values.data(), nullptr, 1};
    if (importances) {
        check_ndim("importances", *importances, 1);
        source.importances = importances->data();
        source.importance_blocks = whole_blocks("importances", int64_t(importances->shape(0)), layout);
        require(source.importance_blocks > 0 && blocks % source.importance_blocks == 0, "importances must repeat over ",
                blocks, " blocks; got ", source.importance_blocks);
    }
    require(importances || type != IQ2_XXS, "IQ2_XXS needs importances");
    EncodeFaults faults;
    run_unlocked(self, [&] {
        faults = encode_blocks(self.pool(), quantize_level(self.level().name), source, blocks, out.data());
    });
    return nb::make_tuple(faults.has_infinity, faults.largest);
}

}  // namespace

void bind_quantize(nb::class_<Kernels>& kernels) {
    kernels.def("encode", encode, "type"_a, "values"_a.noconvert(), "importances"_a.noconvert().none(),
                "out"_a.noconvert(),
                "Blocks of a weight format; values (n,), importances one per column of a row, or of several, or None. "
                "Returns whether one is inf or NaN, and the largest magnitude that float16 could not hold (0: none).");
}

}  // namespace whitedwarf
