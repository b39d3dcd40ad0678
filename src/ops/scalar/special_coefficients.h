// Polynomials of the special functions. Written by tools/coefficients/special.py: do not edit.
//
// Coefficients are listed from the lowest power. The errors are those of the polynomials with these coefficients.
#pragma once

#include <array>

namespace shoal::scalar {

// (atan(t) - t) / t^3 in powers of t^2 for |t| <= 1; relative error of atan(t): 2^-28.2.
inline constexpr std::array<double, 9> kAtanF32 = {
    -0x1.55553a0000000p-2, 0x1.9991000000000p-3,  -0x1.24177a0000000p-3, 0x1.c0317c0000000p-4,   -0x1.5709aa0000000p-4,
    0x1.d6ddb00000000p-5,  -0x1.f721b60000000p-6, 0x1.5d85580000000p-7,  -0x1.c7d8740000000p-10,
};

// (asin(t) - t) / t^3 in powers of t^2 for |t| <= 1/2; relative error of asin(t): 2^-27.6.
inline constexpr std::array<double, 5> kAsinF32 = {
    0x1.5555c80000000p-3, 0x1.33023e0000000p-4, 0x1.74735e0000000p-5, 0x1.8c9e260000000p-6, 0x1.5905380000000p-5,
};

// (1 + 2 x) exp(x^2) erfc(x) in powers of (x - 2) / (x + 2) for x >= 0; relative error: 2^-26.8.
inline constexpr std::array<double, 13> kErfcxF32 = {
    0x1.46e80e0000000p+0,   -0x1.7bf5da0000000p-4,  -0x1.5407a00000000p-3, 0x1.4ff91e0000000p-3,
    -0x1.bc2fa20000000p-5,  -0x1.06bfe20000000p-7,  0x1.1e11b00000000p-7,  0x1.3ed6ec0000000p-10,
    -0x1.8223e20000000p-10, -0x1.7619240000000p-12, 0x1.df3ee20000000p-13, 0x1.0803860000000p-14,
    -0x1.76cd840000000p-16,
};

// (1 + 2 x) exp(x^2) erfc(x) in powers of (x - 2) / (x + 2) for x >= 0; relative error: 2^-53.7.
inline constexpr std::array<double, 30> kErfcxF64 = {
    0x1.46e80e2277953p+0,   -0x1.7bf5ec1700631p-4,  -0x1.5407bebf32279p-3,  0x1.4ffa1e14e2775p-3,
    -0x1.bc2b9561aba6dp-5,  -0x1.074234047cf61p-7,  0x1.1dd2ec968d41ep-7,   0x1.4d461d2d4201cp-10,
    -0x1.7de52310d94a9p-10, -0x1.dc69335506ceep-12, 0x1.b0c8fe57ee758p-13,  0x1.3cc0c1c85cc3cp-13,
    -0x1.9650a075a9acap-20, -0x1.318f54c0afeacp-15, -0x1.c455b54b61f3dp-17, 0x1.f325ab7f37a49p-19,
    0x1.5ca58095c9254p-18,  0x1.8e23c903fd5b6p-20,  -0x1.5adf161ee0d76p-21, -0x1.ac6ca590624c7p-21,
    -0x1.5d4af7b13e9e6p-22, 0x1.8a6c519c0f496p-24,  0x1.d4e0886206530p-23,  0x1.224a3f1dd790bp-24,
    -0x1.184bc0f38cd77p-24, -0x1.4d06f22f6f5f5p-25, 0x1.78e7c121578dbp-27,  0x1.3d4f8405b6232p-27,
    -0x1.d9f5f19c5fe87p-31, -0x1.f988625e7ab99p-31,
};

// log(gamma(x)) / ((x - 1) (x - 2)) in powers of x - 7/4 for 1 <= x <= 5/2; relative error: 2^-27.7.
inline constexpr std::array<double, 12> kLogGammaF32 = {
    0x1.ccf1520000000p-2,  -0x1.e965860000000p-4,  0x1.6cb6380000000p-5,  -0x1.382e5a0000000p-6,
    0x1.1f865a0000000p-7,  -0x1.14e1800000000p-8,  0x1.14df020000000p-9,  -0x1.18b94a0000000p-10,
    0x1.fb105c0000000p-12, -0x1.0444900000000p-12, 0x1.fbb88e0000000p-13, -0x1.105e1a0000000p-13,
};

// x times what Stirling's formula lacks of log(gamma(x)), in powers of 1 / x^2 for x >= 5/2; error: 2^-28.6.
inline constexpr std::array<double, 5> kStirlingF32 = {
    0x1.5555560000000p-4, -0x1.6c1c920000000p-9, 0x1.a16ae60000000p-11, -0x1.34fe060000000p-11, 0x1.1a47c80000000p-11,
};

// x^2 (log(x) - 1 / (2 x) - digamma(x)) in powers of 1 / x^2 for x >= 4; error: 2^-28.6.
inline constexpr std::array<double, 4> kDigammaF32 = {
    0x1.5555560000000p-4,
    -0x1.11119a0000000p-7,
    0x1.0313580000000p-8,
    -0x1.ccfb1a0000000p-9,
};

// erfinv(x)/x in powers of w - 5/2 for w = -log(1 - x^2) <= 5; relative error: 2^-24.6.
inline constexpr std::array<double, 11> kErfInvF32 = {
    0x1.805c5e0000000p+0,  0x1.f91e8c0000000p-3,   -0x1.11c70c0000000p-8,  -0x1.4867180000000p-10,
    0x1.ca157e0000000p-13, -0x1.4c905e0000000p-18, -0x1.d4062c0000000p-19, 0x1.f2e49c0000000p-22,
    0x1.c1c15e0000000p-26, -0x1.2a7bea0000000p-27, -0x1.1655420000000p-33,
};

// The same in powers of sqrt(w) - 3.2 from 2.2 to 4.2: 2^-25.0.
inline constexpr std::array<double, 10> kErfInvTailF32 = {
    0x1.844e340000000p+1,  0x1.01338a0000000p+0,  0x1.879eea0000000p-8,   -0x1.199b3e0000000p-8,  0x1.7f8dac0000000p-9,
    -0x1.03f7e40000000p-9, 0x1.2f1f7a0000000p-10, -0x1.85aa760000000p-12, -0x1.e0da300000000p-14, 0x1.bad97a0000000p-14,
};

// The same in powers of sqrt(w) - 7.3 from 4.2 to 10.4: 2^-24.8.
inline constexpr std::array<double, 10> kErfcInvTailF32 = {
    0x1.cafab80000000p+2,  0x1.021f500000000p+0,   -0x1.088dda0000000p-11, 0x1.9cd4980000000p-17,
    0x1.1d7bc80000000p-18, -0x1.3b65060000000p-20, 0x1.643e920000000p-23,  -0x1.0051400000000p-25,
    0x1.6d536c0000000p-27, -0x1.a04cca0000000p-30,
};

// erfinv(x)/x in powers of w - 5/2 for w <= 5; relative error: 2^-54.4.
inline constexpr std::array<double, 23> kErfInvNearF64 = {
    0x1.805c5cfcedef5p+0,   0x1.f91e8993f0d14p-3,   -0x1.11c3c302e024ep-8,  -0x1.4863cdfb61720p-10,
    0x1.c9b437ed4bf0ep-13,  -0x1.4f47fe72f65f2p-18, -0x1.ca9227da9e3cfp-19, 0x1.01037e37eebadp-21,
    0x1.ccff84a7784cbp-27,  -0x1.752fda45da5d6p-27, 0x1.f2caf9795cb68p-31,  0x1.0704c21664c56p-33,
    -0x1.1190dcaf34708p-35, 0x1.0094dfd82b833p-40,  0x1.2d3cc2133efb7p-41,  -0x1.56d6e80f92e8bp-44,
    -0x1.91b024d015b17p-49, 0x1.115456deb027cp-49,  -0x1.5320dda7779bcp-53, -0x1.eebe4f6b1f5fdp-56,
    0x1.9b449373acee7p-58,  0x1.91057978c812bp-63,  -0x1.9c228bfdd9113p-64,
};

// The same in powers of sqrt(w) - 3.2 from 2.2 to 4.2: 2^-53.1.
inline constexpr std::array<double, 23> kErfInvMiddleF64 = {
    0x1.844e340984c08p+1,   0x1.0133861c5d978p+0,   0x1.877527b861f4ap-8,   -0x1.196c225ee74a8p-8,
    0x1.82c51948fdd2ap-9,   -0x1.053a668da2f51p-9,  0x1.1ab5d0c9987edp-10,  -0x1.772625e3b7cafp-12,
    -0x1.9ba0e3e5e3d5cp-17, 0x1.886e104c5a941p-14,  -0x1.c1237c1ad5941p-15, 0x1.4acd3012d1513p-17,
    0x1.8957b97118f99p-18,  -0x1.4fdf67cec883ep-18, 0x1.7ad8b098b2085p-20,  0x1.b928f2aa04363p-23,
    -0x1.7bba2959ed99bp-22, 0x1.47de9d3b64e3bp-23,  -0x1.bcdb19c358388p-27, -0x1.ea8025de6367cp-26,
    0x1.de7a64105d7cep-27,  0x1.67b880faf1c8dp-30,  -0x1.c268a7438d86dp-30,
};

// The same in powers of sqrt(w) - 5.2 from 4.2 to 6.2: 2^-53.7.
inline constexpr std::array<double, 19> kErfInvFarF64 = {
    0x1.43534d4583a9fp+2,  0x1.029ddf9407e80p+0,   -0x1.0729714b83137p-12, -0x1.528d5ca60338ap-13,
    0x1.ed08f74540c0ep-15, -0x1.f71ae10efd2a3p-17, 0x1.c24796cec56ddp-19,  -0x1.7915cd4344d48p-21,
    0x1.365e3fb7337c6p-23, -0x1.179013b97d49ap-25, 0x1.5499ec475a0acp-27,  -0x1.2d18adba0768dp-28,
    0x1.3119cadb803a8p-29, -0x1.2e96bf6082e91p-30, 0x1.214ff811eef82p-31,  -0x1.bedb130fd0de1p-33,
    0x1.5ca4c394d899bp-35, 0x1.715997c76667ap-41,  -0x1.a33e5c22b86a2p-42,
};

// The same in powers of sqrt(w) - 10.1 from 6.2 to 14: 2^-54.1.
inline constexpr std::array<double, 21> kErfcInvNearF64 = {
    0x1.3fb7ee8ba7084p+3,   0x1.0182ad1638965p+0,   -0x1.68fd8227c66c1p-12, 0x1.33b5039823f5fp-16,
    -0x1.608e86a0be870p-21, -0x1.b6d42637e737bp-26, 0x1.523247feb706dp-27,  -0x1.b1388badf8051p-30,
    0x1.c4d2fb0f44497p-33,  -0x1.af6d1f45964b9p-36, 0x1.85a7d17ad2852p-39,  -0x1.54369fea808dap-42,
    0x1.21c99d9bc3a39p-45,  -0x1.dce88179c5c8ep-49, 0x1.825d6909e279bp-52,  -0x1.5cfeed5521753p-55,
    0x1.2a2a90e8841dap-58,  -0x1.d134e670e6e13p-63, 0x1.bca437970bb88p-67,  -0x1.0cfbe04d9e9d1p-67,
    0x1.da54a0c114052p-71,
};

// The same in powers of sqrt(w) - 20.7 from 14 to 27.4: 2^-53.2.
inline constexpr std::array<double, 18> kErfcInvFarF64 = {
    0x1.4a13169951c94p+4,   0x1.0092778b7de43p+0,   -0x1.4f5fa91cd40d6p-14, 0x1.8db2f4338ebcap-19,
    -0x1.db166ed7eecdap-24, 0x1.18fb0d4b4070ap-28,  -0x1.43797fb1bfea9p-33, 0x1.616f80c28c5f8p-38,
    -0x1.5c8d0703816aep-43, 0x1.0c0a0a7148e17p-48,  -0x1.52c1bc0925ea5p-56, -0x1.c85ef1087d184p-58,
    0x1.8136d53aefaa6p-61,  -0x1.b06d48837d0b1p-65, 0x1.25e3566b51adbp-69,  -0x1.12255b3eb54b4p-73,
    0x1.3fb360fc2f7a8p-76,  -0x1.1856e33f2a736p-80,
};

// I0(x)/x^0 in powers of x^2 for |x| <= 8; relative error: 2^-26.6.
inline constexpr std::array<double, 10> kBesselI0F32 = {
    0x1.0000000000000p+0,  0x1.0000020000000p-2,  0x1.ffffb20000000p-7,  0x1.c71ff00000000p-12, 0x1.c6f90e0000000p-18,
    0x1.2401380000000p-24, 0x1.fcf7ea0000000p-32, 0x1.7151a00000000p-39, 0x1.a9fc860000000p-48, 0x1.05dd980000000p-54,
};

// sqrt(x) exp(-x) I0(x) in powers of 16 / x - 1 for x >= 8; relative error: 2^-25.2.
inline constexpr std::array<double, 7> kBesselI0TailF32 = {
    0x1.9bd4280000000p-2,  0x1.b8798a0000000p-9,  0x1.1dd6300000000p-13, 0x1.74db8a0000000p-17,
    0x1.6119760000000p-20, 0x1.8581d20000000p-22, 0x1.ae92f80000000p-23,
};

// I1(x)/x^1 in powers of x^2 for |x| <= 8; relative error: 2^-28.3.
inline constexpr std::array<double, 10> kBesselI1F32 = {
    0x1.0000000000000p-1,  0x1.0000000000000p-4,  0x1.55554a0000000p-9,  0x1.c71dba0000000p-15, 0x1.6c09160000000p-21,
    0x1.84ede80000000p-28, 0x1.2484d60000000p-35, 0x1.697ea60000000p-43, 0x1.a12cb80000000p-52, 0x1.8f8ffc0000000p-59,
};

// sqrt(x) exp(-x) I1(x) in powers of 16 / x - 1 for x >= 8; relative error: 2^-26.7.
inline constexpr std::array<double, 7> kBesselI1TailF32 = {
    0x1.8ebe780000000p-2,   -0x1.3f796a0000000p-7,  -0x1.cbb75a0000000p-13, -0x1.f77a580000000p-17,
    -0x1.f8b5e60000000p-20, -0x1.c36f4e0000000p-22, -0x1.89b0f40000000p-24,
};

// dawson(x)/x in powers of x^2 for |x| <= 1.2; relative error: 2^-27.7.
inline constexpr std::array<double, 8> kDawsonNearF32 = {
    0x1.0000000000000p+0, -0x1.55554e0000000p-1, 0x1.1110280000000p-2,  -0x1.37ff380000000p-4,
    0x1.148a9c0000000p-6, -0x1.89414a0000000p-9, 0x1.ab30480000000p-12, -0x1.0c15840000000p-15,
};

// x dawson(x) in powers of x - 2.2 for 1.2 <= x <= 3.2; relative error: 2^-26.0.
inline constexpr std::array<double, 14> kDawsonMiddleF32 = {
    0x1.29f1e60000000p-1,  -0x1.89066a0000000p-4,  0x1.8312de0000000p-5,   0x1.b4adea0000000p-6,
    -0x1.f2377a0000000p-5, 0x1.494c700000000p-5,   -0x1.5244240000000p-8,  -0x1.4d817a0000000p-7,
    0x1.d208b40000000p-8,  -0x1.cbdf660000000p-11, -0x1.4a23540000000p-10, 0x1.3ff9e40000000p-11,
    0x1.db879c0000000p-15, -0x1.4417460000000p-14,
};

// 2 x dawson(x) in powers of 1 / x^2 for x >= 3.2; relative error: 2^-27.7.
inline constexpr std::array<double, 11> kDawsonFarF32 = {
    0x1.0000000000000p+0,  0x1.fffffc0000000p-2,   0x1.8029920000000p-1,  0x1.c53d600000000p+0,
    0x1.39552c0000000p+4,  -0x1.8945220000000p+9,  0x1.c30a3c0000000p+14, -0x1.1de0120000000p+19,
    0x1.a01e640000000p+22, -0x1.361d8a0000000p+25, 0x1.6bc87a0000000p+26,
};

// dawson(x)/x in powers of x^2 for |x| <= 1; relative error: 2^-61.9.
inline constexpr std::array<double, 14> kDawsonNearF64 = {
    0x1.0000000000000p+0,  -0x1.5555555555555p-1,  0x1.11111111110eep-2,  -0x1.3813813812cffp-4,
    0x1.1566abbff3777p-6,  -0x1.937e1111335f4p-9,  0x1.f09b27e2a5d50p-12, -0x1.08db3ec253600p-14,
    0x1.f28c5b99aea76p-18, -0x1.a3c523a9fd5ddp-21, 0x1.3f507ad079777p-24, -0x1.b6427bd286d7bp-28,
    0x1.014001cc79b6fp-31, -0x1.8ccc055920043p-36,
};

// x dawson(x) in powers of x - 2 for 1 <= x <= 3; relative error: 2^-53.6.
inline constexpr std::array<double, 25> kDawsonMiddleF64 = {
    0x1.3492932d91017p-1,   -0x1.c00818fbdc2a1p-4,  0x1.b737f8f542628p-7,   0x1.76d41a2851abdp-4,
    -0x1.9b6e199218cfbp-4,  0x1.1b75a85ae8aa9p-5,   0x1.18578cb51f27ep-6,   -0x1.5d2b2226b3672p-6,
    0x1.79f235bf103c8p-8,   0x1.6a628573a6536p-9,   -0x1.38ee141c83d56p-9,  0x1.4a86cc00160b2p-12,
    0x1.58fecc4cde666p-12,  -0x1.427bc9d8afe4dp-13, -0x1.c072fbb82095dp-18, 0x1.8e8133e2339c0p-16,
    -0x1.52b68f3030173p-18, -0x1.df834ef27443dp-20, 0x1.09ea0330b5633p-20,  -0x1.71a05fce61145p-28,
    -0x1.ba1efa1bbed70p-24, 0x1.27d762cc17653p-26,  0x1.bbe05c5164cdbp-28,  -0x1.c0c2ed1f326c1p-30,
    -0x1.b5d896fbe807ep-33,
};

// x dawson(x) in powers of x - 4 for 3 <= x <= 5; relative error: 2^-54.1.
inline constexpr std::array<double, 23> kDawsonLateF64 = {
    0x1.08e79ad8e4939p-1,   -0x1.40bc043adde07p-7,  0x1.1e4548f25ac3ep-8,   -0x1.e7ad92ecdd9e0p-10,
    0x1.a7ef715225b0ap-11,  -0x1.7d3cab2c7b75dp-12, 0x1.5255dfd6bd0f9p-13,  -0x1.0905adb74f83dp-14,
    0x1.1ec02b10fb5a6p-16,  0x1.443f14ed8f3f1p-21,  -0x1.1f50d14120d48p-18, 0x1.91b3be5cfc725p-19,
    -0x1.46a0f19990e48p-20, 0x1.0c629cdc83263p-22,  0x1.7c1c2edc5be2dp-25,  -0x1.fd19d397a81bcp-25,
    0x1.9a2afbc074474p-26,  -0x1.0a887ae6064d2p-28, -0x1.48ee8a4c5ba33p-30, 0x1.0bda2e9e2814ap-30,
    -0x1.cc54656af4729p-33, -0x1.3094e152dd2a5p-35, 0x1.3bd59a4e90f8ep-36,
};

// 2 x dawson(x) in powers of 1 / x^2 for x >= 5; relative error: 2^-56.6.
inline constexpr std::array<double, 19> kDawsonFarF64 = {
    0x1.0000000000000p+0,   0x1.000000000019bp-1,   0x1.7ffffffeb08afp-1,   0x1.e0000300213a1p+0,
    0x1.a3fe43c586002p+2,   0x1.d9183c0b05189p+4,   0x1.33f6eec201718p+7,   0x1.275956c12fd14p+11,
    -0x1.0697d12db33aap+17, 0x1.5378ea78eb238p+23,  -0x1.2263895eea487p+29, 0x1.580b2b9765724p+34,
    -0x1.f34dca4b5317bp+38, 0x1.c15e8365652f4p+41,  0x1.692391f1e83c5p+47,  -0x1.bbc5d95eb3e51p+52,
    0x1.dd474841ef500p+56,  -0x1.092bb85ae4985p+60, 0x1.ec693371a93e7p+61,
};

// (f(u) - u + u^2/4) / u^3 in powers of u^2, for f(u) the dilogarithm of 1 - exp(-u), |u| <= ln(2); error of f(u)/u:
// 2^-37.3.
inline constexpr std::array<double, 4> kDilogarithmF32 = {
    0x1.c71c720000000p-6,
    -0x1.2345fc0000000p-12,
    0x1.3d78c40000000p-18,
    -0x1.a185ba0000000p-24,
};

// (f(u) - u + u^2/4) / u^3 in powers of u^2, for f(u) the dilogarithm of 1 - exp(-u), |u| <= ln(2); error of f(u)/u:
// 2^-66.2.
inline constexpr std::array<double, 8> kDilogarithmF64 = {
    0x1.c71c71c71c71cp-6,  -0x1.23456789ab840p-12, 0x1.3d079fb5d558ap-18, -0x1.8a86a28a5944fp-24,
    0x1.04d6e1158129dp-29, -0x1.64e8a041125e6p-35, 0x1.c4a43649595c4p-41, 0x1.bbff9f1746f8ap-46,
};

}  // namespace shoal::scalar
