// Methods of Kernels for everything in a layer that is not a plain matmul. Checks every shape and index, then works
// without the GIL. Results go into arrays the caller made.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>

#include "bindings_checks.h"

namespace whitedwarf {
namespace {

using namespace nb::literals;

void make_format(RowFormat* self, int kind, int dims, int rope_dims) {
    require(kind >= 0 && kind <= int(RowKind::packed_kv_f16), "row kind must be 0 to 4; got ", kind);
    require(dims >= 1 && dims <= kMaxRowDims, "dims must be 1 to 4096; got ", dims);
    require(rope_dims >= 0 && rope_dims <= dims && rope_dims % 2 == 0, "rope_dims must be even and at most ", dims,
            "; got ", rope_dims);
    if (kind == int(RowKind::packed_key))
        require(dims >= kKeyBlock && (dims & (dims - 1)) == 0,
                "packed keys have a power of two of dims, 32 or more; got ", dims);
    new (self) RowFormat{RowKind(kind), dims, rope_dims};
}

StoredRows stored_rows(const char* name, const RowFormat& format, const Bytes& data, int64_t first) {
    check_ndim(name, data, 2);
    check(name, data, {int64_t(data.shape(0)), int64_t(format.row_bytes())});
    check_position("first", first);
    return {format, data.data(), int64_t(data.shape(0)), first};
}

void rms_norm_rows(Kernels& self, Floats x, Floats weight, double epsilon, FloatsOut out) {
    check_ndim("x", x, 2);
    const int64_t n = int64_t(x.shape(0)), dims = int64_t(x.shape(1));
    check("weight", weight, {dims});
    check("out", out, {n, dims});
    run_unlocked(self, [&] { rms_norm(machine(self), x.data(), weight.data(), epsilon, n, dims, out.data()); });
}

void hyper_in_rows(Kernels& self, Floats streams, const Matrix& mix, Floats base, Floats scale, Floats norm,
                   double rms_epsilon, double epsilon, int iterations, FloatsOut out, FloatsOut post,
                   FloatsOut combination, bool quality) {
    const HyperShape shape = hyper_shape(streams);
    const int64_t size = shape.num_streams, mixes = 2 * size + size * size;
    const HyperProduct product = hyper_product(self, streams, mix, mixes, quality);
    check("base", base, {mixes});
    check("scale", scale, {3});
    check("norm", norm, {shape.dims});
    check("out", out, {shape.n, shape.dims});
    check("post", post, {shape.n, size});
    check("combination", combination, {shape.n, size, size});
    const HyperIn in{product, base.data(), scale.data(), norm.data(), rms_epsilon,
                     epsilon, iterations,  out.data(),   post.data(), combination.data()};
    run_unlocked(self, [&] { hyper_in(machine(self), shape, in); });
}

void hyper_out_rows(Kernels& self, Floats streams, Floats output, Floats post, Floats combination, FloatsOut out) {
    const HyperShape shape = hyper_shape(streams);
    const int64_t size = shape.num_streams;
    check("output", output, {shape.n, shape.dims});
    check("post", post, {shape.n, size});
    check("combination", combination, {shape.n, size, size});
    check("out", out, {shape.n, size, shape.dims});
    run_unlocked(self, [&] {
        hyper_out(machine(self), shape, streams.data(), output.data(), post.data(), combination.data(), out.data());
    });
}

void hyper_head_rows(Kernels& self, Floats streams, const Matrix& mix, Floats base, Floats scale, Floats norm,
                     double rms_epsilon, double epsilon, FloatsOut out, bool quality) {
    const HyperShape shape = hyper_shape(streams);
    const HyperProduct product = hyper_product(self, streams, mix, shape.num_streams, quality);
    check("base", base, {shape.num_streams});
    check("scale", scale, {1});
    check("norm", norm, {shape.dims});
    check("out", out, {shape.n, shape.dims});
    const HyperHead head{product, base.data(), scale.data()[0], norm.data(), rms_epsilon, epsilon, out.data()};
    run_unlocked(self, [&] { hyper_head(machine(self), shape, head); });
}

void query_rows(Kernels& self, Floats x, int64_t heads, Floats turns, double epsilon, FloatsOut out) {
    const Query in = make_query(x, heads, turns);
    if (in.n == 0) return;
    check("out", out, {in.n, in.heads, in.dims});
    run_unlocked(self, [&] { query(machine(self), in, epsilon, out.data()); });
}

void index_query_rows(Kernels& self, Floats x, int64_t heads, Floats turns, bool is_packed, FloatsOut out) {
    const Query in = make_query(x, heads, turns);
    if (in.n == 0) return;
    check("out", out, {in.n, in.heads, in.dims});
    require(!is_packed || (in.dims >= kKeyBlock && (in.dims & (in.dims - 1)) == 0 && in.dims <= kMaxRowDims),
            "queries beside packed keys have a power of two of dims, 32 or more; got ", in.dims);
    run_unlocked(self, [&] { index_query(machine(self), in, is_packed, out.data()); });
}

void store_kv_rows(Kernels& self, Floats x, Floats norm, Floats turns, double epsilon, const RowFormat& format,
                   BytesOut out) {
    check_ndim("x", x, 2);
    const int64_t n = int64_t(x.shape(0));
    check("x", x, {n, format.dims});
    check("norm", norm, {format.dims});
    check("out", out, {n, int64_t(format.row_bytes())});
    const int half = check_turns(turns, n, format);
    const KvRows rows{x.data(), n, norm.data(), turns.data(), half, epsilon, format, out.data()};
    run_unlocked(self, [&] { kv_rows(machine(self), rows); });
}

void encode_stored(Kernels& self, Floats x, const RowFormat& format, BytesOut out) {
    check_ndim("x", x, 2);
    const int64_t n = int64_t(x.shape(0));
    check("x", x, {n, format.dims});
    check("out", out, {n, int64_t(format.row_bytes())});
    run_unlocked(self, [&] { encode_rows(machine(self), format, x.data(), n, out.data()); });
}

void decode_stored(Kernels& self, Bytes data, const RowFormat& format, FloatsOut out) {
    const StoredRows rows = stored_rows("data", format, data, 0);
    check("out", out, {rows.count, format.dims});
    run_unlocked(self, [&] { decode_rows(machine(self), rows, out.data()); });
}

void check_compress(const Compress& in, int64_t num_positions) {
    require(in.ratio >= 1, "ratio must be at least 1; got ", in.ratio);
    require(in.width == in.format.dims || in.width == 2 * in.format.dims, "values must be ", in.format.dims,
            " wide, or twice that; got ", in.width);
    check_position("first", in.first);
    check_position("end_group", in.end_group);
    require(in.first_group >= 0 && in.end_group >= in.first_group, "groups must be 0 <= first <= end; got ",
            in.first_group, " to ", in.end_group);
    const bool reads_before = in.width == 2 * in.format.dims && in.first_group > 0;
    const int64_t from = (in.first_group - reads_before) * in.ratio, to = in.end_group * in.ratio;
    require(in.first_group == in.end_group || (from >= in.first && to <= in.first + num_positions),
            "values must cover positions ", from, " to ", to, "; got ", in.first, " to ", in.first + num_positions);
}

void compress_rows(Kernels& self, Floats values, Floats gates, int64_t first, int64_t first_group, int64_t end_group,
                   int ratio, Floats ape, Floats norm, Floats turns, double epsilon, const RowFormat& format,
                   BytesOut out) {
    check_ndim("values", values, 2);
    const int64_t num_positions = int64_t(values.shape(0)), width = int64_t(values.shape(1));
    check("gates", gates, {num_positions, width});
    check("ape", ape, {ratio, width});
    check("norm", norm, {format.dims});
    const int half = check_turns(turns, end_group - first_group, format);
    check("out", out, {end_group - first_group, int64_t(format.row_bytes())});
    const Compress in{values.data(), gates.data(), width,        first, first_group, end_group, ratio,
                      ape.data(),    norm.data(),  turns.data(), half,  epsilon,     format,    out.data()};
    check_compress(in, num_positions);
    run_unlocked(self, [&] { compress(machine(self), in); });
}

void index_pick_rows(Kernels& self, Floats queries, Floats weights, Bytes keys, const RowFormat& format, Ints counts,
                     IntsOut out) {
    check_ndim("queries", queries, 3);
    check_ndim("out", out, 2);
    const int64_t n = int64_t(queries.shape(0)), heads = int64_t(queries.shape(1)), top = int64_t(out.shape(1));
    check("queries", queries, {n, heads, format.dims});
    check("weights", weights, {n, heads});
    check("counts", counts, {n});
    check("out", out, {n, top});
    require(format.dims % 16 == 0, "keys must have a multiple of 16 dims; got ", format.dims);
    require(top >= 1, "top must be at least 1; got ", top);
    const StoredRows rows = stored_rows("keys", format, keys, 0);
    check_range("counts", counts.data(), n, 0, rows.count);
    const IndexPick pick{queries.data(), weights.data(), n,   checked_heads(heads),
                         rows,           counts.data(),  top, out.data()};
    run_unlocked(self, [&] { index_pick(machine(self), pick); });
}

void check_visible(const Attention& in) {
    const int64_t n = in.queries.n;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t position = in.positions[i], oldest = std::max<int64_t>(0, position - in.window_length + 1);
        require(position >= 0 && oldest >= in.window.first && position < in.window.first + in.window.count,
                "window must hold positions ", oldest, " to ", position, "; it holds ", in.window.first, " to ",
                in.window.first + in.window.count - 1);
    }
    if (in.counts && !in.picked) {
        check_range("counts", in.counts, n, 0, in.compressed.first + in.compressed.count);
        require(in.compressed.first == 0, "counted compressed rows start at 0; got first = ", in.compressed.first);
    }
    if (in.picked)
        for (int64_t i = 0; i < n * in.num_picked; ++i)
            require(in.picked[i] < 0 || (in.picked[i] >= in.compressed.first &&
                                         in.picked[i] < in.compressed.first + in.compressed.count),
                                         "picked rows must be ", in.compressed.first, " to ",
                                         in.compressed.first + in.compressed.count - 1, " or -1; got ", in.picked[i]);
}

void attention_rows(Kernels& self, Floats queries, Bytes window, const RowFormat& window_format, int64_t window_first,
                    std::optional<Bytes> compressed, const RowFormat& compressed_format, int64_t compressed_first,
                    Ints positions, int64_t window_length, std::optional<Ints> counts, std::optional<Ints> picked,
                    Floats sinks, Floats turns, FloatsOut out) {
    check_ndim("queries", queries, 3);
    const Query in = make_query(queries, int64_t(queries.shape(1)), turns);
    if (in.n == 0) return;
    check("positions", positions, {in.n});
    check("sinks", sinks, {in.heads});
    check("out", out, {in.n, in.heads * in.dims});
    require(in.dims % 16 == 0, "heads must have a multiple of 16 dims; got ", in.dims);
    require(window_format.dims == in.dims && compressed_format.dims == in.dims, "rows must have the ", in.dims,
            " dims of a head");
    require(window_length >= 1, "window_length must be at least 1; got ", window_length);

    Attention attending{in, stored_rows("window", window_format, window, window_first), {}, positions.data(),
                        window_length, nullptr, nullptr, 0, sinks.data(), out.data()};
    if (compressed) {
        attending.compressed = stored_rows("compressed", compressed_format, *compressed, compressed_first);
        require(counts || picked, "compressed rows need counts or picked rows");
    }
    if (compressed && picked) {
        check_ndim("picked", *picked, 2);
        attending.num_picked = int64_t(picked->shape(1));
        check("picked", *picked, {in.n, attending.num_picked});
        attending.picked = picked->data();
    } else if (compressed) {
        check("counts", *counts, {in.n});
        attending.counts = counts->data();
    }
    check_visible(attending);
    run_unlocked(self, [&] { attention(machine(self), attending); });
}

void route_rows(Kernels& self, Floats logits, std::optional<Floats> bias, std::optional<Ints> table, Ints ids,
                double scale, bool normalise, IntsOut experts, FloatsOut weights) {
    check_ndim("logits", logits, 2);
    check_ndim("experts", experts, 2);
    const int64_t n = int64_t(logits.shape(0)), num_experts = int64_t(logits.shape(1));
    const int64_t num_used = int64_t(experts.shape(1));
    check("ids", ids, {n});
    check("experts", experts, {n, num_used});
    check("weights", weights, {n, num_used});
    require(num_used >= 1 && num_used <= num_experts, "experts used must be 1 to ", num_experts, "; got ", num_used);
    if (bias) check("bias", *bias, {num_experts});
    if (table) {
        check_ndim("table", *table, 2);
        check("table", *table, {int64_t(table->shape(0)), num_used});
        check_range("ids", ids.data(), n, 0, int64_t(table->shape(0)) - 1);
        for (int64_t i = 0; i < n; ++i)
            check_range("table entries", table->data() + ids.data()[i] * num_used, num_used, 0, num_experts - 1);
    }
    const Route in{logits.data(), n, num_experts, bias ? bias->data() : nullptr, table ? table->data() : nullptr,
                   ids.data(), int(num_used), scale, normalise, experts.data(), weights.data()};
    run_unlocked(self, [&] { route(machine(self), in); });
}

}  // namespace

void bind_attention(nb::class_<Kernels>& kernels) {
    nb::class_<RowFormat>(kernels, "RowFormat",
                          "Layout of a stored row; 0 f32, 1 f16, 2 packed-kv, 3 packed-key, 4 packed-kv-f16.")
        .def("__init__", make_format, "kind"_a, "dims"_a, "rope_dims"_a)
        .def_prop_ro("row_bytes", [](const RowFormat& self) { return self.row_bytes(); });

    kernels
        .def("rms_norm", rms_norm_rows, "x"_a.noconvert(), "weight"_a.noconvert(), "epsilon"_a, "out"_a.noconvert(),
             "x (n, dims) / rms * weight.")
        .def("hyper_in", hyper_in_rows, "streams"_a.noconvert(), "mix"_a, "base"_a.noconvert(), "scale"_a.noconvert(),
             "norm"_a.noconvert(), "rms_epsilon"_a, "epsilon"_a, "iterations"_a, "out"_a.noconvert(),
             "post"_a.noconvert(), "combination"_a.noconvert(), "quality"_a,
             "streams (n, S, D) and mix (2S + SS, S D) -> out (n, D), post, combination.")
        .def("hyper_out", hyper_out_rows, "streams"_a.noconvert(), "output"_a.noconvert(), "post"_a.noconvert(),
             "combination"_a.noconvert(), "out"_a.noconvert(),
             "post_k output + sum_j C[j, k] streams[j]; out may be streams.")
        .def("hyper_head", hyper_head_rows, "streams"_a.noconvert(), "mix"_a, "base"_a.noconvert(),
             "scale"_a.noconvert(), "norm"_a.noconvert(), "rms_epsilon"_a, "epsilon"_a, "out"_a.noconvert(),
             "quality"_a, "streams (n, S, D) and mix (S, S D) -> out (n, D).")
        .def("query", query_rows, "x"_a.noconvert(), "heads"_a, "turns"_a.noconvert(), "epsilon"_a,
             "out"_a.noconvert(), "x (n, heads * dims) -> out (n, heads, dims): norm per head, tail turned.")
        .def("kv_rows", store_kv_rows, "x"_a.noconvert(), "norm"_a.noconvert(), "turns"_a.noconvert(), "epsilon"_a,
             "format"_a, "out"_a.noconvert(), "x (n, dims) -> stored rows.")
        .def("encode_rows", encode_stored, "x"_a.noconvert(), "format"_a, "out"_a.noconvert(), "Floats -> stored rows.")
        .def("decode_rows", decode_stored, "data"_a.noconvert(), "format"_a, "out"_a.noconvert(),
             "Stored rows -> floats.")
        .def("compress", compress_rows, "values"_a.noconvert(), "gates"_a.noconvert(), "first"_a, "first_group"_a,
             "end_group"_a, "ratio"_a, "ape"_a.noconvert(), "norm"_a.noconvert(), "turns"_a.noconvert(), "epsilon"_a,
             "format"_a, "out"_a.noconvert(), "Pool windows of positions into stored rows.")
        .def("index_query", index_query_rows, "x"_a.noconvert(), "heads"_a, "turns"_a.noconvert(), "is_packed"_a,
             "out"_a.noconvert(), "x (n, heads * dims) -> out (n, heads, dims): tail turned, rounded like packed keys.")
        .def("index_pick", index_pick_rows, "queries"_a.noconvert(), "weights"_a.noconvert(), "keys"_a.noconvert(),
             "format"_a, "counts"_a.noconvert(), "out"_a.noconvert(), "The best keys below each count -> (n, top).")
        .def("attention", attention_rows, "queries"_a.noconvert(), "window"_a.noconvert(), "window_format"_a,
             "window_first"_a, "compressed"_a.noconvert().none(), "compressed_format"_a, "compressed_first"_a,
             "positions"_a.noconvert(), "window_length"_a, "counts"_a.noconvert().none(),
             "picked"_a.noconvert().none(), "sinks"_a.noconvert(), "turns"_a.noconvert(), "out"_a.noconvert(),
             "queries (n, heads, dims) over window and compressed rows -> out (n, heads * dims).")
        .def("route", route_rows, "logits"_a.noconvert(), "bias"_a.noconvert().none(), "table"_a.noconvert().none(),
             "ids"_a.noconvert(), "scale"_a, "normalise"_a, "experts"_a.noconvert(), "weights"_a.noconvert(),
             "logits (n, E) -> experts (n, k) and their weights.");
}

}  // namespace whitedwarf
