// Functions with rules of the user's, which say something else than their derivatives do, so that it is seen that they
// are asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/shape_mismatch.h"
#include "frontend/array/tracer_errors.h"
#include "frontend/test_support.h"
#include "sharding/test_support.h"
#include "shoal/control_flow.h"
#include "shoal/custom_batching.h"
#include "shoal/custom_derivatives.h"
#include "shoal/derivatives.h"
#include "shoal/jit.h"
#include "shoal/linalg.h"
#include "shoal/shard_map.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

using test_support::message_of;
using ::testing::HasSubstr;

using Function = std::function<Array(const Array&)>;
using One = std::tuple<Array>;

// sin, whose derivative is three times what it should be.
Function forward_rule() {
  return custom_jvp([](const Array& x) { return sin(x); },
                    [](const One& primals, const One& tangents) {
                      const Array& x = std::get<0>(primals);
                      return std::pair(sin(x), 3.0 * cos(x) * std::get<0>(tangents));
                    });
}

// The same in reverse.
Function reverse_rule() {
  return custom_vjp([](const Array& x) { return sin(x); }, [](const Array& x) { return std::pair(sin(x), cos(x)); },
                    [](const Array& kept, const Array& cotangent) { return 3.0 * kept * cotangent; });
}

Array numbers() { return array({0.5f, -1.0f, 2.0f}); }
std::string thrice(const Array& x) { return str(3.0 * cos(x)); }

struct Way {
  std::string name;
  std::function<Function(const Function&)> around;  // A function that gives what the other does.
};

std::vector<Way> ways() {
  const auto scanned = [](const Function& f) -> Function {
    return [f](const Array& x) {
      return lax::scan([&](const Array& carry, const Array& slice) { return std::pair(carry, f(slice)); }, Array(0.0f),
                       x)
          .second;
    };
  };
  const auto on_devices = [](const Function& f, bool checked) -> Function {
    return [f, checked](const Array& x) {
      const Mesh mesh = make_mesh({3}, {"i"});
      return shard_map(f, {.mesh = mesh, .in_specs = {P("i")}, .out_specs = P("i"), .check_vma = checked})(x);
    };
  };
  return {
      {"itself", [](const Function& f) { return f; }},
      {"jit", [](const Function& f) { return jit(f); }},
      {"vmap", [](const Function& f) -> Function { return vmap(f); }},
      {"vmap of jit", [](const Function& f) -> Function { return vmap(jit(f)); }},
      {"scan", scanned},
      {"cond",
       [](const Function& f) -> Function {
         return [f](const Array& x) {
           return lax::cond(
               sum(x) > 0, f, [](const Array& v) { return v * 7.0; }, x);
         };
       }},
      {"checkpoint", [](const Function& f) -> Function { return checkpoint(f); }},
      {"checkpoint of scan", [=](const Function& f) -> Function { return checkpoint(scanned(f)); }},
      {"shard_map", [=](const Function& f) { return on_devices(f, true); }},
      {"unchecked shard_map", [=](const Function& f) { return on_devices(f, false); }},
  };
}

class CustomRules : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, CustomRules, ::testing::ValuesIn(ways()), [](const auto& way) {
  std::string name = way.param.name;
  std::erase(name, ' ');
  return name;
});

TEST_P(CustomRules, AreAskedForTheDerivativeAndNotForTheValue) {
  const Array x = numbers();
  for (const Function& f : {forward_rule(), reverse_rule()}) {
    const Function inside = GetParam().around(f);
    EXPECT_EQ(str(inside(x)), str(sin(x)));
    const auto total = [&](const Array& v) { return sum(inside(v)); };
    EXPECT_EQ(str(grad(total)(x)), thrice(x));
    EXPECT_EQ(str(jit(grad(total))(x)), thrice(x));
    // Of what a rule computes the derivative is what it is.
    const Array second = grad([&](const Array& v) { return sum(grad(total)(v)); })(x);
    EXPECT_EQ(str(second), str(-3.0 * sin(x)));
  }
  const Function inside = GetParam().around(forward_rule());
  EXPECT_EQ(str(jvp(inside, std::tuple(x), std::tuple(x)).second), str(3.0 * cos(x) * x));
}

TEST(CustomRulesTest, ValuesAreKnownToRulesOutsideOfJit) {
  const auto absolute = custom_jvp([](const Array& x) { return x > 0 ? x : -x; },
                                   [](const One& primals, const One& tangents) {
                                     const Array& x = std::get<0>(primals);
                                     const Array& t = std::get<0>(tangents);
                                     return x > 0 ? std::pair(x, t) : std::pair(-x, -5.0 * t);
                                   });
  EXPECT_EQ(str(absolute(Array(-2.0f))), "2.0");
  EXPECT_EQ(str(grad(absolute)(Array(2.0f))), "1.0");
  EXPECT_EQ(str(grad(absolute)(Array(-2.0f))), "-5.0");
}

TEST(CustomRulesTest, ReverseRulesGiveACotangentToEachArgument) {
  struct Pair {
    Array sum;
    Array product;
  };
  const auto f = custom_vjp(
      [](const Array& a, const Array& b) {
        return Pair{a + b, a * b};
      },
      [](const Array& a, const Array& b) {
        return std::pair(Pair{a + b, a * b}, std::tuple(a, b));
      },
      [](const std::tuple<Array, Array>& kept, const Pair& cotangent) {
        const auto& [a, b] = kept;
        return std::tuple(cotangent.sum + 10.0 * cotangent.product * b, cotangent.product * a);
      });
  const auto value = [&](const Array& a, const Array& b) {
    const Pair pair = f(a, b);
    return pair.sum + 2.0 * pair.product;
  };
  const auto [a, b] = grad<0, 1>(value)(3.0f, 4.0f);
  EXPECT_EQ(str(a), "81.0");
  EXPECT_EQ(str(b), "6.0");
  // An argument that is the same in all places has the sum over these.
  const auto mapped = [&](const Array& y) {
    return sum(vmap(value, {.in_axes = {0, std::nullopt}})(array({1.0f, 2.0f}), y));
  };
  EXPECT_EQ(str(grad(mapped)(Array(4.0f))), "6.0");
}

TEST(CustomRulesTest, ARuleMayDifferentiateWhatItsTangentsScale) {
  const auto f = custom_jvp([](const Array& x) { return x * 1.0; },
                            [](const One& primals, const One& tangents) {
                              const Array& t = std::get<0>(tangents);
                              const auto scaled = [&](const Array& y) { return sum(y * y * t); };
                              return std::pair(std::get<0>(primals), grad(scaled)(std::get<0>(primals)));
                            });
  const auto total = [&](const Array& x) { return sum(f(x)); };
  EXPECT_EQ(str(grad(total)(numbers())), str(2.0 * numbers()));
  EXPECT_EQ(str(jit(grad(total))(numbers())), str(2.0 * numbers()));
}

TEST(CustomRulesTest, RulesInGraphsUseArraysFromOutside) {
  const Array scale = array({1.0f, 2.0f, 3.0f});
  const auto f = custom_vjp([](const Array& x) { return x * 1.0; }, [](const Array& x) { return std::pair(x, x); },
                            [=](const Array&, const Array& cotangent) { return cotangent * scale; });
  const auto traced = jit([=](const Array& x) { return sum(f(x)); });
  EXPECT_EQ(str(grad(traced)(numbers())), "[1. 2. 3.]");
}

TEST(CustomRulesTest, ALinearCallIsTransposedAsTheUserSays) {
  const auto scaled = [](const Array& factor, const Array& x) { return factor * x; };
  const auto back = [](const Array& factor, const Array& cotangent) { return 10.0 * factor * cotangent; };
  const auto f = [&](const Array& x) { return linear_call(scaled, back, Array(2.0f), x); };
  EXPECT_EQ(str(f(numbers())), str(2.0 * numbers()));
  EXPECT_EQ(str(jvp(f, std::tuple(numbers()), std::tuple(numbers())).second), str(2.0 * numbers()));
  const auto total = [&](const Array& x) { return sum(f(x)); };
  EXPECT_EQ(str(grad(total)(numbers())), "[20. 20. 20.]");
  EXPECT_EQ(str(grad([&](const Array& x) { return sum(vmap(f)(x)); })(numbers())), "[20. 20. 20.]");
  // By what it is not linear in it is a function like any other.
  const auto by_factor = [&](const Array& factor) { return sum(linear_call(scaled, back, factor, numbers())); };
  EXPECT_EQ(str(grad(by_factor)(Array(2.0f))), str(sum(numbers())));
}

// In reverse a rule may use what has a derivative in reverse alone.
TEST(CustomRulesTest, RulesUseRulesForTheReverse) {
  const auto cubed = custom_jvp([](const Array& v) { return reverse_rule()(v); },
                                [](const One& p, const One& t) { return jvp(reverse_rule(), p, t); });
  const auto total = [&](const Array& v) { return sum(cubed(v) * v); };
  const auto direct = [](const Array& v) { return sum(reverse_rule()(v) * v); };
  EXPECT_EQ(str(grad(total)(numbers())), str(grad(direct)(numbers())));
  EXPECT_EQ(str(jit(grad(total))(numbers())), str(grad(direct)(numbers())));
  EXPECT_EQ(str(grad(jit(total))(numbers())), str(grad(direct)(numbers())));
  EXPECT_THAT(message_of<TypeMismatch>([&] { jvp(cubed, std::tuple(numbers()), std::tuple(numbers())); }),
              HasSubstr("a function with custom_vjp has a derivative in reverse alone"));
}

// What is mapped around a call, inside of the derivative or outside, may be used by it and its rule.
TEST(CustomRulesTest, UseArraysOfVmapFromOutside) {
  const auto times = [](const Array& x) {
    return custom_jvp([x](const Array& y) { return x * y; },
                      [x](const One& primals, const One& tangents) {
                        return std::pair(x * std::get<0>(primals), 10.0F * x * std::get<0>(tangents));
                      });
  };
  const Array places = array({0.0f, 1.0f, 2.0f});
  const Function inside = [&](const Array& z) { return vmap([&](const Array& x) { return times(x)(z); })(places); };
  const Function both = [&](const Array& z) {
    return vmap([&](const Array& x, const Array& y) { return times(x)(y); })(places, z);
  };
  for (const bool compiled : {false, true}) {
    const auto run = [&](const Function& f, const Array& at) { return floats(compiled ? jit(f)(at) : f(at)); };
    const auto change = [](const Function& f) -> Function {
      return [f](const Array& z) { return jvp(f, std::tuple(z), std::tuple(ones_like(z))).second; };
    };
    const auto gradient = [](const Function& f) -> Function {
      return [f](const Array& z) { return grad([&](const Array& v) { return sum(f(v)); })(z); };
    };
    EXPECT_EQ(run(inside, Array(1.0f)), (std::vector<float>{0, 1, 2}));
    EXPECT_EQ(run(change(inside), Array(1.0f)), (std::vector<float>{0, 10, 20}));
    EXPECT_EQ(run(gradient(inside), Array(1.0f)), (std::vector<float>{30}));
    EXPECT_EQ(run(change(both), numbers()), (std::vector<float>{0, 10, 20}));
    EXPECT_EQ(run(gradient(both), numbers()), (std::vector<float>{0, 10, 20}));
  }
  const Function in_reverse = [&](const Array& z) {
    return vmap([&](const Array& x) {
      return custom_vjp([x](const Array& y) { return x * y; },
                        [x](const Array& y) { return std::pair(x * y, std::tuple<>()); },
                        [x](std::tuple<>, const Array& g) { return x * g; })(z);
    })(places);
  };
  EXPECT_THAT(message_of<LeakedTracer>([&] { grad([&](const Array& z) { return sum(in_reverse(z)); })(Array(1.0f)); }),
              HasSubstr("uses an array from outside that is mapped inside of the derivative"));
}

TEST(CustomRulesTest, BadRulesAreRefused) {
  const Array x = numbers();
  const auto with_rule = [](auto rule) { return custom_jvp([](const Array& v) { return v * 1.0; }, rule); };
  const auto change = [&](const auto& f) { return jvp(f, std::tuple(numbers()), std::tuple(numbers())); };
  const auto of_shape =
      with_rule([](const One& p, const One& t) { return std::pair(std::get<0>(p), sum(std::get<0>(t))); });
  EXPECT_THAT(message_of<ShapeMismatch>([&] { change(of_shape); }),
              HasSubstr("the rule's tangent 0 is float32[], and should have the shape of its array, float32[3]"));
  const auto of_type =
      with_rule([](const One& p, const One& t) { return std::pair(std::get<0>(p), std::get<0>(t).astype(float16)); });
  EXPECT_THAT(message_of<TypeMismatch>([&] { change(of_type); }),
              HasSubstr("the rule's tangent 0 is float16[3], and should have the type of its array, float32[3]"));
  const auto squared =
      with_rule([](const One& p, const One& t) { return std::pair(std::get<0>(p), std::get<0>(t) * std::get<0>(t)); });
  EXPECT_THAT(message_of<Unsupported>([&] { change(squared); }), HasSubstr("multiply of a tangent is not linear"));
  const auto shifted =
      with_rule([](const One& p, const One& t) { return std::pair(std::get<0>(p), std::get<0>(t) + std::get<0>(p)); });
  EXPECT_THAT(message_of<Unsupported>([&] { change(shifted); }),
              HasSubstr("add of a tangent and of a value that does not depend on tangents is not linear"));
  const auto from_zero = with_rule([](const One& p, const One& t) {
    return std::pair(std::get<0>(p), 0 + std::get<0>(t) + zeros_like(std::get<0>(p)));
  });
  EXPECT_EQ(floats(change(from_zero).second), floats(numbers()));
  EXPECT_EQ(floats(jit([&](const Array& v) { return jvp(from_zero, std::tuple(v), std::tuple(v)).second; })(numbers())),
            floats(numbers()));
  // Inside what holds graphs, too.
  const auto in_body = [&](const auto& f) {
    return with_rule([f](const One& p, const One& t) { return std::pair(std::get<0>(p), f(std::get<0>(t))); });
  };
  const auto sine = in_body(jit([](const Array& t) { return sin(t); }));
  EXPECT_THAT(message_of<Unsupported>([&] { change(sine); }), HasSubstr("sin of a tangent is not linear"));
  const auto one_more = in_body(jit([](const Array& t) { return t + 1; }));
  EXPECT_THAT(message_of<Unsupported>([&] { change(one_more); }), HasSubstr("does not depend on tangents"));
  const auto power = in_body([](const Array& t) {
    return lax::fori_loop(
        0, 3, [&](const Array&, const Array& y) { return y * t; }, t);
  });
  EXPECT_THAT(message_of<Unsupported>([&] { change(power); }), HasSubstr("multiply of a tangent is not linear"));
  const auto until = in_body([](const Array& t) {
    return lax::while_loop([](const Array& y) { return max(y) < 9; }, [](const Array& y) { return y + y; }, t);
  });
  EXPECT_THAT(message_of<Unsupported>([&] { change(until); }), HasSubstr("of a tangent is not linear"));
  const auto chosen = in_body([](const Array& t) {
    return lax::cond(
        max(t) < 9, [](const Array& y) { return y; }, [](const Array& y) { return 2 * y; }, t);
  });
  EXPECT_THAT(message_of<Unsupported>([&] { change(chosen); }), HasSubstr("of a tangent is not linear"));
  const auto doubled = in_body([](const Array& t) {
    return lax::fori_loop(
        0, 3, [](const Array&, const Array& y) { return y + y; }, t);
  });
  EXPECT_EQ(str(change(doubled).second), str(8 * numbers()));
  EXPECT_THAT(message_of<TypeMismatch>([&] { change(reverse_rule()); }),
              HasSubstr("a function with custom_vjp has a derivative in reverse alone"));
  const auto by_capture = [&](const Array& w) {
    const auto f =
        custom_jvp([&](const Array& v) { return v * w; },
                   [&](const One& p, const One& t) { return std::pair(std::get<0>(p) * w, std::get<0>(t) * w); });
    return sum(f(x));
  };
  EXPECT_THAT(message_of<LeakedTracer>([&] { grad(by_capture)(Array(2.0f)); }),
              HasSubstr("uses an array from outside that is differentiated; pass it as an argument"));
}

// A sum whose rule is ten times what it should be.
Array total_by_rule(const Array& x, const Array& y) {
  const auto f =
      custom_vmap([](const Array& a, const Array& b) { return sum(a) * b; },
                  [](std::int64_t size, const std::vector<bool>& mapped, const std::tuple<Array, Array>& arguments) {
                    const auto& [a, b] = arguments;
                    const Array sums = mapped[0] ? sum(a, {.axis = 1}) : sum(a);
                    const Array each = mapped[1] ? b : broadcast_to(b, {size});
                    return std::pair(10.0 * sums * each, std::vector<bool>{true});
                  });
  return f(x, y);
}

TEST(CustomVmap, IsWhatTheRuleSays) {
  const Array x = array({{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}});
  const Array y = array({1.0f, 2.0f, 3.0f});
  EXPECT_EQ(str(total_by_rule(x, Array(2.0f))), "42.0");
  EXPECT_EQ(str(jit(total_by_rule)(x, Array(2.0f))), "42.0");
  EXPECT_EQ(str(grad(total_by_rule)(x, Array(2.0f))[0]), "[2. 2.]");
  const auto by_rows = vmap(total_by_rule, {.in_axes = {0, none}});
  const auto by_both = vmap(total_by_rule);
  for (const bool traced : {false, true}) {
    const auto rows = [&](const Array& a, const Array& b) { return traced ? jit(by_rows)(a, b) : by_rows(a, b); };
    EXPECT_EQ(str(rows(x, Array(2.0f))), "[ 60. 140. 220.]");
    EXPECT_EQ(str(grad([&](const Array& a) { return sum(rows(a, Array(2.0f))); })(x)[1]), "[20. 20.]");
  }
  EXPECT_EQ(str(by_both(x, y)), "[ 30. 140. 330.]");
  EXPECT_EQ(str(vmap(jit(total_by_rule))(x, y)), "[ 30. 140. 330.]");
  // The inner rule is done once, for all places of the outer one.
  const auto twice = vmap(by_rows, {.in_axes = {none, 0}});
  EXPECT_EQ(str(twice(x, y)[2]), "[ 90. 210. 330.]");
}

TEST(CustomVmap, OneAfterTheOther) {
  const auto f = sequential_vmap([](const Array& a, const Array& b) { return std::pair(sin(a) * b, a); });
  const auto plain = [](const Array& a, const Array& b) { return std::pair(sin(a) * b, a); };
  const Array x = numbers();
  EXPECT_EQ(str(vmap(f)(x, x * 2.0).first), str(vmap(plain)(x, x * 2.0).first));
  const VmapOptions first{.in_axes = {0, none}};
  EXPECT_EQ(str(vmap(f, first)(x, Array(3.0f)).first), str(vmap(plain, first)(x, Array(3.0f)).first));
  EXPECT_EQ(str(jit(vmap(f, first))(x, Array(3.0f)).second), str(x));
}

TEST(CustomVmap, BadRulesAreRefused) {
  const auto with_rule = [](auto rule) { return custom_vmap([](const Array& v) { return v * 1.0; }, rule); };
  const auto of_size = with_rule([](std::int64_t, const std::vector<bool>&, const One& v) {
    return std::pair(lax::slice_in_dim(std::get<0>(v), 0, 2), std::vector<bool>{true});
  });
  EXPECT_THAT(message_of<ShapeMismatch>([&] { vmap(of_size)(numbers()); }),
              HasSubstr("the rule gives float32[2] for result 0, which should have the 3 places first"));
  const auto of_flags = with_rule([](std::int64_t, const std::vector<bool>&, const One& v) {
    return std::pair(std::get<0>(v), std::vector<bool>{});
  });
  EXPECT_THAT(message_of<TypeMismatch>([&] { vmap(of_flags)(numbers()); }),
              HasSubstr("the rule says of 0 results whether they are mapped, and gives 1"));
}

// x^3 whose rule in reverse branches on the residual and on the cotangent, as none with tracers could; it notes them.
Function branching(std::vector<double>& seen) {
  return custom_vjp([](const Array& x) { return x * x * x; }, [](const Array& x) { return std::pair(x * x * x, x); },
                    [&seen](const Array& x, const Array& g) {
                      seen.push_back(x.item<float>());
                      seen.push_back(g.item<float>());
                      return g.item<float>() < 0 ? zeros_like(x) : 30.0f * x * x * g;
                    });
}

TEST(BackwardWithValues, IsCalledWhereTheDerivativeIsTaken) {
  std::vector<double> seen;
  const Function f = branching(seen);
  EXPECT_EQ(grad([&](const Array& x) { return 5.0f * f(2.0f * x); })(Array(1.5f)).item<float>(), 2700.0f);
  EXPECT_THAT(seen, testing::ElementsAre(3.0, 5.0));
  seen.clear();
  const auto [value, pull_back] = vjp([&](const Array& x) { return f(x) + x; }, Array(2.0f));
  EXPECT_EQ(value.item<float>(), 10.0f);
  EXPECT_TRUE(seen.empty());
  EXPECT_EQ(pull_back(Array(1.0f)).item<float>(), 121.0f);
  EXPECT_EQ(pull_back(Array(-1.0f)).item<float>(), -1.0f);
  EXPECT_THAT(seen, testing::ElementsAre(2.0, 1.0, 2.0, -1.0));
}

TEST(BackwardWithValues, OfSeveralCallsFromTheLastToTheFirst) {
  std::vector<double> seen;
  const Function f = branching(seen);
  // f(f(x) y) + f(x) x, where f is x^3 with ten times its derivative.
  const auto of_two = [&](const Array& x, const Array& y) {
    const Array once = f(x);
    return f(once * y) + once * x;
  };
  const auto [by_x, by_y] = grad<0, 1>(of_two)(Array(2.0f), Array(0.5f));
  // once = 8, the inner derivative 120; the outer one at 4 is 480.
  EXPECT_EQ(by_x.item<float>(), 120.0f * (480.0f * 0.5f + 2.0f) + 8.0f);
  EXPECT_EQ(by_y.item<float>(), 480.0f * 8.0f);
  EXPECT_THAT(seen, testing::ElementsAre(4.0, 1.0, 2.0, 242.0));
}

TEST(BackwardWithValues, IsNotCalledForWhatNobodyUses) {
  std::vector<double> seen;
  const Function f = branching(seen);
  EXPECT_EQ(grad([&](const Array& x) {
              f(x);
              return 3.0f * x;
            })(Array(2.0f))
                .item<float>(),
            3.0f);
  EXPECT_TRUE(seen.empty());
  // Results without a cotangent have zeros.
  const auto two = custom_vjp([](const Array& x) { return std::pair(x, 2.0f * x); },
                              [](const Array& x) { return std::pair(std::pair(x, 2.0f * x), std::tuple<>()); },
                              [](std::tuple<>, const std::pair<Array, Array>& g) {
                                EXPECT_EQ(g.second.item<float>(), 0.0f);
                                return 7.0f * g.first;
                              });
  EXPECT_EQ(grad([&](const Array& x) { return two(x).first; })(Array(2.0f)).item<float>(), 7.0f);
}

TEST(BackwardWithValues, IsDifferentiatedAgain) {
  std::vector<double> seen;
  const Function f = branching(seen);
  EXPECT_EQ(grad(grad(f))(Array(2.0f)).item<float>(), 120.0f);
  EXPECT_THAT(seen, testing::ElementsAre(2.0, 1.0));
  EXPECT_EQ(jvp(grad(f), std::tuple(Array(2.0f)), std::tuple(Array(3.0f))).second.item<float>(), 360.0f);
}

TEST(BackwardWithValues, HasTracersInJit) {
  std::vector<double> seen;
  const Function f = branching(seen);
  EXPECT_THAT(message_of<ValueOfTracer>([&] { jit(grad(f))(Array(2.0f)); }), HasSubstr("needs the value"));
  EXPECT_THAT(message_of<ValueOfTracer>([&] { grad(jit(f))(Array(2.0f)); }), HasSubstr("needs the value"));
}

TEST(BackwardWithValues, GivesGradientsThatLieAsTheirArguments) {
  std::vector<double> seen;
  const Function f = branching(seen);
  const Array x = put(iota({8}), mesh_8(), P("i"));
  const Array made = grad([&](const Array& y) { return f(sum(y * y)); })(x);
  EXPECT_EQ(spec_of(made), P("i"));
  EXPECT_EQ(str(made), str(30.0f * 140.0f * 140.0f * 2.0f * iota({8})));
}

TEST(BackwardWithValues, SaysWhatIsWrongWhereItIs) {
  const auto f = custom_vjp([](const Array& x) { return x; }, [](const Array& x) { return std::pair(x, x); },
                            [](const Array&, const Array& g) {
                              return stack({g, g});
                            });
  EXPECT_EQ(message_of<ShapeMismatch>([&] { grad(f)(Array(2.0f)); }),
            "custom_vjp: the rule's cotangent 0 is float32[2], and should have the shape of its array, float32[]");
  EXPECT_THAT(message_of<TypeMismatch>([&] { jvp(f, std::tuple(Array(2.0f)), std::tuple(Array(2.0f))); }),
              HasSubstr("a function with custom_vjp has a derivative in reverse alone"));
}

}  // namespace
}  // namespace shoal::test
