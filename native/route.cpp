// The router after its product (fact sheet 2.6).
#include <cmath>
#include <limits>
#include <vector>

#include "operations.h"
#include "spread.h"

namespace whitedwarf {

namespace {

constexpr double kWeightSumFloor = 0x1p-14;  // the smallest normal f16

double softplus(double x) { return x > 20.0 ? x + std::exp(-x) : x < -20.0 ? std::exp(x) : std::log1p(std::exp(x)); }

// The num_used largest, best first; ties go to the lowest index. `ranked` is used up.
void pick_experts(double* ranked, int64_t count, int num_used, int32_t* experts) {
    for (int used = 0; used < num_used; ++used) {
        int64_t best = 0;
        for (int64_t e = 1; e < count; ++e)
            if (ranked[e] > ranked[best]) best = e;
        experts[used] = int32_t(best);
        ranked[best] = -std::numeric_limits<double>::infinity();
    }
}

void weigh(const Route& in, const double* scores, const int32_t* experts, float* weights) {
    double sum = 0.0;
    for (int k = 0; k < in.num_used; ++k) sum += scores[experts[k]];
    const double divisor = in.is_normalised ? (sum > kWeightSumFloor ? sum : kWeightSumFloor) : 1.0;
    for (int k = 0; k < in.num_used; ++k) weights[k] = float(scores[experts[k]] / divisor * in.scale);
}

void route_row(const Route& in, int64_t row, double* scores, double* ranked) {
    const float* logits = in.logits + row * in.num_experts;
    int32_t* experts = in.experts + row * in.num_used;
    for (int64_t e = 0; e < in.num_experts; ++e) {
        scores[e] = std::sqrt(softplus(logits[e]));
        ranked[e] = in.bias ? scores[e] + in.bias[e] : scores[e];
    }
    if (in.table)
        for (int k = 0; k < in.num_used; ++k) experts[k] = in.table[int64_t(in.ids[row]) * in.num_used + k];
    else
        pick_experts(ranked, in.num_experts, in.num_used, experts);
    weigh(in, scores, experts, in.weights + row * in.num_used);
}

}  // namespace

void route(const Machine& machine, const Route& in) {
    spread(machine.pool, in.n, 64 * in.num_experts, [&](int64_t begin, int64_t end) {
        std::vector<double> scores(in.num_experts), ranked(in.num_experts);
        for (int64_t row = begin; row < end; ++row) route_row(in, row, scores.data(), ranked.data());
    });
}

}  // namespace whitedwarf
