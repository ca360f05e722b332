// Hyper-connections (fact sheet 2.2, 2.8): the few numbers of a mix in double, the streams in float.
#include <algorithm>
#include <cmath>

#include "operations.h"
#include "spread.h"

namespace whitedwarf {

namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double inverse_rms(const RowLevel& level, const float* x, int64_t count, double epsilon) {
    return 1.0 / std::sqrt(level.sum_squares(x, count) / double(count) + epsilon);
}

// Divide every line by its sum + epsilon; lines lie `line` apart, their entries `entry` apart.
void normalise_lines(double* c, int size, int line, int entry, double epsilon) {
    for (int i = 0; i < size; ++i) {
        double sum = epsilon;
        for (int k = 0; k < size; ++k) sum += c[i * line + k * entry];
        for (int k = 0; k < size; ++k) c[i * line + k * entry] /= sum;
    }
}

void softmax_rows(double* c, int size, double epsilon) {
    for (int j = 0; j < size; ++j) {
        double* row = c + j * size;
        double top = row[0], sum = 0.0;
        for (int k = 1; k < size; ++k) top = row[k] > top ? row[k] : top;
        for (int k = 0; k < size; ++k) sum += row[k] = std::exp(row[k] - top);
        for (int k = 0; k < size; ++k) row[k] = row[k] / sum + epsilon;
    }
}

// (source, destination) logits -> nearly doubly stochastic, by alternating row and column sums.
void sinkhorn(double* c, int size, double epsilon, int iterations) {
    softmax_rows(c, size, epsilon);
    normalise_lines(c, size, 1, size, epsilon);
    for (int i = 1; i < iterations; ++i) {
        normalise_lines(c, size, size, 1, epsilon);
        normalise_lines(c, size, 1, size, epsilon);
    }
}

constexpr int64_t kTogether = 16;  // rows whose streams are still in the second cache after their product
constexpr int kMaxMixes = 2 * kMaxStreams + kMaxStreams * kMaxStreams;

// body(row, products) for every row, soon after its streams were read for the product.
template <typename Body>
void with_products(const HyperProduct& in, int64_t n, const Body& body) {
    const MatrixView& mix = in.mix;
    Pool& pool = in.kernels.pool();
    if (n < kTogether || (mix.layout->granule && !in.quality)) {
        std::vector<float> products(size_t(n * mix.rows));
        in.kernels.linear(in.streams, n, mix, 1, products.data(), in.quality);
        spread(pool, n, mix.cols / 2, [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) body(row, products.data() + row * mix.rows);
        });
        return;
    }
    const Activations streams{{in.streams, mix.cols}, {}};
    in.kernels.reserve_thread_scratch(in.kernels.level().scratch_bytes(mix.cols));
    pool.split(pieces(n, kTogether), [&](int64_t begin, int64_t end, int thread) {
        for (int64_t first = begin * kTogether; first < std::min(end * kTogether, n); first += kTogether) {
            int32_t rows[kTogether];
            float products[kTogether * kMaxMixes];
            const int64_t count = std::min(kTogether, n - first);
            for (int64_t i = 0; i < count; ++i) rows[i] = int32_t(first + i);
            for (int64_t r = 0; r < mix.rows; r += kFloatTileRows)
                in.kernels.multiply_tile(mix, 0, r, int(std::min<int64_t>(kFloatTileRows, mix.rows - r)), streams,
                                         {rows, count}, {products + r, mix.rows}, in.kernels.thread_scratch(thread));
            for (int64_t i = 0; i < count; ++i) body(first + i, products + i * mix.rows);
        }
    });
}

void mix_row(const RowLevel& level, const HyperShape& shape, const HyperIn& in, int64_t row, const float* products,
             float* mixed) {
    const int size = shape.num_streams;
    const float* streams = in.product.streams + row * size * shape.dims;
    const double factor = inverse_rms(level, streams, size * shape.dims, in.rms_epsilon);
    const auto logit = [&](int i, int part) { return products[i] * factor * in.scale[part] + double(in.base[i]); };

    float pre[kMaxStreams];
    double square[kMaxStreams * kMaxStreams];
    for (int i = 0; i < size; ++i) pre[i] = float(sigmoid(logit(i, 0)) + in.epsilon);
    for (int i = 0; i < size; ++i) in.post[row * size + i] = float(2.0 * sigmoid(logit(size + i, 1)));
    for (int i = 0; i < size * size; ++i) square[i] = logit(2 * size + i, 2);
    sinkhorn(square, size, in.epsilon, in.iterations);
    for (int i = 0; i < size * size; ++i) in.combination[row * size * size + i] = float(square[i]);

    level.mix_streams(streams, pre, size, shape.dims, mixed);
    level.norm_turn(mixed, in.norm, nullptr, shape.dims, 0, in.rms_epsilon, mixed);
}

void head_row(const RowLevel& level, const HyperShape& shape, const HyperHead& head, int64_t row,
              const float* products, float* mixed) {
    const int size = shape.num_streams;
    const float* streams = head.product.streams + row * size * shape.dims;
    const double factor = inverse_rms(level, streams, size * shape.dims, head.rms_epsilon);
    float pre[kMaxStreams];
    for (int i = 0; i < size; ++i) {
        const double logit = products[i] * factor * head.scale + double(head.base[i]);
        pre[i] = float(sigmoid(logit) + head.epsilon);
    }
    level.mix_streams(streams, pre, size, shape.dims, mixed);
    level.norm_turn(mixed, head.norm, nullptr, shape.dims, 0, head.rms_epsilon, mixed);
}

}  // namespace

void rms_norm(const Machine& machine, const float* x, const float* weight, double epsilon, int64_t n, int64_t dims,
              float* out) {
    spread(machine.pool, n, dims / 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            machine.level.norm_turn(x + i * dims, weight, nullptr, dims, 0, epsilon, out + i * dims);
    });
}

void hyper_in(const Machine& machine, const HyperShape& shape, const HyperIn& in) {
    with_products(in.product, shape.n, [&](int64_t row, const float* products) {
        mix_row(machine.level, shape, in, row, products, in.out + row * shape.dims);
    });
}

void hyper_out(const Machine& machine, const HyperShape& shape, const float* streams, const float* output,
               const float* post, const float* combination, float* out) {
    const int64_t size = shape.num_streams, dims = shape.dims;
    spread(machine.pool, shape.n, size * dims / 2, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
            machine.level.spread_streams(streams + row * size * dims, output + row * dims, post + row * size,
                                         combination + row * size * size, shape.num_streams, dims,
                                         out + row * size * dims);
    });
}

void hyper_head(const Machine& machine, const HyperShape& shape, const HyperHead& head) {
    with_products(head.product, shape.n, [&](int64_t row, const float* products) {
        head_row(machine.level, shape, head, row, products, head.out + row * shape.dims);
    });
}

}  // namespace whitedwarf
