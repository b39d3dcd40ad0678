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

// ln(2), log2(e), log10(e), log10(2) and pi.
inline constexpr Words kLn2F32 = {0x1.62e4300000000p-1, -0x1.05c6100000000p-29};
inline constexpr Words kLn2F64 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr Words kLog2EF32 = {0x1.7154760000000p+0, 0x1.4ae0c00000000p-26};
inline constexpr Words kLog2EF64 = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
inline constexpr Words kLog10EF32 = {0x1.bcb7b20000000p-2, -0x1.5b235e0000000p-27};
inline constexpr Words kLog10EF64 = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
inline constexpr Words kLog10Of2F32 = {0x1.3441360000000p-2, -0x1.ec10c00000000p-27};
inline constexpr Words kLog10Of2F64 = {0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59};
inline constexpr Words kPiF32 = {0x1.921fb60000000p+1, -0x1.777a5c0000000p-24};
inline constexpr Words kPiF64 = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};

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

// (exp(r) - 1 - r) / r^2 for |r| <= ln(2); relative error of exp(r): 2^-26.0.
inline constexpr std::array<double, 6> kExpWideF32 = {
    0x1.00000c0000000p-1, 0x1.5555120000000p-3,  0x1.5549de0000000p-5,
    0x1.11272e0000000p-7, 0x1.71c4400000000p-10, 0x1.9baacc0000000p-13,
};

// (2^f - 1) / f for |f| <= 1/2; relative error of 2^f: 2^-28.0.
inline constexpr std::array<double, 6> kExp2F32 = {
    0x1.62e4300000000p-1, 0x1.ebfbd80000000p-3,  0x1.c6af740000000p-5,
    0x1.3b30960000000p-7, 0x1.5f0ca80000000p-10, 0x1.3fad5e0000000p-13,
};

// (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2; relative error of exp(r) - 1: 2^-26.0.
inline constexpr std::array<double, 5> kExpm1F32 = {
    0x1.fffffe0000000p-2, 0x1.5554aa0000000p-3, 0x1.5557100000000p-5, 0x1.122cbe0000000p-7, 0x1.6b80e20000000p-10,
};

// (tanh(r) - r) / r^3 in powers of r^2 for |r| <= 3/8 ln(2); relative error of tanh(r): 2^-27.8.
inline constexpr std::array<double, 3> kTanhF32 = {
    -0x1.5555020000000p-2,
    0x1.10d7620000000p-3,
    -0x1.a343ac0000000p-5,
};

// (log(1 + f) - f) / f^2 for sqrt(1/2) <= 1 + f <= sqrt(2); relative error of log(1 + f): 2^-27.8.
inline constexpr std::array<double, 9> kShortLogF32 = {
    -0x1.fffff80000000p-2, 0x1.5555500000000p-2,  -0x1.0004320000000p-2, 0x1.99a41a0000000p-3,  -0x1.5425b60000000p-3,
    0x1.226dde0000000p-3,  -0x1.0f40680000000p-3, 0x1.0862b00000000p-3,  -0x1.38479e0000000p-4,
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

// (sin(r) - r) / r^3 in powers of r^2 for |r| <= pi/2, evaluated in f64; relative error of sin(r): 2^-35.3.
inline constexpr std::array<double, 5> kSinF32 = {
    -0x1.555555471faf7p-3, 0x1.11110c35ecfc8p-7, -0x1.a017d2e18ab43p-13, 0x1.716f9d37cebb0p-19, -0x1.9a541ab5afe7ep-26,
};

// (tan(r) - r) / r^3 in powers of r^2 for |r| <= pi/4; relative error of tan(r): 2^-25.7.
inline constexpr std::array<double, 6> kTanF32 = {
    0x1.5554de0000000p-2, 0x1.112dde0000000p-3, 0x1.b5878e0000000p-5,
    0x1.905d040000000p-6, 0x1.97c16e0000000p-9, 0x1.33b4480000000p-7,
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

// (atan(t) - t) / t^3 in powers of t^2 for |t| <= tan(pi/8); relative error of atan(t): 2^-63.8.
inline constexpr std::array<double, 12> kAtanF64 = {
    -0x1.5555555555554p-2, 0x1.99999999995bfp-3, -0x1.24924924721bep-3, 0x1.c71c71b5f9222p-4,
    -0x1.745d14919c87dp-4, 0x1.3b136b1d32819p-4, -0x1.110c4af140319p-4, 0x1.e16f469adb94bp-5,
    -0x1.ab6da8afdc02ep-5, 0x1.70b28ddc87bb1p-5, -0x1.11ba2975588edp-5, 0x1.f0111d7181180p-7,
};

// erf(x)/x - 1 in powers of x^2 for |x| <= 1; relative error of erf(x): 2^-29.5.
inline constexpr std::array<double, 7> kErfF32 = {
    0x1.06eba80000000p-3, -0x1.8127400000000p-2,  0x1.ce2d500000000p-4,  -0x1.b7fe8e0000000p-6,
    0x1.542dee0000000p-8, -0x1.a5099e0000000p-11, 0x1.4c2f4c0000000p-14,
};

// The same for |x| <= 0.875: 2^-56.2.
inline constexpr std::array<double, 12> kErfF64 = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379ffp-2,  0x1.ce2f21a0437c7p-4,  -0x1.b82ce312b29f1p-6,
    0x1.565bcd134f6ffp-8,  -0x1.c02db4a3e4d67p-11, 0x1.f9a332022303ep-14, -0x1.f4d27e07dd5cep-17,
    0x1.b9dce58e14571p-20, -0x1.5e9c12d642fa4p-23, 0x1.ebf3824498be4p-27, -0x1.f4c6d8beb52afp-31,
};

// The fourth root of 1 - erf(x) in powers of x - 2 for 1 <= x <= 3.93; error of erf(x): 2^-26.6.
inline constexpr std::array<double, 9> kErfTailF32 = {
    0x1.0bcc800000000p-2,  -0x1.27cb600000000p-2, 0x1.9613700000000p-4,   0x1.c45e6a0000000p-8,   -0x1.915ece0000000p-7,
    0x1.91251a0000000p-10, 0x1.947b600000000p-11, -0x1.74704c0000000p-13, -0x1.69525a0000000p-16,
};

// -log(1 - erf(x)) in powers of x - 1 for 0.875 <= x <= 6; error of erf(x): 2^-59.0.
inline constexpr std::array<double, 21> kErfTailF64 = {
    0x1.d97fbf27aa2a1p+0,   0x1.51c9b0006c23dp+1,   0x1.afabc11a28f57p-1,   0x1.5477f09ca91c1p-5,
    -0x1.48c9d40c30d08p-7,  0x1.033f69978a4c4p-9,   -0x1.f1b4baedca7aap-13, -0x1.b8be99c4af0a4p-16,
    0x1.c75ae7565eddcp-16,  -0x1.415f3a6c55654p-17, 0x1.0ef76ce79f452p-19,  -0x1.b8184a1f55a30p-24,
    -0x1.128676255118cp-23, 0x1.297f8b0c04edep-24,  -0x1.7f26d05561cb2p-26, 0x1.66e451e1fe753p-28,
    -0x1.f6e5ea78022fbp-31, 0x1.01921846416d6p-33,  -0x1.6b16b1711fe45p-37, 0x1.3833b6590562cp-41,
    -0x1.e7652a5f2a529p-47,
};

// (1 + 2 x) exp(x^2) erfc(x) in powers of (x - 2) / (x + 2) for 1/4 <= x <= 28; relative error: 2^-53.7.
inline constexpr std::array<double, 26> kErfcF64 = {
    0x1.46e80e2277953p+0,   -0x1.7bf5ec170062bp-4,  -0x1.5407bebf3222cp-3,  0x1.4ffa1e14e2570p-3,
    -0x1.bc2b9561b26abp-5,  -0x1.07423404141a7p-7,  0x1.1dd2ec99db08bp-7,   0x1.4d461cde1934fp-10,
    -0x1.7de524ab18e30p-10, -0x1.dc692296c2846p-12, 0x1.b0c971303b83fp-13,  0x1.3cbfa957ab7e2p-13,
    -0x1.9790bf57473fbp-20, -0x1.31774fa4d22b3p-15, -0x1.c3c610f51cdfcp-17, 0x1.ed9815b710e1ep-19,
    0x1.5a0d48e5f0d17p-18,  0x1.aa2bae4fd1ea1p-20,  -0x1.3d5e546a2f6f5p-21, -0x1.06256b906576ep-20,
    -0x1.888b221aa96a3p-22, 0x1.3a73711ce059bp-22,  0x1.d79b4db03928cp-23,  -0x1.376f753492d71p-24,
    -0x1.85c5f4d74ecb6p-25, 0x1.fff4d5880129cp-27,
};

// log(gamma(x)) / ((x - 1) (x - 2)) in powers of x - 3/2 for 1 <= x <= 2; relative error: 2^-54.7.
inline constexpr std::array<double, 22> kLogGammaF64 = {
    0x1.eeb95b094c191p-2,  -0x1.2aed059bd608ap-3,  0x1.01af62a292b2fp-4,  -0x1.007aa83cee263p-5,
    0x1.1334235260190p-6,  -0x1.34dbda1482d1ap-7,  0x1.64f0665f8e022p-8,  -0x1.a5035240e9a1cp-9,
    0x1.f814b4259f11bp-10, -0x1.313e87a1bff4fp-10, 0x1.750b24eec0757p-11, -0x1.cb456e462600bp-12,
    0x1.1c7331f621eaap-12, -0x1.62358f2ad6d9ap-13, 0x1.bac901dd51ce0p-14, -0x1.15cfbf5ff9036p-14,
    0x1.6342c78835456p-15, -0x1.c341d7cecd8d2p-16, 0x1.e2debe7162083p-17, -0x1.2acdfb77eb629p-17,
    0x1.788b281787bcdp-17, -0x1.ec55896e8938ep-18,
};

// x times what Stirling's formula lacks of log(gamma(x)), in powers of 1 / x^2 for x >= 8; error: 2^-57.6.
inline constexpr std::array<double, 8> kStirlingF64 = {
    0x1.5555555555555p-4,  -0x1.6c16c16c107e3p-9,  0x1.a01a015bdfb5ep-11, -0x1.38132efd60fe8p-11,
    0x1.b91eafc1492fbp-11, -0x1.ee057b68e3476p-10, 0x1.41c9e20eef93bp-8,  0x1.53e24f95c3e1bp-10,
};

// x^2 (log(x) - 1 / (2 x) - digamma(x)) in powers of 1 / x^2 for x >= 8; error: 2^-57.6.
inline constexpr std::array<double, 9> kDigammaF64 = {
    0x1.5555555555555p-4,  -0x1.111111110f0f9p-7, 0x1.041040f5f802fp-8,  -0x1.1110facd9d176p-8, 0x1.f0696e36b8959p-8,
    -0x1.57599c803a4f0p-6, 0x1.2e0f98819cb4cp-4,  -0x1.3da6e70915be5p-4, -0x1.9eb014f73d37fp+1,
};

// erfinv(x)/x in powers of w - 5/2 for w = -log(1 - x^2) <= 5, where it is a first guess; relative error: 2^-30.6.
inline constexpr std::array<double, 12> kErfInvF64 = {
    0x1.805c5cff93590p+0,  0x1.f91e8995e5bb0p-3,   -0x1.11c3e1de7ad1ap-8,  -0x1.4863d1ece86dfp-10,
    0x1.c9bb8a876732dp-13, -0x1.4f43b6d892f57p-18, -0x1.cbda2b8e10ae8p-19, 0x1.00f5bca840f05p-21,
    0x1.1b366fad67cd2p-26, -0x1.74d70e7440d70p-27, 0x1.de92960a6984fp-32,  0x1.0e1891cad0252p-33,
};

// The same in powers of sqrt(w) - 4 for 5 <= w <= 37: 2^-20.7.
inline constexpr std::array<double, 12> kErfInvTailF64 = {
    0x1.eb7e0c08137d4p+1,  0x1.026e4b47beb8fp+0,   0x1.485681a0ef1ecp-10,  -0x1.ce7f0bcccc734p-11,
    0x1.6b6d8fbf3d620p-12, -0x1.98dd18278d03bp-14, 0x1.732df0ead8672p-16,  -0x1.692260fdf31d9p-15,
    0x1.4440cb38ed700p-15, -0x1.237f6f6bb01bep-17, -0x1.2803d49ab20a4p-19, 0x1.b4445e36fbde7p-21,
};

// I0(x)/x^0 in powers of x^2 for |x| <= 8; relative error: 2^-65.5.
inline constexpr std::array<double, 18> kBesselI0F64 = {
    0x1.0000000000000p+0,   0x1.0000000000000p-2,   0x1.0000000000000p-6,   0x1.c71c71c71c71cp-12,
    0x1.c71c71c71c733p-18,  0x1.23456789abb03p-24,  0x1.02e85c089b76ep-31,  0x1.522a43f602038p-39,
    0x1.522a43fce2da3p-47,  0x1.0b31322bd0cc8p-55,  0x1.56018fef71c20p-64,  0x1.69ca2ba525453p-73,
    0x1.419c74031b0afp-82,  0x1.e6db693f8f799p-92,  0x1.3fa7e1a816e2cp-101, 0x1.5ffa992227642p-111,
    0x1.89cdb0a2f1373p-121, 0x1.4d3422a9fe81dp-131,
};

// sqrt(x) exp(-x) I0(x) in powers of 16 / x - 1 for x >= 8; relative error: 2^-53.8.
inline constexpr std::array<double, 24> kBesselI0TailF64 = {
    0x1.9bd428ad249a5p-2,   0x1.b87969bb93b84p-9,  0x1.1daa72b5c2a61p-13,  0x1.75e5ee71a133cp-17,
    0x1.8e513cdcfa6a9p-20,  0x1.3f49a7aa16f3ap-22, 0x1.7d0c8aca35f3cp-24,  0x1.51ce824f6efe9p-25,
    0x1.728ee8e769426p-26,  0x1.0392089006312p-27, -0x1.d78b47a4cd99fp-28, -0x1.ccb2fbecc5dffp-27,
    -0x1.57f6c823f5a72p-28, 0x1.036e9cb6bbab1p-27, 0x1.bef2e6daaf6a4p-28,  -0x1.e15b6b54b6449p-29,
    -0x1.361d7d01951a0p-28, 0x1.a0b833720ed4ep-30, 0x1.27e2289dbddd9p-29,  -0x1.38a980b81f68ap-31,
    -0x1.62fb20c1eb627p-31, 0x1.4d7aca8584426p-33, 0x1.8e670f77fd358p-34,  -0x1.60edc73d6f309p-36,
};

// I1(x)/x^1 in powers of x^2 for |x| <= 8; relative error: 2^-63.4.
inline constexpr std::array<double, 18> kBesselI1F64 = {
    0x1.0000000000000p-1,    0x1.0000000000000p-4,   0x1.5555555555555p-9,   0x1.c71c71c71c733p-15,
    0x1.6c16c16c169acp-21,   0x1.845c8a0ce9a46p-28,  0x1.27e4fb7733249p-35,  0x1.522a43ff06dffp-43,
    0x1.2c97583db7420p-51,   0x1.ab81fa8dc919bp-60,  0x1.f1756181be545p-69,  0x1.e274cabd873dap-78,
    0x1.8b17dd9001febp-87,   0x1.1bd7e98d55227p-96,  0x1.17d0f2f96761bp-106, 0x1.8e264606d8452p-115,
    -0x1.88544c81b11a9p-124, 0x1.02e8705543987p-132,
};

// sqrt(x) exp(-x) I1(x) in powers of 16 / x - 1 for x >= 8; relative error: 2^-54.9.
inline constexpr std::array<double, 24> kBesselI1TailF64 = {
    0x1.8ebe783a84030p-2,   -0x1.3f796198ee62fp-7,  -0x1.cbc54df1e0504p-13, -0x1.f89c2305dbcf0p-17,
    -0x1.ec8e11b468e9ep-20, -0x1.7613803a501fbp-22, -0x1.ad8b9d56b2675p-24, -0x1.7279c7ab9497ep-25,
    -0x1.91d685c68a13dp-26, -0x1.219b0b6de1f50p-27, 0x1.d55d1ea4e1280p-28,  0x1.e255b69d50544p-27,
    0x1.822b909305426p-28,  -0x1.06e93f1173554p-27, -0x1.e30174ca871d8p-28, 0x1.d91a20fdb10a6p-29,
    0x1.4e0615f65d0ebp-28,  -0x1.90697e3c8f392p-30, -0x1.40874e74c1b18p-29, 0x1.2a130c8550aadp-31,
    0x1.83fff13aae2cbp-31,  -0x1.3f3f56999992fp-33, -0x1.b7aae852c60a2p-34, 0x1.5539a49bca6a9p-36,
};

}  // namespace shoal::scalar
