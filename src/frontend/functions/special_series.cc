// Special functions that are series, rational approximations, quadratures or recurrences of operations on whole arrays,
// in f64, rounded once.
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/promotion.h"
#include "shoal/lax.h"
#include "shoal/numpy.h"
#include "shoal/special.h"

namespace shoal::special {
namespace {

constexpr double kRootOfPi = 1.77245385090551602730;
constexpr double kFullTurn = 6.28318530717958647692;
constexpr double kEuler = 0.57721566490153286061;

// Operands in f64, with the dtype that results have.
struct Widened {
  std::vector<Array> arrays;
  Dtype dtype;
  bool weak;

  explicit Widened(std::initializer_list<const Operand*> operands) : arrays(promote(kFloats, operands)) {
    dtype = arrays[0].dtype();
    weak = detail::impl_of(arrays[0]).type.weak;
    for (Array& array : arrays) array = convert(array, float64);
  }
  Array rounded(const Array& result) const { return convert(result, dtype, weak); }
  bool is_narrow() const { return size_of(dtype) < size_of(float64); }
};

// ---- Polynomials, the coefficient of x^0 first.

template <std::size_t n>
Array polynomial(const std::array<double, n>& coefficients, const Array& x) {
  Array sum = x * coefficients[n - 1] + coefficients[n - 2];
  for (std::size_t i = n - 2; i > 0; --i) sum = sum * x + coefficients[i - 1];
  return sum;
}

// Numerator over denominator, the ones of `near` where it holds.
template <std::size_t a, std::size_t b, std::size_t c, std::size_t d>
Array ratio(const Array& is_near, const Array& x, const std::array<double, a>& near_over,
            const std::array<double, b>& near_under, const std::array<double, c>& far_over,
            const std::array<double, d>& far_under) {
  return where(is_near, polynomial(near_over, x), polynomial(far_over, x)) /
         where(is_near, polynomial(near_under, x), polynomial(far_under, x));
}

// ---- Sine and cosine integrals, and those of Fresnel.

// Of x f(x), x^2 g(x) in z = (4 / x)^2, near: 0.16 to 1, far: 0 to 0.16; and of pi x f(x), pi^2 x^3 g(x) of Fresnel's
// in z = (1.6 / x)^4, near: 0.1 to 1, far: 0 to 0.1. Interpolated at the points of Chebyshev, in 60 digits; all
// coefficients are positive, so that nothing cancels, and errors are below 6e-16.
constexpr double kSineSplit = 4;
constexpr double kSineNear = 0.16;
constexpr double kFresnelSplit = 1.6;
constexpr double kFresnelNear = 0.1;
constexpr std::array<double, 9> kSineFNearOver = {0.99999999540179484, 18.689573027790252, 118.8246383215803,
                                                  329.34658014973811,  422.99337227861028, 246.32690194388976,
                                                  58.68300369124816,   4.4342229083309681, 0.04703430897583368};
constexpr std::array<double, 9> kSineFNearUnder = {1.0,
                                                   18.814572698485945,
                                                   121.08272210598694,
                                                   342.89351500743727,
                                                   457.20252343129926,
                                                   284.36236522888279,
                                                   76.416501079574108,
                                                   7.386823623483511,
                                                   0.16062118730482726};
constexpr std::array<double, 9> kSineFFarOver = {0.99999999999999999, 62.178803546306157, 1365.4657083451498,
                                                 13518.024110439371,  63904.728240150298, 140773.20048417981,
                                                 130142.60779389052,  39131.509392144334, 1703.587230872987};
constexpr std::array<double, 9> kSineFFarUnder = {1.0,
                                                  62.303803546306133,
                                                  1373.1599337884543,
                                                  13684.003901825719,
                                                  65496.831590979065,
                                                  147883.93399717913,
                                                  144235.4191434747,
                                                  49688.555653302452,
                                                  3638.0856689936687};
constexpr std::array<double, 10> kSineGNearOver = {
    0.99999998713566564, 25.288137004626033, 225.41808333999281, 915.89624662618048, 1829.7059349517688,
    1805.1644045679263,  836.03902335303592, 160.1552789777919,  9.4150356511873641, 0.051580903963911771};
constexpr std::array<double, 10> kSineGNearUnder = {1.0,
                                                    25.663135901377143,
                                                    234.57305881506157,
                                                    993.06042684942598,
                                                    2118.2304461671771,
                                                    2317.574045164318,
                                                    1265.7568631453022,
                                                    319.11094605406572,
                                                    31.427999400722036,
                                                    0.80588217461300757};
constexpr std::array<double, 9> kSineGFarOver = {0.9999999999999999, 67.946609687734776, 1639.9436708033897,
                                                 17956.291050119074, 94489.876066464325, 232923.19303871519,
                                                 240947.53611438657, 79196.118299354149, 2916.7932606315085};
constexpr std::array<double, 9> kSineGFarUnder = {1.0,
                                                  68.321609687734411,
                                                  1665.0955244365392,
                                                  18549.906585917772,
                                                  100744.10801816615,
                                                  263715.57474240476,
                                                  308452.15557481379,
                                                  135388.49813775375,
                                                  14514.35400566879};
constexpr std::array<double, 10> kFresnelFNearOver = {
    0.99999999991694903, 23.734966483399058, 198.85854143034761, 761.48535429145091, 1440.8937485699852,
    1358.5536927459503,  611.11090472047171, 117.48096904192972, 7.5632012396109121, 0.081133408164028055};
constexpr std::array<double, 10> kFresnelFNearUnder = {1.0,
                                                       23.781347632520221,
                                                       199.93645076450772,
                                                       770.2001873115244,
                                                       1472.3966903992509,
                                                       1413.0114223343535,
                                                       655.74512548009999,
                                                       133.59656757361827,
                                                       9.7135873230910132,
                                                       0.14874411117851549};
constexpr std::array<double, 7> kFresnelFFarOver = {0.99999999999999999, 38.416274263339464, 465.20464132181552,
                                                    2158.9904272174853,  3725.2992912254885, 1927.6658966860475,
                                                    146.11920386773296};
constexpr std::array<double, 7> kFresnelFFarUnder = {1.0,
                                                     38.462655420402258,
                                                     466.96348631376103,
                                                     2179.7218323043851,
                                                     3816.0393928296456,
                                                     2064.0143991350911,
                                                     193.66189311744887};
constexpr std::array<double, 11> kFresnelGNearOver = {0.99999999951712119, 31.432118207590185, 359.43261681656029,
                                                      1947.9647819646075,  5458.8165497665212, 8091.8345035900015,
                                                      6227.9083238933846,  2339.6155082434333, 376.73817126690181,
                                                      19.515217147885807,  0.12065176861167234};
constexpr std::array<double, 11> kFresnelGNearUnder = {1.0,
                                                       31.664023938701068,
                                                       366.54981304081951,
                                                       2026.3168741787747,
                                                       5859.7835077464636,
                                                       9125.7899710133473,
                                                       7590.6390479838147,
                                                       3229.385053090018,
                                                       641.42097810832071,
                                                       49.55474943396497,
                                                       0.96195740858874626};
constexpr std::array<double, 8> kFresnelGFarOver = {0.99999999999999999, 59.683906784589971, 1212.7649055505835,
                                                    10528.515607467437,  40165.716127289022, 61983.813226805145,
                                                    30103.156591769598,  1882.7628422322144};
constexpr std::array<double, 8> kFresnelGFarUnder = {1.0,
                                                     59.915812569904114,
                                                     1226.4338518856808,
                                                     10799.898472457718,
                                                     42421.203436904057,
                                                     69888.72313965899,
                                                     40327.18396753546,
                                                     5100.9609490770194};

// The terms (-1)^k scale(k) of a series in t.
template <std::size_t n, class F>
std::array<double, n> alternating(F&& scale) {
  std::array<double, n> terms;
  for (std::size_t k = 0; k < n; ++k) terms[k] = (k % 2 == 0 ? 1 : -1) * scale(static_cast<double>(k));
  return terms;
}

double factorial_of(double k) { return std::tgamma(k + 1); }

// What x has a sign for, which the result has, too.
Array with_sign_of(const Array& x, const Array& magnitude) { return where(less(x, 0), -magnitude, magnitude); }

// Sine and cosine of f64; if narrow, of the nearest f32 and in it.
std::pair<Array, Array> sine_and_cosine(const Array& x, bool is_narrow) {
  if (!is_narrow) return {sin(x), cos(x)};
  const Array narrow = convert(x, float32);
  return {convert(sin(narrow), float64), convert(cos(narrow), float64)};
}

template <std::size_t kTerms>
std::pair<Array, Array> sine_and_cosine_integral(const Array& x, bool is_narrow) {
  static const auto kSine = alternating<kTerms>([](double k) { return 1 / ((2 * k + 1) * factorial_of(2 * k + 1)); });
  // Without the first term, which is the logarithm.
  static const auto kCosine =
      alternating<kTerms>([](double k) { return -1 / ((2 * k + 2) * factorial_of(2 * k + 2)); });
  const Array size = abs(x);
  const Array is_small = less_equal(size, kSineSplit);
  const Array small = minimum(size, kSineSplit);
  const Array square_of_small = square(small);
  const Array si_small = small * polynomial(kSine, square_of_small);
  const Array ci_small = log(small) + kEuler + square_of_small * polynomial(kCosine, square_of_small);
  // Infinity has no angle.
  const Array is_infinite = isinf(x);
  const Array large = where(is_infinite, kSineSplit, maximum(size, kSineSplit));
  const Array z = square(kSineSplit / large);
  const Array is_near = greater_equal(z, kSineNear);
  const Array f = ratio(is_near, z, kSineFNearOver, kSineFNearUnder, kSineFFarOver, kSineFFarUnder) / large;
  const Array g = ratio(is_near, z, kSineGNearOver, kSineGNearUnder, kSineGFarOver, kSineGFarUnder) / square(large);
  const auto [s, c] = sine_and_cosine(large, is_narrow);
  const Array si_large = where(is_infinite, kFullTurn / 4, kFullTurn / 4 - f * c - g * s);
  const Array ci_large = where(is_infinite, 0, f * s - g * c);
  const Array ci = where(is_small, ci_small, ci_large);
  return {with_sign_of(x, where(is_small, si_small, si_large)),
          where(equal(x, -std::numeric_limits<double>::infinity()), std::numeric_limits<double>::quiet_NaN(), ci)};
}

// The fourth part of x^2, less whole numbers: x is cut into two halves, whose products are exact.
Array turns_of_square(const Array& x) {
  constexpr double kCut = 0x1p27 + 1;
  const Array scaled = x * kCut;
  const Array high = scaled - (scaled - x);
  const Array low = x - high;
  const auto fraction = [](const Array& v) { return v - rint(v); };
  return fraction(fraction(square(high) * 0.25) + (high * low * 0.5 + square(low) * 0.25));
}

std::pair<Array, Array> fresnel_integrals(const Array& x) {
  static const auto kSine = alternating<16>(
      [](double k) { return std::pow(kFullTurn / 4, 2 * k + 1) / (factorial_of(2 * k + 1) * (4 * k + 3)); });
  static const auto kCosine =
      alternating<16>([](double k) { return std::pow(kFullTurn / 4, 2 * k) / (factorial_of(2 * k) * (4 * k + 1)); });
  constexpr double kHalf = kFullTurn / 2;
  constexpr double kFar = 1e8;  // From here on the sums of an f64 are one half.
  const Array size = abs(x);
  const Array is_small = less(size, kFresnelSplit);
  const Array small = minimum(size, kFresnelSplit);
  const Array t = square(square(small));
  const Array s_small = small * square(small) * polynomial(kSine, t);
  const Array c_small = small * polynomial(kCosine, t);
  const Array is_far = greater(size, kFar);
  const Array large = clip(size, kFresnelSplit, kFar);
  const Array z = square(square(kFresnelSplit / large));
  const Array is_near = greater_equal(z, kFresnelNear);
  const Array square_of_large = square(large);
  const Array f =
      ratio(is_near, z, kFresnelFNearOver, kFresnelFNearUnder, kFresnelFFarOver, kFresnelFFarUnder) / (large * kHalf);
  const Array g = ratio(is_near, z, kFresnelGNearOver, kFresnelGNearUnder, kFresnelGFarOver, kFresnelGFarUnder) /
                  (large * square_of_large * (kHalf * kHalf));
  const Array angle = turns_of_square(large) * kFullTurn;
  const Array sine = sin(angle);
  const Array cosine = cos(angle);
  const Array s_large = where(is_far, 0.5, 0.5 - (f * cosine + g * sine));
  const Array c_large = where(is_far, 0.5, 0.5 + (f * sine - g * cosine));
  const Array is_nan = isnan(x);
  const auto placed = [&](const Array& of_small, const Array& of_large) {
    return where(is_nan, x, with_sign_of(x, where(is_small, of_small, of_large)));
  };
  return {placed(s_small, s_large), placed(c_small, c_large)};
}

// ---- Owen's function.

struct Node {
  double place;
  double weight;
};
// The nodes of Gauss and Legendre between 0 and 1, by Newton's method.
std::vector<Node> legendre_nodes(int n) {
  std::vector<Node> nodes;
  for (int i = 0; i < n; ++i) {
    double x = std::cos(kFullTurn / 2 * (i + 0.75) / (n + 0.5));
    double slope = 1;
    for (int step = 0; step < 20; ++step) {
      double before = 1;
      double value = x;
      for (int k = 2; k <= n; ++k) before = std::exchange(value, ((2 * k - 1) * x * value - (k - 1) * before) / k);
      slope = n * (x * value - before) / (x * x - 1);
      const double move = value / slope;
      x -= move;
      if (std::abs(move) < 1e-16) break;
    }
    nodes.push_back({(1 - x) / 2, 1 / ((1 - x * x) * slope * slope)});
  }
  return nodes;
}

Array share_above(const Array& x) { return 0.5 * erfc(x * std::sqrt(0.5)); }

Array owens_t_of(const Array& h, const Array& a, bool is_narrow) {
  // What lies beyond this many deviations does not count.
  const double reach = is_narrow ? 6.0 : 9.0;
  const std::vector<Node> nodes = legendre_nodes(is_narrow ? 14 : 28);
  const Array height = abs(h);
  const Array slope = abs(a);
  const Array is_steep = greater(slope, 1);
  const Array product = where(equal(height, 0), 0, height * slope);
  // Less than infinity, which times 0 is no number.
  const Array base = minimum(where(is_steep, product, height), 1e150);
  const Array end = minimum(where(is_steep, 1.0 / slope, slope), reach / maximum(base, 1e-300));
  const Array half = -0.5 * square(base);
  // All terms are positive, so that those of a narrow result are as exact as it is.
  const Dtype dtype = is_narrow ? float32 : float64;
  const Array squared = convert(square(end), dtype);
  const Array fall = convert(maximum(half, -1e30), dtype);
  std::optional<Array> sum;
  for (const Node& node : nodes) {
    const Array t = squared * (node.place * node.place);
    const Array term = exp(fall * t) / (t + 1.0) * node.weight;
    sum = sum ? *sum + term : term;
  }
  const Array below = end * convert(*sum, float64) * exp(half) * (1 / kFullTurn);
  const Array above_h = share_above(height);
  const Array above_product = share_above(product);
  // T(h, a) + T(a h, 1 / a), by the shares above or, where these are half of all, by those between.
  const Array near_zero = 0.25 - (0.5 - above_h) * (0.5 - above_product);
  const Array both = where(less(product, 0.67), near_zero, 0.5 * (above_h + above_product) - above_h * above_product);
  const Array whole = where(is_steep, both - below, below);
  return where(logical_or(isnan(h), isnan(a)), std::numeric_limits<double>::quiet_NaN(), with_sign_of(a, whole));
}

// ---- Faddeeva's function.

struct Weideman {
  double scale;
  std::vector<double> coefficients;  // Of Z^0 first.

  explicit Weideman(int n) : scale(std::sqrt(n / std::sqrt(2.0))) {
    const int m = 2 * n;
    for (int j = 1; j <= n; ++j) {
      double sum = 0;
      for (int k = -m + 1; k < m; ++k) {
        const double theta = k * kFullTurn / 2 / m;
        const double t = scale * std::tan(theta / 2);
        sum += std::exp(-t * t) * (scale * scale + t * t) * std::cos(j * theta);
      }
      coefficients.push_back(sum / (2 * m));
    }
  }
};

// Parts of complex numbers.
struct Parts {
  Array re;
  Array im;
};

Parts product(const Parts& a, const Parts& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// The sine and cosine of an angle; if narrow, in f32, of what is left of it without whole turns.
std::pair<Array, Array> sine_and_cosine_of_angle(const Array& angle, bool is_narrow) {
  if (!is_narrow) return {sin(angle), cos(angle)};
  const Array turns = angle * (1 / kFullTurn);
  return sine_and_cosine((turns - rint(turns)) * kFullTurn, true);
}

Parts faddeeva(const Parts& z, const Weideman& way, bool is_narrow) {
  const Array is_below = less(z.im, 0);
  const Parts upper{where(is_below, -z.re, z.re), abs(z.im)};
  // 1 / (L - i z), and (L + i z) / (L - i z) in the disc of radius 1.
  const Array under_re = upper.im + way.scale;
  const Array norm = 1.0 / (square(under_re) + square(upper.re));
  const Parts inverse{under_re * norm, upper.re * norm};
  const Parts disc = product({way.scale - upper.im, upper.re}, inverse);
  Parts sum{zeros_like(disc.re) + way.coefficients.back(), zeros_like(disc.re)};
  for (std::size_t i = way.coefficients.size() - 1; i > 0; --i) {
    sum = product(sum, disc);
    sum.re = sum.re + way.coefficients[i - 1];
  }
  const Parts squared = product(inverse, inverse);
  const Parts series = product(sum, squared);
  const Parts value{2.0 * series.re + inverse.re * (1 / kRootOfPi), 2.0 * series.im + inverse.im * (1 / kRootOfPi)};
  // w(z) = 2 exp(-z^2) - w(-z).
  const Array size = 2.0 * exp(square(upper.im) - square(upper.re));
  const auto [sine, cosine] = sine_and_cosine_of_angle(-2.0 * upper.re * upper.im, is_narrow);
  return {where(is_below, size * cosine - value.re, value.re), where(is_below, size * sine - value.im, value.im)};
}

// ---- Legendre functions.

// Rows of orders 0 to m of degrees 0 to n.
using Table = std::vector<std::vector<Array>>;

Table legendre_table(std::int64_t m_max, std::int64_t n_max, const Array& x, bool is_normalized) {
  const Array zero = zeros_like(x);
  Table table(static_cast<std::size_t>(m_max) + 1, std::vector<Array>(static_cast<std::size_t>(n_max) + 1, zero));
  const Array sine = sqrt(maximum(1.0 - square(x), 0));
  Array diagonal = zero + (is_normalized ? 1 / std::sqrt(2 * kFullTurn) : 1.0);
  for (std::int64_t m = 0; m <= std::min(m_max, n_max); ++m) {
    const double order = static_cast<double>(m);
    if (m > 0) diagonal = diagonal * sine * (is_normalized ? -std::sqrt(1 + 0.5 / order) : 1 - 2 * order);
    std::vector<Array>& row = table[static_cast<std::size_t>(m)];
    row[static_cast<std::size_t>(m)] = diagonal;
    for (std::int64_t l = m + 1; l <= n_max; ++l) {
      const double degree = static_cast<double>(l);
      const auto at = static_cast<std::size_t>(l);
      double one = (2 * degree - 1) / (degree - order);
      double two = (degree + order - 1) / (degree - order);
      if (is_normalized) {
        const double under = degree * degree - order * order;
        one = std::sqrt((4 * degree * degree - 1) / under);
        two = std::sqrt((2 * degree + 1) * ((degree - 1) * (degree - 1) - order * order) / ((2 * degree - 3) * under));
      }
      row[at] = x * row[at - 1] * one;
      if (l > m + 1) row[at] = row[at] - row[at - 2] * two;
    }
  }
  return table;
}

Array stacked(const Table& table, std::int64_t m_max, const Widened& operands) {
  std::vector<Array> rows;
  for (std::int64_t m = 0; m <= m_max; ++m) rows.push_back(stack(Operands(table[static_cast<std::size_t>(m)])));
  return operands.rounded(stack(Operands(rows)));
}

void check_degrees(std::int64_t m, std::int64_t n) {
  if (m < 0 || n < 0)
    throw misuse<InvalidArgument>("the order m is {} and the degree n is {}; they must be at least 0", m, n);
}

}  // namespace

SiciResult sici(const Operand& x) {
  const Caller caller("sici", x.where());
  Widened operands({&x});
  operands.weak = false;
  const Array& array = operands.arrays[0];
  const bool is_narrow = operands.is_narrow();
  const auto [si, ci] =
      is_narrow ? sine_and_cosine_integral<12>(array, true) : sine_and_cosine_integral<18>(array, false);
  return {operands.rounded(si), operands.rounded(ci)};
}

FresnelResult fresnel(const Operand& x) {
  const Caller caller("fresnel", x.where());
  Widened operands({&x});
  operands.weak = false;
  const auto [s, c] = fresnel_integrals(operands.arrays[0]);
  return {operands.rounded(s), operands.rounded(c)};
}

Array owens_t(const Operand& h, const Operand& a) {
  const Caller caller("owens_t", h.where());
  Widened operands({&h, &a});
  operands.weak = false;
  return operands.rounded(owens_t_of(operands.arrays[0], operands.arrays[1], operands.is_narrow()));
}

Array wofz(const Operand& z) {
  const Caller caller("wofz", z.where());
  static const Weideman kNarrow(24);
  static const Weideman kWide(64);
  const Array given = to_array(z);
  const Dtype floats = real_dtype(inexact_dtype(given.dtype()));
  const bool is_wide = floats == float64;
  const Array re = convert(is_complex(given.dtype()) ? real(given) : given, float64);
  const Array im = is_complex(given.dtype()) ? convert(imag(given), float64) : zeros_like(re);
  const Parts value = faddeeva({re, im}, is_wide ? kWide : kNarrow, !is_wide);
  const Dtype part = is_wide ? float64 : float32;
  return lax::complex(convert(value.re, part), convert(value.im, part));
}

Array bessel_jn(const Operand& z, std::int64_t v, const BesselOptions& options) {
  const Caller caller("bessel_jn", z.where());
  if (v < 0 || v >= options.n_iter) {
    throw misuse<InvalidArgument>("the order v is {}; it must be at least 0 and below n_iter, which is {}", v,
                                  options.n_iter);
  }
  const Widened operands({&z});
  const Array& x = operands.arrays[0];
  // r(k) = J(k) / J(k - 1), from the top; and 1 + 2 (r(1) r(2) (1 + r(3) r(4) (1 + …))), which J(0) is the inverse of.
  std::vector<Array> ratios(static_cast<std::size_t>(options.n_iter) + 1, zeros_like(x));
  Array ratio_above = zeros_like(x);
  Array tail = zeros_like(x);
  for (std::int64_t k = options.n_iter; k > 0; --k) {
    const Array here = x / (static_cast<double>(2 * k) - x * ratio_above);
    if (k % 2 == 1) tail = here * ratio_above * (tail + 1.0);
    ratios[static_cast<std::size_t>(k)] = here;
    ratio_above = here;
  }
  std::vector<Array> values = {1.0 / (2.0 * tail + 1.0)};
  for (std::int64_t k = 1; k <= v; ++k) values.push_back(values.back() * ratios[static_cast<std::size_t>(k)]);
  return operands.rounded(stack(Operands(values)));
}

Array lpmn_values(std::int64_t m, std::int64_t n, const Operand& z, bool is_normalized) {
  const Caller caller("lpmn_values", z.where());
  check_degrees(m, n);
  const Widened operands({&z});
  return stacked(legendre_table(m, n, operands.arrays[0], is_normalized), m, operands);
}

LpmnResult lpmn(std::int64_t m, std::int64_t n, const Operand& z) {
  const Caller caller("lpmn", z.where());
  check_degrees(m, n);
  const Widened operands({&z});
  const Array& x = operands.arrays[0];
  // The derivative of an order is made of those of two orders beside it and one degree below, without a division by the
  // sine (Abramowitz & Stegun 1964, 8.5, combined), but for order 1, whose derivative is infinite at the ends.
  const Table values = legendre_table(m + 2, n, x, false);
  const Array zero = zeros_like(x);
  const auto of = [&](std::int64_t order, std::int64_t degree) {
    if (degree < 0) return zero;
    return values[static_cast<std::size_t>(order)][static_cast<std::size_t>(degree)];
  };
  // The function divided by the sine, for orders from 1 on.
  const auto by_sine = [&](std::int64_t order, std::int64_t degree) {
    const double sum = static_cast<double>(degree + order);
    return (of(order + 1, degree - 1) + of(order - 1, degree - 1) * (sum * (sum - 1))) *
           (-0.5 / static_cast<double>(order));
  };
  Table slopes(static_cast<std::size_t>(m) + 1, std::vector<Array>(static_cast<std::size_t>(n) + 1, zero));
  const Array sine = sqrt(maximum(1.0 - square(x), 0));
  for (std::int64_t order = 0; order <= m; ++order) {
    for (std::int64_t degree = std::max<std::int64_t>(order, 1); degree <= n; ++degree) {
      Array& slope = slopes[static_cast<std::size_t>(order)][static_cast<std::size_t>(degree)];
      const double factor = static_cast<double>((degree + order) * (degree - order + 1));
      if (order == 0) {
        slope = -by_sine(1, degree);
      } else if (order == 1) {
        slope = (of(0, degree) * factor - of(2, degree)) * 0.5 / sine;
      } else {
        slope = (by_sine(order - 1, degree) * factor - by_sine(order + 1, degree)) * 0.5;
      }
    }
  }
  return {stacked(values, m, operands), stacked(slopes, m, operands)};
}

Array sph_harm_y(const Operand& n, const Operand& m, const Operand& theta, const Operand& phi, std::int64_t n_max) {
  const Caller caller("sph_harm_y", n.where());
  if (n_max < 0) throw misuse<InvalidArgument>("n_max is {}; it must be at least 0", n_max);
  for (const Operand* one : {&n, &m}) {
    if (is_integer(to_array(*one).dtype())) continue;
    throw misuse<TypeMismatch>("degrees and orders must be integers, and one is {}", type_of(to_array(*one)));
  }
  const Widened angles({&theta, &phi});
  const Array degree = minimum(convert(to_array(n), float64), static_cast<double>(n_max));
  const Array given = convert(to_array(m), float64);
  const Array order = abs(given);
  const Array& polar = angles.arrays[0];
  const Array x = cos(polar);
  const Array sine = abs(sin(polar));
  // The normalized function of this order and degree `order`, then up to the degree that is asked for.
  Array value = 1 / std::sqrt(2 * kFullTurn) + zeros_like(x + order + degree);
  for (std::int64_t k = 1; k <= n_max; ++k) {
    const double at = static_cast<double>(k);
    value = where(greater_equal(order, at), value * sine * -std::sqrt(1 + 0.5 / at), value);
  }
  const Array square_of_order = square(order);
  Array before = zeros_like(value);
  for (std::int64_t l = 1; l <= n_max; ++l) {
    const double at = static_cast<double>(l);
    const Array counts = logical_and(greater(at, order), less_equal(at, degree));
    const Array under = where(counts, at * at - square_of_order, 1);
    const Array one = sqrt((4 * at * at - 1) / under);
    const Array rest = maximum((at - 1) * (at - 1) - square_of_order, 0);
    const Array two = l == 1 ? zeros_like(under) : sqrt((2 * at + 1) / (2 * at - 3) * rest / under);
    const Array next = one * x * value - two * before;
    before = where(counts, value, before);
    value = where(counts, next, value);
  }
  value = where(greater(order, degree), 0, value);
  const Array angle = order * angles.arrays[1];
  const Array is_odd = not_equal(order, 2.0 * floor(order * 0.5));
  const Array is_negative = less(given, 0);
  // Of a negative order it is the conjugate, negative where the order is odd.
  const Array re = where(logical_and(is_negative, is_odd), -value, value) * cos(angle);
  const Array im = where(logical_and(is_negative, logical_not(is_odd)), -value, value) * sin(angle);
  const Dtype part = angles.is_narrow() ? float32 : float64;
  return lax::complex(convert(re, part), convert(im, part));
}

}  // namespace shoal::special
