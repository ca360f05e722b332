// Index scores with tiles of int8: exact integers, so the bits are those of every level. Internal linkage: see blocks.h.
#pragma once

#include "amx/row_tiles.h"
#include "avx512/index_lanes.h"

namespace whitedwarf::amx {

constexpr int kKeyGroups = 4;  // of sixteen keys
constexpr int kScoreKeys = kKeyGroups * kTile;

// products (groups, 16 heads, 16 keys) of sixteen heads
static inline void multiply_keys(const int8_t* codes, const avx512::AlignedKeys* keys, int32_t* products) {
    constexpr int kHalf = kAlignedDims / 2;
    _tile_loadd(4, codes, kAlignedDims);
    _tile_loadd(5, codes + kHalf, kAlignedDims);
    const auto words = [&](int group, int half) { return keys[group].words + half * kTile; };
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(6, words(0, 0), kRowBytes);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, words(1, 0), kRowBytes);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(6, words(2, 0), kRowBytes);
    _tile_dpbssd(2, 4, 6);
    _tile_loadd(7, words(3, 0), kRowBytes);
    _tile_dpbssd(3, 4, 7);
    _tile_loadd(6, words(0, 1), kRowBytes);
    _tile_dpbssd(0, 5, 6);
    _tile_loadd(7, words(1, 1), kRowBytes);
    _tile_dpbssd(1, 5, 7);
    _tile_loadd(6, words(2, 1), kRowBytes);
    _tile_dpbssd(2, 5, 6);
    _tile_loadd(7, words(3, 1), kRowBytes);
    _tile_dpbssd(3, 5, 7);
    _tile_stored(0, products, kRowBytes);
    _tile_stored(1, products + kTile * kTile, kRowBytes);
    _tile_stored(2, products + 2 * kTile * kTile, kRowBytes);
    _tile_stored(3, products + 3 * kTile * kTile, kRowBytes);
}

// scores += factor * max(0, product), head after head
static inline void add_heads(const int32_t* products, const float* factors, __m512 scores[kKeyGroups]) {
    for (int head = 0; head < kTile; ++head) {
        const __m512 factor = _mm512_set1_ps(factors[head]);
        for (int group = 0; group < kKeyGroups; ++group) {
            const __m512i product = _mm512_load_si512(products + (group * kTile + head) * kTile);
            const __m512 positive = _mm512_cvtepi32_ps(_mm512_max_epi32(product, _mm512_setzero_si512()));
            scores[group] = _mm512_add_ps(scores[group], _mm512_mul_ps(factor, positive));
        }
    }
}

// Sixteen heads are multiplied while those before them are added.
static inline void score_keys(const IndexQuery& query, const avx512::AlignedKeys* keys, float* out) {
    alignas(64) int32_t products[2][kScoreKeys * kTile];
    __m512 scores[kKeyGroups] = {};
    fence();
    multiply_keys(query.aligned, keys, products[0]);
    for (int head = 0; head < query.heads; head += kTile) {
        const int now = head / kTile % 2;
        if (head + kTile < query.heads) multiply_keys(query.aligned + (head + kTile) * kAlignedDims, keys, products[!now]);
        fence();
        add_heads(products[now], query.factors + head, scores);
    }
    for (int group = 0; group < kKeyGroups; ++group)
        _mm512_storeu_ps(out + group * kTile, _mm512_mul_ps(scores[group], keys[group].scales));
}

static inline bool load_groups(const uint8_t* keys, int64_t stride, avx512::AlignedKeys* groups) {
    for (int group = 0; group < kKeyGroups; ++group) {
        avx512::load_aligned<0>(keys + group * kTile * stride, stride, kTile, groups[group]);
        if (!groups[group].is_aligned) return false;
    }
    return true;
}

// RowLevel::score_block; what does not fill tiles is left to avx512.
static inline void score_block(const IndexQuery* queries, int num_queries, const uint8_t* keys, int64_t stride,
                               int64_t num_keys, float* scores, int64_t pitch) {
    const int64_t whole = queries[0].dims == kAlignedDims ? num_keys / kScoreKeys * kScoreKeys : 0;
    const auto leave = [&](int64_t k, int64_t count) {
        kAvx512Rows.score_block(queries, num_queries, keys + k * stride, stride, count, scores + k, pitch);
    };
    take_tiles();
    avx512::AlignedKeys groups[kKeyGroups];
    for (int64_t k = 0; k < whole; k += kScoreKeys) {
        if (!load_groups(keys + k * stride, stride, groups)) {
            leave(k, kScoreKeys);
            continue;
        }
        for (int q = 0; q < num_queries; ++q)
            if (queries[q].aligned && queries[q].heads % kTile == 0)
                score_keys(queries[q], groups, scores + q * pitch + k);
            else
                kAvx512Rows.score_block(queries + q, 1, keys + k * stride, stride, kScoreKeys, scores + q * pitch + k, 0);
    }
    release_tiles();
    if (whole < num_keys) leave(whole, num_keys - whole);
}

}  // namespace whitedwarf::amx
