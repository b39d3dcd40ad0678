// Exported functions: called, differentiated, mapped, stored and loaded.
#include "shoal/export.h"

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "frontend/test_support.h"
#include "shoal/callback.h"
#include "shoal/control_flow.h"
#include "shoal/custom_derivatives.h"
#include "shoal/debug.h"
#include "shoal/derivatives.h"
#include "shoal/vmap.h"

namespace shoal::test {
namespace {

using Weights = std::map<std::string, Array>;

TEST(Export, IsCalledAsTheFunctionWas) {
  const auto f = [](const Weights& weights, const Array& x) {
    Weights next = weights;
    next["w"] = weights.at("w") * 0.5 + x.sum();
    return next;
  };
  const Weights weights{{"w", iota({3})}, {"n", Array(2)}};
  const Array x = iota({4});
  const auto exported = export_function(f, {.name = "step"}, weights, x);
  const auto loaded = deserialize_exported<Weights(Weights, Array)>(exported.serialize());
  const Weights want = f(weights, x);
  const auto check = [&](const auto& called) {
    EXPECT_EQ(called.name(), "step");
    EXPECT_EQ(called.num_devices(), 1);
    EXPECT_EQ(called.in_types().size(), 3U);
    EXPECT_EQ(called.out_tree(), exported.out_tree());
    const Weights at_once = called(weights, x);
    const Weights jitted = jit([&](const Weights& w, const Array& v) { return called(w, v); })(weights, x);
    for (const Weights* given : {&at_once, &jitted}) {
      EXPECT_TRUE(same(given->at("w"), want.at("w")));
      EXPECT_TRUE(same(given->at("n"), want.at("n")));
    }
  };
  check(exported);
  check(loaded);
  EXPECT_EQ(loaded.serialize(), exported.serialize());
}

TEST(Export, IsDifferentiatedAndMapped) {
  const auto f = [](const Array& x) {
    return lax::fori_loop(
               0, 3, [](const Array&, const Array& c) { return sin(c) * 2; }, x)
        .sum();
  };
  const Array x = iota({4}) / 4;
  const auto loaded = deserialize_exported<Array(Array)>(export_function(f, {}, x).serialize());
  const auto call = [&](const Array& v) { return loaded(v); };
  EXPECT_TRUE(same(grad(call)(x), grad(f)(x)));
  EXPECT_TRUE(same(jit(grad(call))(x), jit(grad(f))(x)));
  const auto slope = [](const auto& g) { return [g](const Array& v) { return grad(g)(v).sum(); }; };
  EXPECT_TRUE(same(grad(slope(call))(x), grad(slope(f))(x)));
  const Array many = iota({3, 4}) / 4;
  const auto sines = [](const Array& v) { return sin(v) * 2; };
  const auto exported = deserialize_exported<Array(Array)>(export_function(sines, {}, x).serialize());
  EXPECT_TRUE(same(vmap([&](const Array& v) { return exported(v); })(many), vmap(sines)(many)));
}

TEST(Export, CapturedArraysGoAlong) {
  const Array table = put(iota({8, 2}), mesh_8(), P("i"));
  const Array flags = iota({2}) > 0;
  const auto f = [&](const Array& x) { return where(flags, table * x, -1).sum(); };
  const auto loaded = deserialize_exported<Array(Array)>(export_function(f, {}, Array(2.F)).serialize());
  EXPECT_EQ(loaded(2.F).item<float>(), f(Array(2.F)).item<float>());
}

// What is exported over a mesh runs on any devices of that number; what is not, on any number.
TEST(Export, RunsWhereItsArgumentsLie) {
  const Mesh mesh = mesh_8();
  const auto f = [&](const Array& x) {
    const auto sums = shard_map([](const Array& v) { return lax::psum(v, "i"); },
                                {.mesh = mesh, .in_specs = P("i"), .out_specs = P()});
    return with_sharding_constraint(x * 2 + sums(x), NamedSharding(mesh, P("i")));
  };
  const Array x = iota({8});
  const auto over_mesh = deserialize_exported<Array(Array)>(export_function(f, {}, put(x, mesh, P("i"))).serialize());
  EXPECT_EQ(over_mesh.num_devices(), 8);
  std::vector<Device> reversed = devices();
  std::ranges::reverse(reversed);
  const Mesh other(reversed, {8}, {"i"});
  for (const Mesh& on : {mesh, other}) {
    const Array given = over_mesh(put(x, on, P("i")));
    EXPECT_EQ(floats(given), floats(x * 2 + 28));
    EXPECT_EQ(given.sharding(), Sharding(NamedSharding(on, P("i"))));
  }
  EXPECT_THROW(over_mesh(x), InvalidArgument);
  EXPECT_THROW(over_mesh(device_put(x, devices()[3])), InvalidArgument);

  const auto anywhere = export_function([](const Array& v) { return v * 2; }, {}, x);
  EXPECT_EQ(anywhere.num_devices(), 1);
  EXPECT_EQ(anywhere(put(x, other, P("i"))).sharding(), Sharding(NamedSharding(other, P("i"))));
  const auto mapped = shard_map(
      [&](const Array& v) {
        return export_function([](const Array& w) { return sin(w); }, {}, ShapeDtypeStruct{{1}, float32})(v);
      },
      {.mesh = mesh, .in_specs = P("i"), .out_specs = P("i")});
  EXPECT_TRUE(same(mapped(x), sin(x)));
}

TEST(Export, OverExplicitAxes) {
  const Mesh mesh = make_mesh({8}, {"i"}, {.axis_types = {AxisType::kExplicit}});
  const Array x = device_put(iota({8, 2}), NamedSharding(mesh, P("i")));
  const auto f = [](const Array& v) { return sin(v).T(); };
  const auto loaded = deserialize_exported<Array(Array)>(export_function(f, {}, x).serialize());
  const Array given = loaded(x);
  EXPECT_TRUE(same(given, f(x)));
  EXPECT_EQ(given.sharding(), f(x).sharding());
}

// Rules stay behind, but for calls in the process that exports.
TEST(Export, RulesOfTheirOwn) {
  using One = std::tuple<Array>;
  const auto doubled = custom_jvp([](const Array& x) { return sin(x); },
                                  [](const One& primals, const One& tangents) {
                                    return std::pair(sin(std::get<0>(primals)), 2 * std::get<0>(tangents));
                                  });
  const auto exported = export_function([&](const Array& x) { return doubled(x) * 3; }, {}, Array(1.F));
  EXPECT_EQ(grad([&](const Array& x) { return exported(x); })(Array(1.F)).item<float>(), 6);
  const auto loaded = deserialize_exported<Array(Array)>(exported.serialize());
  EXPECT_EQ(grad([&](const Array& x) { return loaded(x); })(Array(1.F)).item<float>(),
            cos(Array(1.F)).item<float>() * 3);
}

std::string message_of_misuse(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Export, TellsWhatDoesNotFit) {
  const Array x = iota({4});
  const auto f = export_function([](const Array& v) { return v * 2; }, {.name = "twice"}, x);
  const auto told = [](const std::function<void()>& g) { return message_of_misuse(g); };
  EXPECT_THAT(told([&] { f(iota({5})); }),
              testing::HasSubstr("twice: argument [0] is float32[5], but the function was exported for float32[4]"));
  EXPECT_THAT(told([&] { f(arange(4)); }), testing::HasSubstr("argument [0] is int32[4], but"));
  EXPECT_THAT(told([&] { deserialize_exported<Array(std::vector<Array>)>(f.serialize())(std::vector<Array>{x}); }),
              testing::HasSubstr("twice: the function was exported for arguments"));
  const auto prints = [](const Array& v) {
    debug::print("{}", v);
    return v;
  };
  EXPECT_THAT(told([&] { export_function(prints, {.name = "prints"}, x); }),
              testing::HasSubstr("export: the function calls a function of this process at export_test.cc:"));
  const std::string bytes = f.serialize();
  EXPECT_THAT(told([&] { deserialize_exported<Array(Array)>("hello"); }),
              testing::HasSubstr("deserialize_exported: the bytes are no exported function that serialize() stored"));
  EXPECT_THAT(told([&] { deserialize_exported<Array(Array)>(bytes.substr(0, bytes.size() - 9)); }),
              testing::HasSubstr("damaged or cut off"));
  EXPECT_THAT(told([&] { deserialize_exported<std::vector<Array>(Array)>(bytes); }),
              testing::HasSubstr("the result of the stored program is leaf, which the result type"));
}

// Bytes with a right checksum that nobody stored: they are refused, or are a function.
TEST(Export, BytesOfOthers) {
  const Mesh mesh = mesh_8();
  const Array table = iota({8, 2});
  const auto f = [&](const Array& x) {
    const auto sums = shard_map([](const Array& v) { return lax::psum(v, "i"); },
                                {.mesh = mesh, .in_specs = P("i"), .out_specs = P()});
    return std::map<std::string, Array>{
        {"a", lax::fori_loop(
                  0, 3, [&](const Array&, const Array& c) { return c + table.sum(); }, x)},
        {"b", sums(x)}};
  };
  const std::string bytes = export_function(f, {}, put(iota({8}), mesh, P("i"))).serialize();
  const std::size_t end = bytes.size() - sizeof(std::int64_t);
  std::minstd_rand random(1);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string changed = bytes.substr(0, end);
    const std::size_t at = 60 + below(changed.size() - 60);
    if (i % 3 == 0) {
      changed.erase(at, 1 + below(20));
    } else {
      changed[at] = static_cast<char>(i % 3 == 1 ? changed[at] ^ (1 << below(8)) : '0' + static_cast<int>(below(10)));
    }
    const std::int64_t checksum = checksum_of(changed);
    changed.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
    try {
      detail::load_exported(changed, SourceLocation());
    } catch (const InternalError& error) {
      ADD_FAILURE() << error.what();
    } catch (const InvalidArgument&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace shoal::test
