// Functions of random numbers, in f32 by the formulas of JAX on its CPU, to the bit: where a sample is the small
// difference of two of them, an error in the last place of one is a great part of it. They take less time than those of
// math.h, which are more exact.
#include <array>

#include "ops/scalar/floating.h"
#include "ops/scalar/math.h"

namespace shoal::scalar {
namespace {

// log(1 + f) = f - f^2 / 2 + f^3 P(f), of the Cephes library (Moshier 1989); every third coefficient, from the
// greatest.
constexpr std::array kQuickLogA = {1.1676998740E-1, -1.1514610310E-1, 7.0376836292E-2};
constexpr std::array kQuickLogB = {-1.6668057665E-1, 1.4249322787E-1, -1.2420140846E-1};
constexpr std::array kQuickLogC = {3.3333331174E-1, -2.4999993993E-1, 2.0000714765E-1};
// log(2) as a number of few bits, and what it lacks.
constexpr double kQuickLn2High = 0.693359375;
constexpr double kQuickLn2Low = -2.12194440e-4;

Expr quick_log_f32(Expr x) {
  constexpr int kFractionBits = 23;
  constexpr int kBitsOfRootOfHalf = 0x3F3504F3;
  // x is (1 + f) 2^exponent, where 1 + f lies between the roots of 1/2 and 2.
  const Expr bits = bitcast(x, Dtype::kI32);
  const Expr power = (bits - kBitsOfRootOfHalf) >> kFractionBits;
  const Expr f = bitcast(bits - (power << kFractionBits), Dtype::kF32) - 1;
  const Expr exponent = convert(power, Dtype::kF32);
  const Expr square = f * f;
  const Expr cube = square * f;
  const Expr rest =
      fma(fma(polynomial(f, kQuickLogA), cube, polynomial(f, kQuickLogB)), cube, polynomial(f, kQuickLogC));
  const Expr of_rest = fma(square, -0.5, f) + fma(rest, cube, exponent * kQuickLn2Low);
  const Expr value = fma(exponent, kQuickLn2High, of_rest);
  const Expr at_most_zero = select(x == 0, x.like(-kInfinity), x.like(kNan));
  return select(x < kInfinity, select(x > 0, value, at_most_zero), x);
}

// Cephes' rational function P(x) / Q(x), with which log(1 + x) = x - x^2 / 2 + x^3 P(x) / Q(x).
constexpr std::array kQuickLog1pP = {
    2.0039553499201281259648E1, 5.7112963590585538103336E1,  6.0949667980987787057556E1, 2.9911919328553073277375E1,
    6.5787325942061044846969E0, 4.9854102823193375972212E-1, 4.5270000862445199635215E-5};
constexpr std::array kQuickLog1pQ = {6.0118660497603843919306E1,
                                     2.1642788614495947685003E2,
                                     3.0909872225312059774938E2,
                                     2.2176239823732856465394E2,
                                     8.3047565967967209469434E1,
                                     1.5062909083469192043167E1,
                                     1.0};

Expr quick_log1p_f32(Expr x) {
  const Expr square = x * x;
  const Expr rest = x * square * (polynomial(x, kQuickLog1pP) / polynomial(x, kQuickLog1pQ));
  const Expr near = x + fma(square, -0.5, rest);
  return select(abs(x) < 0.41421356237309504880, near, quick_log_f32(x + 1));
}

// A minimax rational function of x^2, times x; beyond the end erf(x) is 1 but for half a unit in the last place.
constexpr std::array kQuickErfP = {1.128379143519084, 0.18520832239976145, 0.050955695062380861, 0.0034082910107109506,
                                   0.00022905065861350646};
constexpr std::array kQuickErfQ = {1.0,
                                   0.49746925110067538,
                                   0.11098505178285362,
                                   0.014070470171167667,
                                   0.0010179625278914885,
                                   0.000023547966471313185,
                                   -1.1791602954361697e-7};
constexpr double kQuickErfEnd = 3.832506856900711;

Expr quick_erf_f32(Expr x) {
  const Expr z = clamp(x, -kQuickErfEnd, kQuickErfEnd);
  const Expr square = z * z;
  return z * polynomial(square, kQuickErfP) / polynomial(square, kQuickErfQ);
}

}  // namespace

Expr quick_log(Expr x) { return by_format(quick_log_f32, log, x); }
Expr quick_log1p(Expr x) { return by_format(quick_log1p_f32, log1p, x); }
Expr quick_erf(Expr x) { return by_format(quick_erf_f32, erf, x); }

}  // namespace shoal::scalar
