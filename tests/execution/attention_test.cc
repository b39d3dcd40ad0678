// nn::dot_product_attention: the memory that it takes, and its bits, however it is divided.
#include <gtest/gtest.h>
#include <shoal/shoal.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "room.h"

namespace shoal {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Array some(Shape shape, int seed) { return random::normal(random::key(seed), shape).block_until_ready(); }

using Operands = std::tuple<Array, Array, Array>;

Array attend(const Array& q, const Array& k, const Array& v) {
  return nn::dot_product_attention(q, k, v, {.is_causal = true});
}

const auto gradients =
    grad<0, 1, 2>([](const Array& q, const Array& k, const Array& v) { return sum(sin(attend(q, k, v))); });

// The weights of 8 heads would take 512 MiB.
TEST(Attention, TakesNoMemoryForWeights) {
  const Array q = some({1, 4096, 8, 64}, 1);
  const Array k = some({1, 4096, 8, 64}, 2);
  const Array v = some({1, 4096, 8, 64}, 3);
  const std::int64_t bytes = q.size() * 4;
  const auto forward = jit(attend).lower(q, k, v).compile();
  const auto backward =
      jit([](const Array& x, const Array& y, const Array& z, const Array& c) { return vjp(attend, x, y, z).second(c); })
          .lower(q, k, v, q)
          .compile();
  EXPECT_LE(forward.memory_analysis().temp_size, 8 * kMiB);
  EXPECT_LE(backward.memory_analysis().temp_size, 8 * kMiB);
  {
    const Room room(bytes + 8 * kMiB);
    forward(q, k, v).block_until_ready();
  }
  const Room room(3 * bytes + 8 * kMiB);
  std::get<0>(backward(q, k, v, q)).block_until_ready();
}

// Keys that nobody sees weigh nothing, whatever their values, and what one query gets of NaN reaches keys that it sees
// alone. Keys are read in blocks, so that the first of them may all be hidden.
TEST(Attention, OfHiddenKeysNothingIsLeft) {
  const Array q = some({1, 40, 2, 8}, 1);
  const Array k = some({1, 256, 2, 8}, 2);
  const Array v = some({1, 256, 2, 8}, 3);
  const Array is_late = greater_equal(arange(256), 128);
  const Array late = reshape(is_late, {1, 256, 1, 1});
  const auto seen = [](const Array& mask) {
    return [mask](const Array& x, const Array& y, const Array& z) {
      return nn::dot_product_attention(x, y, z, {.mask = mask});
    };
  };
  const auto slopes_of = [](const auto& f) {
    return grad<0, 1, 2>([f](const Array& x, const Array& y, const Array& z) { return sum(sin(f(x, y, z))); });
  };
  const auto alone = [](const Array& x, const Array& y, const Array& z) { return nn::dot_product_attention(x, y, z); };
  const auto of_late = [](const Array& x) { return lax::slice_in_dim(x, 128, 256, 1, 1); };
  const auto expect_near = [](const Array& got, const Array& want) {
    EXPECT_LE(max(abs(got - want)).item<float>(), 1e-5F);
  };

  const Array large = where(late, v, 1e37F);
  const auto f = seen(reshape(is_late, {1, 1, 1, 256}));
  expect_near(f(q, k, large), alone(q, of_late(k), of_late(v)));
  const auto slopes = slopes_of(f)(q, k, large);
  const auto expected = slopes_of(alone)(q, of_late(k), of_late(v));
  expect_near(std::get<0>(slopes), std::get<0>(expected));
  expect_near(of_late(std::get<1>(slopes)), std::get<1>(expected));
  expect_near(of_late(std::get<2>(slopes)), std::get<2>(expected));

  // The first half of the queries sees the first half of the keys, one of which is NaN; the second half the others.
  const Array is_late_query = greater_equal(arange(40), 20);
  const auto apart = seen(reshape(equal(expand_dims(is_late_query, 1), expand_dims(is_late, 0)), {1, 1, 40, 256}));
  const Array broken = where(reshape(equal(arange(256), 5), {1, 256, 1, 1}), NAN, k);
  const auto both = slopes_of(apart)(q, broken, v);
  const auto second = slopes_of(alone)(lax::slice_in_dim(q, 20, 40, 1, 1), of_late(k), of_late(v));
  expect_near(of_late(std::get<1>(both)), std::get<1>(second));
}

// Batches and heads may be divided in any way; if queries are, keys and values get sums over devices.
TEST(Attention, HasTheSameBitsOverDevices) {
  const Array q = some({4, 48, 4, 8}, 1);
  const Array k = some({4, 48, 2, 8}, 2);
  const Array v = some({4, 48, 2, 8}, 3);
  const std::vector<float> expected = jit(attend)(q, k, v).to_vector<float>();
  const auto [of_q, of_k, of_v] = jit(gradients)(q, k, v);
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const auto on = [&](const Array& x, PartitionSpec spec) {
    return device_put(x, NamedSharding(mesh, std::move(spec)));
  };
  struct Layout {
    PartitionSpec queries;
    PartitionSpec keys;
    bool sums;
  };
  for (const auto& [queries, keys, sums] :
       {Layout{P("y", none, "x"), P("y", none, "x"), false}, Layout{P("x", "y"), P("x"), true},
        Layout{P(none, "x", "y"), P(none, "y"), true}, Layout{P("x"), P(none, "y"), true}}) {
    SCOPED_TRACE(to_string(queries) + to_string(keys));
    const Array x = on(q, queries);
    const Array y = on(k, keys);
    const Array z = on(v, keys);
    EXPECT_EQ(jit(attend)(x, y, z).to_vector<float>(), expected);
    const auto [cx, cy, cz] = jit(gradients)(x, y, z);
    EXPECT_EQ(cx.to_vector<float>(), of_q.to_vector<float>());
    const auto expect_alike = [&, sums = sums](const Array& got, const Array& want) {
      const std::vector<float> found = got.to_vector<float>();
      const std::vector<float> wanted = want.to_vector<float>();
      for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], sums ? 1e-5F : 0) << i;
    };
    expect_alike(cy, of_k);
    expect_alike(cz, of_v);
  }
}

// Nothing is converted outside of the op, and sums over devices are rounded once.
TEST(Attention, OfSmallFloats) {
  const Mesh mesh = make_mesh({8}, {"x"});
  for (const Dtype dtype : {float16, bfloat16}) {
    const Array q = some({1, 1024, 4, 32}, 1).astype(dtype);
    const Array k = some({1, 1024, 2, 32}, 2).astype(dtype);
    const Array v = some({1, 1024, 2, 32}, 3).astype(dtype);
    EXPECT_LE(jit(attend).lower(q, k, v).compile().memory_analysis().temp_size, kMiB / 8);
    const Array result = jit(attend)(q, k, v);
    EXPECT_EQ(result.dtype(), dtype);
    const float unit = dtype == float16 ? 0x1p-11F : 0x1p-8F;
    const auto expect_close = [&](const Array& got, const Array& want) {
      const Array error = max(abs(got.astype(float32) - want.astype(float32)));
      EXPECT_LE(error.item<float>(), 2 * unit * max(abs(want.astype(float32))).item<float>());
    };
    const auto wide = [](const Array& x) { return x.astype(float32); };
    expect_close(result, attend(wide(q), wide(k), wide(v)));
    const auto pulled = jit(
        [](const Array& x, const Array& y, const Array& z, const Array& c) { return vjp(attend, x, y, z).second(c); });
    const auto [of_q, of_k, of_v] = pulled(q, k, v, q);
    const auto [want_q, want_k, want_v] = pulled(wide(q), wide(k), wide(v), wide(q));
    const Array split = device_put(q, NamedSharding(mesh, P(none, "x")));
    const auto [split_q, split_k, split_v] = pulled(split, k, v, split);
    EXPECT_EQ(split_k.dtype(), dtype);
    expect_close(of_q, want_q);
    expect_close(of_k, want_k);
    expect_close(of_v, want_v);
    expect_close(split_q, want_q);
    expect_close(split_k, want_k);
    expect_close(split_v, want_v);
  }
}

// A mask or bias may be divided too, and a shard of queries knows where it begins.
TEST(Attention, OfExplicitAxes) {
  const Mesh mesh = make_mesh({4}, {"x"}, {.axis_types = {AxisType::kExplicit}});
  const Array q = some({2, 8, 2, 4}, 1);
  const Array x = device_put(q, NamedSharding(mesh, P(none, "x")));
  const Array whole = device_put(q, NamedSharding(mesh, P()));
  const use_mesh scope(mesh);
  const Array result = jit(attend)(x, whole, whole);
  EXPECT_EQ(result.to_vector<float>(), attend(q, q, q).to_vector<float>());
  const auto [cx, cy, cz] = jit(gradients)(x, whole, whole);
  EXPECT_EQ(cx.shape(), q.shape());
  EXPECT_EQ(cy.shape(), q.shape());
  EXPECT_EQ(cz.shape(), q.shape());
}

}  // namespace
}  // namespace shoal
