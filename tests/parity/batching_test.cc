// Batching gives in each place what the graph gives there, by the oracle: every op of the table with some of its
// operands mapped, and random graphs with bodies and manual regions in them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <set>

#include "base/env.h"
#include "bounds.h"
#include "equations.h"
#include "ops/table.h"
#include "oracle.h"
#include "random_graphs.h"
#include "transform/batch.h"

namespace shoal::parity {
namespace {

constexpr std::int64_t kPlaces = 3;

// One array for each place, or one for all.
struct Input {
  std::vector<Buffer> places;
  bool is_mapped() const { return places.size() > 1; }
  const Buffer& at(std::size_t place) const { return places[is_mapped() ? place : 0]; }
};

Buffer stacked(const std::vector<Buffer>& places) {
  Shape shape = places[0].shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(places.size()));
  Buffer whole = make_buffer(places[0].dtype(), shape);
  auto* to = static_cast<std::byte*>(whole.mutable_data());
  for (const Buffer& place : places) {
    if (place.size_bytes() > 0) std::memcpy(to, place.data(), place.size_bytes());
    to += place.size_bytes();
  }
  return whole;
}

Buffer place_of(const Buffer& whole, std::size_t place) {
  Buffer part = make_buffer(whole.dtype(), Shape(whole.shape().begin() + 1, whole.shape().end()));
  if (part.size_bytes() > 0) {
    std::memcpy(part.mutable_data(), static_cast<const std::byte*>(whole.data()) + place * part.size_bytes(),
                part.size_bytes());
  }
  return part;
}

// The data of a graph's inputs, and other data for some of them.
std::vector<Input> mapped_inputs(Rng& rng, const std::vector<Buffer>& data) {
  std::vector<Input> inputs;
  const std::size_t sure = data.empty() ? 0 : rng.below(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    Input& input = inputs.emplace_back(Input{{data[i]}});
    if (i != sure && rng.chance(50)) continue;
    for (std::int64_t k = 1; k < kPlaces; ++k) {
      input.places.push_back(random_buffer(rng, data[i].dtype(), data[i].shape(), Fill::kIntegers));
    }
  }
  return inputs;
}

// The first difference between the batched graph and the graph itself in each place, or nothing.
std::optional<std::string> difference_in_places(const Graph& graph, const std::vector<Input>& inputs) {
  std::vector<bool> mapped;
  std::vector<Buffer> together;
  for (const Input& input : inputs) {
    mapped.push_back(input.is_mapped());
    together.push_back(input.is_mapped() ? stacked(input.places) : input.places[0]);
  }
  const BatchedGraph batched = batch(graph, mapped, {.size = kPlaces});
  verify(batched.graph, "batched");
  const std::vector<Buffer> values = evaluate(batched.graph, together);
  for (std::size_t place = 0; place < static_cast<std::size_t>(kPlaces); ++place) {
    std::vector<Buffer> own;
    for (const Input& input : inputs) own.push_back(input.at(place));
    const std::vector<Known> known = analyse(graph, own);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const Known& expected = known[slot(graph.outputs[i])];
      if (std::isinf(expected.error)) continue;
      const Buffer& whole = values[slot(batched.graph.outputs[i])];
      const Buffer made = batched.mapped[i] ? place_of(whole, place) : whole;
      const auto found = difference(made, expected.value, expected.tolerance());
      if (found) return fmt::format("place {}, output {}: {}", place, i, *found);
    }
  }
  return {};
}

std::optional<std::string> failure_of(const Graph& graph, const std::vector<Input>& inputs) {
  try {
    return difference_in_places(graph, inputs);
  } catch (const std::exception& error) {
    return fmt::format("exception {}", error.what());
  }
}

TEST(Batching, OfEveryOpGivesInEachPlaceWhatTheOpGives) {
  Rng rng(7);
  const Mesh mesh = standard_meshes()[1].second;
  const std::set<std::string_view> without_operands = {"full", "iota"};
  for (const OpDef* op : all_ops()) {
    if (generator_of(*op) == nullptr || without_operands.contains(op->name)) continue;
    SCOPED_TRACE(op->name);
    int tried = 0;
    for (int round = 0; round < 200 && tried < 25; ++round) {
      const Dtype dtype = std::vector{float32, int32, bool_, complex64, uint64}[static_cast<std::size_t>(round % 5)];
      const auto made = sample(rng, mesh, *op, type_of(dtype, random_shape(rng, rng.below(4))));
      if (!made) continue;
      const Equation equation = make_equation(rng, *op, *made, Fill::kIntegers);
      Graph graph;
      for (const Type& type : made->operands) graph.add_input(type);
      graph.outputs = graph.add_eqn(*op, made->attrs, graph.inputs, SourceLocation::current());
      ++tried;
      const auto failure = failure_of(graph, mapped_inputs(rng, equation.data));
      if (!failure) continue;
      ADD_FAILURE() << *failure << "\n" << to_text(graph);
      break;
    }
    EXPECT_GT(tried, 0);
  }
}

TEST(Batching, OfRandomGraphsGivesInEachPlaceWhatTheyGive) {
  const auto first = static_cast<std::uint64_t>(env_int("SHOAL_PARITY_SEED", 0, 1'000'000'000).value_or(1));
  const std::int64_t count = 500 * env_int("SHOAL_PARITY_ROUNDS", 1, 1'000'000).value_or(1);
  int failures = 0;
  for (std::int64_t i = 0; i < count && failures < 3; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    const Case test = random_case(seed);
    if (test.data.empty()) continue;
    Rng rng(seed);
    const auto failure = failure_of(test.graph, mapped_inputs(rng, test.data));
    if (!failure) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << ": " << *failure << "\n" << to_text(test.graph);
  }
}

}  // namespace
}  // namespace shoal::parity
