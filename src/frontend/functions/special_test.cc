// Functions of jax.scipy.special, against what SciPy gives.
#include "shoal/special.h"

#include <cmath>
#include <limits>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

using Numbers = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void expect_close(const Array& result, const Numbers& expected, const char* name, double error = 1e-12) {
  const Numbers values = result.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << name;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << name << ' ' << i << ": " << values[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(values[i], expected[i]) << name << ' ' << i;
    } else {
      EXPECT_NEAR(values[i], expected[i], error * std::abs(expected[i])) << name << ' ' << i;
    }
  }
}

TEST(Special, OfOneNumber) {
  struct Row {
    const char* name;
    Array (*function)(const Operand&);
    Numbers expected;
  };
  const Array x = array(Numbers{0.25, 1.5, 9, 40});
  const Row rows[] = {
      {"i0", &special::i0, {1.015686141223608, 1.6467231897728907, 1093.5883545113745, 1.48947747934199e+16}},
      {"i1", &special::i1, {0.12597910894546785, 0.9816664285779079, 1030.9147225169565, 1.4707396163259354e+16}},
      {"i0e", &special::i0e, {0.7910171621397195, 0.36743360905415834, 0.134959524581723, 0.06327827987523532}},
      {"i1e", &special::i1e, {0.0981126286973682, 0.21903938742092574, 0.1272249839358912, 0.06248222907444206}},
      {"erfcx", &special::erfcx, {0.770346547730997, 0.3215854164543176, 0.06230772403777468, 0.014100335983377815}},
      {"dawsn", &special::dawsn, {0.23983916356289822, 0.42824907108539867, 0.05590504672435046, 0.012503909917843958}},
      {"expi", &special::expi, {-0.5425432646619137, 3.301285449129798, 1037.8782907170894, 6039718263611238.0}},
      {"spence", &special::spence, {0.9784693929303059, -0.4484142069236462, -3.6856760007574065, -8.330297527721036}},
      {"log_ndtr", &special::log_ndtr, {-0.5129840754094305, -0.06914345561223399, -1.1285884059538324e-19, 0}},
  };
  for (const Row& row : rows) expect_close(row.function(x), row.expected, row.name);
  expect_close(special::i1(-x),
               {-0.12597910894546785, -0.9816664285779079, -1030.9147225169565, -1.4707396163259354e+16}, "i1");
  expect_close(special::log_ndtr(-x), {-0.913061764811135, -2.7059444008238898, -43.62814911333212, -804.6084420137539},
               "log_ndtr");
  expect_close(special::erfcinv(array(Numbers{1e-30, 0.05, 0.3, 1.5, 0, 2, -1})),
               {8.148616223169864, 1.3859038243496782, 0.7328690779592171, -0.4769362762044699, kInf, -kInf, kNaN},
               "erfcinv");
}

TEST(Special, TheGammaFamily) {
  const Array a = array(Numbers{0.01, 3, 50, 1000});
  const Array x = array(Numbers{0.2, 1, 60, 950});
  expect_close(special::gammainc(a, x),
               {0.9877844094567542, 0.08030139707139418, 0.9155933189063082, 0.055054686230738045}, "gammainc", 1e-10);
  expect_close(special::gammaincc(a, x),
               {0.01221559054324581, 0.9196986029286058, 0.08440668109369177, 0.9449453137692619}, "gammaincc", 1e-10);
  // By mpmath, from the integral of (log(t) - digamma(a)) times the density.
  expect_close(special::random_gamma_grad(array(Numbers{0.001, 0.1, 0.5, 3, 3, 100, 100, 10000}),
                                          array(Numbers{1e-05, 1e-30, 0.2, 2, 9, 95, 140, 10100})),
               {0.10937472778081825, 6.865379784941029e-28, 0.7940505663308434, 0.8565714220978067, 1.7397554120638796,
                0.976198311218707, 1.179610460446782, 1.0050001660066192},
               "random_gamma_grad", 1e-10);
  expect_close(special::random_gamma_grad(array(Numbers{1, -1, 1, 2, 0}), array(Numbers{0, 1, -1, kInf, 1})),
               {0, kNaN, kNaN, kNaN, kNaN}, "random_gamma_grad");
  const Array orders = array(Numbers{0, 1, kInf, -1, 2, 2, kNaN});
  const Array ends = array(Numbers{1, 0, 2, 1, kInf, -1, 1});
  expect_close(special::gammainc(orders, ends), {1, 0, 0, kNaN, 1, kNaN, kNaN}, "gammainc");
  expect_close(special::gammaincc(orders, ends), {0, 1, 1, kNaN, 0, kNaN, kNaN}, "gammaincc");
  expect_close(
      special::zeta(array(Numbers{1.5, 2, 7, 30, 1, 0.5, 2, 3}), array(Numbers{0.3, 1, 2.5, 4, 1, 1, -1, -1})),
      {8.237761671459724, 1.6449340668482266, 0.0018305640382639376, 8.684400483856269e-19, kInf, kNaN, kInf, kNaN},
      "zeta");
  expect_close(special::polygamma(array(Numbers{0, 1, 2, 5, -1, 0.5}), array(Numbers{0.25, 1.5, 9, 40, 1, 1})),
               {-4.2274535333762655, 0.9348022005446793, -0.013793319195767772, 2.4938943509996704e-07, kNaN, kNaN},
               "polygamma");
  // In f32 factorials are products of numbers that do not overflow.
  const Array n = array(Numbers{0, 1, 3, 12, 29, 34, 35, 40, 50});
  const Array at = array(Numbers{0.75, 0.5, 2, 5, 1, 10, 9, 8, 0.5});
  const Array narrow = special::polygamma(n.astype(float32), at.astype(float32));
  EXPECT_EQ(narrow.dtype(), float32);
  Numbers wide = special::polygamma(n, at).to_vector<double>();
  wide.back() = -kInf;
  expect_close(narrow.astype(float64), wide, "polygamma of f32", 2e-5);
  expect_close(special::poch(array(Numbers{2, 0.5, -1.5, 3}), array(Numbers{3, 2.5, 1, 0})),
               {24, 1.1283791670955128, -1.5, 1}, "poch");
  expect_close(special::comb(array(Numbers{5, 30, 10, 4}), array(Numbers{2, 15, 12, -1})), {10, 155117520, 0, 0},
               "comb");
  expect_close(special::multigammaln(array(Numbers{3.5}), 3), {3.895898482154039}, "multigammaln");
}

TEST(Special, Integrals) {
  expect_close(special::expn(array(Numbers{0, 1, 2, 7, 1, 2, 1, 1}), array(Numbers{0.5, 2, 1e-3, 30, 0, 0, -1, 1e-30})),
               {1.2130613194252668, 0.048900510708061146, 0.9926689604692389, 2.5415429416174592e-15, kInf, 1, kNaN,
                68.50033712491984},
               "expn");
  expect_close(special::spence(array(Numbers{0, -1})), {1.6449340668482264, kNaN}, "spence");
  expect_close(special::expi(array(Numbers{0, -0.25, kInf})), {-kInf, -1.0442826344437381, kInf}, "expi");
  expect_close(special::boxcox(array(Numbers{2, 3}), array(Numbers{0, -0.5})), {0.6931471805599453, 0.8452994616207485},
               "boxcox");
  expect_close(special::boxcox1p(array(Numbers{2, 1e-10}), array(Numbers{0.5, 2})),
               {1.4641016151377544, 1.0000000000500001e-10}, "boxcox1p");
}

TEST(Special, DtypesAndShapes) {
  EXPECT_EQ(special::i0(array({1, 2})).dtype(), float32);
  EXPECT_EQ(special::gammainc(ones({2, 1}, {.dtype = bfloat16}), ones({3})).shape(), (Shape{2, 3}));
  EXPECT_EQ(special::i0(ones({2}, {.dtype = bfloat16})).dtype(), bfloat16);
  EXPECT_EQ(special::zeta(zeros({0}), 1).shape(), Shape{0});
  EXPECT_THROW(special::dawsn(zeros({2}, {.dtype = complex64})), TypeMismatch);
  const Array x = put(iota({8}) + 1, mesh_8(), P("i"));
  EXPECT_TRUE(same(jit(special::i0)(x), special::i0(iota({8}) + 1)));
  EXPECT_EQ(spec_of(special::gammainc(x, x)), P("i"));
}

}  // namespace
}  // namespace shoal::test
