// Panels of 32 weight rows: the formats of panel_formats.h straight from the blocks, the others (and rows that end inside
// a superblock, and fewer rows than 16) by unpacking row by row and turning that over.
#include "avx512/panel.h"

#include "avx512/panel_formats.h"
#include "avx512/products.h"

namespace whitedwarf::avx512 {
namespace {

// Not a multiple of 4096: rows side by side must not share the sets of the nearest cache.
int64_t row_stride(int64_t padded) { return (unpacked_bytes(padded) + 63) / 64 * 64 + 64; }

int64_t whole_chunks(int64_t padded) {
    constexpr int64_t kColumns = kChunk * kSuperblock;
    return (padded + kColumns - 1) / kColumns * kColumns;
}

int64_t panel_bytes(int64_t padded) {
    const int64_t columns = whole_chunks(padded);
    return kTileRows * (columns + 2 * int64_t(sizeof(float)) * (columns / 16));
}

PanelBlock block_of(const Panel& panel, int half, int64_t superblock) {
    const int64_t scales = panel.scales_at(superblock, 0) + 16 * half;
    return {panel.codes_at(superblock, 0) + 64 * half, panel.scales + scales, panel.mins + scales,
            kChunk * panel.granule * kTileRows, kChunk * kTileRows};
}

template <Type kType, Signs kSigns>
void build_half(const uint8_t* weights, int64_t row_bytes, const Panel& panel, int half) {
    constexpr const Layout& kLayout = kLayouts[layout_index(kType)];
    constexpr int kBytes = kLayout.bytes * (kSuperblock / kLayout.block);
    const PanelFormat<kType, kSigns> format;
    for (int64_t at = 0; at < panel.superblocks; ++at)
        format(SixteenRows{weights + at * kBytes, row_bytes}, block_of(panel, half, at));
}

// Sixteen rows that are unpacked already (superblock.h has their order) into a half.
void turn_over(const Layout& layout, Signs signs, const uint8_t* rows, int64_t padded, const Panel& panel, int half) {
    const SixteenRows codes{rows, row_stride(padded)};
    const SixteenRows scales{rows + padded, codes.stride};
    const SixteenRows mins{rows + padded + int64_t(sizeof(float)) * (padded / 16), codes.stride};
    const bool is_plain = !layout.has_min && signs == Signs::kPlain;
    const __m512i flip = _mm512_set1_epi8(char(is_plain ? kOffset : 0));
    const int repeats = layout.granule / 16;  // elements that each granule has
    for (int64_t at = 0; at < panel.superblocks; ++at) {
        const PanelBlock out = block_of(panel, half, at);
        for (int first = 0; first < 16; first += 4) {
            __m512i words[4];
            for (int t = 0; t < 4; ++t) {
                codes.words(at * kSuperblock + 64 * t + 4 * first, words);
                for (int i = 0; i < 4; ++i)
                    out.put_codes((first + i) / repeats, t * repeats + i % repeats, _mm512_xor_si512(words[i], flip));
            }
            scales.words((16 * at + first) * 4, words);
            for (int i = 0; i < 4; i += repeats) out.put_scale((first + i) / repeats, _mm512_castsi512_ps(words[i]));
            if (!layout.has_min) continue;
            mins.words((16 * at + first) * 4, words);
            for (int i = 0; i < 4; i += repeats) out.put_min((first + i) / repeats, _mm512_castsi512_ps(words[i]));
        }
    }
}

using BuildHalf = void (*)(const uint8_t* weights, int64_t row_bytes, const Panel& panel, int half);

template <Signs kSigns>
BuildHalf half_builder(Type type) {
    switch (type) {
        case Q8_0:
            return build_half<Q8_0, kSigns>;
        case Q2_K:
            return build_half<Q2_K, kSigns>;
        case Q4_K:
            return build_half<Q4_K, kSigns>;
        case IQ2_XXS:
            return build_half<IQ2_XXS, kSigns>;
        case MXFP4:
            return build_half<MXFP4, kSigns>;
        default:
            return nullptr;
    }
}

}  // namespace

int64_t panel_scratch_bytes(int64_t padded) { return panel_bytes(padded) + 16 * row_stride(padded); }

Panel PanelSource::build(int64_t first, int64_t most, uint8_t* scratch) const {
    const int64_t last_column = (first + most) * kSuperblock;
    const int64_t used = (last_column < cols ? last_column : cols) - first * kSuperblock;
    const int64_t padded = padded_columns(used), columns = whole_chunks(padded);
    const uint8_t* from = weights + first * kSuperblock / layout.block * layout.bytes;
    auto* scales = reinterpret_cast<float*>(scratch + kTileRows * columns);
    const Panel panel{scratch, scales, scales + kTileRows * columns / 16, padded / kSuperblock, layout.granule};
    const auto build = signs == Signs::kOffset ? half_builder<Signs::kOffset>(layout.type)
                                               : half_builder<Signs::kPlain>(layout.type);
    uint8_t* rows = scratch + panel_bytes(padded);
    for (int half = 0; half < kHalves; ++half) {
        if (build && used == padded && num_rows >= 16 * (half + 1)) {
            build(from + 16 * half * row_bytes, row_bytes, panel, half);
            continue;
        }
        for (int i = 0; i < 16; ++i) {
            const int row = half * 16 + i < num_rows ? half * 16 + i : num_rows - 1;  // repeated, never stored
            unpack(layout.type, from + row * row_bytes, used, unpacked_in(rows + i * row_stride(padded), padded));
        }
        turn_over(layout, signs, rows, padded, panel, half);
    }
    return panel;
}

}  // namespace whitedwarf::avx512
