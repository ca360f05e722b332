// Experts: all of them stacked in one matrix, or each where it happens to lie, a few of a layer's at a time.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <limits>
#include <optional>

#include "bindings_checks.h"

namespace whitedwarf {
namespace {

using namespace nb::literals;

using Block = std::tuple<const Matrix*, const Matrix*, const Matrix*, float>;  // gate, up, down, limit
using ScatteredBlock = std::tuple<ScatteredMatrix*, ScatteredMatrix*, ScatteredMatrix*, float>;
using Met = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_matrix(const char* name, const MatrixView& w, int64_t experts, int64_t rows, int64_t cols) {
    require(w.experts == experts && w.rows == rows && w.cols == cols, name, " must be (", experts, ", ", rows, ", ",
            cols, "); got (", w.experts, ", ", w.rows, ", ", w.cols, ")");
}

template <typename AnyBlock>
FeedForward feed_forward(const AnyBlock& block, int64_t depth) {
    const auto& [gate, up, down, limit] = block;
    const MatrixView& g = gate->view;
    check_matrix("gate", g, g.experts, g.rows, depth);
    check_matrix("up", up->view, g.experts, g.rows, depth);
    check_matrix("down", down->view, g.experts, depth, g.rows);
    return {g, up->view, down->view, limit > 0 ? limit : std::numeric_limits<float>::infinity()};
}

// The shared expert's network; nothing where there is none.
std::optional<FeedForward> shared_network(const std::optional<Block>& shared, int64_t depth) {
    if (!shared) return std::nullopt;
    const FeedForward always = feed_forward(*shared, depth);
    require(always.gate.experts == 1, "the shared gate must be one matrix; got ", always.gate.experts, " experts");
    return always;
}

// ids may be `least` to the number of experts - 1.
Routing checked_routing(const FloatsIn2& x, const IntsIn2& ids, const FloatsIn2& weights, const FloatsOut2& out,
                        int64_t least, int64_t experts) {
    const int64_t rows = int64_t(x.shape(0)), slots = int64_t(ids.shape(1));
    require(slots >= 1, "ids must name at least one expert per token; got 0");
    check_shape("ids", ids, rows, slots);
    check_shape("weights", weights, rows, slots);
    check_shape("out", out, rows, int64_t(x.shape(1)));
    // Rows are numbered with 32 bits.
    require(rows <= std::numeric_limits<int32_t>::max() / slots, "rows times slots must be below 2^31; got ", rows,
            " times ", slots);
    check_range("ids", ids.data(), rows * slots, least, experts - 1);
    return {rows, slots, ids.data(), weights.data()};
}

void experts(Kernels& self, FloatsIn2 x, IntsIn2 ids, FloatsIn2 weights, const Block& routed,
             const std::optional<Block>& shared, FloatsOut2 out, bool quality) {
    const int64_t depth = int64_t(x.shape(1));
    const FeedForward ffn = feed_forward(routed, depth);
    const auto always = shared_network(shared, depth);
    const Routing routing = checked_routing(x, ids, weights, out, 0, ffn.gate.experts);
    run_unlocked(self, [&] { self.experts(x.data(), routing, ffn, always ? &*always : nullptr, out.data(), quality); });
}

// While it lives, nobody changes where these experts lie.
class Reading {
public:
    explicit Reading(const ScatteredBlock& block)
        : read_{std::get<0>(block), std::get<1>(block), std::get<2>(block)} {
        for (ScatteredMatrix* matrix : read_) ++matrix->num_users;
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    ~Reading() {
        for (ScatteredMatrix* matrix : read_) --matrix->num_users;
    }

private:
    ScatteredMatrix* read_[3];
};

void add_experts(Kernels& self, FloatsIn2 x, IntsIn2 ids, FloatsIn2 weights, const ScatteredBlock& routed,
                 const std::optional<Block>& shared, FloatsOut2 out, Met is_met, bool quality) {
    const int64_t depth = int64_t(x.shape(1));
    const FeedForward ffn = feed_forward(routed, depth);
    const auto always = shared_network(shared, depth);
    Routing routing = checked_routing(x, ids, weights, out, -1, ffn.gate.experts);
    require(int64_t(is_met.shape(0)) == routing.tokens, "is_met must be (", routing.tokens, "); got (",
            int64_t(is_met.shape(0)), ")");
    routing.is_met = is_met.data();
    for (int64_t i = 0; i < routing.tokens * routing.slots; ++i) {
        const int32_t expert = routing.ids[i];
        require(expert < 0 || (ffn.gate.apart[expert] && ffn.up.apart[expert] && ffn.down.apart[expert]), "expert ",
                expert, " was picked, but its gate, up and down are not all here; put them first");
    }
    const Reading reading(routed);
    run_unlocked(self, [&] { self.experts(x.data(), routing, ffn, always ? &*always : nullptr, out.data(), quality); });
}

void make_scattered(ScatteredMatrix* self, int type, nb::tuple shape) {
    require(nb::len(shape) == 3, "a ScatteredMatrix is (experts, rows, cols); got ", int64_t(nb::len(shape)),
            " dimensions");
    const MatrixView view = matrix_view(type, shape);
    std::vector<const uint8_t*> apart(size_t(view.experts), nullptr);
    std::vector<BytesIn1> bytes(size_t(view.experts));
    new (self) ScatteredMatrix{view, std::move(shape), std::move(apart), std::move(bytes)};
    self->view.apart = self->apart.data();
}

void check_unread(const ScatteredMatrix& self) {
    if (self.num_users > 0)
        throw std::runtime_error("another thread computes with these experts; put and clear when it has finished");
}

size_t checked_expert(const ScatteredMatrix& self, int64_t expert) {
    require(expert >= 0 && expert < self.view.experts, "expert must be 0 to ", self.view.experts - 1, "; got ", expert);
    return size_t(expert);
}

void put(ScatteredMatrix& self, int64_t expert, BytesIn1 bytes) {
    check_unread(self);
    const size_t index = checked_expert(self, expert);
    require(int64_t(bytes.shape(0)) == self.view.matrix_bytes(), self.view.layout->name,
            " matrix of this shape takes ", self.view.matrix_bytes(), " bytes; got ", int64_t(bytes.shape(0)));
    self.apart[index] = bytes.data();
    self.bytes[index] = std::move(bytes);
}

void clear(ScatteredMatrix& self, int64_t expert) {
    check_unread(self);
    const size_t index = checked_expert(self, expert);
    self.apart[index] = nullptr;
    self.bytes[index] = {};
}

}  // namespace

void bind_experts(nb::module_& module, nb::class_<Kernels>& kernels) {
    nb::class_<ScatteredMatrix>(module, "ScatteredMatrix",
                                "Weights (experts, rows, cols) of which each expert lies somewhere, or is not here.")
        .def("__init__", make_scattered, "type"_a, "shape"_a)
        .def("put", put, "expert"_a, "bytes"_a.noconvert(), "Where an expert's matrix lies from now on.")
        .def("clear", clear, "expert"_a, "An expert's matrix is not here any more.")
        .def_prop_ro("type", [](const ScatteredMatrix& self) { return int(self.view.layout->type); })
        .def_prop_ro("shape", [](const ScatteredMatrix& self) { return self.shape; });
    kernels
        .def("experts", experts, "x"_a.noconvert(), "ids"_a.noconvert(), "weights"_a.noconvert(), "routed"_a,
             "shared"_a.none(), "out"_a.noconvert(), "quality"_a,
             "The routed sum of swiglu, each middle times its routing weight, added in ascending order of the experts; "
             "then the shared expert's. routed and shared are (gate, up, down, limit).")
        .def("add_experts", add_experts, "x"_a.noconvert(), "ids"_a.noconvert(), "weights"_a.noconvert(), "routed"_a,
             "shared"_a.none(), "out"_a.noconvert(), "is_met"_a.noconvert(), "quality"_a,
             "One round of `experts`: those picks that are not -1, whose matrices must be here. is_met (n,), zeros "
             "before the first round, says of which tokens out has a sum. Rounds in ascending order of the experts, the "
             "last one with the shared expert, give the bits of `experts`.");
}

}  // namespace whitedwarf
