// What types say of the cotangents of every op over Explicit axes: they are split as their values, unreduced where
// these are reduced, and reduced where these are unreduced. For every op of the table, with operands of random types.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "equations.h"
#include "ir/explicit_axes.h"
#include "ops/table.h"
#include "shoal/error.h"
#include "transform/linearize.h"
#include "transform/transpose.h"

namespace shoal::parity {
namespace {

// What the axes of a mesh do to operands.
enum class Role { kNothing, kSplits, kUnreduced, kReduced };

Mesh explicit_mesh() {
  const Mesh& mesh = standard_meshes()[3].second;
  return with_axis_types(mesh, std::vector<AxisType>(mesh.axis_names().size(), AxisType::kExplicit));
}

// The role of an axis is the same for most operands, as most ops want it so.
std::vector<ExplicitAxes> random_axes(Rng& rng, const Mesh& mesh, std::span<const Type> operands) {
  std::vector<ExplicitAxes> all;
  for (const Type& type : operands) {
    all.push_back({.mesh = mesh, .dims = std::vector<std::vector<std::string>>(type.rank())});
  }
  for (const std::string& axis : mesh.axis_names()) {
    const auto usual = static_cast<Role>(rng.below(4));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Role role = rng.chance(80) ? usual : static_cast<Role>(rng.below(4));
      if (role == Role::kUnreduced) all[i].unreduced.push_back(axis);
      if (role == Role::kReduced) all[i].reduced.push_back(axis);
      if (role != Role::kSplits || num_elements(operands[i].shape) < 2) continue;
      const std::size_t d = rng.below(operands[i].rank());
      std::int64_t pieces = mesh.axis_size(axis);
      for (const std::string& other : all[i].dims[d]) pieces *= mesh.axis_size(other);
      if (operands[i].shape[d] % pieces == 0) all[i].dims[d].push_back(axis);
    }
  }
  return all;
}

// What is wrong with the types of the cotangents of a graph, or nothing; nothing as well if there are none.
std::optional<std::string> wrong_type(const Graph& graph, bool& has_any) {
  std::vector<bool> flags;
  for (const ValueId id : graph.inputs) flags.push_back(has_tangents(graph.type(id).dtype));
  Graph tangent;
  Transposed made;
  std::size_t residuals = 0;
  try {
    Linearized parts = linearize(graph, flags);
    tangent = std::move(parts.tangent);
    residuals = parts.num_residuals;
    made = transpose(tangent, residuals, TransposeOptions{});
  } catch (const Unsupported&) {
    return {};
  }
  verify(made.graph, "transposed");
  for (std::size_t i = 0; i < tangent.outputs.size(); ++i) {
    const Type wanted = cotangent_type(tangent.type(tangent.outputs[i]));
    const Type& is = made.graph.type(made.graph.inputs[residuals + i]);
    if (is != wanted) return fmt::format("it takes {}, and not {}", to_string(is), to_string(wanted));
  }
  auto output = made.graph.outputs.begin();
  for (std::size_t i = 0; i < made.has_cotangent.size(); ++i) {
    if (!made.has_cotangent[i]) continue;
    has_any = true;
    const Type wanted = cotangent_type(tangent.type(tangent.inputs[residuals + i]));
    const Type& is = made.graph.type(*output++);
    if (is.explicit_axes != wanted.explicit_axes) {
      return fmt::format("it gives {}, and not {}\n{}", to_string(is), to_string(wanted), to_text(made.graph));
    }
  }
  return {};
}

TEST(CotangentTypes, OfEveryOpAreThoseOfItsOperandsWithTheSumsTheOtherWayRound) {
  Rng rng(11);
  const Mesh mesh = explicit_mesh();
  int reduced = 0;
  int unreduced = 0;
  std::set<std::string_view> differentiated;
  for (const OpDef* op : all_ops()) {
    if (op->op_class != OpClass::kCompute || generator_of(*op) == nullptr || op->arity == 0) continue;
    SCOPED_TRACE(op->name);
    int tried = 0;
    for (int round = 0; round < 400 && tried < 40; ++round) {
      const Dtype dtype = round % 4 == 0 ? complex64 : float32;
      const auto made = sample(rng, mesh, *op, type_of(dtype, random_shape(rng, rng.below(4))));
      if (!made) continue;
      Graph graph;
      const std::vector<ExplicitAxes> axes = random_axes(rng, mesh, made->operands);
      for (std::size_t i = 0; i < axes.size(); ++i) {
        Type type = made->operands[i];
        type.explicit_axes = axes[i];
        graph.add_input(std::move(type));
      }
      try {
        graph.outputs = graph.add_eqn(*op, made->attrs, graph.inputs, SourceLocation::current());
      } catch (const ShardingTypeError&) {
        continue;
      }
      ++tried;
      bool has_any = false;
      std::optional<std::string> wrong;
      try {
        wrong = wrong_type(graph, has_any);
      } catch (const Error& error) {
        wrong = error.what();
      }
      if (has_any) {
        differentiated.insert(op->name);
        const auto& result = graph.type(graph.outputs[0]).explicit_axes;
        if (result && !result->reduced.empty()) ++reduced;
        if (result && !result->unreduced.empty()) ++unreduced;
      }
      if (!wrong) continue;
      ADD_FAILURE() << *wrong << "\n" << to_text(graph);
      break;
    }
  }
  EXPECT_GT(differentiated.size(), 80U);
  EXPECT_GT(reduced, 200);
  EXPECT_GT(unreduced, 50);
}

}  // namespace
}  // namespace shoal::parity
