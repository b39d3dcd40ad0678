// Polynomials and constants of the scalar functions. Written by tools/coefficients/generate.py: do not edit.
//
// Coefficients are listed from the lowest power. The errors are those of the polynomials, before rounding.
#pragma once

#include <array>

namespace shoal::scalar {

/// A constant to twice the precision of a float type: the sum of two floats.
struct Words {
  double high;
  double low;
};

// ln(2) and log2(e).
inline constexpr Words kLn2F32 = {0x1.62e4300000000p-1, -0x1.05c6100000000p-29};
inline constexpr Words kLn2F64 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr Words kLog2EF32 = {0x1.7154760000000p+0, 0x1.4ae0c00000000p-26};
inline constexpr Words kLog2EF64 = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};

// 2/3, for the logarithm to twice the precision of f64.
inline constexpr Words kTwoThirdsF64 = {0x1.5555555555555p-1, 0x1.5555555555555p-55};

// (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2; relative error of exp(r) - 1: 2^-30.9.
inline constexpr std::array<double, 6> kExpF32 = {
    0x1.0000000000000p-1, 0x1.5555540000000p-3,  0x1.5554ec0000000p-5,
    0x1.1112fc0000000p-7, 0x1.6d49500000000p-10, 0x1.9e2a520000000p-13,
};

// The same: 2^-61.5.
inline constexpr std::array<double, 11> kExpF64 = {
    0x1.0000000000000p-1,  0x1.5555555555559p-3,  0x1.555555555554bp-5,  0x1.111111110f5b4p-7,
    0x1.6c16c16c1b9c4p-10, 0x1.a01a01b071fc5p-13, 0x1.a01a01899c82dp-16, 0x1.71ddf69ac317ap-19,
    0x1.27e51bc4ef828p-22, 0x1.af6240172ba9cp-26, 0x1.1f0f0473d5263p-29,
};

// (log(1 + f) - f + f^2/2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2); relative error of log(1 + f): 2^-30.3.
inline constexpr std::array<double, 9> kLogF32 = {
    0x1.5555480000000p-2,  -0x1.0000080000000p-2, 0x1.99a47a0000000p-3,  -0x1.555b900000000p-3, 0x1.233ab60000000p-3,
    -0x1.fc3cf80000000p-4, 0x1.e6e0880000000p-4,  -0x1.dda48a0000000p-4, 0x1.13c4600000000p-4,
};

// (2 atanh(s) - 2 s) / s^3 in powers of s^2, for s = f / (2 + f), the same f; relative error of 2 atanh(s): 2^-59.5.
inline constexpr std::array<double, 7> kLogF64 = {
    0x1.5555555555592p-1, 0x1.999999997ff58p-2, 0x1.24924941dc60dp-2, 0x1.c71c5218e11f5p-3,
    0x1.74663bf27dcf1p-3, 0x1.39a2024d18ee6p-3, 0x1.2f02bc1b2f46ap-3,
};

// (2 atanh(s) - 2 s - 2/3 s^3) / s^5 in powers of s^2, for the same s; relative error of 2 atanh(s): 2^-73.5.
inline constexpr std::array<double, 8> kLogTailF64 = {
    0x1.9999999999996p-2, 0x1.2492492492f4bp-2, 0x1.c71c71c59796ap-3, 0x1.745d1828c79ebp-3,
    0x1.3b1364f1016b5p-3, 0x1.1120692f23e3ep-3, 0x1.de3e606607dcfp-4, 0x1.eabe236a092aep-4,
};

// (sin(r) - r) / r^3 in powers of r^2 for |r| <= pi/4, evaluated in f64; relative error of sin(r): 2^-37.5.
inline constexpr std::array<double, 4> kSinF32 = {
    -0x1.5555554c6ffcdp-3,
    0x1.111108690c18bp-7,
    -0x1.a00f7e14e9002p-13,
    0x1.6cd1b0a10550dp-19,
};

// (cos(r) - 1) / r^2 in powers of r^2 for |r| <= pi/4, evaluated in f64; relative error of cos(r): 2^-33.9.
inline constexpr std::array<double, 4> kCosF32 = {
    -0x1.ffffffcb77e13p-2,
    0x1.55553c74b396cp-5,
    -0x1.6c07efdecc6d6p-10,
    0x1.991642e158977p-16,
};

// (sin(r) - r) / r^3 in powers of r^2 for |r| <= pi/4; relative error of sin(r): 2^-62.9.
inline constexpr std::array<double, 7> kSinF64 = {
    -0x1.5555555555555p-3,  0x1.111111111108bp-7,  -0x1.a01a01a006d90p-13, 0x1.71de3a401a72fp-19,
    -0x1.ae643d45c1e4ep-26, 0x1.6114a777b2a59p-33, -0x1.a55d96d9d8180p-41,
};

// (cos(r) - 1 + r^2/2) / r^4 in powers of r^2 for |r| <= pi/4; relative error of cos(r): 2^-63.9.
inline constexpr std::array<double, 6> kCosF64 = {
    0x1.555555555554bp-5,   -0x1.6c16c16c15017p-10, 0x1.a01a019c8f66bp-16,
    -0x1.27e4f7f1c1053p-22, 0x1.1ee9dbec6ff56p-29,  -0x1.8fa691710c108p-37,
};

// erf(x)/x - 1 in powers of x^2 for |x| <= 0.875; relative error of erf(x): 2^-29.9.
inline constexpr std::array<double, 7> kErfF32 = {
    0x1.06eba80000000p-3, -0x1.8127440000000p-2,  0x1.ce2e760000000p-4,  -0x1.b819660000000p-6,
    0x1.553cac0000000p-8, -0x1.aea8580000000p-11, 0x1.6c9d360000000p-14,
};

// The same: 2^-56.2.
inline constexpr std::array<double, 12> kErfF64 = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379ffp-2,  0x1.ce2f21a0437c7p-4,  -0x1.b82ce312b29f1p-6,
    0x1.565bcd134f6ffp-8,  -0x1.c02db4a3e4d67p-11, 0x1.f9a332022303ep-14, -0x1.f4d27e07dd5cep-17,
    0x1.b9dce58e14571p-20, -0x1.5e9c12d642fa4p-23, 0x1.ebf3824498be4p-27, -0x1.f4c6d8beb52afp-31,
};

// -log(1 - erf(x)) in powers of x - 1 for 0.875 <= x <= 4; error of erf(x): 2^-26.9.
inline constexpr std::array<double, 9> kErfTailF32 = {
    0x1.d97fc00000000p+0,  0x1.51c9b20000000p+1,   0x1.afab400000000p-1,   0x1.546fb20000000p-5,  -0x1.4625180000000p-7,
    0x1.d2d2e80000000p-10, -0x1.8722780000000p-15, -0x1.8bba4a0000000p-14, 0x1.5990e20000000p-16,
};

// The same for 0.875 <= x <= 6: 2^-59.0.
inline constexpr std::array<double, 21> kErfTailF64 = {
    0x1.d97fbf27aa2a1p+0,   0x1.51c9b0006c23dp+1,   0x1.afabc11a28f57p-1,   0x1.5477f09ca91c1p-5,
    -0x1.48c9d40c30d08p-7,  0x1.033f69978a4c4p-9,   -0x1.f1b4baedca7aap-13, -0x1.b8be99c4af0a4p-16,
    0x1.c75ae7565eddcp-16,  -0x1.415f3a6c55654p-17, 0x1.0ef76ce79f452p-19,  -0x1.b8184a1f55a30p-24,
    -0x1.128676255118cp-23, 0x1.297f8b0c04edep-24,  -0x1.7f26d05561cb2p-26, 0x1.66e451e1fe753p-28,
    -0x1.f6e5ea78022fbp-31, 0x1.01921846416d6p-33,  -0x1.6b16b1711fe45p-37, 0x1.3833b6590562cp-41,
    -0x1.e7652a5f2a529p-47,
};

}  // namespace shoal::scalar
