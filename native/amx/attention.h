// Attention over packed rows with tiles of bfloat16, 512 products a cycle instead of 32.
//
// The 448 e4m3 values of a packed row (times a power of two) are bfloat16 as they stand. What is float32 comes apart
// into three bfloat16 terms that add up to it, all 24 bits: queries, the rotary tail of rows, shares of the softmax.
// Products of terms that come to 2^-24 of the whole or less are left out. A product of tiles sums pairs as the processor does it: even and odd columns of 32 in float32,
// then both onto the accumulator; small terms come first. Hence bits of its own: attention over packed rows at this
// level differs from that of the others by rounding (tests/ops/test_cpu_amx.py bounds it), and like theirs depends
// neither on the batch nor on how it was cut: a query's keys come in the same blocks, and heads do not meet.
// Internal linkage: see blocks.h.
#pragma once

#include <cstring>
#include <initializer_list>

#include "amx/row_tiles.h"
#include "avx512/index_lanes.h"
#include "row_arithmetic.h"

namespace whitedwarf::amx {

constexpr int kChunk = 32;       // columns of bfloat16 in a tile
constexpr int kGroupHeads = 2 * kTile;
constexpr int kHalves = kAttendKeys / kChunk;
constexpr int kTerms = 3;        // of queries and of tails

static inline int num_groups(int heads) { return (heads + kGroupHeads - 1) / kGroupHeads; }

// Where things lie in a block of keys and in queries.
//   block    for scores: for each half of 32 keys, for each 32 columns (plain | tail high | tail middle | tail low), two
//            tiles of 16 keys; then values: for each pair of strips of 16 of the same columns, for each half,
//            two tiles of pairs of keys
//   queries  groups of 32 heads: for each 32 channels low, middle, high, each two tiles of pairs of channels; then
//            the sums for each group: for each strip of channels two tiles of heads
struct Form {
    int plain, rope;

    explicit Form(const RowFormat& format) : plain(format.plain()), rope(format.rope_dims) {}

    int dims() const { return plain + rope; }
    int chunks() const { return (plain + kTerms * rope) / kChunk; }
    int64_t half_bytes() const { return int64_t(chunks()) * 2 * kTileBytes; }
    int64_t values() const { return kHalves * half_bytes(); }
    int64_t block_bytes() const { return 2 * values(); }
    int64_t group_bytes() const { return int64_t(dims() / kChunk) * kTerms * 2 * kTileBytes; }
    int64_t sums_bytes() const { return int64_t(kGroupHeads) * dims() * 4; }
    int64_t bytes(int heads) const { return num_groups(heads) * (group_bytes() + sums_bytes()); }
    const uint8_t* queries(const Heads& heads, int group) const { return heads.taken + group * group_bytes(); }
    float* sums(const Heads& heads, int group) const {
        return reinterpret_cast<float*>(heads.taken + num_groups(heads.count) * group_bytes() + group * sums_bytes());
    }
};

// 32 floats as bfloat16 in order, nearest even.
static inline __m512i to_bfloats(__m512 low, __m512 high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }
static inline __m512 low_floats(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(pairs)), 16));
}
static inline __m512 high_floats(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(pairs, 1)), 16));
}

// 32 floats -> bfloat16 terms, the highest first.
static inline void split(const float* x, __m512i terms[kTerms]) {
    __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + kTile);
    for (int t = 0; t < kTerms; ++t) {
        terms[t] = to_bfloats(low, high);
        low = _mm512_sub_ps(low, low_floats(terms[t]));
        high = _mm512_sub_ps(high, high_floats(terms[t]));
    }
}

static inline void store_tile(const __m512i v[kTile], uint8_t* out) {
    for (int i = 0; i < kTile; ++i) _mm512_store_si512(out + 64 * i, v[i]);
}

// ---- queries

static inline int64_t query_bytes(int heads, const RowFormat& format) {
    return Form(format).bytes(heads);
}

static inline void start(const Heads& heads, const RowFormat& format) {
    const Form form(format);
    std::memset(form.sums(heads, 0), 0, size_t(num_groups(heads.count) * form.sums_bytes()));
    for (int first = 0; first < num_groups(heads.count) * kGroupHeads; first += kTile) {
        uint8_t* tile = heads.taken + first / kGroupHeads * form.group_bytes() + first % kGroupHeads / kTile * kTileBytes;
        const int count = heads.count - first < kTile ? heads.count - first : kTile;
        for (int i = 0; i < form.dims(); i += kChunk) {
            __m512i terms[kTerms][kTile];
            for (int h = 0; h < kTile; ++h) {
                __m512i split_terms[kTerms] = {};
                if (h < count) split(heads.queries + int64_t(first + h) * form.dims() + i, split_terms);
                for (int t = 0; t < kTerms; ++t) terms[t][h] = split_terms[t];
            }
            for (int t = kTerms - 1; t >= 0; --t, tile += 2 * kTileBytes) {
                avx512::transpose(terms[t]);
                store_tile(terms[t], tile);
            }
        }
    }
}

// ---- keys

// 32 codes -> bfloat16, exact; scale is the byte of their power of two, 10 to 246.
static inline __m512i e4m3_to_bfloats(const uint8_t* codes, __m512i base, __m512i small) {
    const __m512i wide = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
    const __m512i magnitude = _mm512_and_si512(wide, _mm512_set1_epi16(0x7f));
    const __m512i normal = _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4), base);
    const __mmask32 is_small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(8));
    const __m512i value = _mm512_mask_permutexvar_epi16(normal, is_small, magnitude, small);
    // sign | value
    return _mm512_ternarylogic_epi32(value, _mm512_slli_epi16(wide, 8), _mm512_set1_epi16(short(0x8000)), 0xf8);
}

constexpr int kChunkBytes = 2 * kTileBytes;

// One row as bfloat16; out is its place in the first tile.
static inline void take_row(const StoredRow& row, const Form& form, uint8_t* out) {
    const __m512i subnormals = _mm512_zextsi128_si512(  // 1 to 7 times 2^-9
        _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
    const uint8_t* scales = row.bytes + form.plain;
    bool is_exotic = false;
    for (int i = 0; i < form.plain; i += kKvBlock) is_exotic |= scales[i / kKvBlock] < 10 || scales[i / kKvBlock] > 246;
    float decoded[kMaxRowDims];
    if (is_exotic) decode_row(*row.format, row.bytes, decoded);
    for (int i = 0; i < form.plain; i += kChunk) {
        const int shift = (int(scales[i / kKvBlock]) - kE8m0Bias) * 128;
        const __m512i value =
            is_exotic ? to_bfloats(_mm512_loadu_ps(decoded + i), _mm512_loadu_ps(decoded + i + kTile))
                      : e4m3_to_bfloats(row.bytes + i, _mm512_set1_epi16(short(0x3c00 + shift)),
                                        _mm512_maskz_add_epi16(~1u, subnormals, _mm512_set1_epi16(short(shift))));
        _mm512_store_si512(out + i / kChunk * kChunkBytes, value);
    }
    const uint8_t* stored = row.bytes + row.format->tail_offset();
    for (int i = 0; i < form.rope; i += kChunk) {
        float tail[kChunk];
        if (row.format->kind == RowKind::packed_kv)
            std::memcpy(tail, stored + 4 * i, sizeof tail);
        else
            for (int k = 0; k < kChunk; k += kTile)
                _mm512_storeu_ps(tail + k, _mm512_cvtph_ps(_mm256_loadu_si256(
                                               reinterpret_cast<const __m256i*>(stored + 2 * (i + k)))));
        __m512i terms[kTerms];
        split(tail, terms);
        for (int t = 0; t < kTerms; ++t) _mm512_store_si512(out + (form.plain + t * form.rope + i) / kChunk * kChunkBytes, terms[t]);
    }
}

// Two rows side by side: their values in pairs, strip by strip.
static inline void pair_rows(const uint8_t* even, const uint8_t* odd, const Form& form, uint8_t* out) {
    alignas(64) static constexpr uint16_t kFirst[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                        8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i first = _mm512_load_si512(kFirst), second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    for (int chunk = 0; chunk < form.chunks(); ++chunk, out += kHalves * kChunkBytes) {
        const __m512i a = _mm512_load_si512(even + chunk * kChunkBytes), b = _mm512_load_si512(odd + chunk * kChunkBytes);
        _mm512_store_si512(out, _mm512_permutex2var_epi16(a, first, b));
        _mm512_store_si512(out + kTileBytes, _mm512_permutex2var_epi16(a, second, b));
    }
}

static inline int64_t block_bytes(const RowFormat& format) { return Form(format).block_bytes(); }

static inline int halves_of(int num_keys) { return (num_keys + kChunk - 1) / kChunk; }

// Keys beyond num_keys are zero up to the end of their half.
static inline void take_keys(const StoredRow* rows, int num_keys, const RowFormat& format, uint8_t* block) {
    const Form form(format);
    for (int k = 0; k < halves_of(num_keys) * kChunk; ++k) {
        uint8_t* row = block + k / kChunk * form.half_bytes() + k % kChunk * kRowBytes;
        if (k < num_keys)
            take_row(rows[k], form, row);
        else
            for (int chunk = 0; chunk < form.chunks(); ++chunk) std::memset(row + chunk * kChunkBytes, 0, kRowBytes);
        if (k % 2)
            pair_rows(row - kRowBytes, row, form,
                      block + form.values() + k / kChunk * kChunkBytes + k % kChunk / 2 * kRowBytes);
    }
}

// ---- scores

// Two tiles of keys by two of heads, onto tiles 0 to 3.
static inline void product(const uint8_t* query) {
    _tile_loadd(6, query, 64);
    _tile_loadd(7, query + kTileBytes, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

// scores (32 keys, 32 heads) of half a block
static inline void score_half(const uint8_t* queries, const uint8_t* keys, const Form& form, float* scores) {
    const auto load_keys = [&](int column) {
        _tile_loadd(4, keys + column / kChunk * kChunkBytes, kRowBytes);
        _tile_loadd(5, keys + column / kChunk * kChunkBytes + kTileBytes, kRowBytes);
    };
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int i = 0; i < form.plain; i += kChunk) {
        load_keys(i);
        for (int t = 0; t < kTerms; ++t, queries += 2 * kTileBytes) product(queries);
    }
    for (int i = 0; i < form.rope; i += kChunk, queries += kTerms * 2 * kTileBytes)
        for (int part = kTerms - 1; part >= 0; --part) {
            load_keys(form.plain + part * form.rope + i);
            for (int t = part; t < kTerms; ++t) product(queries + t * 2 * kTileBytes);
        }
    _tile_stored(0, scores, 4 * kGroupHeads);
    _tile_stored(1, scores + kTile, 4 * kGroupHeads);
    _tile_stored(2, scores + kTile * kGroupHeads, 4 * kGroupHeads);
    _tile_stored(3, scores + kTile * kGroupHeads + kTile, 4 * kGroupHeads);
}

// ---- softmax

// arithmetic.h's, sixteen at once.
static inline __m512 exponentials(__m512 x) {
    const auto set = [](float value) { return _mm512_set1_ps(value); };
    x = _mm512_min_ps(set(87.0f), _mm512_max_ps(set(-87.0f), x));  // NaN stays NaN
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, set(1.44269504f)), 0);
    const __m512 r = _mm512_fnmadd_ps(n, set(-2.12194440e-4f), _mm512_fnmadd_ps(n, set(0.693359375f), x));
    __m512 p = set(1.9875691500e-4f);
    for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        p = _mm512_fmadd_ps(p, r, set(c));
    return _mm512_scalef_ps(_mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(p, r), r, r), set(1.0f)), n);
}

// Scores (num_keys, 32 heads) of sixteen heads -> their shares as tiles (low, middle, high for each half); top and sum go on.
// Returns the factors by which what came before shrinks.
static inline __m512 soften_heads(const float* scores, int num_keys, float scale, __m512& top, __m512& sum,
                                  uint8_t* shares) {
    const __m512 before = top, factor = _mm512_set1_ps(scale);
    const auto score = [&](int k) { return _mm512_mul_ps(_mm512_loadu_ps(scores + k * kGroupHeads), factor); };
    __m512 highest = before;
    for (int k = 0; k < num_keys; ++k) highest = _mm512_max_ps(score(k), highest);
    // What came before is scaled anew only where shares would grow large.
    const __mmask16 is_much = _mm512_cmp_ps_mask(highest, _mm512_add_ps(before, _mm512_set1_ps(8.0f)), _CMP_GT_OQ);
    highest = _mm512_mask_mov_ps(before, is_much, highest);
    __m512 total[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int half = 0; half < halves_of(num_keys); ++half) {
        // Terms of two keys side by side in each lane: lanes are heads, pairs are keys.
        __m512i pairs[kTerms][kTile];
        for (int pair = 0; pair < kTile; ++pair)
            for (int i = 0; i < 2; ++i) {
                const int k = half * kChunk + 2 * pair + i;
                __m512 rest = k < num_keys ? exponentials(_mm512_sub_ps(score(k), highest)) : _mm512_setzero_ps();
                total[i] = _mm512_add_ps(total[i], rest);
                for (int t = 0; t < kTerms; ++t) {
                    const __m512i term = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(rest));
                    const __m512i above = _mm512_slli_epi32(term, 16);
                    rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(above));
                    pairs[t][pair] = i ? _mm512_or_si512(pairs[t][pair], above) : term;
                }
            }
        for (int t = 0; t < kTerms; ++t) {
            avx512::transpose(pairs[t]);
            store_tile(pairs[t], shares + (kTerms * half + kTerms - 1 - t) * kTileBytes);
        }
    }
    const __m512 shrink = exponentials(_mm512_sub_ps(before, highest));
    sum = _mm512_fmadd_ps(sum, shrink, _mm512_add_ps(total[0], total[1]));
    top = highest;
    return shrink;
}

// sums: one tile of heads of each strip, two tiles apart
static inline void shrink_sums(__m512 shrink, int strips, float* sums) {
    alignas(64) float factors[kTile];
    _mm512_store_ps(factors, shrink);
    for (int h = 0; h < kTile; ++h)
        if (factors[h] != 1.0f)
            for (int strip = 0; strip < strips; ++strip) {
                float* at = sums + (2 * strip * kTile + h) * kTile;
                _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), _mm512_set1_ps(factors[h])));
            }
}

// ---- values

// Two strips of values by the shares of two tiles of heads, onto tiles 0 to 3.
static inline void add_values(const uint8_t* shares, const uint8_t* values, int first_term) {
    _tile_loadd(6, values, 64);
    _tile_loadd(7, values + kTileBytes, 64);
    for (int term = first_term; term < kTerms; ++term) {
        _tile_loadd(4, shares + term * kTileBytes, 64);
        _tile_loadd(5, shares + (kTerms * kHalves + term) * kTileBytes, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

// sums += shares . values
static inline void blend_group(const uint8_t* shares, const uint8_t* values, int halves, const Form& form, float* sums) {
    constexpr int kTileFloats = kTile * kTile;
    const int plain_strips = form.plain / kTile, tail_strips = form.rope / kTile;
    for (int strip = 0; strip < plain_strips + tail_strips; strip += 2) {
        float* at = sums + 2 * strip * kTileFloats;
        _tile_loadd(0, at, 64);
        _tile_loadd(1, at + 2 * kTileFloats, 64);
        _tile_loadd(2, at + kTileFloats, 64);
        _tile_loadd(3, at + 3 * kTileFloats, 64);
        for (int half = 0; half < halves; ++half) {
            const uint8_t* from = values + int64_t(strip * kHalves + 2 * half) * kTileBytes;
            const uint8_t* share = shares + kTerms * half * kTileBytes;
            for (int part = strip < plain_strips ? 0 : kTerms - 1; part >= 0; --part)
                add_values(share, from + int64_t(part) * tail_strips * kHalves * kTileBytes, part);
        }
        _tile_stored(0, at, 64);
        _tile_stored(1, at + 2 * kTileFloats, 64);
        _tile_stored(2, at + kTileFloats, 64);
        _tile_stored(3, at + 3 * kTileFloats, 64);
    }
}

// ---- all of it

static inline void attend_group(const Heads& heads, int group, const uint8_t* block, int num_keys, const Form& form,
                                float scale) {
    alignas(64) float scores[kAttendKeys * kGroupHeads];
    alignas(64) uint8_t shares[2 * kHalves * kTerms * kTileBytes];  // tile of heads, half, low to high
    const int halves = halves_of(num_keys);
    float* sums = form.sums(heads, group);
    fence();
    for (int half = 0; half < halves; ++half)
        score_half(form.queries(heads, group), block + half * form.half_bytes(), form,
                   scores + half * kChunk * kGroupHeads);
    fence();
    for (int tile = 0; tile < 2; ++tile) {
        const int begin = group * kGroupHeads + tile * kTile, rest = heads.count - begin;
        const __mmask16 mask = rest >= kTile ? __mmask16(0xffff) : __mmask16((1u << (rest > 0 ? rest : 0)) - 1);
        __m512 top = _mm512_maskz_loadu_ps(mask, heads.top + begin), sum = _mm512_maskz_loadu_ps(mask, heads.sum + begin);
        const __m512 shrink = soften_heads(scores + tile * kTile, num_keys, scale, top, sum,
                                           shares + tile * kTerms * kHalves * kTileBytes);
        _mm512_mask_storeu_ps(heads.top + begin, mask, top);
        _mm512_mask_storeu_ps(heads.sum + begin, mask, sum);
        shrink_sums(shrink, form.dims() / kTile, sums + tile * kTile * kTile);
    }
    fence();
    blend_group(shares, block + form.values(), halves, form, sums);
    fence();
}

static inline void attend(const Heads& heads, const uint8_t* block, int num_keys, const RowFormat& format, float scale,
                          float*) {
    take_tiles();
    for (int group = 0; group < num_groups(heads.count); ++group)
        attend_group(heads, group, block, num_keys, Form(format), scale);
    release_tiles();
}

static inline void finish(const Heads& heads, const RowFormat& format) {
    const Form form(format);
    for (int h = 0; h < heads.count; ++h) {
        const float* sums = form.sums(heads, h / kGroupHeads) + h % kGroupHeads * kTile;
        const __m512 share = _mm512_set1_ps(1.0f / heads.sum[h]);
        float* out = heads.out + int64_t(h) * form.dims();
        for (int i = 0; i < form.dims(); i += kTile, sums += 2 * kTile * kTile)
            _mm512_storeu_ps(out + i, _mm512_mul_ps(_mm512_load_ps(sums), share));
    }
}

// Formats whose parts fill whole tiles.
static inline bool fits(const RowFormat& format) {
    return (format.kind == RowKind::packed_kv || format.kind == RowKind::packed_kv_f16) && format.plain() % kChunk == 0 &&
           format.rope_dims % kChunk == 0;
}

constexpr AttendKernels kAttention = {
    .head_unit = kGroupHeads,
    .block_keys = kAttendKeys,
    .query_bytes = query_bytes,
    .start = start,
    .block_bytes = block_bytes,
    .take_keys = take_keys,
    .attend = attend,
    .finish = finish,
};

}  // namespace whitedwarf::amx
