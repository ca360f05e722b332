// Block layouts of the weight formats, and the few conversions every level shares.
//
// Everything here has internal linkage on purpose: these headers are compiled once per CPU level with that level's
// flags, and an inline function with external linkage would let the linker keep the AVX-512 copy for everybody.
#pragma once

#include <cstdint>
#include <cstring>

namespace whitedwarf {

// Type ids of GGUF.
enum Type : int {
    F32 = 0,
    F16 = 1,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    IQ2_XXS = 16,
    BF16 = 30,
    MXFP4 = 39,
};

// How one format is stored, and how its integer form (Unpacked in level.h) looks.
struct Layout {
    Type type;
    const char* name;
    int block;     // weights per block
    int bytes;     // bytes per block
    int granule;   // weights that share one scale (32 or 16); 0 = float weights, no integer form
    bool has_min;  // weight = scale * code - min, codes unsigned; else weight = scale * code, codes signed
};

constexpr Layout kLayouts[] = {
    {F32, "F32", 1, 4, 0, false},        {F16, "F16", 1, 2, 0, false},
    {BF16, "BF16", 1, 2, 0, false},      {Q8_0, "Q8_0", 32, 34, 32, false},
    {Q2_K, "Q2_K", 256, 84, 16, true},   {Q3_K, "Q3_K", 256, 110, 16, false},
    {Q4_K, "Q4_K", 256, 144, 32, true},  {Q5_K, "Q5_K", 256, 176, 32, true},
    {Q6_K, "Q6_K", 256, 210, 16, false}, {IQ2_XXS, "IQ2_XXS", 256, 66, 32, false},
    {MXFP4, "MXFP4", 32, 17, 32, false},
};
constexpr int kNumLayouts = sizeof(kLayouts) / sizeof(kLayouts[0]);

// Index into kLayouts, or -1 for a type this module does not know.
static constexpr int layout_index(int type) {
    for (int i = 0; i < kNumLayouts; ++i)
        if (kLayouts[i].type == type) return i;
    return -1;
}

constexpr int kActivationBlock = 32;  // activations: one scale per 32 values
constexpr int kSuperblock = 256;      // integer rows are padded to whole superblocks
constexpr int kFloatLanes = 16;       // float dot products: lane = column mod 16, at every level

static inline int64_t padded_columns(int64_t cols) { return (cols + kSuperblock - 1) / kSuperblock * kSuperblock; }

static inline uint16_t load_u16(const uint8_t* p) {
    uint16_t v;
    std::memcpy(&v, p, 2);
    return v;
}

static inline uint32_t load_u32(const uint8_t* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
}

static inline float float_of_bits(uint32_t bits) {
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
}

static inline uint32_t bits_of_float(float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    return bits;
}

static inline float float_of_half(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16;
    const uint32_t magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00) return float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);  // inf, NaN
    // Subnormal halves come out right too: the product with 2^112 is exact.
    return float_of_bits(sign | bits_of_float(float_of_bits(magnitude << 13) * 0x1p112f));
}

static inline float float_of_bfloat(uint16_t b) { return float_of_bits(uint32_t(b) << 16); }

// MXFP4 stores the codes doubled here (so they are integers), hence 2^(e - 128) instead of 2^(e - 127).
static inline float mxfp4_scale(uint8_t e) { return float_of_bits(e < 2 ? 0x00200000u << e : uint32_t(e - 1) << 23); }

constexpr int8_t kMxfp4Codes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 6-bit scale and min number j (0..7) of Q4_K and Q5_K.
static inline int k_scale(const uint8_t* s, int j) {
    return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
}
static inline int k_min(const uint8_t* s, int j) { return j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4; }

// The seven stored sign bits of IQ2_XXS plus the eighth that makes the number of negatives even.
static constexpr uint8_t iq2_signs(unsigned seven) {
    const unsigned parity = (0x6996u >> ((seven ^ seven >> 4) & 15)) & 1;
    return uint8_t(seven | parity << 7);
}

constexpr uint8_t kIq2Magnitudes[4] = {8, 25, 43, 0};  // grid code 0, 1, 2 (3 never occurs)

// IQ2_XXS grid: weight i of the eight uses bits (2i, 2i+1) of an entry as its code.
constexpr uint16_t kIq2Grid[256] = {
    0x0000, 0x0002, 0x0005, 0x0008, 0x000a, 0x0011, 0x0014, 0x0020, 0x0022, 0x0028, 0x002a, 0x0041, 0x0044, 0x0050,
    0x0058, 0x0061, 0x0064, 0x0080, 0x0082, 0x008a, 0x00a2, 0x0101, 0x0104, 0x0110, 0x0115, 0x0140, 0x0184, 0x0198,
    0x0200, 0x0202, 0x0222, 0x0282, 0x0401, 0x0404, 0x0410, 0x0421, 0x0424, 0x0440, 0x0442, 0x0448, 0x0460, 0x0481,
    0x0484, 0x0490, 0x04a4, 0x0500, 0x0502, 0x0508, 0x0520, 0x0546, 0x0569, 0x0580, 0x0591, 0x0609, 0x0610, 0x0640,
    0x0684, 0x06a4, 0x0800, 0x0805, 0x0808, 0x0814, 0x0828, 0x0841, 0x0844, 0x0850, 0x0852, 0x0888, 0x0904, 0x0940,
    0x0a02, 0x0a14, 0x1001, 0x1004, 0x1010, 0x1021, 0x1040, 0x1060, 0x1084, 0x1090, 0x1095, 0x1100, 0x1108, 0x1120,
    0x1150, 0x115a, 0x1180, 0x1224, 0x1245, 0x1400, 0x1408, 0x1420, 0x1425, 0x1449, 0x1480, 0x1518, 0x1562, 0x1600,
    0x1616, 0x1801, 0x1804, 0x1810, 0x1840, 0x1881, 0x1900, 0x1905, 0x19a0, 0x1a51, 0x2000, 0x2002, 0x200a, 0x2044,
    0x2061, 0x2080, 0x2082, 0x2129, 0x2148, 0x2200, 0x2202, 0x2401, 0x2404, 0x2410, 0x2440, 0x2456, 0x2500, 0x2541,
    0x2564, 0x2690, 0x2808, 0x2820, 0x2894, 0x2a44, 0x4001, 0x4004, 0x4010, 0x4018, 0x4021, 0x4024, 0x4040, 0x4048,
    0x4056, 0x4060, 0x4081, 0x4084, 0x4090, 0x4100, 0x4120, 0x4161, 0x4180, 0x4185, 0x4201, 0x4210, 0x4248, 0x4256,
    0x4268, 0x4400, 0x4408, 0x4420, 0x4480, 0x4499, 0x4512, 0x4524, 0x4600, 0x4801, 0x4804, 0x4810, 0x4840, 0x4845,
    0x4900, 0x4958, 0x4961, 0x4982, 0x4a45, 0x4a90, 0x5000, 0x5008, 0x5011, 0x5019, 0x5020, 0x5080, 0x5088, 0x5104,
    0x5142, 0x51a4, 0x5291, 0x5490, 0x5492, 0x550a, 0x5601, 0x5654, 0x5800, 0x5811, 0x5819, 0x5864, 0x5940, 0x5a08,
    0x6004, 0x6010, 0x6040, 0x6068, 0x6100, 0x6155, 0x6218, 0x6260, 0x6400, 0x6405, 0x6510, 0x6512, 0x6584, 0x6842,
    0x8000, 0x8002, 0x800a, 0x8041, 0x8082, 0x8104, 0x8118, 0x8140, 0x8211, 0x8401, 0x8404, 0x8410, 0x8415, 0x8440,
    0x8460, 0x8500, 0x8546, 0x8594, 0x8609, 0x8640, 0x8660, 0x8802, 0x8904, 0x8a11, 0x9004, 0x9010, 0x9024, 0x9040,
    0x90a1, 0x9116, 0x9180, 0x9245, 0x9400, 0x9422, 0x9444, 0x9551, 0x9881, 0x9920, 0xa002, 0xa050, 0xa085, 0xa109,
    0xa200, 0xa418, 0xa850, 0xa904,
};

}  // namespace whitedwarf
