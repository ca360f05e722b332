// Integer products of many activation rows: 32 weight rows are unpacked and interleaved once, then meet eight
// activation rows at a time, 16 weight rows to a vector.
#include "avx512/vectors.h"

namespace whitedwarf::avx512 {
namespace {

int64_t row_stride(int64_t padded) { return (unpacked_bytes(padded) + 63) / 64 * 64; }
int64_t tile_bytes(int64_t padded) { return kTileRows * (padded + 2 * int64_t(sizeof(float)) * (padded / 16)); }

// Rows in vectors of 16: element = row, so that one broadcast of four activations serves 16 rows.
struct Tile {
    uint8_t* codes;  // (padded / 4, 2, 16, 4)
    float* scales;   // (granules, 2, 16)
    float* mins;     // likewise
};

// 16 x 16 words of 32 bits: in[i] is row i at `stride`; out row j goes to to + 32 j.
void transpose16(const uint8_t* from, int64_t stride, uint32_t* to) {
    __m512i r[16], t[16];
    for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(from + i * stride);
    for (int i = 0; i < 8; ++i) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) {
            r[4 * i + 2 * j] = _mm512_unpacklo_epi64(t[4 * i + j], t[4 * i + 2 + j]);
            r[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(t[4 * i + j], t[4 * i + 2 + j]);
        }
    // r[4 i + j]: for each quarter L, column 4 L + j of rows 4 i .. 4 i + 3.
    for (int j = 0; j < 4; ++j) {
        const __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88), b = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
        _mm512_storeu_si512(to + 32 * j, _mm512_shuffle_i32x4(a, c, 0x88));
        _mm512_storeu_si512(to + 32 * (4 + j), _mm512_shuffle_i32x4(b, d, 0x88));
        _mm512_storeu_si512(to + 32 * (8 + j), _mm512_shuffle_i32x4(a, c, 0xdd));
        _mm512_storeu_si512(to + 32 * (12 + j), _mm512_shuffle_i32x4(b, d, 0xdd));
    }
}

// (16, count) words of 32 bits, rows `stride` bytes apart, into one vector of a tile; count is a multiple of 8.
void interleave(const uint8_t* from, int64_t stride, int64_t count, uint32_t* to) {
    for (int64_t at = 0; at < count; at += 16) transpose16(from + 4 * at, stride, to + 32 * at);
}

Tile build_tile(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                int64_t padded, uint8_t* scratch) {
    const Unpack unpack = unpacker(layout.type);
    const int64_t stride = row_stride(padded), granules = padded / layout.granule;
    auto* scales = reinterpret_cast<float*>(scratch + kTileRows * padded);
    const Tile tile{scratch, scales, scales + kTileRows * padded / 16};
    uint8_t* rows = scratch + tile_bytes(padded);
    for (int vector = 0; vector < 2; ++vector) {
        for (int i = 0; i < 16; ++i) {
            const int row = vector * 16 + i < num_rows ? vector * 16 + i : num_rows - 1;  // repeated, never stored
            const Unpacked w = unpacked_in(rows + i * stride, padded);
            clear_padding(layout, cols, w);
            unpack(weights + row * row_bytes, cols, w);
        }
        const Unpacked w = unpacked_in(rows, padded);
        interleave(w.codes, stride, padded / 4, reinterpret_cast<uint32_t*>(tile.codes) + 16 * vector);
        const auto* from = reinterpret_cast<const uint8_t*>(w.scales);
        interleave(from, stride, granules, reinterpret_cast<uint32_t*>(tile.scales) + 16 * vector);
        from = reinterpret_cast<const uint8_t*>(w.mins);
        if (layout.has_min) interleave(from, stride, granules, reinterpret_cast<uint32_t*>(tile.mins) + 16 * vector);
    }
    return tile;
}

// `kRows` activation rows (from `rows`) times the tile.
template <int kGranule, bool kHasMin, int kRows>
void multiply_block(const Tile& w, const IntegerRows& x, const int32_t* rows, int num_rows, Output out) {
    constexpr int kLanes = kSuperblock / kGranule, kVectors = kTileRows / 16;
    const int8_t* q[kRows];
    int64_t first[kRows];
    for (int t = 0; t < kRows; ++t) {
        q[t] = x.q + rows[t] * x.padded;
        first[t] = rows[t] * x.granules();
    }
    alignas(64) float acc[kLanes][kRows][kVectors][16] = {};
    for (int64_t s = 0; s < x.granules(); ++s) {
        __m512i p[kRows][kVectors];
        for (int t = 0; t < kRows; ++t) {
            const int32_t start = kHasMin ? 0 : -(x.q_sums[first[t] + s] * kOffset);
            for (int v = 0; v < kVectors; ++v) p[t][v] = _mm512_set1_epi32(start);
        }
        const uint8_t* codes = w.codes + s * kGranule * kTileRows;
        for (int k = 0; k < kGranule; k += 4, codes += 4 * kTileRows) {
            __m512i weights[kVectors];
            for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_load_si512(codes + 64 * v);
            for (int t = 0; t < kRows; ++t) {
                const __m512i four = _mm512_set1_epi32(int32_t(load_u32(
                    reinterpret_cast<const uint8_t*>(q[t]) + s * kGranule + k)));
                for (int v = 0; v < kVectors; ++v) p[t][v] = _mm512_dpbusd_epi32(p[t][v], weights[v], four);
            }
        }
        for (int v = 0; v < kVectors; ++v) {
            const __m512 scale = _mm512_load_ps(w.scales + s * kTileRows + 16 * v);
            const __m512 min = kHasMin ? _mm512_load_ps(w.mins + s * kTileRows + 16 * v) : _mm512_setzero_ps();
            for (int t = 0; t < kRows; ++t) {
                float* at = acc[s % kLanes][t][v];
                const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[first[t] + s]));
                __m512 sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(p[t][v]), both, _mm512_load_ps(at));
                if (kHasMin) sum = _mm512_fnmadd_ps(min, _mm512_set1_ps(x.sums[first[t] + s]), sum);
                _mm512_store_ps(at, sum);
            }
        }
    }
    for (int t = 0; t < kRows; ++t)
        for (int v = 0; v < kVectors; ++v) {
            __m512 lanes[kLanes];
            for (int i = 0; i < kLanes; ++i) lanes[i] = _mm512_load_ps(acc[i][t][v]);
            for (int half = kLanes / 2; half > 0; half /= 2)
                for (int i = 0; i < half; ++i) lanes[i] = _mm512_add_ps(lanes[i], lanes[i + half]);
            const int left = num_rows - 16 * v;
            const __mmask16 used = left >= 16 ? 0xffff : left > 0 ? __mmask16((1 << left) - 1) : 0;
            _mm512_mask_storeu_ps(out.data + t * out.stride + 16 * v, used, lanes[0]);
        }
}

template <int kGranule, bool kHasMin>
void multiply_all(const Tile& w, const IntegerRows& x, RowList list, int num_rows, Output out) {
    int64_t i = 0;
    const auto from = [&] { return Output{out.data + i * out.stride, out.stride}; };
    for (; i + 8 <= list.count; i += 8)
        multiply_block<kGranule, kHasMin, 8>(w, x, list.rows + i, num_rows, from());
    for (; i + 4 <= list.count; i += 4)
        multiply_block<kGranule, kHasMin, 4>(w, x, list.rows + i, num_rows, from());
    for (; i + 2 <= list.count; i += 2)
        multiply_block<kGranule, kHasMin, 2>(w, x, list.rows + i, num_rows, from());
    for (; i < list.count; ++i)
        multiply_block<kGranule, kHasMin, 1>(w, x, list.rows + i, num_rows, from());
}

}  // namespace

int64_t tile_scratch_bytes(int64_t padded) { return tile_bytes(padded) + 16 * row_stride(padded); }

void multiply_tile(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                   const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const Tile tile = build_tile(layout, weights, row_bytes, num_rows, cols, x.padded, scratch);
    const auto call = layout.granule == 32 ? layout.has_min ? multiply_all<32, true> : multiply_all<32, false>
                      : layout.has_min     ? multiply_all<16, true>
                                           : multiply_all<16, false>;
    call(tile, x, list, num_rows, out);
}

}  // namespace whitedwarf::avx512
