// Static arguments of jitted functions, and calls of functions whose parameter types are known.
#include <string>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

enum class Mode { kSum, kMax };

struct Settings {
  int power = 1;
  std::string note;
  std::size_t hash() const { return std::hash<int>()(power); }
  friend bool operator==(const Settings&, const Settings&) = default;
};

struct StaticArgumentsParams {
  Array w;
  std::vector<Array> biases;
};

Array scaled(const Array& x, int factor) { return x * factor; }

template <class T>
concept CanBeStatic = detail::is_hashable<T>() && std::equality_comparable<T>;
struct Incomparable {
  int x;
};
static_assert(CanBeStatic<int> && CanBeStatic<Mode> && CanBeStatic<std::string> && CanBeStatic<Settings>);
static_assert(CanBeStatic<Shape> && CanBeStatic<Mesh> && CanBeStatic<PartitionSpec> && CanBeStatic<Dtype>);
static_assert(!CanBeStatic<Incomparable> && !CanBeStatic<std::vector<Incomparable>>);

static_assert(detail::holds_arrays<Array>() && detail::holds_arrays<StaticArgumentsParams>() &&
              detail::holds_arrays<std::tuple<>>());
static_assert(detail::holds_arrays<std::pair<int, Array>>() && detail::holds_arrays<std::map<std::string, Array>>());
static_assert(!detail::holds_arrays<int>() && !detail::holds_arrays<Settings>() && !detail::holds_arrays<Shape>());

TEST(StaticArguments, AreKnownWhileTracing) {
  int traces = 0;
  const auto f = jit([&](const Array& x, int power, bool negate) {
    ++traces;
    Array result = x;
    for (int i = 1; i < power; ++i) result = result * x;
    return negate ? -result : result;
  });
  EXPECT_EQ(f(3, 2, false).item<int>(), 9);
  EXPECT_EQ(f(2, 3, true).item<int>(), -8);
  EXPECT_EQ(traces, 2);
  EXPECT_EQ(f(5, 2, false).item<int>(), 25);
  EXPECT_EQ(f(3, 3, true).item<int>(), -27);
  EXPECT_EQ(traces, 2) << "the same values again";
  EXPECT_EQ(f(5, 2, true).item<int>(), -25);
  EXPECT_EQ(traces, 3);
}

TEST(StaticArguments, OfManyTypes) {
  int traces = 0;
  const auto f =
      jit([&](Mode mode, const Array& x, const std::string& axis, const Settings& settings, const Shape& shape) {
        ++traces;
        const Array y = x.reshape(shape) * settings.power;
        const int dim = axis == "rows" ? 0 : 1;
        return mode == Mode::kSum ? y.sum(dim) : y.max({.axis = dim});
      });
  const Array x = iota({6});
  EXPECT_EQ(floats(f(Mode::kSum, x, "rows", {}, {2, 3})), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(floats(f(Mode::kMax, x, "rows", {}, {2, 3})), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(floats(f(Mode::kMax, x, "columns", {}, {2, 3})), (std::vector<float>{2, 5}));
  EXPECT_EQ(floats(f(Mode::kMax, x, "columns", {.power = 2, .note = ""}, {2, 3})), (std::vector<float>{4, 10}));
  EXPECT_EQ(floats(f(Mode::kMax, x, "columns", {}, {3, 2})), (std::vector<float>{1, 3, 5}));
  EXPECT_EQ(traces, 5);
  f(Mode::kMax, x, std::string("columns"), Settings{}, Shape{3, 2});
  EXPECT_EQ(traces, 5);
  f(Mode::kMax, x, "columns", {.power = 1, .note = "same hash"}, {3, 2});
  EXPECT_EQ(traces, 6) << "equality decides, not the hash";
}

TEST(StaticArguments, OfFunctionsThatTakeAnything) {
  int traces = 0;
  const auto f = jit([&](const auto& x, auto n) {
    ++traces;
    if constexpr (std::is_same_v<decltype(n), int>) {
      return x * n;
    } else {
      return x + n;
    }
  });
  EXPECT_EQ(f(5, 2).item<int>(), 7) << "a number is an array";
  EXPECT_EQ(f(5, static_arg(2)).item<int>(), 10);
  EXPECT_EQ(f(6, static_arg(2)).item<int>(), 12);
  EXPECT_EQ(traces, 2);
  EXPECT_EQ(f(6, static_arg(3)).item<int>(), 18);
  EXPECT_EQ(traces, 3);
  const auto named = jit([](const auto& x, const auto& name) { return x * static_cast<int>(name.size()); });
  EXPECT_EQ(named(2, static_arg("four")).item<int>(), 8);
}

TEST(StaticArguments, CanBeWrappedForKnownTypesToo) {
  EXPECT_EQ(jit(scaled)(4, static_arg(3)).item<int>(), 12);
  EXPECT_EQ(jit(&scaled)(4, 3).item<int>(), 12);
}

TEST(StaticArguments, OfDifferentTypesDiffer) {
  int traces = 0;
  const auto f = jit([&](const auto& x, auto n) {
    ++traces;
    return x * static_cast<int>(n);
  });
  EXPECT_EQ(f(2, static_arg(1)).template item<int>(), 2);
  EXPECT_EQ(f(2, static_arg(1L)).template item<int>(), 2);
  EXPECT_EQ(f(2, static_arg(true)).template item<int>(), 2);
  EXPECT_EQ(traces, 3);
}

TEST(StaticArguments, InNestedCalls) {
  int traces = 0;
  const auto inner = jit([&](const Array& x, int n) {
    ++traces;
    return x * n;
  });
  const auto outer = jit([&](const Array& x, int n) { return inner(x, n) + inner(x, n) + inner(x, 1); });
  EXPECT_EQ(outer(2, 5).item<int>(), 22);
  EXPECT_EQ(traces, 2);
}

TEST(StaticArguments, InShardMap) {
  const auto f = shard_map([](const Array& x, const std::string& axis) { return lax::psum(x, axis); },
                           {.mesh = mesh_8(), .in_specs = P("i"), .out_specs = P()});
  EXPECT_EQ(floats(f(iota({8}), "i")), (std::vector<float>{28}));
  EXPECT_EQ(floats(jit(f)(iota({8}), "i")), (std::vector<float>{28}));
}

TEST(StaticArguments, HaveNoPlaceInShardingsAndPaths) {
  const NamedSharding rows(mesh_4x2(), P("x"));
  const NamedSharding columns(mesh_4x2(), P("y"));
  const auto f =
      jit([](const Array& a, int n, const Array& b) { return a * n + b.sum(); }, {.in_shardings = {rows, columns}});
  const auto lowered = f.lower(iota({8}), 3, iota({4}));
  EXPECT_EQ(to_string(lowered.in_tree()), "tuple([0]: leaf, [2]: leaf)");
  const auto compiled = lowered.compile();
  EXPECT_EQ(compiled.input_shardings(), (std::vector<Sharding>{rows, columns}));
  EXPECT_EQ(floats(compiled(iota({8}), iota({4}))), floats(iota({8}) * 3 + 6)) << "static ones are not passed again";
  const auto any = jit([](const auto& a, auto n) { return a * n; }).lower(iota({2}), static_arg(4)).compile();
  EXPECT_EQ(floats(any(iota({2}))), (std::vector<float>{0, 4}));
}

TEST(StaticArguments, OfTextAreKept) {
  std::string text = "ab";
  int traces = 0;
  const auto f = jit([&](const Array& x, std::string_view name) {
    ++traces;
    return x * static_cast<int>(name.size());
  });
  EXPECT_EQ(f(1, text).item<int>(), 2);
  text = "abc";
  EXPECT_EQ(f(1, text).item<int>(), 3);
  EXPECT_EQ(f(1, "ab").item<int>(), 2);
  EXPECT_EQ(traces, 2);
}

TEST(KnownParameters, TakeBracesAndNumbers) {
  const auto f = jit([](const StaticArgumentsParams& p, const Array& scale) { return (p.w + p.biases[0]) * scale; });
  EXPECT_EQ(f({.w = 1, .biases = {2}}, 3).item<int>(), 9);
  EXPECT_EQ(f.eval_shape({.w = 1.5, .biases = {2}}, 3).dtype(), float32);
  const std::function<Array(Array)> g = [](Array x) { return x + 1; };
  EXPECT_EQ(jit(g)(1).item<int>(), 2);
  EXPECT_EQ(jit(nn::sigmoid)(0.0).item<float>(), 0.5F);
  EXPECT_EQ(jit([](const Operand& x, const Operand& y) { return x - y; })(3, 1).item<int>(), 2);
}

}  // namespace
}  // namespace shoal::test
