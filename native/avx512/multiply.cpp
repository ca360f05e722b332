// Integer products. A few activation rows: straight from the blocks. Many: interleaved tiles, tile.cpp.
// Both follow the order of level.h, so the choice does not show in the result.
#include "avx512/formats.h"
#include "avx512/products.h"

namespace whitedwarf::avx512 {
namespace {

// Where one activation row begins.
struct Input {
    const int8_t* q;
    int64_t first;  // of its scales, sums and offsets
};

struct Weights {
    const uint8_t* data;
    int64_t row_bytes;
    int num_rows;
    int64_t cols;
};

// Asks for the weights some 4 KB ahead. The core looks ahead over some hundred instructions only, which is a few lines
// of weights, too little to cover the way to memory. Into the second cache, which has room for more lines on their way
// (docs/log.md). Past the end it is harmless. Each line once: those that begin as far ahead as the block lies.
template <int kBytes>
void prefetch(const uint8_t* block) {
    constexpr uintptr_t kLine = 64, kAhead = 4096;
    const auto ask = [](uintptr_t at) { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1); };
    const uintptr_t begin = uintptr_t(block) + kAhead, first = (begin + kLine - 1) / kLine * kLine;
    for (uintptr_t i = 0; i < kBytes / kLine; ++i) ask(first + i * kLine);
    const uintptr_t last = first + kBytes / kLine * kLine;
    // Of short blocks one more for nothing costs less than the question.
    if (kBytes % kLine && (kBytes < 4 * kLine || last < begin + kBytes)) ask(last);
}

// The sums of one weight row times some activation rows. With granules of 32, both elements of a pair carry it.
template <int kGranule, bool kHasMin, int kInputs>
struct Sums {
    __m512 acc[kInputs];

    Sums() {
        for (auto& lanes : acc) lanes = _mm512_setzero_ps();
    }

    void add(const Superblock& w, const IntegerRows& x, const Input* inputs, int64_t at) {
        for (int i = 0; i < kInputs; ++i) {
            const int8_t* q = inputs[i].q + kSuperblock * at;
            const int64_t s = inputs[i].first + 16 * at;
            __m512i p = kHasMin ? _mm512_setzero_si512() : load64(x.offsets + s);
            for (int t = 0; t < 4; ++t) p = _mm512_dpbusd_epi32(p, w.codes[t], load64(q + 64 * t));
            if (kGranule == 32) p = _mm512_add_epi32(p, _mm512_shuffle_epi32(p, _MM_PERM_CDAB));
            const __m512 scale = _mm512_mul_ps(w.scales, _mm512_loadu_ps(x.scales + s));
            acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(p), scale, acc[i]);
            if (kHasMin) acc[i] = _mm512_fnmadd_ps(w.mins, _mm512_loadu_ps(x.sums + s), acc[i]);
        }
    }

    float total(int input) const {
        return kGranule == 16 ? sum_lanes16(acc[input]) : sum_lanes8(every_second(acc[input], 0));
    }

    static __m256 every_second(__m512 v, int first) {
        const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
        return _mm512_castps512_ps256(
            _mm512_permutexvar_ps(_mm512_add_epi32(evens, _mm512_set1_epi32(first)), v));
    }
};

// The sums of two weight rows, granules of 32: even elements are the first row's, odd ones the second's.
template <int kInputs>
struct PairSums : Sums<32, false, kInputs> {
    // Of the odd elements of the first and the even ones of the second: those that change places.
    static constexpr Words kAcross{[](int s) { return s % 2 ? 16 + s - 1 : s + 1; }};
    __m512i across = kAcross;

    void add(const Pair& w, const IntegerRows& x, const Input* inputs, int64_t at) {
        for (int i = 0; i < kInputs; ++i) {
            const int8_t* q = inputs[i].q + kSuperblock * at;
            const int64_t s = inputs[i].first + 16 * at;
            __m512i p[2] = {load64(x.offsets + s), load64(x.offsets + s)};
            for (int t = 0; t < 4; ++t)
                for (int row = 0; row < 2; ++row)
                    p[row] = _mm512_dpbusd_epi32(p[row], w.codes[row][t], load64(q + 64 * t));
            const __m512i both = _mm512_add_epi32(_mm512_mask_mov_epi32(p[0], kOdd, p[1]),
                                                  _mm512_permutex2var_epi32(p[0], across, p[1]));
            const __m512 scale = _mm512_mul_ps(w.scales, _mm512_loadu_ps(x.scales + s));
            this->acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(both), scale, this->acc[i]);
        }
    }

    float total(int input, int row) const { return sum_lanes8(this->every_second(this->acc[input], row)); }
};

template <int kInputs>
struct Inputs {
    Input rows[kInputs];

    Inputs(const IntegerRows& x, const int32_t* list) {
        for (int i = 0; i < kInputs; ++i) rows[i] = {x.q + list[i] * x.pitch(), list[i] * x.stride()};
    }
};

// Straight from the blocks: each is decoded once, in registers, and meets kInputs activation rows.
template <Type kType, int kGranule, bool kHasMin, int kInputs>
void multiply_rows(const Weights& w, const IntegerRows& x, const int32_t* list, Output out) {
    constexpr int kBytes = superblock_bytes(kType);
    const Format<kType> format;
    const Inputs<kInputs> inputs(x, list);
    const int64_t count = w.cols / kSuperblock, rest = w.cols % kSuperblock;
    for (int r = 0; r < w.num_rows; ++r) {
        const uint8_t* row = w.data + r * w.row_bytes;
        Sums<kGranule, kHasMin, kInputs> sums;
        for (int64_t at = 0; at < count; ++at) {
            prefetch<kBytes>(row + at * kBytes);
            sums.add(format.load(row + at * kBytes), x, inputs.rows, at);
        }
        if (kLayouts[layout_index(kType)].block < kSuperblock && rest)
            sums.add(Slow<kType, kGranule, kHasMin>().load(row + count * kBytes, rest), x, inputs.rows, count);
        for (int i = 0; i < kInputs; ++i) out.data[i * out.stride + r] = sums.total(i);
    }
}

// Two weight rows at a time: what decodes two superblocks for the price of little more than one.
template <int kInputs>
void multiply_pairs(const Weights& w, const IntegerRows& x, const int32_t* list, Output out) {
    constexpr int kBytes = superblock_bytes(IQ2_XXS);
    const Format<IQ2_XXS> format;
    const Inputs<kInputs> inputs(x, list);
    for (int r = 0; r < w.num_rows; r += 2) {
        const uint8_t* first = w.data + r * w.row_bytes;
        const uint8_t* second = r + 1 < w.num_rows ? first + w.row_bytes : first;
        PairSums<kInputs> sums;
        for (int64_t at = 0; at < w.cols / kSuperblock; ++at) {
            prefetch<2 * kBytes>(first + at * 2 * kBytes);
            sums.add(format.load(first + at * kBytes, second + at * kBytes), x, inputs.rows, at);
        }
        for (int i = 0; i < kInputs; ++i)
            for (int row = 0; row < 2 && r + row < w.num_rows; ++row)
                out.data[i * out.stride + r + row] = sums.total(i, row);
    }
}

template <Type kType, int kGranule, bool kHasMin, int kInputs = 1>
void multiply_type(const Weights& w, const IntegerRows& x, RowList list, Output out) {
    if (list.count == kInputs) {
        if constexpr (kType == IQ2_XXS)
            multiply_pairs<kInputs>(w, x, list.rows, out);
        else
            multiply_rows<kType, kGranule, kHasMin, kInputs>(w, x, list.rows, out);
        return;
    }
    if constexpr (kInputs < kFewRows) multiply_type<kType, kGranule, kHasMin, kInputs + 1>(w, x, list, out);
}

}  // namespace

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    if (list.count > kFewRows) return multiply_tile(layout, weights, row_bytes, num_rows, cols, x, list, out, scratch);
    const Weights w{weights, row_bytes, num_rows, cols};
    switch (layout.type) {
        case Q8_0:
            return multiply_type<Q8_0, 32, false>(w, x, list, out);
        case Q2_K:
            return multiply_type<Q2_K, 16, true>(w, x, list, out);
        case Q3_K:
            return multiply_type<Q3_K, 16, false>(w, x, list, out);
        case Q4_K:
            return multiply_type<Q4_K, 32, true>(w, x, list, out);
        case Q5_K:
            return multiply_type<Q5_K, 32, true>(w, x, list, out);
        case Q6_K:
            return multiply_type<Q6_K, 16, false>(w, x, list, out);
        case IQ2_XXS:
            return multiply_type<IQ2_XXS, 32, false>(w, x, list, out);
        case MXFP4:
            return multiply_type<MXFP4, 32, false>(w, x, list, out);
        default:
            return;
    }
}

}  // namespace whitedwarf::avx512
