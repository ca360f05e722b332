// Integer products of many activation rows: 32 weight rows are unpacked and interleaved once, then meet eight
// activation rows at a time, 16 weight rows to a vector.
#include "avx512/products.h"
#include "avx512/superblock.h"

namespace whitedwarf::avx512 {
namespace {

// Not a multiple of 4096: rows side by side must not share the sets of the nearest cache.
int64_t row_stride(int64_t padded) { return (unpacked_bytes(padded) + 63) / 64 * 64 + 64; }
int64_t tile_bytes(int64_t padded) { return kTileRows * (padded + 2 * int64_t(sizeof(float)) * (padded / 16)); }

// Rows in vectors of 16: element = row, so that one broadcast of four activations serves 16 rows.
struct Tile {
    uint8_t* codes;  // (padded / 16, 4, 2, 16, 4): element s of the four registers t, two halves, rows, bytes
    float* scales;   // (padded / 16, 2, 16)
    float* mins;     // likewise
};

// 16 x 16 words of 32 bits: in[i] is row i at `stride` bytes; out row j goes to to + j * step.
void transpose16(const uint8_t* from, int64_t stride, uint32_t* to, int64_t step) {
    __m512i r[16], t[16];
    for (int i = 0; i < 16; ++i) r[i] = load64(from + i * stride);
    for (int i = 0; i < 8; ++i) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) {
            r[4 * i + 2 * j] = _mm512_unpacklo_epi64(t[4 * i + j], t[4 * i + 2 + j]);
            r[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(t[4 * i + j], t[4 * i + 2 + j]);
        }
    // r[4 i + j]: in each quarter L, column 4 L + j of rows 4 i .. 4 i + 3.
    for (int j = 0; j < 4; ++j) {
        const __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88), b = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
        _mm512_store_si512(to + step * j, _mm512_shuffle_i32x4(a, c, 0x88));
        _mm512_store_si512(to + step * (4 + j), _mm512_shuffle_i32x4(b, d, 0x88));
        _mm512_store_si512(to + step * (8 + j), _mm512_shuffle_i32x4(a, c, 0xdd));
        _mm512_store_si512(to + step * (12 + j), _mm512_shuffle_i32x4(b, d, 0xdd));
    }
}

// Sixteen unpacked rows, `stride` bytes apart, into one half of the tile.
void interleave(const Unpacked& rows, int64_t stride, int64_t padded, bool has_min, const Tile& tile, int half) {
    const auto words = [&](auto* to) { return reinterpret_cast<uint32_t*>(to) + 16 * half; };
    const auto bytes = [](const auto* from) { return reinterpret_cast<const uint8_t*>(from); };
    for (int64_t k = 0; k < padded; k += kSuperblock) {
        for (int t = 0; t < 4; ++t)
            transpose16(rows.codes + k + 64 * t, stride, words(tile.codes + (k / 4 + t) * 128), 4 * 32);
        transpose16(bytes(rows.scales + k / 16), stride, words(tile.scales + k / 16 * kTileRows), kTileRows);
        if (has_min) transpose16(bytes(rows.mins + k / 16), stride, words(tile.mins + k / 16 * kTileRows), kTileRows);
    }
}

Tile build_tile(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                int64_t padded, uint8_t* scratch) {
    auto* scales = reinterpret_cast<float*>(scratch + kTileRows * padded);
    const Tile tile{scratch, scales, scales + kTileRows * padded / 16};
    uint8_t* rows = scratch + tile_bytes(padded);
    const int64_t stride = row_stride(padded);
    for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 16; ++i) {
            const int row = half * 16 + i < num_rows ? half * 16 + i : num_rows - 1;  // repeated, never stored
            unpack(layout.type, weights + row * row_bytes, cols, unpacked_in(rows + i * stride, padded));
        }
        interleave(unpacked_in(rows, padded), stride, padded, layout.has_min, tile, half);
    }
    return tile;
}

// `kRows` activation rows (from `rows`) times the tile.
template <int kGranule, bool kHasMin, int kRows>
void multiply_block(const Tile& w, const IntegerRows& x, const int32_t* rows, int num_rows, Output out) {
    constexpr int kLanes = kSuperblock / kGranule, kSixteens = kGranule / 16, kVectors = kTileRows / 16;
    const int8_t* q[kRows];
    int64_t first[kRows];
    for (int t = 0; t < kRows; ++t) {
        q[t] = x.q + rows[t] * x.pitch();
        first[t] = rows[t] * x.stride();
    }
    alignas(64) float acc[kLanes][kRows][kVectors][16] = {};
    const uint8_t* codes = w.codes;
    for (int64_t s = 0; s < x.padded / 16; s += kSixteens) {
        __m512i p[kRows][kVectors];
        for (int t = 0; t < kRows; ++t) {
            int32_t start = 0;
            for (int i = 0; i < kSixteens && !kHasMin; ++i) start += x.offsets[first[t] + s + i];
            for (int v = 0; v < kVectors; ++v) p[t][v] = _mm512_set1_epi32(start);
        }
        for (int i = 0; i < kSixteens; ++i)
            for (int quad = 0; quad < 4; ++quad, codes += 4 * kTileRows) {
                __m512i weights[kVectors];
                for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_load_si512(codes + 64 * v);
                const int64_t at = (s + i) / 16 * kSuperblock + quad * 64 + (s + i) % 16 * 4;
                for (int t = 0; t < kRows; ++t) {
                    int32_t four;
                    std::memcpy(&four, q[t] + at, 4);
                    const __m512i in = _mm512_set1_epi32(four);
                    for (int v = 0; v < kVectors; ++v) p[t][v] = _mm512_dpbusd_epi32(p[t][v], weights[v], in);
                }
            }
        for (int v = 0; v < kVectors; ++v) {
            const __m512 scale = _mm512_load_ps(w.scales + s * kTileRows + 16 * v);
            const __m512 min = kHasMin ? _mm512_load_ps(w.mins + s * kTileRows + 16 * v) : _mm512_setzero_ps();
            for (int t = 0; t < kRows; ++t) {
                float* to = acc[s / kSixteens % kLanes][t][v];
                const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[first[t] + s]));
                __m512 sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(p[t][v]), both, _mm512_load_ps(to));
                if (kHasMin) sum = _mm512_fnmadd_ps(min, _mm512_set1_ps(x.sums[first[t] + s]), sum);
                _mm512_store_ps(to, sum);
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
    for (; i + 8 <= list.count; i += 8) multiply_block<kGranule, kHasMin, 8>(w, x, list.rows + i, num_rows, from());
    for (; i + 4 <= list.count; i += 4) multiply_block<kGranule, kHasMin, 4>(w, x, list.rows + i, num_rows, from());
    for (; i + 2 <= list.count; i += 2) multiply_block<kGranule, kHasMin, 2>(w, x, list.rows + i, num_rows, from());
    for (; i < list.count; ++i) multiply_block<kGranule, kHasMin, 1>(w, x, list.rows + i, num_rows, from());
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
