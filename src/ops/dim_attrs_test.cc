// Attributes of every op whose record says that they speak of dimensions, when there is one dimension more or less.
#include "ir/dim_attrs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/test_support.h"

namespace shoal {
namespace {

using test_support::infer;
using test_support::type_of;

constexpr std::int64_t kExtent = 3;

// An equation by itself, and which of its operands get the dimension, all in front.
struct Case {
  std::string op;
  Attrs attrs;
  std::vector<Type> operands;
  std::vector<bool> grows = {true};
};

Type f32(Shape shape) { return type_of(float32, std::move(shape)); }
Type i32(Shape shape) { return type_of(int32, std::move(shape)); }

std::vector<Case> cases() {
  const Attrs window{
      {"kind", std::string("sum")}, {"window", Dims{2, 1}},        {"strides", Dims{1, 2}},        {"low", Dims{1, 0}},
      {"high", Dims{0, 1}},         {"base_dilation", Dims{1, 1}}, {"window_dilation", Dims{2, 1}}};
  const Attrs dots{
      {"lhs_contract", Dims{2}}, {"rhs_contract", Dims{1}}, {"lhs_batch", Dims{1}}, {"rhs_batch", Dims{0}}};
  const Attrs items{{"dims", Dims{1}}, {"array_batch", Dims{0}}, {"index_batch", Dims{1}}};
  std::vector<Case> list = {
      {"dot_general", dots, {f32({4, 2, 5}), f32({2, 5})}, {true, true}},
      {"reduce_window", window, {f32({4, 5})}},
      {"fft", {{"transform", std::string("rfft")}, {"dims", Dims{1, 0}}, {"lengths", Shape{5, 4}}}, {f32({4, 5})}},
      {"broadcast_in_dim", {{"shape", Shape{4, 2, 3}}, {"dims", Dims{0, 2}}}, {f32({4, 1})}},
      {"reshape", {{"shape", Shape{2, 6}}}, {f32({4, 3})}},
      {"transpose", {{"perm", Dims{2, 0, 1}}}, {f32({2, 3, 4})}},
      {"slice", {{"starts", Dims{1, 0}}, {"limits", Dims{4, 3}}, {"strides", Dims{2, 1}}}, {f32({5, 3})}},
      {"concatenate", {{"dim", std::int64_t{1}}}, {f32({2, 3}), f32({2, 1})}, {true, true}},
      {"reverse", {{"dims", Dims{1}}}, {f32({2, 3})}},
      {"roll", {{"shifts", Dims{0, 2}}}, {f32({2, 3})}},
      {"pad",
       {{"low", Dims{1, 0}}, {"high", Dims{0, -1}}, {"interior", Dims{0, 2}}},
       {f32({2, 3}), f32({})},
       {true, false}},
      {"gather", items, {f32({2, 5}), i32({3, 2})}, {true, true}},
      {"gather", items, {f32({2, 5}), i32({3, 2})}, {false, true}},
      {"scatter", items, {f32({2, 5}), f32({3, 2}), i32({3, 2})}, {true, true, true}},
      {"sort",
       {{"dim", std::int64_t{0}}, {"num_keys", std::int64_t{1}}, {"descending", true}},
       {f32({4, 2}), f32({4, 2})},
       {true, true}},
      {"top_k", {{"dim", std::int64_t{1}}, {"k", std::int64_t{2}}}, {f32({2, 4})}},
      {"full", {{"shape", Shape{2, 3}}, {"value", Scalar::of(2.0F)}}, {}, {}},
      {"iota", {{"shape", Shape{2, 3}}, {"dim", std::int64_t{1}}, {"dtype", int32}}, {}, {}},
  };
  Attrs reduced = items;
  reduced.set("shape", Shape{2, 5});
  reduced.set("kind", std::string("sum"));
  Attrs combined = items;
  combined.set("kind", std::string("sum"));
  list.push_back({"scatter_combine", combined, {f32({2, 5}), f32({3, 2}), i32({3, 2})}, {true, true, true}});
  list.push_back({"scatter_reduce", reduced, {f32({3, 2}), i32({3, 2})}, {true, true}});
  for (const OpDef* op : all_ops()) {
    const std::string name(op->name);
    if (op->reduces && *op->reduces != ReduceKind::kAnd && *op->reduces != ReduceKind::kOr) {
      list.push_back({name, {{"axes", Dims{0, 2}}}, {f32({2, 3, 4})}});
    } else if (op->reduces) {
      list.push_back({name, {{"axes", Dims{1}}}, {i32({2, 3})}});
    } else if (name.starts_with("cum")) {
      list.push_back({name, {{"dim", std::int64_t{1}}, {"reverse", true}}, {f32({2, 3})}});
    }
  }
  return list;
}

// Numbers that positions can be, too.
Buffer some_values(const Type& type, int seed) {
  Buffer buffer(host_space({}), type.dtype, type.shape);
  for (std::int64_t i = 0; i < num_elements(type.shape); ++i) {
    const auto value = static_cast<int>((i * 7 + seed * 5) % 4);
    if (type.dtype == int32) {
      static_cast<std::int32_t*>(buffer.mutable_data())[i] = value;
    } else {
      static_cast<float*>(buffer.mutable_data())[i] = static_cast<float>(value) / 2;
    }
  }
  return buffer;
}

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  const auto* data = static_cast<const std::byte*>(buffer.data());
  return {data, data + buffer.size_bytes()};
}

// The arrays one after the other along a dimension in front.
Buffer stacked(const std::vector<Buffer>& parts) {
  Shape shape = parts[0].shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(parts.size()));
  Buffer whole(host_space({}), parts[0].dtype(), shape);
  auto* to = static_cast<std::byte*>(whole.mutable_data());
  for (const Buffer& part : parts) {
    std::memcpy(to, part.data(), part.size_bytes());
    to += part.size_bytes();
  }
  return whole;
}

ExtraDim in_front(const Case& one) {
  ExtraDim dim{.extent = kExtent, .operands = {}, .result = 0};
  for (const bool grows : one.grows) dim.operands.push_back(grows ? std::optional<std::size_t>(0) : std::nullopt);
  return dim;
}

TEST(DimAttrs, WithADimensionInFrontEveryOpDoesTheSameInEachPlace) {
  for (const Case& one : cases()) {
    const OpDef& op = op_named(one.op);
    const Attrs grown = with_dim(op, one.attrs, in_front(one));
    SCOPED_TRACE(one.op);
    std::vector<Buffer> operands;
    for (std::size_t i = 0; i < one.operands.size(); ++i) {
      std::vector<Buffer> parts;
      for (int k = 0; k < kExtent; ++k) parts.push_back(some_values(one.operands[i], static_cast<int>(i) + 2 * k));
      operands.push_back(one.grows[i] ? stacked(parts) : parts[0]);
    }
    const std::vector<Buffer> together = test_support::run_all(one.op, grown, operands);
    std::vector<std::vector<Buffer>> alone(together.size());
    for (int k = 0; k < kExtent; ++k) {
      std::vector<Buffer> parts;
      for (std::size_t i = 0; i < one.operands.size(); ++i) {
        parts.push_back(some_values(one.operands[i], static_cast<int>(i) + (one.grows[i] ? 2 * k : 0)));
      }
      const std::vector<Buffer> results = test_support::run_all(one.op, one.attrs, parts);
      for (std::size_t r = 0; r < results.size(); ++r) alone[r].push_back(results[r]);
    }
    for (std::size_t r = 0; r < together.size(); ++r) {
      const Buffer expected = stacked(alone[r]);
      EXPECT_EQ(together[r].shape(), expected.shape());
      EXPECT_EQ(bytes_of(together[r]), bytes_of(expected));
    }
    EXPECT_EQ(without_dim(op, grown, in_front(one)), one.attrs);
  }
}

TEST(DimAttrs, OfAProductOneOperandMayGrowAlone) {
  const OpDef& op = op_named("dot_general");
  const Attrs attrs{{"lhs_contract", Dims{1}}, {"rhs_contract", Dims{0}}, {"lhs_batch", Dims{}}, {"rhs_batch", Dims{}}};
  const ExtraDim dim{.extent = 7, .operands = {0, std::nullopt}, .result = 0};
  const Attrs grown = with_dim(op, attrs, dim);
  EXPECT_EQ(grown.get<Dims>("lhs_contract"), (Dims{2}));
  EXPECT_TRUE(grown.get<Dims>("lhs_batch").empty());
  EXPECT_EQ(infer("dot_general", grown, {f32({7, 2, 5}), f32({5, 4})})[0].shape, (Shape{7, 2, 4}));
  EXPECT_EQ(without_dim(op, grown, dim), attrs);
}

TEST(DimAttrs, ADimensionMayStandAnywhere) {
  const OpDef& op = op_named("transpose");
  const ExtraDim dim{.extent = 7, .operands = {2}, .result = 1};
  const Attrs grown = with_dim(op, {{"perm", Dims{1, 0}}}, dim);
  EXPECT_EQ(grown.get<Dims>("perm"), (Dims{1, 2, 0}));
  EXPECT_EQ(infer("transpose", grown, {f32({4, 5, 7})})[0].shape, (Shape{5, 7, 4}));
  EXPECT_EQ(without_dim(op, grown, dim), (Attrs{{"perm", Dims{1, 0}}}));
}

TEST(DimAttrs, CollectivesGoOnAlongTheirDimension) {
  const Attrs attrs{
      {"axes", std::vector<std::string>{"x"}}, {"split_dim", std::int64_t{0}}, {"concat_dim", std::int64_t{1}}};
  const Attrs grown = with_dim(op_named("all_to_all"), attrs, {.extent = 7, .operands = {1}, .result = 1});
  EXPECT_EQ(grown.get<std::int64_t>("split_dim"), 0);
  EXPECT_EQ(grown.get<std::int64_t>("concat_dim"), 2);
  for (const char* name : {"all_gather", "reduce_scatter", "shard_slice", "rearrange"}) {
    const Attrs one{{"axes", std::vector<std::string>{"x"}}, {"dim", std::int64_t{1}}};
    EXPECT_EQ(with_dim(op_named(name), one, {.extent = 7, .operands = {0}, .result = 0}).get<std::int64_t>("dim"), 2);
  }
}

TEST(DimAttrs, SpecsHaveAnEntryForTheNewDimension) {
  const Mesh mesh({local_devices()[0]}, {1}, {"x"});
  const auto of = [&](PartitionSpec spec) { return Attrs{{"sharding", NamedSharding(mesh, std::move(spec))}}; };
  const ExtraDim dim{.extent = 7, .operands = {0}, .result = 0};
  for (const char* name : {"sharding_constraint", "enter_manual", "leave_manual"}) {
    const OpDef& op = op_named(name);
    EXPECT_EQ(with_dim(op, of(P("x")), dim), of(P(none, "x"))) << name;
    EXPECT_EQ(without_dim(op, of(P(none, "x")), dim), of(P("x"))) << name;
  }
  const Attrs wanted{{"dim", std::int64_t{0}}, {"out_sharding", NamedSharding(mesh, P("x"))}};
  const Attrs grown = with_dim(op_named("concatenate"), wanted, dim);
  EXPECT_EQ(grown.get<NamedSharding>("out_sharding"), NamedSharding(mesh, P(none, "x")));
}

TEST(DimAttrs, ADimensionThatTheOpNamesCannotGo) {
  const ExtraDim dim{.operands = {1}, .result = 1};
  EXPECT_THROW(without_dim(op_named("reduce_sum"), {{"axes", Dims{1}}}, dim), InternalError);
  EXPECT_THROW(without_dim(op_named("sort"), {{"dim", std::int64_t{1}}}, dim), InternalError);
}

// Whoever adds an op whose attributes speak of dimensions adds it to the cases above.
TEST(DimAttrs, EveryOpIsTried) {
  std::set<std::string_view> tried = {"all_to_all",          "all_gather",          "reduce_scatter", "shard_slice",
                                      "rearrange",           "sharding_constraint", "enter_manual",   "leave_manual",
                                      "dynamic_slice",  // Its operands have one start for each dimension.
                                      "dynamic_update_slice"};
  const std::vector<Case> all = cases();
  for (const Case& one : all) tried.insert(op_named(one.op).name);
  for (const OpDef* op : all_ops()) {
    bool speaks = false;
    for (const AttrFact& fact : op->attributes) {
      speaks = speaks || (fact.role != AttrRole::kOther && fact.role != AttrRole::kLabel);
    }
    EXPECT_EQ(tried.contains(op->name), speaks)
        << op->name << ": cases() above has one for each op whose attributes speak of dimensions";
  }
}

}  // namespace
}  // namespace shoal
