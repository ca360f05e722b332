// Buffers and Spans: what the operations over all spans of a pass are given, and those operations as methods of
// Kernels. Buffers keeps the arrays of one sequence alive and knows their sizes; every write is checked against those.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings_checks.h"
#include "spans.h"

namespace whitedwarf {
namespace {

using namespace nb::literals;

using AnyRows = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using NewestIn = std::tuple<AnyRows, int64_t, int64_t>;           // buffer, first, keep
using PooledIn = std::tuple<NewestIn, NewestIn, AnyRows>;         // values, gates, rows
using LayerIn = std::tuple<NewestIn, std::optional<PooledIn>, std::optional<PooledIn>>;  // window, rows, keys

// One sequence's buffers and the arrays they lie in.
struct OwnedBuffers {
    std::vector<LayerIn> arrays;
    Buffers layers;
};

// The spans of a pass and the buffers they write into.
struct OwnedSpans {
    nb::list buffers;
    std::vector<Span> spans;
    int64_t num_rows = 0;
    size_t num_layers = 0;
};

int64_t row_bytes(const AnyRows& rows) { return int64_t(rows.shape(1)) * int64_t(rows.itemsize()); }

Newest newest(const NewestIn& in) {
    const auto& [array, first, keep] = in;
    const int64_t capacity = int64_t(array.shape(0));
    require(keep >= 0 && keep <= capacity, "a buffer of ", capacity, " rows cannot keep ", keep);
    check_position("first", first);
    return {static_cast<uint8_t*>(array.data()), capacity, keep, first, row_bytes(array)};
}

std::optional<PooledBuffers> pooled(const std::optional<PooledIn>& in) {
    if (!in) return std::nullopt;
    const auto& [values, gates, rows] = *in;
    return PooledBuffers{newest(values), newest(gates),
                         {static_cast<uint8_t*>(rows.data()), int64_t(rows.shape(0)), row_bytes(rows)}};
}

void make_buffers(OwnedBuffers* self, std::vector<LayerIn> layers) {
    new (self) OwnedBuffers{std::move(layers), {}};
    for (const auto& [window, rows, keys] : self->arrays)
        self->layers.push_back({newest(window), {pooled(rows), pooled(keys)}});
}

void make_spans(OwnedSpans* self, nb::list buffers, Ints starts, Ints counts) {
    const int64_t size = int64_t(nb::len(buffers));
    check("starts", starts, {size});
    check("counts", counts, {size});
    check_range("counts", counts.data(), size, 1, std::numeric_limits<int32_t>::max());
    check_range("starts", starts.data(), size, 0, std::numeric_limits<int32_t>::max());
    new (self) OwnedSpans{buffers, {}};
    for (int64_t i = 0; i < size; ++i) {
        auto& owned = nb::cast<OwnedBuffers&>(buffers[size_t(i)]);
        require(i == 0 || owned.layers.size() == self->num_layers, "sequences must have the same number of layers");
        self->num_layers = owned.layers.size();
        self->spans.push_back({&owned.layers, self->num_rows, counts.data()[i], starts.data()[i]});
        self->num_rows += counts.data()[i];
    }
}

void check_layer(const OwnedSpans& spans, int layer) {
    require(layer >= 0 && size_t(layer) < spans.num_layers, "layer must be 0 to ",
            int64_t(spans.num_layers) - 1, "; got ", layer);
}

// The pooled buffers of every span, which must hold `windows` rows of `format` each.
const PooledBuffers& checked_pool(const Span& span, int layer, int pool, const RowFormat& format) {
    require(pool == 0 || pool == 1, "pool must be 0 or 1; got ", pool);
    const auto& found = (*span.buffers)[size_t(layer)].pools[pool];
    require(found.has_value(), "layer ", layer, " keeps no such rows");
    require(found->rows.row_bytes == int64_t(format.row_bytes()), "rows must have ", format.row_bytes(),
            " bytes; they have ", found->rows.row_bytes);
    return *found;
}

void check_newest(const char* name, const Newest& rows, const Span& span, int64_t bytes) {
    require(rows.row_bytes == bytes, name, " must have rows of ", rows.row_bytes, " bytes; got ", bytes);
    const int64_t place = span.start - rows.first;
    require(place >= 0 && place <= rows.capacity &&
                (span.count > rows.capacity - rows.keep || place + span.count <= rows.capacity), name, ": no room at ",
                span.start, " for ", span.count);
}

// How many windows of `ratio` close in the pass; each has room, and the inputs of the oldest are still held.
int64_t check_pool_room(const OwnedSpans& self, int layer, int pool, const RowFormat& format, int64_t width,
int ratio) {
    int64_t num_windows = 0;
    const bool is_overlapping = width == 2 * format.dims;
    for (const Span& span : self.spans) {
        const PooledBuffers& buffers = checked_pool(span, layer, pool, format);
        check_newest("values", buffers.values, span, 4 * width);
        check_newest("gates", buffers.gates, span, 4 * width);
        const int64_t first = span.start / ratio, end = span.end() / ratio;
        num_windows += end - first;
        require(end <= buffers.rows.capacity, "no room for row ", end - 1);
        const int64_t oldest = std::max<int64_t>(0, (first - is_overlapping) * ratio);
        const int64_t reach = std::min(buffers.values.keep, buffers.gates.keep);
        require(first == end || (oldest >= buffers.values.first && oldest >= buffers.gates.first &&
                                 (span.count <= buffers.values.capacity - buffers.values.keep ||
                                  oldest >= span.start - reach)), "the inputs of position ", oldest,
                                  " are no longer held");
    }
    return num_windows;
}

void pool_rows(Kernels& self, OwnedSpans& spans, int layer, int pool, Floats values, Floats gates, int ratio,
Floats ape,
               Floats norm, Floats turns, double epsilon, const RowFormat& format) {
    check_layer(spans, layer);
    check_ndim("values", values, 2);
    const int64_t width = int64_t(values.shape(1));
    require(ratio >= 1, "ratio must be at least 1; got ", ratio);
    require(width == format.dims || width == 2 * format.dims, "values must be ", format.dims,
            " wide, or twice that; got ", width);
    check("values", values, {spans.num_rows, width});
    check("gates", gates, {spans.num_rows, width});
    check("ape", ape, {ratio, width});
    check("norm", norm, {format.dims});
    const int half = check_turns(turns, check_pool_room(spans, layer, pool, format, width, ratio), format);
    const SpanPool in{values.data(), gates.data(), width, ratio,   ape.data(),
                      norm.data(),   turns.data(), half,  epsilon, format};
    run_unlocked(self, [&] { pool_spans(machine(self), spans.spans, layer, pool, in); });
}

void pick_rows(Kernels& self, OwnedSpans& spans, int layer, Floats queries, Floats weights, const RowFormat& format,
               Ints counts, IntsOut out) {
    check_layer(spans, layer);
    check_ndim("queries", queries, 3);
    check_ndim("out", out, 2);
    const int64_t n = spans.num_rows, heads = int64_t(queries.shape(1)), top = int64_t(out.shape(1));
    check("queries", queries, {n, heads, format.dims});
    check("weights", weights, {n, heads});
    check("counts", counts, {n});
    check("out", out, {n, top});
    require(format.dims % 16 == 0, "keys must have a multiple of 16 dims; got ", format.dims);
    require(top >= 1, "top must be at least 1; got ", top);
    for (const Span& span : spans.spans)
        check_range("counts", counts.data() + span.row, span.count, 0,
                    checked_pool(span, layer, 1, format).rows.capacity);
    const IndexPick pick{queries.data(), weights.data(), n, checked_heads(heads), {}, counts.data(), top, out.data()};
    run_unlocked(self, [&] { pick_spans(machine(self), spans.spans, layer, format, pick); });
}

// Every query's window is held, and the compressed rows it names are there.
void check_span(const Span& span, int layer, const RowFormat& format, const Attention& in) {
    const Newest& window = (*span.buffers)[size_t(layer)].window;
    check_newest("rows", window, span, int64_t(format.row_bytes()));
    const bool is_joined = span.count > window.capacity - window.keep;
    const int64_t reach = is_joined ? std::max(window.first, span.start - window.keep) : window.first;
    for (int64_t i = 0; i < span.count; ++i)
        require(in.positions[span.row + i] == span.start + i, "positions must go on from the span's start");
    require(std::max<int64_t>(0, span.start - in.window_length + 1) >= reach, "the window of position ", span.start,
            " is no longer held");
    if (!in.counts && !in.picked) return;
    const int64_t capacity = checked_pool(span, layer, 0, format).rows.capacity;
    if (in.picked)
        check_range("picked rows", in.picked + span.row * in.num_picked, span.count * in.num_picked,
                    std::numeric_limits<int32_t>::min(), capacity - 1);
    else
        check_range("counts", in.counts + span.row, span.count, 0, capacity);
}

void attend_rows(Kernels& self, OwnedSpans& spans, int layer, Floats queries, Bytes rows, const RowFormat& format,
                 Ints positions, int64_t window_length, std::optional<Ints> counts, std::optional<Ints> picked,
                 Floats sinks, Floats turns, FloatsOut out) {
    check_layer(spans, layer);
    check_ndim("queries", queries, 3);
    const Query in = make_query(queries, int64_t(queries.shape(1)), turns);
    check("queries", queries, {spans.num_rows, in.heads, format.dims});
    check("rows", rows, {in.n, int64_t(format.row_bytes())});
    check("positions", positions, {in.n});
    check("sinks", sinks, {in.heads});
    check("out", out, {in.n, in.heads * in.dims});
    require(in.dims % 16 == 0, "heads must have a multiple of 16 dims; got ", in.dims);
    require(window_length >= 1, "window_length must be at least 1; got ", window_length);
    Attention attending{in, {}, {}, positions.data(), window_length, nullptr, nullptr, 0, sinks.data(), out.data()};
    if (picked) {
        check_ndim("picked", *picked, 2);
        attending.num_picked = int64_t(picked->shape(1));
        check("picked", *picked, {in.n, attending.num_picked});
        attending.picked = picked->data();
    } else if (counts) {
        check("counts", *counts, {in.n});
        attending.counts = counts->data();
    }
    for (const Span& span : spans.spans) check_span(span, layer, format, attending);
    run_unlocked(self, [&] { attend_spans(machine(self), spans.spans, layer, format, rows.data(), attending); });
}

}  // namespace

void bind_spans(nb::class_<Kernels>& kernels) {
    nb::class_<OwnedBuffers>(kernels, "Buffers", "Where one sequence keeps its rows, layer by layer.")
        .def("__init__", make_buffers, "layers"_a);
    nb::class_<OwnedSpans>(kernels, "Spans", "Spans of a pass: tokens from `starts` on, `counts` of them each.")
        .def("__init__", make_spans, "buffers"_a, "starts"_a.noconvert(), "counts"_a.noconvert());
    kernels
        .def("pool", pool_rows, "spans"_a, "layer"_a, "pool"_a, "values"_a.noconvert(), "gates"_a.noconvert(),
             "ratio"_a, "ape"_a.noconvert(), "norm"_a.noconvert(), "turns"_a.noconvert(), "epsilon"_a, "format"_a,
             "Values and gates behind the earlier ones, and a row for every window that closes.")
        .def("pick", pick_rows, "spans"_a, "layer"_a, "queries"_a.noconvert(), "weights"_a.noconvert(), "format"_a,
             "counts"_a.noconvert(), "out"_a.noconvert(), "index_pick over the spans' own keys.")
        .def("attend", attend_rows, "spans"_a, "layer"_a, "queries"_a.noconvert(), "rows"_a.noconvert(), "format"_a,
             "positions"_a.noconvert(), "window_length"_a, "counts"_a.noconvert().none(),
             "picked"_a.noconvert().none(), "sinks"_a.noconvert(), "turns"_a.noconvert(), "out"_a.noconvert(),
             "New rows into the windows, then attention over the spans' own rows.");
}

}  // namespace whitedwarf
