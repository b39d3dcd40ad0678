#include "manual_regions.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "cases.h"
#include "generators.h"
#include "ops/collective.h"
#include "ops/table.h"

namespace shoal::parity {
namespace {

class RegionMaker {
 public:
  RegionMaker(Rng& rng, const Mesh& mesh) : rng_(rng), mesh_(mesh), body_(std::make_shared<Graph>()) {
    body_->name = "body";
    for (const std::string& axis : mesh.axis_names()) {
      (rng.chance(70) ? manual_ : free_).push_back(axis);
    }
    if (manual_.empty()) std::swap(manual_, free_);
    for (const std::string& axis : manual_) body_->axes.bind(axis, mesh.axis_size(axis));
  }

  std::optional<Attrs> make(std::span<const Type> operands, const ManualOptions& options) {
    std::vector<PartitionSpec> in_specs;
    for (const Type& type : operands) {
      in_specs.push_back(spec_for(type));
      body_->add_input(local_type(type, in_specs.back()));
    }
    if (options.only != nullptr) {
      if (!add_op(*options.only)) return {};
    } else {
      for (int i = 0; i < options.equations; ++i) add_op(*rng_.pick(body_ops()));
    }
    // A scalar that varies cannot be put together; a vector of one element can.
    if (body_->type(last()).rank() == 0) {
      add_eqn(*body_, "broadcast_in_dim", {{"shape", Shape{1}}, {"dims", Dims{}}}, {last()});
    }
    body_->outputs = {last()};
    std::vector<PartitionSpec> out_specs = {out_spec(last())};
    return Attrs{{"body", GraphAttr{body_}},
                 {"mesh", mesh_},
                 {"axes", manual_},
                 {"in_specs", std::move(in_specs)},
                 {"out_specs", std::move(out_specs)}};
  }

 private:
  static const std::vector<const OpDef*>& body_ops() {
    static const std::vector<const OpDef*> ops = [] {
      std::vector<const OpDef*> list;
      for (const OpDef& op : collective_ops()) list.insert(list.end(), 3, &op);
      for (const char* name : {"add", "multiply", "negative", "maximum", "reduce_sum", "reduce_max", "transpose",
                               "reshape", "dot_general", "broadcast_in_dim", "slice", "iota", "sharding_constraint"}) {
        list.insert(list.end(), 2, &op_named(name));
      }
      return list;
    }();
    return ops;
  }

  ValueId last() const { return static_cast<ValueId>(body_->values.size()) - 1; }

  // A spec over manual axes that divides the type.
  PartitionSpec spec_for(const Type& type) {
    for (int tries = 0; tries < 10 && type.rank() > 0; ++tries) {
      std::vector<std::vector<std::string>> lists(type.rank());
      for (const std::string& axis : shuffled(manual_)) {
        if (rng_.chance(70)) lists[rng_.below(type.rank())].push_back(axis);
      }
      PartitionSpec spec(std::vector<PartitionEntry>(lists.begin(), lists.end()));
      if (divides(mesh_, spec, type.shape)) return spec;
    }
    return {};
  }

  Type local_type(Type type, const PartitionSpec& spec) const {
    for (std::size_t d = 0; d < spec.size(); ++d) {
      for (const std::string& axis : spec[d].axes()) {
        type.shape[d] /= mesh_.axis_size(axis);
        type.varying = union_of(type.varying, {axis});
      }
    }
    return type;
  }

  std::vector<std::string> shuffled(std::vector<std::string> list) {
    rng_.shuffle(list);
    return list;
  }

  // A result must be split along every axis that it varies over.
  PartitionSpec out_spec(ValueId id) {
    const Type& type = body_->type(id);
    std::vector<std::vector<std::string>> lists(type.rank());
    for (const std::string& axis : shuffled(manual_)) {
      const bool varies = std::binary_search(type.varying.begin(), type.varying.end(), axis);
      if (!varies && rng_.chance(70)) continue;
      lists[rng_.below(type.rank())].push_back(axis);
    }
    return PartitionSpec(std::vector<PartitionEntry>(lists.begin(), lists.end()));
  }

  bool add_op(const OpDef& op) {
    const ValueId operand =
        static_cast<ValueId>(std::max(rng_.below(body_->values.size()), rng_.below(body_->values.size())));
    std::optional<Attrs> attrs;
    std::vector<ValueId> operands;
    if (op.name == "ragged_all_to_all") {
      attrs = Attrs{{"axes", some_axes()}};
      operands = ragged_operands(operand, attrs->get<std::vector<std::string>>("axes"));
      if (operands.empty()) return false;
      if (body_->type(operand).dtype != bool_ && rng_.chance(40)) attrs->set("adds", true);
    } else if (op.op_class == OpClass::kCollective) {
      attrs = collective_attrs(op.name, body_->type(operand));
      if (op.arity != 0) operands.push_back(operand);
    } else if (op.op_class == OpClass::kConstraint) {
      attrs = constraint_attrs(body_->type(operand));
      operands.push_back(operand);
    } else {
      const std::optional<Sample> made = sample(rng_, mesh_, op, body_->type(operand));
      if (!made) return false;
      attrs = made->attrs;
      for (const Type& type : made->operands) {
        const std::optional<ValueId> id = like(type, operand);
        if (!id) return false;
        operands.push_back(*id);
      }
    }
    if (!attrs) return false;
    const std::size_t values = body_->values.size();
    const ValueId made = body_->add_eqn(op, std::move(*attrs), operands, SourceLocation::current())[0];
    if (num_elements(body_->type(made).shape) <= 2000 && body_->type(made).rank() <= 5) return true;
    body_->eqns.pop_back();
    body_->values.resize(values);
    return false;
  }

  // A value like this type, whatever it varies over.
  std::optional<ValueId> like(const Type& type, ValueId first) {
    std::vector<ValueId> found;
    for (ValueId id = 0; id <= last(); ++id) {
      const Type& other = body_->type(id);
      const bool fits = other.dtype == type.dtype && other.shape == type.shape && other.memory == type.memory;
      if (fits) found.push_back(id);
    }
    if (found.empty()) return {};
    return rng_.chance(40) && std::count(found.begin(), found.end(), first) > 0 ? first : rng_.pick(found);
  }

  // Inside a region a constraint speaks of the axes that are left to the compiler.
  std::optional<Attrs> constraint_attrs(const Type& type) {
    if (free_.empty() || type.rank() == 0) return {};
    std::vector<std::vector<std::string>> lists(type.rank());
    for (const std::string& axis : shuffled(free_)) lists[rng_.below(type.rank())].push_back(axis);
    return Attrs{
        {"sharding", NamedSharding(mesh_, PartitionSpec(std::vector<PartitionEntry>(lists.begin(), lists.end())))}};
  }

  std::optional<std::string> reduce_kind(Dtype dtype) {
    std::vector<std::string> kinds;
    if (dtype != bool_) kinds = {"sum", "prod"};
    if (!is_complex(dtype)) kinds.insert(kinds.end(), {"max", "min"});
    if (dtype == bool_ || is_integer(dtype)) kinds.insert(kinds.end(), {"and", "or"});
    return rng_.pick(kinds);
  }

  std::vector<std::string> some_axes() {
    std::vector<std::string> axes;
    for (const std::string& axis : shuffled(manual_)) {
      if (axes.empty() || !rng_.chance(40)) axes.push_back(axis);
    }
    return axes;
  }

  std::int64_t size_of(const std::vector<std::string>& axes) const {
    std::int64_t size = 1;
    for (const std::string& axis : axes) size *= mesh_.axis_size(axis);
    return size;
  }

  // The positions 0..size-1 in groups; of one size if they are to be even.
  std::vector<Dims> some_groups(std::int64_t size, bool even) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(size));
    std::iota(positions.begin(), positions.end(), 0);
    rng_.shuffle(positions);
    std::vector<std::int64_t> divisors;
    for (std::int64_t n = 1; n <= size; ++n) {
      if (size % n == 0) divisors.push_back(n);
    }
    const auto length = static_cast<std::size_t>(rng_.pick(divisors));
    std::vector<Dims> groups;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const bool next = even ? i % length == 0 : i == 0 || rng_.chance(40);
      if (next) groups.emplace_back();
      groups.back().push_back(positions[i]);
    }
    return groups;
  }

  // A row for each of `count` slices: `step` times the number of the slice or, by position, of the device along the
  // axes.
  ValueId row_numbers(const std::vector<std::string>& axes, std::int64_t count, std::int64_t step, bool by_position) {
    ValueId numbers =
        add_eqn(*body_, "iota", {{"shape", Shape{count}}, {"dim", std::int64_t{0}}, {"dtype", int32}}, {});
    if (by_position) {
      const ValueId index = add_eqn(*body_, "axis_index", {{"axes", axes}}, {});
      numbers = add_eqn(*body_, "broadcast_in_dim", {{"shape", Shape{count}}, {"dims", Dims{}}}, {index});
    }
    return add_eqn(*body_, "multiply", {}, {numbers, full({}, step)});
  }

  // An exchange in which every device sends each of its group an equal number of its rows, and they are packed in the
  // order of the senders; the receiver's other rows stay.
  std::vector<ValueId> ragged_operands(ValueId operand, const std::vector<std::string>& axes) {
    const Type type = body_->type(operand);
    const std::int64_t count = size_of(axes);
    if (type.rank() == 0 || type.shape[0] < count || type.memory != MemoryKind()) return {};
    const std::int64_t rows = type.shape[0] / count;
    const ValueId sizes = full({count}, rows);
    const std::optional<ValueId> output = like(type, operand);
    return {operand, *output, row_numbers(axes, count, rows, false), sizes, row_numbers(axes, count, rows, true),
            sizes};
  }

  ValueId full(const Shape& shape, std::int64_t value) {
    return add_eqn(*body_, "full", {{"shape", shape}, {"value", Scalar::of(static_cast<std::int32_t>(value))}}, {});
  }

  std::optional<Attrs> collective_attrs(std::string_view name, const Type& type) {
    std::vector<std::string> axes = some_axes();
    const std::int64_t size = size_of(axes);
    std::int64_t group = size;
    Attrs attrs{{"axes", std::move(axes)}};
    if (name == "axis_index" || name == "pvary") return attrs;
    if (name == "pbroadcast") {
      attrs.set("source", static_cast<std::int64_t>(rng_.below(static_cast<std::size_t>(size))));
      return attrs;
    }
    const bool takes_groups =
        name == "all_reduce" || name == "all_gather" || name == "reduce_scatter" || name == "all_to_all";
    if (takes_groups && rng_.chance(30)) {
      const std::vector<Dims> groups = some_groups(size, name != "all_reduce");
      set_index_groups(attrs, groups);
      group = static_cast<std::int64_t>(groups[0].size());
    } else if (name == "all_gather" && rng_.chance(30)) {
      attrs.set("invariant", true);
    }
    if (name == "all_reduce" || name == "reduce_scatter") attrs.set("kind", *reduce_kind(type.dtype));
    if (name == "all_reduce") return attrs;
    if (name == "exclusive_scan") {
      attrs.set("kind", *reduce_kind(type.dtype));
      attrs.set("reverse", rng_.chance(50));
      return attrs;
    }
    if (name == "collective_permute") {
      std::vector<std::int64_t> from(static_cast<std::size_t>(group));
      std::iota(from.begin(), from.end(), 0);
      std::vector<std::int64_t> to = from;
      rng_.shuffle(from);
      rng_.shuffle(to);
      const std::size_t count = rng_.chance(50) ? from.size() : rng_.below(from.size() + 1);
      attrs.set("sources", Dims(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count)));
      attrs.set("targets", Dims(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(count)));
      return attrs;
    }
    if (type.rank() == 0) return {};
    const std::size_t d = rng_.below(type.rank());
    const auto dim = static_cast<std::int64_t>(d);
    if (name == "rearrange") return rearranged(std::move(attrs), type.shape[d] * group, group, dim);
    if (name != "all_gather" && type.shape[d] % group != 0) return {};
    if (name == "all_to_all") {
      attrs.set("split_dim", dim);
      attrs.set("concat_dim", static_cast<std::int64_t>(rng_.below(type.rank())));
    } else {
      attrs.set("dim", dim);
    }
    return attrs;
  }

  // A part of the dimension, forwards, backwards or rolled; of as many elements as the devices share evenly.
  std::optional<Attrs> rearranged(Attrs attrs, std::int64_t extent, std::int64_t group, std::int64_t dim) {
    if (extent == 0) return {};
    const std::int64_t size =
        group * static_cast<std::int64_t>(1 + rng_.below(static_cast<std::size_t>(extent / group)));
    const auto start = static_cast<std::int64_t>(rng_.below(static_cast<std::size_t>(extent - size + 1)));
    const auto first = static_cast<std::int64_t>(rng_.below(static_cast<std::size_t>(size)));
    std::vector<Run> runs;
    if (rng_.chance(30)) {
      runs = {{.count = size, .in_start = start + size - 1, .in_step = -1}};
    } else {
      runs = {{.count = size - first, .in_start = start + first},
              {.count = first, .in_start = start, .out_start = size - first}};
    }
    attrs.set("dim", dim);
    attrs.set("extents", Dims{extent});
    attrs.set("size", size);
    attrs.set("runs", to_dims(runs));
    attrs.set("fills", false);
    return attrs;
  }

  Rng& rng_;
  const Mesh& mesh_;
  std::shared_ptr<Graph> body_;
  std::vector<std::string> manual_;
  std::vector<std::string> free_;
};

}  // namespace

std::optional<Attrs> random_manual_region(Rng& rng, const Mesh& mesh, std::span<const Type> operands,
                                          const ManualOptions& options) {
  return RegionMaker(rng, mesh).make(operands, options);
}

}  // namespace shoal::parity
