#include "spans.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace whitedwarf {

namespace {

// Where a thread of the real pool does a whole span: its operation sees no other threads. Never starts any.
Pool& alone() {
    static Pool pool(1);
    return pool;
}

// body(machine, i) for every span: side by side where there are enough of them, else each with all threads.
template <typename Body>
void each_span(const Machine& machine, int64_t num_spans, const Body& body) {
    if (num_spans < 2 * machine.pool.threads()) {
        for (int64_t i = 0; i < num_spans; ++i) body(machine, i);
        return;
    }
    const Machine single{alone(), machine.level};
    machine.pool.split(num_spans, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) body(single, i);
    });
}

PooledBuffers& pooled(const Span& span, int layer, int pool) { return *(*span.buffers)[size_t(layer)].pools[pool]; }

int64_t closed_windows(const Span& span, int64_t ratio) { return span.end() / ratio - span.start / ratio; }

// The queries of one span.
Query queries_of(const Query& all, const Span& span) {
    Query query = all;
    query.x += span.row * all.heads * all.dims;
    query.turns += span.row * 2 * all.half;
    query.n = span.count;
    return query;
}

StoredRows stored(const RowFormat& format, const Appended& rows) { return {format, rows.data, rows.capacity, 0}; }

Attention attention_of(const Attention& all, const Span& span, int layer, const RowFormat& format, const Held& window) {
    Attention in = all;
    in.queries = queries_of(all.queries, span);
    in.window = {format, window.data, window.count, window.first};
    in.positions += span.row;
    if (in.counts) in.counts += span.row;
    if (in.picked) in.picked += span.row * in.num_picked;
    if (in.counts || in.picked) in.compressed = stored(format, pooled(span, layer, 0).rows);
    in.out += span.row * all.queries.heads * all.queries.dims;
    return in;
}

}  // namespace

Held Newest::put(int64_t index, const uint8_t* rows, int64_t num_rows, Scratch& joined) {
    const int64_t place = index - first;
    if (place < 0 || place > capacity || (num_rows <= capacity - keep && place + num_rows > capacity))
        throw std::invalid_argument("no room for " + std::to_string(num_rows) + " rows at " + std::to_string(index) +
                                    "; rows " + std::to_string(first) + " to " + std::to_string(first + capacity) +
                                    " can be held");
    const auto size = [&](int64_t count) { return size_t(count * row_bytes); };
    if (num_rows <= capacity - keep) {
        std::memcpy(data + place * row_bytes, rows, size(num_rows));
        return {data, first, place + num_rows};
    }
    const int64_t num_old = std::min(keep, place), count = num_old + num_rows, kept = std::min(keep, count);
    uint8_t* all = joined.reserve(count * row_bytes);
    std::memcpy(all, data + (place - num_old) * row_bytes, size(num_old));
    std::memcpy(all + num_old * row_bytes, rows, size(num_rows));
    std::memcpy(data, all + (count - kept) * row_bytes, size(kept));
    first = index + num_rows - kept;
    return {all, index - num_old, count};
}

void pool_spans(const Machine& machine, const std::vector<Span>& spans, int layer, int pool, const SpanPool& in) {
    Scratch values, gates;
    const float* turns = in.turns;
    for (const Span& span : spans) {
        PooledBuffers& buffers = pooled(span, layer, pool);
        const auto* new_values = reinterpret_cast<const uint8_t*>(in.values + span.row * in.width);
        const auto* new_gates = reinterpret_cast<const uint8_t*>(in.gates + span.row * in.width);
        const Held v = buffers.values.put(span.start, new_values, span.count, values);
        const Held g = buffers.gates.put(span.start, new_gates, span.count, gates);
        const int64_t first = span.start / in.ratio, windows = closed_windows(span, in.ratio);
        if (windows == 0) continue;
        compress(machine, {reinterpret_cast<const float*>(v.data), reinterpret_cast<const float*>(g.data), in.width,
                           v.first, first, first + windows, in.ratio, in.ape, in.norm, turns, in.half, in.epsilon,
                           in.format, buffers.rows.data + first * buffers.rows.row_bytes});
        turns += windows * 2 * in.half;
    }
}

void pick_spans(const Machine& machine, const std::vector<Span>& spans, int layer, RowFormat format,
                const IndexPick& pick) {
    each_span(machine, int64_t(spans.size()), [&](const Machine& here, int64_t i) {
        const Span& span = spans[size_t(i)];
        IndexPick in = pick;
        in.queries += span.row * pick.heads * format.dims;
        in.weights += span.row * pick.heads;
        in.n = span.count;
        in.keys = stored(format, pooled(span, layer, 1).rows);
        in.counts += span.row;
        in.out += span.row * pick.top;
        index_pick(here, in);
    });
}

void attend_spans(const Machine& machine, const std::vector<Span>& spans, int layer, RowFormat format,
                  const uint8_t* rows, const Attention& attention_all) {
    std::vector<Attention> short_spans;
    Scratch joined;
    for (const Span& span : spans) {
        Newest& window = (*span.buffers)[size_t(layer)].window;
        const Held held = window.put(span.start, rows + span.row * window.row_bytes, span.count, joined);
        const Attention in = attention_of(attention_all, span, layer, format, held);
        if (held.data == window.data)
            short_spans.push_back(in);
        else
            attention(machine, in);  // before the next span needs `joined`
    }
    each_span(machine, int64_t(short_spans.size()),
              [&](const Machine& here, int64_t i) { attention(here, short_spans[size_t(i)]); });
}

}  // namespace whitedwarf
