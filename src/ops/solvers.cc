// Solvers: what the devices that hold a matrix compute of it together. Partitioning writes them in the place of ops on
// matrices whose dimensions are split (OpDef::joint); src/linalg has the algorithms.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ops/collective.h"
#include "ops/index_groups.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal {
namespace {

std::vector<Type> infer_solver(const InferContext& context) {
  const auto& axes = context.attrs.get<std::vector<std::string>>("axes");
  devices_along(context.axes, axes);
  Type type = like_operands(context, context.inputs.back().shape);
  AxisNames sorted = axes;
  std::ranges::sort(sorted);
  type.varying = union_of(joint_varying(context), sorted);
  return {std::move(type)};
}

// The eigenvalues, which every device has, and vectors, which are split as the matrix is.
std::vector<Type> infer_syevd(const InferContext& context) {
  std::vector<Type> types = infer_solver(context);
  Type values = types[0];
  values.dtype = real_dtype(values.dtype);
  values.shape = {context.attrs.get<std::int64_t>("n")};
  types.insert(types.begin(), std::move(values));
  if (context.attrs.contains("values_only")) types.pop_back();
  return types;
}

// The factors, and two lists of rows that every device has.
std::vector<Type> infer_getrf(const InferContext& context) {
  std::vector<Type> types = infer_solver(context);
  Type rows = types[0];
  rows.dtype = int32;
  rows.weak = false;
  rows.shape = {context.attrs.get<std::int64_t>("n")};
  types.insert(types.end(), 2, rows);
  return types;
}

// The orthogonal factor, which is split as the matrix is, and the triangle, of which the attributes say it.
std::vector<Type> infer_geqrf(const InferContext& context) {
  std::vector<Type> types = infer_solver(context);
  Type triangle = types[0];
  const auto n = context.attrs.get<std::int64_t>("sides");
  const auto share = [&](std::string_view dim) {
    const std::int64_t devices = devices_along(context.axes, context.attrs.get<std::vector<std::string>>(dim));
    return (n + devices - 1) / devices;
  };
  triangle.shape = {share("side_rows"), share("side_columns")};
  types.push_back(std::move(triangle));
  return types;
}

// Whatever else splits them, they are whole where devices compute with them: their own attributes say how they are
// split.
ShardingRule solver_rule(const RuleContext& context) {
  ShardingRule rule;
  for (const Type& type : context.inputs) {
    rule.operands.push_back(own_factors(rule, type.shape, FactorKind::kNeedReplication));
  }
  // Values come before what is split as the matrix.
  for (const Type& type : context.outputs) {
    const bool is_split = type.rank() > 1 && type.shape == context.inputs.back().shape;
    rule.results.push_back(is_split ? rule.operands.back()
                                    : own_factors(rule, type.shape, FactorKind::kNeedReplication));
  }
  return rule;
}

// What a device gets of panels that together are this part of the matrix: each goes along the rows and the columns of
// the grid of devices, which is as square as it can be (as in ScaLAPACK).
double panels(const TrafficContext& context, double part) {
  double rows = 1;
  for (std::int64_t r = 1; static_cast<double>(r * r) <= context.group; ++r) {
    if (static_cast<std::int64_t>(context.group) % r == 0) rows = static_cast<double>(r);
  }
  const double matrix = context.operand_bytes * context.group;
  return context.group <= 1 ? 0 : part * matrix * (1 / rows + rows / context.group);
}

double factored(const TrafficContext& context) { return panels(context, 0.5); }

// Of each panel only what is solved goes to others, and what they make of it.
double solved(const TrafficContext& context) {
  return panels(context, context.result_bytes / std::max(context.operand_bytes, 1.0));
}

// The columns and rows of the factor, and the rows of its inverse.
double inverted(const TrafficContext& context) { return 3 * panels(context, 0.5); }

double extent(const RuleContext& context, std::string_view name) {
  return static_cast<double>(context.attrs.get<std::int64_t>(name));
}

// Of all devices together, as a process may do the work of most of them.
double flops_of_potrf(const RuleContext& context) {
  const double n = extent(context, "n");
  return n * n * n / 3;
}

// Of each column all that is right of it, and as much of the products with it.
double reduced(const TrafficContext& context) { return 3 * panels(context, 0.5); }

double flops_of_syevd(const RuleContext& context) {
  const double n = extent(context, "n");
  return (context.attrs.contains("values_only") ? 4.0 / 3 : 14.0 / 3) * n * n * n;
}

double flops_of_potri(const RuleContext& context) { return 2 * flops_of_potrf(context); }

double flops_of_trsm(const RuleContext& context) {
  const double n = extent(context, "n");
  return n * n * extent(context, "sides");
}

double flops_of_getrf(const RuleContext& context) { return 2 * flops_of_potrf(context); }

double flops_of_geqrf(const RuleContext& context) {
  const double m = extent(context, "n");
  const double n = extent(context, "sides");
  return 4 * m * n * n - 4 * n * n * n / 3;
}

// Every device gets all panels.
double shared(const TrafficContext& context) {
  return context.operand_bytes * context.group / 2 * (context.group - 1) / std::max(context.group, 1.0);
}

// Twice: for the triangle, and for the orthogonal factor.
double shared_again(const TrafficContext& context) { return 2 * shared(context); }

// Attributes of all: over which axes `rows` and `columns` of a matrix with `n` rows are split.
constexpr AttrFacts with_matrix(std::initializer_list<AttrFact> more = {}) {
  AttrFacts facts{{.name = "axes"}, {.name = "rows"}, {.name = "columns"}, {.name = "n"}, {.name = "tile"}};
  for (const AttrFact& fact : more) facts.add(fact);
  return facts;
}

constexpr OpDef solver(std::string_view name, std::string_view doc, std::vector<Type> (*infer)(const InferContext&),
                       double (*flops)(const RuleContext&), double (*received_bytes)(const TrafficContext&),
                       const AttrFacts& attributes = with_matrix(), int arity = 1) {
  return {.name = name,
          .doc = doc,
          .arity = arity,
          .op_class = OpClass::kCollective,
          .infer = infer,
          .rule = solver_rule,
          .flops = flops,
          .collective = CollectiveFacts{.in_rounds = true, .solves = true, .received_bytes = received_bytes},
          .attributes = attributes};
}

const std::array kSolverOps = {
    solver("geqrf",
           "The device's parts of q and r, as qr says, of a matrix of n rows and `sides` columns whose `rows` and "
           "`columns` are split over axes; r is split over `side_rows` and `side_columns`.",
           infer_geqrf, flops_of_geqrf, shared_again,
           with_matrix({{.name = "side_rows"}, {.name = "side_columns"}, {.name = "sides"}, {.name = "full"}})),
    solver("getrf",
           "The device's part of the factors, as lu says, and how rows were exchanged, of an n × n matrix whose `rows` "
           "and `columns` are split over axes.",
           infer_getrf, flops_of_getrf, shared),
    solver("potrf",
           "The device's part of the Cholesky factor, as cholesky says, of an n × n matrix whose `rows` and `columns` "
           "are split over axes.",
           infer_solver, flops_of_potrf, factored, with_matrix({{.name = "leading"}})),
    solver("potri",
           "The device's part of the inverse, as cholesky_inverse says, for an n × n factor whose `rows` and `columns` "
           "are split over axes.",
           infer_solver, flops_of_potri, inverted),
    solver("syevd",
           "The eigenvalues and the device's part of the eigenvectors, as eigh says, of an n × n matrix whose `rows` "
           "and `columns` are split over axes; or, if `values_only`, no vectors.",
           infer_syevd, flops_of_syevd, reduced, with_matrix({{.name = "values_only"}})),
    solver("trsm",
           "The device's part of the solution of a triangular system, as triangular_solve says, of an n × n matrix "
           "whose `rows` and `columns` are split over axes, and `sides` right sides, which are split over `side_rows` "
           "and `side_columns`.",
           infer_solver, flops_of_trsm, solved,
           with_matrix({{.name = "side_rows"},
                        {.name = "side_columns"},
                        {.name = "sides"},
                        {.name = "lower"},
                        {.name = "unit_diagonal"},
                        {.name = "adjoint"}}),
           2),
    solver("trtri",
           "The device's part of the inverse, as triangular_inverse says, of an n × n triangle whose `rows` and "
           "`columns` are split over axes.",
           infer_solver, flops_of_potrf, inverted),
};

}  // namespace

std::span<const OpDef> solver_ops() { return kSolverOps; }

}  // namespace shoal
