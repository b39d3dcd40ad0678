// Random numbers: against what JAX gave for the same keys (testdata/random.inc), against the moments of their
// distributions, and on many devices against one.
#include "shoal/random.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "frontend/random/samples.h"
#include "frontend/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/derivatives.h"
#include "shoal/explicit_axes.h"
#include "shoal/initializers.h"
#include "shoal/linalg.h"
#include "shoal/make_array.h"
#include "shoal/pmap.h"
#include "shoal/statistics.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

using std::int64_t;
using testing::HasSubstr;

Array key_42() { return random::PRNGKey(42); }

// ---- Recorded numbers.

struct RecordedSample {
  const char* expression;  ///< In Python; K is the key of 42, L that of another implementation.
  Array (*function)();     ///< The same in C++.
  const char* result;      ///< Dtype, shape, elements.
  int roundings;           ///< How many last digits elements may be off, those below 1 as 1.
};

#define K key_42()
// Of rbg or unsafe_rbg; the counter of the other overflows soon.
Array key_of(const std::string& implementation) { return random::key(42, implementation); }
Array key_near_overflow(const std::string& implementation) {
  const Array words = concatenate({full({1}, 7, {.dtype = uint32}), full({3}, 0xffffffff, {.dtype = uint32})});
  return random::wrap_key_data(words, implementation);
}

#define L key_of
#define W key_near_overflow
const RecordedSample kSamples[] = {
#include "frontend/testdata/random.inc"
};
#undef K
#undef L
#undef W

double epsilon_of(Dtype dtype) { return format_of(real_dtype(dtype)).epsilon; }

std::string difference(const Array& sample, const RecordedSample& recorded) {
  std::string text = recorded.result;
  std::ostringstream type;
  type << name_of(sample.dtype()) << ' ' << to_string(sample.shape()) << ':';
  if (!text.starts_with(type.str())) return type.str() + " instead of " + text;
  std::istringstream words(text.substr(type.str().size()));
  std::vector<std::complex<double>> expected;
  for (std::string word; words >> word;) {
    std::size_t read = 0;
    const double re = std::stod(word, &read);
    expected.emplace_back(re, read < word.size() ? std::stod(word.substr(read + 1)) : 0);
  }
  // As many digits were written as the dtype needs to be read back.
  const Array rounded = array(expected).astype(sample.dtype()).astype(complex128);
  const auto wanted = rounded.to_vector<std::complex<double>>();
  const auto elements = sample.astype(complex128).to_vector<std::complex<double>>();
  const double unit = recorded.roundings * epsilon_of(sample.dtype());
  const auto close = [&](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= unit * std::max(1.0, std::abs(b));
  };
  if (wanted.size() != elements.size()) return "another number of elements";
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (close(elements[i].real(), wanted[i].real()) && close(elements[i].imag(), wanted[i].imag())) continue;
    std::ostringstream message;
    message << "element " << i << " is " << elements[i] << ", not " << wanted[i];
    return message.str();
  }
  return {};
}

TEST(Random, AsInJax) {
  for (const RecordedSample& sample : kSamples) {
    try {
      EXPECT_EQ(difference(sample.function(), sample), "") << sample.expression;
    } catch (const std::exception& error) {
      ADD_FAILURE() << sample.expression << ": " << error.what();
    }
  }
}

TEST(Random, BitsOfAnElementDependOnItsPositionAlone) {
  const Array flat = random::bits(key_42(), {24});
  EXPECT_TRUE(same(random::bits(key_42(), {2, 3, 4}).reshape(24), flat));
  EXPECT_TRUE(same(random::bits(key_42(), {8}), flat[range(0, 8)]));
  EXPECT_TRUE(same(random::split(key_42(), 6), random::split(key_42(), Shape{2, 3}).reshape(6, 2)));
}

// ---- Moments.

struct Moments {
  const char* name;
  std::function<Array(const Shape&)> sample;
  double mean;
  double variance;
  double kurtosis;  ///< The fourth central moment, over the square of the variance.
};

TEST(Random, MomentsOfRejectionSamplers) {
  constexpr int64_t kSize = 100000;
  const Array key = random::PRNGKey(2024);
  const auto gamma = [&](double a, const char* method) {
    return [=](const Shape& shape) { return random::gamma(key, a, shape, float32, method); };
  };
  const auto poisson = [&](double lam, const char* method) {
    return [=](const Shape& shape) { return random::poisson(key, lam, shape, int32, method); };
  };
  const auto binomial = [&](double n, double p) {
    return [=](const Shape& shape) { return random::binomial(key, n, p, shape); };
  };
  const double pi = M_PI;
  const Moments rows[] = {
      {"gamma 0.2", gamma(0.2, "exact"), 0.2, 0.2, 33},
      {"gamma 4", gamma(4, "exact"), 4, 4, 4.5},
      {"gamma 0.2, approximate", gamma(0.2, "approximate"), 0.2, 0.2, 33},
      {"loggamma 1", [&](const Shape& shape) { return random::loggamma(key, 1.0, shape); }, -0.5772156649, pi * pi / 6,
       5.4},
      {"beta 2, 3", [&](const Shape& shape) { return random::beta(key, 2.0, 3.0, shape); }, 0.4, 0.04, 3 - 9.0 / 14},
      {"chisquare 3", [&](const Shape& shape) { return random::chisquare(key, 3.0, shape); }, 3, 6, 7},
      {"t 12", [&](const Shape& shape) { return random::t(key, 12.0, shape); }, 0, 1.2, 3.75},
      {"generalized_normal 1", [&](const Shape& shape) { return random::generalized_normal(key, 1.0, shape); }, 0, 2,
       6},
      {"poisson 4.5", poisson(4.5, "exact"), 4.5, 4.5, 3 + 1 / 4.5},
      {"poisson 50", poisson(50, "exact"), 50, 50, 3.02},
      {"poisson 4.5, approximate", poisson(4.5, "approximate"), 4.5, 4.5, 3 + 1 / 4.5},
      {"poisson 50, approximate", poisson(50, "approximate"), 50, 50, 3.02},
      {"binomial 20, 0.3", binomial(20, 0.3), 6, 4.2, 3 + (1 - 6 * 0.21) / 4.2},
      {"binomial 200, 0.6", binomial(200, 0.6), 120, 48, 3 + (1 - 6 * 0.24) / 48},
      {"geometric 0.25", [&](const Shape& shape) { return random::geometric(key, 0.25, shape); }, 4, 12,
       9 + 0.0625 / 0.75},
      {"multinomial",
       [&](const Shape& shape) {
         return random::multinomial(key, 10.0, array({0.2, 0.5, 0.3}), {.shape = shape, .dtype = {}})[{ellipsis, 1}];
       },
       5, 2.5, 3 + (1 - 6 * 0.25) / 2.5},
      {"normal", [&](const Shape& shape) { return random::normal(key, shape); }, 0, 1, 3},
      {"exponential", [&](const Shape& shape) { return random::exponential(key, shape); }, 1, 1, 9},
      {"laplace", [&](const Shape& shape) { return random::laplace(key, shape); }, 0, 2, 6},
      {"logistic", [&](const Shape& shape) { return random::logistic(key, shape); }, 0, pi * pi / 3, 4.2},
      {"gumbel", [&](const Shape& shape) { return random::gumbel(key, shape, float32, "highest"); }, 0.5772156649,
       pi * pi / 6, 5.4},
      {"maxwell", [&](const Shape& shape) { return random::maxwell(key, shape); }, 2 * std::sqrt(2 / pi), 3 - 8 / pi,
       3.1082},
      {"rayleigh", [&](const Shape& shape) { return random::rayleigh(key, 2.0, shape); }, 2 * std::sqrt(pi / 2),
       4 * (2 - pi / 2), 3.2451},
      {"wald", [&](const Shape& shape) { return random::wald(key, 2.0, shape); }, 2, 8, 33},
      {"triangular", [&](const Shape& shape) { return random::triangular(key, 0.0, 1.0, 2.0, shape); }, 1, 1.0 / 6,
       2.4},
  };
  for (const Moments& row : rows) {
    const Array x = row.sample({kSize}).astype(float64);
    // Five times what the mean and the variance of so many samples are off by.
    const double size = static_cast<double>(kSize);
    EXPECT_NEAR(mean(x).item<double>(), row.mean, 5 * std::sqrt(row.variance / size)) << row.name;
    EXPECT_NEAR(var(x).item<double>(), row.variance, 5 * row.variance * std::sqrt((row.kurtosis - 1) / size))
        << row.name;
  }
}

TEST(Random, CovariancesByEveryMethod) {
  const Array cov = array({{2.0, 0.6}, {0.6, 1.0}});
  for (const char* method : {"cholesky", "eigh", "svd"}) {
    const Array x = random::multivariate_normal(key_42(), array({1.0, -1.0}), cov, {50000}, {{}, method});
    EXPECT_TRUE(allclose(mean(x, {.axis = 0}), array({1.0, -1.0}), {.rtol = 0, .atol = 0.03}).item<bool>()) << method;
    const Array centred = x - mean(x, {.axis = 0});
    EXPECT_TRUE(allclose(matmul(centred.T(), centred) / 50000, cov, {.rtol = 0, .atol = 0.07}).item<bool>()) << method;
  }
  // A singular matrix has no factor of Cholesky. Its least eigenvalue is 0 but for rounding, of which the root is
  // taken.
  const Array line = random::multivariate_normal(key_42(), zeros({2}), ones({2, 2}), {4}, {{}, "eigh"});
  EXPECT_TRUE(allclose(line[{ellipsis, 0}], line[{ellipsis, 1}], {.rtol = 0, .atol = 3e-3}).item<bool>());
}

// ---- What samples are.

TEST(Random, Supports) {
  const Array key = key_42();
  const auto holds = [](const Array& condition) { return all(condition).item<bool>(); };
  const Array u = random::uniform(key, {10000}, bfloat16);
  EXPECT_TRUE(holds((u >= 0) & (u < 1)));
  const Array cut = random::truncated_normal(key, 1.0, 1.01, {10000}, float16);
  EXPECT_TRUE(holds((cut > 1.0) & (cut < 1.01)));
  const Array p = random::dirichlet(key, array({0.01, 0.5, 9.0}), {1000});
  EXPECT_TRUE(holds(abs(sum(p, {.axis = -1}) - 1.0) < 1e-5));
  const Array inside = random::ball(key, 3, 1, {1000});
  EXPECT_TRUE(holds(sum(abs(inside), {.axis = -1}) <= 1.0));
  const Array q = random::orthogonal(key, 4, {10}, float64, 6);
  EXPECT_EQ(q.shape(), (Shape{10, 4, 6}));
  EXPECT_TRUE(holds(abs(matmul(q, swapaxes(q, -1, -2)) - eye(4)) < 1e-14));
  EXPECT_TRUE(holds(sort(random::permutation(key, 1000)) == arange(1000)));
  const std::vector<int> drawn = ints(random::choice(key, 50, {50}, {.replace = false}));
  EXPECT_EQ(std::set<int>(drawn.begin(), drawn.end()).size(), 50U);
  EXPECT_TRUE(same(random::clone(key), key));
  EXPECT_EQ(random::gamma(key, zeros({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(random::gamma(key, ones({3}), {2, 3}, float16).dtype(), float16);
  EXPECT_EQ(random::permutation(key, 0).shape(), Shape{0});
  EXPECT_EQ(random::normal(key, {2, 0}).shape(), (Shape{2, 0}));
  EXPECT_EQ(repr(random::normal(key)).find("weak"), std::string::npos);
}

TEST(Random, IntegersOfTheWholeRange) {
  const Array all = random::randint(key_42(), {1000}, 0, int64_t{1} << 32, uint32);
  EXPECT_GT(max(all).item<std::uint32_t>(), 0xF0000000U);
  const Array bytes = random::randint(key_42(), {10000}, -128, 128, int8);
  EXPECT_EQ(min(bytes).item<int>(), -128);
  EXPECT_EQ(max(bytes).item<int>(), 127);
  const auto least = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(same(random::randint(key_42(), {3}, least, least + 1, int64), full({3}, least, {.dtype = int64})));
}

// ---- On devices, and in places of vmap.

TEST(Random, ShardsMakeTheirOwnPart) {
  const auto check = [](auto sample, const test_support::Collectives& expected = {}) {
    const auto split = [=](const Array& key) {
      return with_sharding_constraint(sample(key), NamedSharding(mesh_4x2(), P("x", "y")));
    };
    EXPECT_EQ(collectives_of(split, key_42()), expected);
    const Array result = jit(split)(key_42());
    EXPECT_EQ(spec_of(result), P("x", "y"));
    EXPECT_TRUE(same(result, sample(key_42())));
  };
  const Shape shape = {8, 6};
  check([=](const Array& key) { return random::bits(key, shape); });
  check([=](const Array& key) { return random::normal(key, shape); });
  check([=](const Array& key) { return random::randint(key, shape, 0, 10); });
  check([=](const Array& key) { return random::split(key, 8); });
  for (const std::string implementation : {"rbg", "unsafe_rbg"}) {
    const auto other = [=](const Array& seed) { return random::key(seed[1], implementation); };
    check([=](const Array& seed) { return random::bits(other(seed), shape); });
    check([=](const Array& seed) { return random::bits(other(seed), shape, uint64); });
    check([=](const Array& seed) { return random::normal(other(seed), shape); });
    check([=](const Array& seed) { return random::key_data(random::split(other(seed), 8)); });
  }
  check([=](const Array& key) { return random::categorical(key, zeros({5}), {.shape = shape}); });
  check([=](const Array& key) { return random::choice(key, 9, shape); });
  // What is sent is whether all shards are done.
  check([=](const Array& key) { return random::poisson(key, 20.0, shape); }, {{"all_reduce", 2}});
}

// Keys that differ between devices, as programs make them inside shard_map.
TEST(Random, KeysOfDevices) {
  const auto check = [](const std::function<Array(const Array&)>& sample) {
    const auto of_device = [=](const Array& key) { return sample(random::fold_in(key, lax::axis_index("i"))); };
    const Array result =
        jit(shard_map(of_device, {.mesh = mesh_8(), .in_specs = {P()}, .out_specs = {P("i")}}))(key_42());
    EXPECT_TRUE(same(result[range(8, 12)], sample(random::fold_in(key_42(), 2))));
  };
  check([](const Array& key) { return random::normal(key, {4}); });
  check([](const Array& key) { return random::gamma(key, 0.5, {4}); });
  check([](const Array& key) { return random::poisson(key, array({0.5, 5.0, 20.0, 100.0})); });
  check([](const Array& key) { return random::binomial(key, 50, 0.5, {4}); });
  check([](const Array& key) { return random::multinomial(key, 50, array({0.5, 0.2, 0.2, 0.1})); });
  const auto each = [](Array key) { return random::normal(key, {4}); };
  const Array keys = random::split(key_42(), 8);
  EXPECT_TRUE(same(pmap(each, {.axis_name = "i"})(keys), vmap(each)(keys)));
}

TEST(Random, ExplicitAxesSplitParameters) {
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const Array p = linspace(0.1, 0.9, 32).reshape(8, 4);
  const auto check = [&](auto sample) {
    const Array expected = sample(key_42(), p);
    const use_mesh scope(mesh);
    const Array result = jit(sample)(key_42(), device_put(p, NamedSharding(mesh, P("x", "y"))));
    EXPECT_THAT(type_of(result), HasSubstr("[8@x,4@y]"));
    EXPECT_EQ(repr(device_get(result)), repr(expected));
  };
  check([](const Array& key, const Array& a) { return random::bernoulli(key, a); });
  check([](const Array& key, const Array& a) { return random::gamma(key, a); });
  check([](const Array& key, const Array& a) { return random::poisson(key, 20.0 * a); });
  check([](const Array& key, const Array& a) { return random::binomial(key, 30, a); });
  check([=](const Array& key, const Array&) {
    return reshard(random::normal(key, {8, 4}), NamedSharding(mesh, P("x", "y")));
  });
}

TEST(Random, OfManyKeys) {
  const Array keys = random::split(key_42(), 4);
  const auto check = [&](const std::function<Array(Array)>& sample) {
    const Array many = vmap(sample)(keys);
    for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(same(many[i], sample(keys[i])));
  };
  check([](const Array& key) { return random::normal(key, {2, 3}); });
  check([](const Array& key) { return random::split(key, 3); });
  check([](const Array& key) { return random::permutation(key, 10); });
  check([](const Array& key) { return random::gamma(key, 0.4, {3}); });
  check([](const Array& key) { return random::binomial(key, array({5.0, 90.0}), 0.5); });
  const Array folded = vmap([](const Array& i) { return random::fold_in(key_42(), i); })(arange(3));
  EXPECT_TRUE(same(folded[2], random::fold_in(key_42(), 2)));
}

TEST(Random, Derivatives) {
  const auto of_scale = [](const Array& scale) { return random::rayleigh(key_42(), scale); };
  EXPECT_FLOAT_EQ(grad(of_scale)(Array(2.0)).item<float>(), of_scale(Array(2.0)).item<float>() / 2);
  const auto of_bound = [](const Array& low) { return random::uniform(key_42(), {}, float64, low, 1.0); };
  const double u = of_bound(full({}, 0.0, {.dtype = float64})).item<double>();
  EXPECT_DOUBLE_EQ(grad(of_bound)(full({}, 0.5, {.dtype = float64})).item<double>(), 1 - u);
}

// ---- Mistakes.

template <class E>
std::string message_of(const std::function<Array()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

TEST(Random, WhatIsNoKey) {
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::normal(zeros({2}), {3}); }),
              HasSubstr("normal: the key is float32[2]; keys are made by key, split and fold_in"));
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::split(7, 3); }), HasSubstr("split: the key is int32[]"));
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::bits(zeros({4}, {.dtype = uint32})); }),
              HasSubstr("bits: the key is uint32[4]"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::gamma(random::split(key_42(), 3), 1.0); }),
              HasSubstr("gamma: takes one key, but uint32[3,2] holds 3; vmap takes each"));
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::PRNGKey(1.5); }),
              HasSubstr("PRNGKey: the seed is float32[]; it must be an integer scalar"));
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::PRNGKey(arange(3)); }), HasSubstr("int32[3]"));
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::fold_in(key_42(), arange(3)); }),
              HasSubstr("fold_in: the data is int32[3]; it must be a scalar"));
  EXPECT_THROW(random::fold_in(key_42(), -1), OutOfRange);
}

TEST(Random, KeysOfTheirOwnDtype) {
  const Array key = random::key(42);
  EXPECT_EQ(key.dtype(), key_fry);
  EXPECT_EQ(key.shape(), Shape{});
  EXPECT_EQ(str(key), "Array((), dtype=key<fry>) overlaying:\n[ 0 42]");
  EXPECT_TRUE(same(random::key_data(key), key_42()));
  EXPECT_TRUE(same(random::normal(key, {5}), random::normal(key_42(), {5})));
  const Array keys = random::split(key, 16);
  EXPECT_EQ(to_string(type_of(keys)), to_string(type_of(random::wrap_key_data(random::split(key_42(), 16)))));
  EXPECT_TRUE(same(random::key_data(keys), random::split(key_42(), 16)));
  // Split over devices, moved, mapped over, in a loop.
  const Array split = put(keys, mesh_8(), P("i"));
  EXPECT_EQ(split.dtype(), key_fry);
  EXPECT_TRUE(same(random::key_data(flip(split, 0)), flip(random::split(key_42(), 16), 0)));
  const auto draw = [](const Array& own) { return random::uniform(own, {3}); };
  EXPECT_TRUE(same(jit(vmap(draw))(split), vmap(draw)(random::split(key_42(), 16))));
  EXPECT_TRUE(same(lax::map(draw, split), vmap(draw)(keys)));
}

// An array of samples; of keys their words.
Array shown(const Array& made) { return is_key(made.dtype()) ? random::key_data(made) : made; }

TEST(Random, KeysOfEachImplementation) {
  for (const std::string implementation : {"threefry2x32", "rbg", "unsafe_rbg"}) {
    const Array key = random::key(42, implementation);
    EXPECT_EQ(key.dtype(), random::key_dtype(implementation));
    EXPECT_EQ(random::key_impl(key), implementation);
    EXPECT_TRUE(same(random::key_data(key), random::PRNGKey(42, implementation)));
    const Array keys = random::split(key, 16);
    const Array words = random::key_data(keys);
    EXPECT_TRUE(same(random::key_data(random::wrap_key_data(words, implementation)), words));
    const Array split = put(keys, mesh_8(), P("i"));
    const auto agrees = [&](const auto& f) {
      const Array expected = shown(f(keys));
      EXPECT_TRUE(same(shown(f(split)), expected)) << implementation;
      EXPECT_TRUE(same(shown(jit(f)(split)), expected)) << implementation;
    };
    agrees([](const Array& k) { return flip(k, 0); });
    agrees([](const Array& k) { return roll(k, 3); });
    agrees([](const Array& k) { return k[array({3, 9, 15})]; });
    agrees([](const Array& k) { return where(arange(16) < 5, k, k[7]); });
    agrees([](const Array& k) { return k == k[7]; });
    agrees([](const Array& k) { return k != k[7]; });
    agrees([](const Array& k) { return k.at(2).set(k[5]); });
    agrees([](const Array& k) { return transpose(k.reshape({4, 4})); });
    agrees([](const Array& k) { return vmap([](const Array& own) { return random::uniform(own, {3}); })(k); });
    agrees([](const Array& k) { return vmap([](const Array& own) { return random::fold_in(own, 5); })(k); });
    agrees([](const Array& k) { return lax::map([](const Array& own) { return random::split(own, 3); }, k); });
    const auto steps = [](const Array& own) {
      return lax::fori_loop(
          0, 4, [](const Array& i, const Array& now) { return random::fold_in(now, i); }, own);
    };
    agrees([&](const Array& k) { return vmap(steps)(k); });
    agrees([&](const Array& k) {
      return lax::cond(
          all(k == k), [&] { return steps(k[0]); }, [&] { return k[1]; });
    });
  }
}

TEST(Random, TheDefaultImplementation) {
  const auto draw = jit([](const Array& seed) { return random::uniform(random::key(seed)); });
  const Array by_threefry = draw(Array(3));
  random::set_default_implementation("rbg");
  EXPECT_EQ(random::default_implementation(), "rbg");
  const Array raw = random::PRNGKey(3);
  const Array made = random::split(raw, 2);
  const Array folded = random::fold_in(raw, 9);
  const Array by_rbg = draw(Array(3));
  random::set_default_implementation("threefry2x32");
  EXPECT_EQ(raw.shape(), Shape{4});
  const Array key = random::key(3, "rbg");
  EXPECT_TRUE(same(made, random::key_data(random::split(key, 2))));
  EXPECT_TRUE(same(folded, random::key_data(random::fold_in(key, 9))));
  EXPECT_TRUE(same(by_rbg, random::uniform(key)));
  EXPECT_TRUE(same(draw(Array(3)), by_threefry));
  EXPECT_FALSE(same(by_rbg, by_threefry));
  EXPECT_THAT(message_of<TypeMismatch>([&] { return random::normal(raw); }),
              HasSubstr("normal: the key is uint32[4]; keys are made by key, split and fold_in, or raw ones of the "
                        "default implementation 'threefry2x32', uint32[2]"));
  EXPECT_THAT(message_of<TypeMismatch>([&] { return random::wrap_key_data(raw); }),
              HasSubstr("wrap_key_data: the words are uint32[4]; keys of 'threefry2x32' are made of uint32[..., 2]"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { return random::key(0, "philox"); }),
              HasSubstr("key: impl 'philox' does not exist; there are 'threefry2x32', 'rbg' and 'unsafe_rbg'"));
  EXPECT_THAT(message_of<TypeMismatch>([&] {
                return stack({key, random::key(3)});
              }),
              HasSubstr("key<rbg> and key<fry> have no dtype in common: nothing is computed with keys"));
  EXPECT_THROW(random::set_default_implementation("philox"), InvalidArgument);
}

// What JAX 0.12 gives: each word is the number.
TEST(Random, KeysOfNumbers) {
  const Array keys = random::split(random::key(42), 3);
  const auto expect_words = [](const Array& made, std::uint32_t word, const Shape& shape) {
    EXPECT_EQ(made.dtype(), key_fry);
    EXPECT_EQ(made.shape(), shape);
    const Array words = random::key_data(made);
    EXPECT_TRUE(same(words, full(words.shape(), word, {.dtype = uint32})));
  };
  expect_words(zeros_like(keys), 0, {3});
  expect_words(empty_like(keys), 0, {3});
  expect_words(ones_like(keys), 1, {3});
  expect_words(full_like(keys, 7), 7, {3});
  expect_words(jit([](const Array& k) { return full_like(k, 7); })(keys), 7, {3});
  expect_words(zeros({2, 2}, {.dtype = key_fry}), 0, {2, 2});
  expect_words(full({2}, 5, {.dtype = key_fry}), 5, {2});
  EXPECT_TRUE(same(random::key_data(full_like(keys, keys[1]))[2], random::key_data(keys[1])));
  EXPECT_EQ(zeros_like(keys, {.dtype = float32}).dtype(), float32);
}

TEST(Random, NothingIsComputedWithKeys) {
  const Array key = random::key(0);
  const Array keys = random::split(key, 3);
  EXPECT_THAT(message_of<TypeMismatch>([&] { return key + 1; }), HasSubstr("nothing is computed with keys"));
  EXPECT_THAT(message_of<TypeMismatch>([&] { return sum(keys); }),
              HasSubstr("operand 0 is key_fry[3]; nothing is computed with keys"));
  EXPECT_THAT(message_of<TypeMismatch>([&] { return jit([](const Array& k) { return cumsum(k); })(keys); }),
              HasSubstr("operand 0 is key_fry[3]; nothing is computed with keys"));
  EXPECT_THAT(message_of<TypeMismatch>([&] { return lax::bitcast_convert_type(key, uint64); }),
              HasSubstr("cannot be read as uint64; random::key_data and random::wrap_key_data do that for keys"));
  EXPECT_THAT(message_of<TypeMismatch>([&] { return random::wrap_key_data(key); }), HasSubstr("takes bits"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { return random::normal(keys); }),
              HasSubstr("normal: takes one key, but key<fry>[3] holds 3; vmap takes each"));
  EXPECT_THAT(message_of<TypeMismatch>([&] { return Array(key.item<double>()); }),
              HasSubstr("is a key of random numbers"));
  EXPECT_TRUE(static_cast<bool>(all(keys == keys)));
  const Array chosen = where(arange(3) > 0, keys, key);
  EXPECT_EQ(chosen.dtype(), key_fry);
  EXPECT_TRUE(same(random::key_data(chosen[0]), random::key_data(key)));
}

TEST(Random, Dtypes) {
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::uniform(key_42(), {}, int32); }),
              HasSubstr("uniform: dtype is int32; samples are float16, bfloat16, float32 or float64"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::normal(key_42(), {}, int32); }),
              HasSubstr("normal: dtype is int32; samples are floats or complex numbers"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::bits(key_42(), {}, int32); }),
              HasSubstr("bits: dtype is int32"));
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::randint(key_42(), {}, 0, 9, float32); }),
              HasSubstr("randint: dtype is float32; it must be one of integers"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::poisson(key_42(), 1.0, {}, float32); }),
              HasSubstr("poisson: dtype is float32; counts are integers"));
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::bernoulli(key_42(), 1); }),
              HasSubstr("bernoulli: p is int32; probabilities are floats"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::pareto(key_42(), ones({2}), {}, float16); }),
              HasSubstr("pareto: a parameter is float32, which samples of float16 would round"));
  EXPECT_THROW(random::gumbel(key_42(), {}, complex64), InvalidArgument);
  EXPECT_THROW(random::categorical(key_42(), arange(3)), InvalidArgument);
  EXPECT_THROW(random::binomial(key_42(), 3, 0.5, {}, int32), InvalidArgument);
  EXPECT_THROW(random::geometric(key_42(), 0.5, {}, float32), InvalidArgument);
}

TEST(Random, Shapes) {
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::gamma(key_42(), ones({3}), {2}); }),
              HasSubstr("gamma: shapes (2,) and (3,) do not broadcast"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::beta(key_42(), ones({3}), 1.0, {1}); }),
              HasSubstr("beta: parameters of shape (3,) do not broadcast to shape (1,), which the sample shall have"));
  EXPECT_THROW(random::uniform(key_42(), {-1}), InvalidArgument);
  EXPECT_THROW(random::split(key_42(), -1), InvalidArgument);
  EXPECT_THROW(random::randint(key_42(), {2}, zeros({3}), 5), InvalidArgument);
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::multivariate_normal(key_42(), 0.0, eye(2)); }),
              HasSubstr("mean is float32[]; it must be a vector"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::multivariate_normal(key_42(), zeros({2}), eye(3)); }),
              HasSubstr("cov is float32[3,3]; for a mean of 2 it must be a matrix 2 × 2"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::dirichlet(key_42(), 1.0); }),
              HasSubstr("alpha is float32[]; it must have at least one dimension"));
  EXPECT_THROW(random::multinomial(key_42(), ones({3}), array({0.5, 0.5})), InvalidArgument);
}

TEST(Random, WeightsOfLayers) {
  namespace initializers = nn::initializers;
  const auto variance = [](const Array& x) { return mean(square(x)).item<double>(); };
  const Shape shape{40, 5, 2, 60};  // Windows of 200, 2 inputs, 60 outputs.
  for (const char* distribution : {"truncated_normal", "normal", "uniform"}) {
    const auto of = [&](const std::string& mode, Dtype dtype) {
      const initializers::VarianceScalingOptions options{.scale = 3, .mode = mode, .distribution = distribution};
      return variance(real(initializers::variance_scaling(key_42(), shape, options, dtype)));
    };
    EXPECT_NEAR(of("fan_in", float32), 3 / 400.0, 3e-4) << distribution;
    EXPECT_NEAR(of("fan_out", float32), 3 / 12000.0, 1e-5) << distribution;
    EXPECT_NEAR(of("fan_avg", float32), 3 / 6200.0, 2e-5) << distribution;
    EXPECT_NEAR(of("fan_geo_avg", float32), 3 / std::sqrt(400.0 * 12000.0), 6e-5) << distribution;
    EXPECT_NEAR(of("fan_in", complex64), 3 / 800.0, 2e-4) << distribution;
  }
  const initializers::VarianceScalingOptions side_by_side{.in_axis = {0, 1}, .out_axis = {3}, .batch_axis = {2}};
  EXPECT_NEAR(variance(initializers::variance_scaling(key_42(), shape, side_by_side)), 1 / 200.0, 3e-4);
  for (const Shape& wide : {Shape{2, 3, 4}, Shape{4, 2, 20}}) {
    const Array flat = initializers::orthogonal(key_42(), wide, float32, 2.0).reshape({-1, wide.back()});
    const bool is_tall = flat.shape()[0] >= flat.shape()[1];
    const Array product = is_tall ? matmul(transpose(flat), flat) : matmul(flat, transpose(flat));
    EXPECT_TRUE(allclose(product, eye(product.shape()[0]) * 4, {.atol = 1e-5}));
  }
  const Array delta = initializers::delta_orthogonal(key_42(), {3, 4, 5});
  EXPECT_EQ(repr(delta[0]), repr(zeros({4, 5})));
  EXPECT_TRUE(allclose(matmul(delta[1], transpose(delta[1])), eye(4), {.atol = 1e-5}));
  EXPECT_THAT(message_of<InvalidArgument>([] {
                return initializers::variance_scaling(key_42(), {3, 4}, {.mode = "fan"});
              }),
              HasSubstr("variance_scaling: mode 'fan' does not exist; there are 'fan_in'"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return initializers::variance_scaling(key_42(), {3}); }),
              HasSubstr("variance_scaling: shape (3,) has 1 dimensions, and should have at least 2"));
  EXPECT_THROW(initializers::variance_scaling(key_42(), {3, 4}, {.in_axis = {2}}), OutOfRange);
  EXPECT_THROW(initializers::variance_scaling(key_42(), {3, 4}, {}, int32), InvalidArgument);
  EXPECT_THROW(initializers::orthogonal(key_42(), {3}), InvalidArgument);
  EXPECT_THAT(message_of<InvalidArgument>([] {
                return initializers::delta_orthogonal(key_42(), {3, 5, 4});
              }),
              HasSubstr("delta_orthogonal: shape (3, 5, 4) has 5 inputs and 4 outputs"));
}

TEST(Random, WordsAndChoices) {
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::gumbel(key_42(), {}, float32, "middle"); }),
              HasSubstr("gumbel: mode 'middle' does not exist; there are 'low', 'high', 'highest'"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::gamma(key_42(), 1.0, {}, float32, "fast"); }),
              HasSubstr("gamma: method 'fast' does not exist; there are 'exact', 'approximate'"));
  EXPECT_THROW(random::bernoulli(key_42(), 0.5, {}, "highest"), InvalidArgument);
  EXPECT_THROW(random::multivariate_normal(key_42(), zeros({2}), eye(2), {}, {{}, "lu"}), InvalidArgument);
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::choice(key_42(), 0, {2}); }),
              HasSubstr("choice: there is nothing to choose from: a has 0 parts"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::choice(key_42(), 3, {4}, {.replace = false}); }),
              HasSubstr("choice: cannot choose 4 of 3 without replacement"));
  EXPECT_THAT(message_of<InvalidArgument>([] { return random::choice(key_42(), 3, {}, {.p = ones({2})}); }),
              HasSubstr("choice: p has shape (2,); it must be a vector of 3"));
  EXPECT_THAT(message_of<TypeMismatch>([] { return random::choice(key_42(), 1.5); }),
              HasSubstr("choice: float32[] is neither an integer nor an array"));
  EXPECT_THAT(message_of<InvalidArgument>(
                  [] { return random::categorical(key_42(), zeros({3}), {.shape = {4}, .replace = false}); }),
              HasSubstr("categorical: cannot draw 4 of 3 categories without replacement"));
  EXPECT_THROW(random::permutation(key_42(), 2.5), TypeMismatch);
  EXPECT_THROW(random::permutation(key_42(), arange(3), {.axis = 1}), OutOfRange);
  EXPECT_THROW(jit([](const Array& n) { return random::permutation(key_42(), n); })(Array(3)), InvalidState);
}

}  // namespace
}  // namespace shoal::test
