// CPU kernels for training nano: what torch would do in many passes over memory, done in one.
//
// Streams and everything that steers them are float32, operands of matrix products bfloat16. Every forward kernel has
// its exact derivative here; tests/nano/test_kernels.py compares both with plain torch. Shapes as in kernels.py:
// N tokens, 4 streams of D, H heads of d dimensions, F expert width.
#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

using at::Tensor;
using half_bits = uint16_t;  // a bfloat16 as it lies in memory

namespace {

constexpr float kEpsilon = 1e-6f;
constexpr int kStreams = 4;
constexpr int kMix = kStreams * kStreams;
constexpr int kRaw = 2 * kStreams + kMix;  // pre, post and mix coefficients of a token
constexpr int kLanes = 16;                 // tokens that go through Sinkhorn side by side
constexpr int kSinkhornRounds = 20;
constexpr int kNormalisations = 2 * kSinkhornRounds - 1;  // the softmax before them is the first row normalisation
constexpr int kRotaryPairs = 32;
constexpr int64_t kBlock = 128;  // queries of a block, and the attention window

float widen(half_bits bits) {
  uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

half_bits narrow(float value) {  // round to nearest even
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  word += 0x7fff + ((word >> 16) & 1);
  return static_cast<half_bits>(word >> 16);
}

float *floats(const Tensor &tensor) { return static_cast<float *>(tensor.data_ptr()); }
int *integers(const Tensor &tensor) { return static_cast<int *>(tensor.data_ptr()); }
half_bits *halves(const Tensor &tensor) { return static_cast<half_bits *>(tensor.data_ptr()); }
float sigmoid(float x) { return 1.f / (1.f + std::exp(-x)); }

// ---- Sinkhorn: kLanes matrices of 4 x 4 at once; entry 4 * source + destination

using Lanes = float[kLanes];

struct SinkhornTrace {  // what the derivative needs: softmax, then the matrices before each normalisation
  float matrices[kNormalisations + 1][kMix][kLanes];
  float inverse_sums[kNormalisations][kStreams][kLanes];
};

// Column normalisations are the even ones, rows the odd ones.
void line_of(int normalisation, int line, int &first, int &step) {
  bool is_column = normalisation % 2 == 0;
  first = is_column ? line : kStreams * line;
  step = is_column ? kStreams : 1;
}

void sinkhorn(Lanes *matrix, SinkhornTrace *trace) {
  for (int source = 0; source < kStreams; source++) {
    Lanes *row = matrix + kStreams * source;
    for (int lane = 0; lane < kLanes; lane++) {
      float top = std::max(std::max(row[0][lane], row[1][lane]), std::max(row[2][lane], row[3][lane]));
      float e0 = std::exp(row[0][lane] - top), e1 = std::exp(row[1][lane] - top);
      float e2 = std::exp(row[2][lane] - top), e3 = std::exp(row[3][lane] - top);
      float inverse = 1.f / (e0 + e1 + e2 + e3);
      row[0][lane] = e0 * inverse, row[1][lane] = e1 * inverse;
      row[2][lane] = e2 * inverse, row[3][lane] = e3 * inverse;
    }
  }
  if (trace) std::memcpy(trace->matrices[0], matrix, sizeof trace->matrices[0]);
  for (int entry = 0; entry < kMix; entry++)
    for (int lane = 0; lane < kLanes; lane++) matrix[entry][lane] += kEpsilon;
  for (int turn = 0; turn < kNormalisations; turn++) {
    if (trace) std::memcpy(trace->matrices[turn + 1], matrix, sizeof trace->matrices[0]);
    for (int line = 0; line < kStreams; line++) {
      int first, step;
      line_of(turn, line, first, step);
      Lanes *a = matrix + first, *b = a + step, *c = b + step, *d = c + step;
      for (int lane = 0; lane < kLanes; lane++) {
        float inverse = 1.f / ((*a)[lane] + (*b)[lane] + (*c)[lane] + (*d)[lane] + kEpsilon);
        if (trace) trace->inverse_sums[turn][line][lane] = inverse;
        (*a)[lane] *= inverse, (*b)[lane] *= inverse, (*c)[lane] *= inverse, (*d)[lane] *= inverse;
      }
    }
  }
}

void sinkhorn_backward(Lanes *grad, SinkhornTrace &trace) {
  for (int turn = kNormalisations - 1; turn >= 0; turn--) {
    Lanes *before = trace.matrices[turn + 1];
    for (int line = 0; line < kStreams; line++) {
      int first, step;
      line_of(turn, line, first, step);
      for (int lane = 0; lane < kLanes; lane++) {
        float inverse = trace.inverse_sums[turn][line][lane], dot = 0;
        for (int i = 0; i < kStreams; i++) dot += grad[first + i * step][lane] * before[first + i * step][lane];
        dot *= inverse * inverse;
        for (int i = 0; i < kStreams; i++) grad[first + i * step][lane] = grad[first + i * step][lane] * inverse - dot;
      }
    }
  }
  Lanes *softmax = trace.matrices[0];
  for (int source = 0; source < kStreams; source++)
    for (int lane = 0; lane < kLanes; lane++) {
      float dot = 0;
      for (int i = 0; i < kStreams; i++) dot += grad[kStreams * source + i][lane] * softmax[kStreams * source + i][lane];
      for (int i = 0; i < kStreams; i++) {
        int entry = kStreams * source + i;
        grad[entry][lane] = softmax[entry][lane] * (grad[entry][lane] - dot);
      }
    }
}

// ---- hyper-connections

// streams (N, 4, D), raw (N, 24) = streams x function -> input (N, D) bf16, post (N, 4), mix (N, 16), pre (N, 4),
// 1 / rms of all streams (N), 1 / rms of the input (N).
std::vector<Tensor> hyper_in(Tensor streams, Tensor raw, Tensor base, Tensor scale, Tensor norm) {
  int64_t count = streams.size(0), width = streams.size(2);
  auto options = streams.options();
  Tensor input = at::empty({count, width}, options.dtype(at::kBFloat16)), post = at::empty({count, kStreams}, options),
         mix = at::empty({count, kMix}, options), pre = at::empty({count, kStreams}, options),
         streams_scale = at::empty({count}, options), input_scale = at::empty({count}, options);
  float *x = floats(streams), *r = floats(raw), *b = floats(base), *s = floats(scale), *w = floats(norm);
  float *post_out = floats(post), *mix_out = floats(mix), *pre_out = floats(pre);
  float *rho = floats(streams_scale), *inner = floats(input_scale);
  half_bits *out = halves(input);
  at::parallel_for(0, (count + kLanes - 1) / kLanes, 4, [&](int64_t begin, int64_t end) {
    std::vector<float> joined(width);
    Lanes matrix[kMix];
    for (int64_t group = begin; group < end; group++) {
      int64_t first = group * kLanes;
      int filled = static_cast<int>(std::min<int64_t>(kLanes, count - first));
      std::memset(matrix, 0, sizeof matrix);
      for (int lane = 0; lane < filled; lane++) {
        int64_t token = first + lane;
        float *token_x = x + token * kStreams * width, *q = r + token * kRaw, square = 0;
        for (int64_t k = 0; k < kStreams * width; k++) square += token_x[k] * token_x[k];
        float scaled = rho[token] = 1.f / std::sqrt(square / (kStreams * width) + kEpsilon);
        for (int k = 0; k < kStreams; k++) {
          pre_out[token * kStreams + k] = sigmoid(q[k] * scaled * s[0] + b[k]) + kEpsilon;
          post_out[token * kStreams + k] = 2 * sigmoid(q[kStreams + k] * scaled * s[1] + b[kStreams + k]);
        }
        for (int k = 0; k < kMix; k++) matrix[k][lane] = q[8 + k] * scaled * s[2] + b[8 + k];
      }
      sinkhorn(matrix, nullptr);
      for (int lane = 0; lane < filled; lane++) {
        int64_t token = first + lane;
        for (int k = 0; k < kMix; k++) mix_out[token * kMix + k] = matrix[k][lane];
        float *token_x = x + token * kStreams * width, *p = pre_out + token * kStreams, square = 0;
        for (int64_t k = 0; k < width; k++) {
          float value = p[0] * token_x[k] + p[1] * token_x[width + k] + p[2] * token_x[2 * width + k] +
                        p[3] * token_x[3 * width + k];
          joined[k] = value;
          square += value * value;
        }
        float scaled = inner[token] = 1.f / std::sqrt(square / width + kEpsilon);
        for (int64_t k = 0; k < width; k++) out[token * width + k] = narrow(joined[k] * scaled * w[k]);
      }
    }
  });
  return {input, post, mix, pre, streams_scale, input_scale};
}

std::vector<Tensor> hyper_in_backward(Tensor streams, Tensor raw, Tensor base, Tensor scale, Tensor norm, Tensor pre,
                                      Tensor post, Tensor streams_scale, Tensor input_scale, Tensor d_input,
                                      Tensor d_post, Tensor d_mix) {
  int64_t count = streams.size(0), width = streams.size(2);
  auto options = streams.options();
  Tensor d_streams = at::empty_like(streams), d_raw = at::empty({count, kRaw}, options),
         d_base = at::zeros({kRaw}, options), d_scale = at::zeros({3}, options), d_norm = at::zeros({width}, options);
  float *x = floats(streams), *r = floats(raw), *b = floats(base), *s = floats(scale), *w = floats(norm);
  float *pre_in = floats(pre), *post_in = floats(post), *rho = floats(streams_scale), *inner = floats(input_scale);
  float *dx = floats(d_streams), *dr = floats(d_raw), *d_post_in = floats(d_post), *d_mix_in = floats(d_mix);
  half_bits *d_in = halves(d_input);
  std::mutex adding;
  at::parallel_for(0, (count + kLanes - 1) / kLanes, 4, [&](int64_t begin, int64_t end) {
    std::vector<float> joined(width), d_joined(width), local_norm(width, 0.f);
    float local_base[kRaw] = {0}, local_scale[3] = {0};
    static thread_local SinkhornTrace trace;
    Lanes matrix[kMix], grad[kMix];
    for (int64_t group = begin; group < end; group++) {
      int64_t first = group * kLanes;
      int filled = static_cast<int>(std::min<int64_t>(kLanes, count - first));
      std::memset(matrix, 0, sizeof matrix);
      std::memset(grad, 0, sizeof grad);
      for (int lane = 0; lane < filled; lane++)
        for (int k = 0; k < kMix; k++) {
          int64_t token = first + lane;
          matrix[k][lane] = r[token * kRaw + 8 + k] * rho[token] * s[2] + b[8 + k];
          grad[k][lane] = d_mix_in[token * kMix + k];
        }
      sinkhorn(matrix, &trace);
      sinkhorn_backward(grad, trace);
      for (int lane = 0; lane < filled; lane++) {
        int64_t token = first + lane;
        float *token_x = x + token * kStreams * width, *token_dx = dx + token * kStreams * width;
        float *p = pre_in + token * kStreams, *q = r + token * kRaw;
        float scaled = rho[token], in_scale = inner[token], dot = 0;
        for (int64_t k = 0; k < width; k++) {
          float value = p[0] * token_x[k] + p[1] * token_x[width + k] + p[2] * token_x[2 * width + k] +
                        p[3] * token_x[3 * width + k];
          float gradient = widen(d_in[token * width + k]);
          joined[k] = value;
          local_norm[k] += gradient * value * in_scale;
          gradient *= w[k];
          d_joined[k] = gradient;
          dot += gradient * value;
        }
        float through_norm = dot * in_scale * in_scale * in_scale / width;
        float d_pre0 = 0, d_pre1 = 0, d_pre2 = 0, d_pre3 = 0;
        for (int64_t k = 0; k < width; k++) {
          float value = in_scale * d_joined[k] - joined[k] * through_norm;
          d_joined[k] = value;
          d_pre0 += value * token_x[k];
          d_pre1 += value * token_x[width + k];
          d_pre2 += value * token_x[2 * width + k];
          d_pre3 += value * token_x[3 * width + k];
        }
        float d_pre[kStreams] = {d_pre0, d_pre1, d_pre2, d_pre3}, d_scaled[kRaw], d_rho = 0;
        for (int k = 0; k < kStreams; k++) {
          float gate = p[k] - kEpsilon, through = d_pre[k] * gate * (1 - gate);
          local_base[k] += through;
          local_scale[0] += through * q[k] * scaled;
          d_scaled[k] = through * s[0];
          gate = post_in[token * kStreams + k] * 0.5f;
          through = d_post_in[token * kStreams + k] * 2 * gate * (1 - gate);
          local_base[kStreams + k] += through;
          local_scale[1] += through * q[kStreams + k] * scaled;
          d_scaled[kStreams + k] = through * s[1];
        }
        for (int k = 0; k < kMix; k++) {
          float through = grad[k][lane];
          local_base[8 + k] += through;
          local_scale[2] += through * q[8 + k] * scaled;
          d_scaled[8 + k] = through * s[2];
        }
        for (int k = 0; k < kRaw; k++) {
          d_rho += d_scaled[k] * q[k];
          dr[token * kRaw + k] = d_scaled[k] * scaled;
        }
        float through_rms = -d_rho * scaled * scaled * scaled / (kStreams * width);
        for (int stream = 0; stream < kStreams; stream++)
          for (int64_t k = 0; k < width; k++)
            token_dx[stream * width + k] = p[stream] * d_joined[k] + through_rms * token_x[stream * width + k];
      }
    }
    std::lock_guard<std::mutex> guard(adding);
    float *base_out = floats(d_base), *scale_out = floats(d_scale), *norm_out = floats(d_norm);
    for (int k = 0; k < kRaw; k++) base_out[k] += local_base[k];
    for (int k = 0; k < 3; k++) scale_out[k] += local_scale[k];
    for (int64_t k = 0; k < width; k++) norm_out[k] += local_norm[k];
  });
  return {d_streams, d_raw, d_base, d_scale, d_norm};
}

// streams (N, 4, D), output (N, D) bf16, post (N, 4), mix (N, 16) -> the streams after: mixed, and the output added.
Tensor hyper_out(Tensor streams, Tensor output, Tensor post, Tensor mix) {
  int64_t count = streams.size(0), width = streams.size(2);
  Tensor after = at::empty_like(streams);
  float *x = floats(streams), *p = floats(post), *m = floats(mix), *out = floats(after);
  half_bits *y = halves(output);
  at::parallel_for(0, count, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> wide(width);
    for (int64_t token = begin; token < end; token++) {
      float *from = x + token * kStreams * width, *mixing = m + token * kMix;
      for (int64_t k = 0; k < width; k++) wide[k] = widen(y[token * width + k]);
      for (int to = 0; to < kStreams; to++) {
        float gate = p[token * kStreams + to];
        float m0 = mixing[to], m1 = mixing[kStreams + to], m2 = mixing[8 + to], m3 = mixing[12 + to];
        float *into = out + (token * kStreams + to) * width;
        for (int64_t k = 0; k < width; k++)
          into[k] = gate * wide[k] + m0 * from[k] + m1 * from[width + k] + m2 * from[2 * width + k] +
                    m3 * from[3 * width + k];
      }
    }
  });
  return after;
}

std::vector<Tensor> hyper_out_backward(Tensor streams, Tensor output, Tensor post, Tensor mix, Tensor d_after) {
  int64_t count = streams.size(0), width = streams.size(2);
  Tensor d_streams = at::empty_like(streams), d_output = at::empty_like(output), d_post = at::empty_like(post),
         d_mix = at::empty_like(mix);
  float *x = floats(streams), *p = floats(post), *m = floats(mix), *g = floats(d_after);
  float *dx = floats(d_streams), *dp = floats(d_post), *dm = floats(d_mix);
  half_bits *y = halves(output), *dy = halves(d_output);
  at::parallel_for(0, count, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> wide(width);
    for (int64_t token = begin; token < end; token++) {
      float *from = x + token * kStreams * width, *d_from = dx + token * kStreams * width;
      float *g0 = g + token * kStreams * width, *g1 = g0 + width, *g2 = g1 + width, *g3 = g2 + width;
      float *gates = p + token * kStreams, s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (int64_t k = 0; k < width; k++) {
        wide[k] = widen(y[token * width + k]);
        dy[token * width + k] = narrow(gates[0] * g0[k] + gates[1] * g1[k] + gates[2] * g2[k] + gates[3] * g3[k]);
        s0 += wide[k] * g0[k], s1 += wide[k] * g1[k], s2 += wide[k] * g2[k], s3 += wide[k] * g3[k];
      }
      float *d_gates = dp + token * kStreams;
      d_gates[0] = s0, d_gates[1] = s1, d_gates[2] = s2, d_gates[3] = s3;
      for (int source = 0; source < kStreams; source++) {
        float *xs = from + source * width, *ds = d_from + source * width, *mixing = m + token * kMix + kStreams * source;
        float m0 = mixing[0], m1 = mixing[1], m2 = mixing[2], m3 = mixing[3];
        s0 = s1 = s2 = s3 = 0;
        for (int64_t k = 0; k < width; k++) {
          ds[k] = m0 * g0[k] + m1 * g1[k] + m2 * g2[k] + m3 * g3[k];
          s0 += xs[k] * g0[k], s1 += xs[k] * g1[k], s2 += xs[k] * g2[k], s3 += xs[k] * g3[k];
        }
        float *d_mixing = dm + token * kMix + kStreams * source;
        d_mixing[0] = s0, d_mixing[1] = s1, d_mixing[2] = s2, d_mixing[3] = s3;
      }
    }
  });
  return {d_streams, d_output, d_post, d_mix};
}

// ---- RMS norm and rotation of the last 64 dimensions

void rotate(float *tail, const float *cosines, const float *sines, float direction) {
  for (int pair = 0; pair < kRotaryPairs; pair++) {
    float a = tail[2 * pair], b = tail[2 * pair + 1], sine = direction * sines[pair];
    tail[2 * pair] = a * cosines[pair] - b * sine;
    tail[2 * pair + 1] = a * sine + b * cosines[pair];
  }
}

// rows (R, d) bf16; weight (d) or empty; positions (R / heads); turn: 1 rotates, -1 back, 0 not.
Tensor norm_rope(Tensor rows, Tensor weight, Tensor positions, Tensor cosines, Tensor sines, int64_t heads,
                 bool is_normed, int64_t turn) {
  int64_t width = rows.size(-1), count = rows.numel() / width;
  Tensor out = at::empty_like(rows);
  half_bits *in = halves(rows), *to = halves(out);
  float *w = weight.numel() ? floats(weight) : nullptr, *c = floats(cosines), *s = floats(sines);
  int *at_position = integers(positions);
  at::parallel_for(0, count, 256, [&](int64_t begin, int64_t end) {
    std::vector<float> value(width);
    for (int64_t row = begin; row < end; row++) {
      float square = 0;
      for (int64_t k = 0; k < width; k++) {
        value[k] = widen(in[row * width + k]);
        square += value[k] * value[k];
      }
      if (is_normed) {
        float scale = 1.f / std::sqrt(square / width + kEpsilon);
        for (int64_t k = 0; k < width; k++) value[k] *= w ? scale * w[k] : scale;
      }
      if (turn) {
        int64_t position = at_position[row / heads];
        float *tail = value.data() + width - 2 * kRotaryPairs;
        rotate(tail, c + position * kRotaryPairs, s + position * kRotaryPairs, turn > 0 ? 1.f : -1.f);
      }
      for (int64_t k = 0; k < width; k++) to[row * width + k] = narrow(value[k]);
    }
  });
  return out;
}

std::vector<Tensor> norm_rope_backward(Tensor rows, Tensor weight, Tensor positions, Tensor cosines, Tensor sines,
                                       int64_t heads, bool is_normed, int64_t turn, Tensor d_out) {
  int64_t width = rows.size(-1), count = rows.numel() / width;
  Tensor d_rows = at::empty_like(rows), d_weight = at::zeros({weight.numel()}, weight.options());
  half_bits *in = halves(rows), *g = halves(d_out), *to = halves(d_rows);
  float *w = weight.numel() ? floats(weight) : nullptr, *c = floats(cosines), *s = floats(sines);
  int *at_position = integers(positions);
  std::mutex adding;
  at::parallel_for(0, count, 256, [&](int64_t begin, int64_t end) {
    std::vector<float> value(width), grad(width), local(width, 0.f);
    for (int64_t row = begin; row < end; row++) {
      for (int64_t k = 0; k < width; k++) grad[k] = widen(g[row * width + k]);
      if (turn) {
        int64_t position = at_position[row / heads];
        float *tail = grad.data() + width - 2 * kRotaryPairs;
        rotate(tail, c + position * kRotaryPairs, s + position * kRotaryPairs, turn > 0 ? -1.f : 1.f);
      }
      if (is_normed) {
        float square = 0, dot = 0;
        for (int64_t k = 0; k < width; k++) {
          value[k] = widen(in[row * width + k]);
          square += value[k] * value[k];
        }
        float scale = 1.f / std::sqrt(square / width + kEpsilon);
        for (int64_t k = 0; k < width; k++) {
          if (w) local[k] += grad[k] * value[k] * scale, grad[k] *= w[k];
          dot += grad[k] * value[k];
        }
        float through = dot * scale * scale * scale / width;
        for (int64_t k = 0; k < width; k++) grad[k] = scale * grad[k] - value[k] * through;
      }
      for (int64_t k = 0; k < width; k++) to[row * width + k] = narrow(grad[k]);
    }
    if (w) {
      std::lock_guard<std::mutex> guard(adding);
      for (int64_t k = 0; k < width; k++) floats(d_weight)[k] += local[k];
    }
  });
  return {d_rows, d_weight};
}

// ---- softmax over the window and the compressed rows, with a sink

// The columns a query sees: [raw_begin, raw_end) of the two blocks, [row_begin, row_end) of the compressed rows.
struct Seen {
  int64_t raw_begin, raw_end, row_begin, row_end;
};

// A compressed row is seen when all its tokens are past and of the query's own document.
Seen seen_by(int64_t position, int64_t start, int64_t ratio, int64_t rows) {
  int64_t block_begin = position / kBlock * kBlock - kBlock;
  Seen seen;
  seen.raw_begin = std::max(position - kBlock + 1, start) - block_begin;
  seen.raw_end = position - block_begin + 1;
  seen.row_begin = (start + ratio - 1) / ratio;
  seen.row_end = std::max(std::min((position + 1) / ratio, rows), seen.row_begin);
  if (seen.row_begin >= rows) seen.row_begin = seen.row_end = 0;
  seen.row_begin += 2 * kBlock, seen.row_end += 2 * kBlock;
  return seen;
}

// scores (B * blocks, 128 * H, 256 + C) bf16 become probabilities in place; returns the sinks' share (B * blocks, 128 * H).
Tensor sink_softmax(Tensor scores, Tensor sinks, Tensor starts, int64_t length, int64_t heads, int64_t ratio,
                    double scale, std::optional<Tensor> selected) {
  int64_t blocks = length / kBlock, columns = scores.size(2), rows = columns - 2 * kBlock;
  Tensor on_sinks = at::empty({scores.size(0), kBlock * heads}, sinks.options());
  half_bits *all = halves(scores);
  float *sink = floats(sinks), *share = floats(on_sinks), factor = static_cast<float>(scale);
  int *start_of = integers(starts);
  uint8_t *mask = selected ? static_cast<uint8_t *>(selected->data_ptr()) : nullptr;
  at::parallel_for(0, scores.size(0) * kBlock, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> e(columns);
    for (int64_t query = begin; query < end; query++) {
      int64_t batch = query / kBlock / blocks, position = query % (kBlock * blocks), token = batch * length + position;
      Seen seen = seen_by(position, start_of[token], ratio, rows);
      uint8_t *may_see = mask ? mask + token * rows - 2 * kBlock : nullptr;
      for (int64_t head = 0; head < heads; head++) {
        half_bits *row = all + (query * heads + head) * columns;
        float top = sink[head];
        for (int64_t k = seen.raw_begin; k < seen.raw_end; k++) top = std::max(top, e[k] = widen(row[k]) * factor);
        for (int64_t k = seen.row_begin; k < seen.row_end; k++) {
          e[k] = may_see && !may_see[k] ? -1e30f : widen(row[k]) * factor;
          top = std::max(top, e[k]);
        }
        float of_sink = std::exp(sink[head] - top), sum = of_sink;
        for (int64_t k = seen.raw_begin; k < seen.raw_end; k++) sum += e[k] = std::exp(e[k] - top);
        for (int64_t k = seen.row_begin; k < seen.row_end; k++) sum += e[k] = std::exp(e[k] - top);
        float inverse = 1.f / sum;
        share[query * heads + head] = of_sink * inverse;
        std::memset(row, 0, columns * sizeof *row);
        for (int64_t k = seen.raw_begin; k < seen.raw_end; k++) row[k] = narrow(e[k] * inverse);
        for (int64_t k = seen.row_begin; k < seen.row_end; k++) row[k] = narrow(e[k] * inverse);
      }
    }
  });
  return on_sinks;
}

// d_probabilities become the scores' gradients in place; returns the sinks' (H). What is not seen has probability 0.
Tensor sink_softmax_backward(Tensor probabilities, Tensor d_probabilities, Tensor on_sinks, Tensor starts,
                             int64_t length, int64_t heads, int64_t ratio, double scale) {
  int64_t blocks = length / kBlock, columns = probabilities.size(2), rows = columns - 2 * kBlock;
  Tensor d_sinks = at::zeros({heads}, on_sinks.options());
  half_bits *all = halves(probabilities), *grads = halves(d_probabilities);
  float *share = floats(on_sinks), factor = static_cast<float>(scale);
  int *start_of = integers(starts);
  std::mutex adding;
  at::parallel_for(0, probabilities.size(0) * kBlock, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> local(heads, 0.f);
    for (int64_t query = begin; query < end; query++) {
      int64_t batch = query / kBlock / blocks, position = query % (kBlock * blocks);
      Seen seen = seen_by(position, start_of[batch * length + position], ratio, rows);
      for (int64_t head = 0; head < heads; head++) {
        int64_t at_row = query * heads + head;
        half_bits *p = all + at_row * columns, *g = grads + at_row * columns;
        float dot = 0;
        for (int64_t k = seen.raw_begin; k < seen.raw_end; k++) dot += widen(p[k]) * widen(g[k]);
        for (int64_t k = seen.row_begin; k < seen.row_end; k++) dot += widen(p[k]) * widen(g[k]);
        local[head] -= share[at_row] * dot;
        auto clear = [&](int64_t from, int64_t to) {
          if (to > from) std::memset(g + from, 0, (to - from) * sizeof *g);
        };
        auto apply = [&](int64_t from, int64_t to) {
          for (int64_t k = from; k < to; k++) g[k] = narrow(widen(p[k]) * (widen(g[k]) - dot) * factor);
        };
        clear(0, seen.raw_begin);
        apply(seen.raw_begin, seen.raw_end);
        clear(seen.raw_end, seen.row_begin);
        apply(seen.row_begin, seen.row_end);
        clear(std::max(seen.raw_end, seen.row_end), columns);
      }
    }
    std::lock_guard<std::mutex> guard(adding);
    for (int64_t head = 0; head < heads; head++) floats(d_sinks)[head] += local[head];
  });
  return d_sinks;
}

// ---- SwiGLU with both halves clamped: (N, 2F) bf16 -> (N, F) bf16

Tensor swiglu(Tensor both, double clamp) {
  int64_t count = both.size(0), width = both.size(1) / 2;
  Tensor out = at::empty({count, width}, both.options());
  half_bits *in = halves(both), *to = halves(out);
  float limit = static_cast<float>(clamp);
  at::parallel_for(0, count, 128, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++)
      for (int64_t k = 0; k < width; k++) {
        float gate = std::min(widen(in[row * 2 * width + k]), limit);
        float up = std::min(std::max(widen(in[row * 2 * width + width + k]), -limit), limit);
        to[row * width + k] = narrow(gate * up * sigmoid(gate));
      }
  });
  return out;
}

Tensor swiglu_backward(Tensor both, Tensor d_out, double clamp) {
  int64_t count = both.size(0), width = both.size(1) / 2;
  Tensor d_both = at::empty_like(both);
  half_bits *in = halves(both), *g = halves(d_out), *to = halves(d_both);
  float limit = static_cast<float>(clamp);
  at::parallel_for(0, count, 128, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++)
      for (int64_t k = 0; k < width; k++) {
        float raw_gate = widen(in[row * 2 * width + k]), raw_up = widen(in[row * 2 * width + width + k]);
        float gate = std::min(raw_gate, limit), up = std::min(std::max(raw_up, -limit), limit);
        float open = sigmoid(gate), grad = widen(g[row * width + k]);
        bool is_inside = raw_up <= limit && raw_up >= -limit;
        to[row * 2 * width + k] = narrow(raw_gate <= limit ? grad * up * open * (1 + gate * (1 - open)) : 0.f);
        to[row * 2 * width + width + k] = narrow(is_inside ? grad * gate * open : 0.f);
      }
  });
  return d_both;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("hyper_in", &hyper_in);
  module.def("hyper_in_backward", &hyper_in_backward);
  module.def("hyper_out", &hyper_out);
  module.def("hyper_out_backward", &hyper_out_backward);
  module.def("norm_rope", &norm_rope);
  module.def("norm_rope_backward", &norm_rope_backward);
  module.def("sink_softmax", &sink_softmax);
  module.def("sink_softmax_backward", &sink_softmax_backward);
  module.def("swiglu", &swiglu);
  module.def("swiglu_backward", &swiglu_backward);
}
