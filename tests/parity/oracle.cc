#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/kernels.h"
#include "base/check.h"
#include "core/dispatch.h"
#include "ops/collective.h"
#include "values.h"

namespace shoal::parity {
namespace {

std::vector<Buffer> run_expanded(const Graph& graph, const Eqn& eqn, const std::vector<Buffer>& operands);

std::vector<Buffer> run_kernel(const Graph& graph, const Eqn& eqn, const std::vector<Buffer>& operands) {
  std::vector<TensorView> inputs;
  for (const Buffer& operand : operands) inputs.push_back(operand.view());
  std::vector<Buffer> results;
  std::vector<TensorView> outputs;
  for (const Type& type : graph.types(eqn.outputs)) {
    results.push_back(make_buffer(type.dtype, type.shape));
    outputs.push_back(results.back().view());
  }
  // Where a kernel differs from the reference, the kernel itself computes the whole arrays; its own test compares it
  // with the reference.
  const cpu::KernelRow* const row = cpu::kernel_row(*eqn.op);
  if (row != nullptr && row->rounds_differently) {
    shoal::run_kernel(*cpu::make_kernel(graph, eqn), inputs, outputs);
  } else if (eqn.op->expand != nullptr) {  // So do the kernels of ops that it is made of.
    return run_expanded(graph, eqn, operands);
  } else {
    eqn.op->reference({.op = *eqn.op, .attrs = eqn.attrs, .inputs = inputs, .outputs = outputs});
  }
  return results;
}

std::vector<Buffer> run_expanded(const Graph& graph, const Eqn& eqn, const std::vector<Buffer>& operands) {
  const std::vector<Type> inputs = graph.types(eqn.inputs);
  const std::vector<Type> results = graph.types(eqn.outputs);
  const GraphPtr body =
      eqn.op->expand({.attrs = eqn.attrs, .operands = inputs, .results = results, .where = SourceLocation::current()});
  std::vector<Buffer> values(body->values.size());
  for (std::size_t i = 0; i < operands.size(); ++i) values[slot(body->inputs[i])] = operands[i];
  for (const Eqn& one : body->eqns) {
    if (one.op->reference == nullptr) continue;  // Effects, which a plain evaluation has not.
    std::vector<Buffer> given;
    for (ValueId id : one.inputs) given.push_back(values[slot(id)]);
    std::vector<Buffer> made = run_kernel(*body, one, given);
    for (std::size_t i = 0; i < made.size(); ++i) values[slot(one.outputs[i])] = std::move(made[i]);
  }
  std::vector<Buffer> found;
  for (ValueId id : body->outputs) found.push_back(values[slot(id)]);
  return found;
}

std::vector<Buffer> outputs_of(const Graph& graph, const std::vector<Buffer>& values) {
  std::vector<Buffer> outputs;
  for (ValueId id : graph.outputs) outputs.push_back(values[static_cast<std::size_t>(id)]);
  return outputs;
}

// ---- Boxes of arrays.

// Copies a box of `extents` elements between arrays, one element at a time.
void copy_elements(const Buffer& from, const Dims& from_start, Buffer& to, const Dims& to_start, const Shape& extents) {
  const Dims from_strides = row_major_strides(from.shape());
  const Dims to_strides = row_major_strides(to.shape());
  const std::size_t size = size_of(from.dtype());
  Dims at(extents.size(), 0);
  for (std::int64_t i = 0; i < num_elements(extents); ++i) {
    std::int64_t source = 0;
    std::int64_t target = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      source += (from_start[d] + at[d]) * from_strides[d];
      target += (to_start[d] + at[d]) * to_strides[d];
    }
    std::memcpy(static_cast<std::byte*>(to.mutable_data()) + static_cast<std::size_t>(target) * size,
                static_cast<const std::byte*>(from.data()) + static_cast<std::size_t>(source) * size, size);
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < extents[d]) break;
      at[d] = 0;
    }
  }
}

// The piece number `index` of `count` along a dimension.
Buffer piece(const Buffer& buffer, std::size_t dim, std::int64_t index, std::int64_t count) {
  Shape shape = buffer.shape();
  shape[dim] /= count;
  Dims start(shape.size(), 0);
  start[dim] = index * shape[dim];
  Buffer out = make_buffer(buffer.dtype(), shape);
  copy_elements(buffer, start, out, Dims(shape.size(), 0), shape);
  return out;
}

Buffer joined(const std::vector<Buffer>& pieces, std::size_t dim) {
  Shape shape = pieces[0].shape();
  shape[dim] *= static_cast<std::int64_t>(pieces.size());
  Buffer out = make_buffer(pieces[0].dtype(), shape);
  Dims start(shape.size(), 0);
  for (const Buffer& one : pieces) {
    copy_elements(one, Dims(shape.size(), 0), out, start, one.shape());
    start[dim] += one.shape()[dim];
  }
  return out;
}

Buffer neutral(ReduceKind kind, const Buffer& like) {
  Buffer out = make_buffer(like.dtype(), like.shape());
  with_element_type(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Limits = std::numeric_limits<T>;
    T value{};
    if (kind == ReduceKind::kProd) value = T(1);
    if constexpr (std::is_same_v<T, bool>) {
      value = kind == ReduceKind::kProd || kind == ReduceKind::kMin || kind == ReduceKind::kAnd;
    } else if constexpr (std::is_integral_v<T>) {
      if (kind == ReduceKind::kMax) value = Limits::min();
      if (kind == ReduceKind::kMin) value = Limits::max();
      if (kind == ReduceKind::kAnd) value = static_cast<T>(~T{});
    } else if constexpr (!kIsComplexElement<T>) {
      if (kind == ReduceKind::kMax) value = T(-std::numeric_limits<float>::infinity());
      if (kind == ReduceKind::kMin) value = T(std::numeric_limits<float>::infinity());
    }
    std::fill_n(static_cast<T*>(out.mutable_data()), num_elements(out.shape()), value);
  });
  return out;
}

// One element after the other, as the runs say.
Buffer rearranged(const Buffer& whole, const Attrs& attrs) {
  const auto dim = static_cast<std::size_t>(attrs.get<std::int64_t>("dim"));
  Shape shape = whole.shape();
  shape[dim] = attrs.get<std::int64_t>("size");
  Buffer out = make_buffer(whole.dtype(), shape);
  shape[dim] = 1;
  for (const Run& run : runs_of(attrs.get<Dims>("runs"))) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      Dims from(shape.size(), 0);
      Dims to(shape.size(), 0);
      from[dim] = run.in_start + i * run.in_step;
      to[dim] = run.out_start + i * run.out_step;
      copy_elements(whole, from, out, to, shape);
    }
  }
  return out;
}

// ---- Manual regions.

template <class T>
T reduced(ReduceKind kind, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return kind == ReduceKind::kSum || kind == ReduceKind::kMax || kind == ReduceKind::kOr ? a || b : a && b;
  } else {
    if constexpr (std::is_integral_v<T>) {
      if (kind == ReduceKind::kAnd) return static_cast<T>(a & b);
      if (kind == ReduceKind::kOr) return static_cast<T>(a | b);
      const auto wide_a = static_cast<std::uint64_t>(a);
      const auto wide_b = static_cast<std::uint64_t>(b);
      if (kind == ReduceKind::kSum) return static_cast<T>(wide_a + wide_b);
      if (kind == ReduceKind::kProd) return static_cast<T>(wide_a * wide_b);
    } else {
      if (kind == ReduceKind::kSum) return T(a + b);
      if (kind == ReduceKind::kProd) return T(a * b);
    }
    if constexpr (!kIsComplexElement<T>) {
      if (a != a) return a;
      if (b != b) return b;
      return (kind == ReduceKind::kMax) == (a < b) ? b : a;
    }
  }
  throw InternalError("the oracle has no such reduction");
}

Buffer reduced(ReduceKind kind, const std::vector<Buffer>& group) {
  Buffer out = make_buffer(group[0].dtype(), group[0].shape());
  with_element_type(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    auto* data = static_cast<T*>(out.mutable_data());
    for (std::int64_t i = 0; i < num_elements(out.shape()); ++i) {
      data[i] = static_cast<const T*>(group[0].data())[i];
      for (std::size_t g = 1; g < group.size(); ++g) {
        data[i] = reduced(kind, data[i], static_cast<const T*>(group[g].data())[i]);
      }
    }
  });
  return out;
}

// The mesh of the manual axes alone. The other axes split what is whole here.
Mesh manual_mesh(const Mesh& mesh, const std::vector<std::string>& axes) {
  Shape sizes;
  for (const std::string& axis : axes) sizes.push_back(mesh.axis_size(axis));
  std::vector<Device> devices;
  for (std::int64_t id = 0; id < num_elements(sizes); ++id) devices.push_back({.id = id});
  return Mesh(std::move(devices), sizes, axes);
}

class ManualRegion {
 public:
  explicit ManualRegion(const Mesh& mesh) : mesh_(mesh) {
    for (std::int64_t position = 0; position < mesh.size(); ++position) positions_.push_back(position);
  }

  std::vector<Buffer> run(const Eqn& eqn, const std::vector<Type>& types, const std::vector<Buffer>& operands) {
    const auto& in_specs = eqn.attrs.get<std::vector<PartitionSpec>>("in_specs");
    const auto& out_specs = eqn.attrs.get<std::vector<PartitionSpec>>("out_specs");
    std::vector<std::vector<Buffer>> inputs(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::int64_t position : positions_) inputs[i].push_back(shard(operands[i], in_specs[i], position));
    }
    const std::vector<std::vector<Buffer>> outputs = run_body(eqn.attrs.graph(), inputs);
    std::vector<Buffer> results;
    for (std::size_t i = 0; i < types.size(); ++i) {
      results.push_back(make_buffer(types[i].dtype, types[i].shape));
      // Backwards, so that the first of equal devices has the last word.
      for (std::int64_t position = mesh_.size(); position-- > 0;) {
        const Buffer& local = outputs[i][static_cast<std::size_t>(position)];
        const Dims start = start_of(local.shape(), out_specs[i], position);
        copy_elements(local, Dims(start.size(), 0), results.back(), start, local.shape());
      }
    }
    return results;
  }

 private:
  // Position of a device along axes, the first the most major.
  std::int64_t index_along(std::int64_t position, const std::vector<std::string>& axes) const {
    std::int64_t index = 0;
    for (const std::string& axis : axes) {
      const std::size_t a = *mesh_.find_axis(axis);
      const std::int64_t size = mesh_.axis_sizes()[a];
      index = index * size + position / row_major_strides(mesh_.axis_sizes())[a] % size;
    }
    return index;
  }

  // The devices that differ from this one along `axes` only, in the order of the axes.
  std::vector<std::int64_t> group_of(std::int64_t position, const std::vector<std::string>& axes) const {
    std::vector<std::string> others;
    for (const std::string& axis : mesh_.axis_names()) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) others.push_back(axis);
    }
    std::vector<std::int64_t> group;
    for (std::int64_t other : positions_) {
      if (index_along(other, others) == index_along(position, others)) group.push_back(other);
    }
    std::sort(group.begin(), group.end(),
              [&](std::int64_t a, std::int64_t b) { return index_along(a, axes) < index_along(b, axes); });
    return group;
  }

  Dims start_of(const Shape& local, const PartitionSpec& spec, std::int64_t position) const {
    Dims start(local.size(), 0);
    for (std::size_t d = 0; d < spec.size(); ++d) start[d] = index_along(position, spec[d].axes()) * local[d];
    return start;
  }

  Buffer shard(const Buffer& global, const PartitionSpec& spec, std::int64_t position) const {
    Buffer local = global;
    for (std::size_t d = 0; d < spec.size(); ++d) {
      std::int64_t count = 1;
      for (const std::string& axis : spec[d].axes()) count *= mesh_.axis_size(axis);
      local = piece(local, d, index_along(position, spec[d].axes()), count);
    }
    return local;
  }

  std::vector<std::vector<Buffer>> run_body(const Graph& body, const std::vector<std::vector<Buffer>>& inputs) {
    std::vector<std::vector<Buffer>> values(body.values.size(), std::vector<Buffer>(positions_.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) values[static_cast<std::size_t>(body.inputs[i])] = inputs[i];
    for (const Eqn& eqn : body.eqns) {
      for (std::int64_t position : positions_) {
        const auto p = static_cast<std::size_t>(position);
        std::vector<Buffer> results;
        if (eqn.op->op_class == OpClass::kCollective) {
          results.push_back(communicate(eqn, values, position));
        } else {
          std::vector<Buffer> operands;
          for (ValueId id : eqn.inputs) operands.push_back(values[static_cast<std::size_t>(id)][p]);
          results = evaluate(body, eqn, operands);
        }
        for (std::size_t i = 0; i < results.size(); ++i) {
          values[static_cast<std::size_t>(eqn.outputs[i])][p] = std::move(results[i]);
        }
      }
    }
    std::vector<std::vector<Buffer>> outputs;
    for (ValueId id : body.outputs) outputs.push_back(values[static_cast<std::size_t>(id)]);
    return outputs;
  }

  Buffer communicate(const Eqn& eqn, const std::vector<std::vector<Buffer>>& values, std::int64_t position) const {
    const std::string_view name = eqn.op->name;
    const auto& axes = eqn.attrs.get<std::vector<std::string>>("axes");
    std::int64_t mine = index_along(position, axes);
    if (name == "axis_index") {
      Buffer out = make_buffer(int32, {});
      *static_cast<std::int32_t*>(out.mutable_data()) = static_cast<std::int32_t>(mine);
      return out;
    }
    const std::vector<Buffer>& operand = values[static_cast<std::size_t>(eqn.inputs[0])];
    const Buffer& own = operand[static_cast<std::size_t>(position)];
    std::vector<std::int64_t> members = group_of(position, axes);
    for (const Dims& list : index_groups(eqn.attrs)) {
      const auto found = std::find(list.begin(), list.end(), index_along(position, axes));
      if (found == list.end()) continue;
      mine = found - list.begin();
      std::vector<std::int64_t> chosen;
      for (std::int64_t index : list) chosen.push_back(members[static_cast<std::size_t>(index)]);
      members = std::move(chosen);
      break;
    }
    if (name == "ragged_all_to_all") return ragged(eqn, values, position, members, mine);
    std::vector<Buffer> group;
    for (std::int64_t other : members) group.push_back(operand[static_cast<std::size_t>(other)]);
    const auto count = static_cast<std::int64_t>(group.size());
    const auto dim = [&](std::string_view key) { return static_cast<std::size_t>(eqn.attrs.get<std::int64_t>(key)); };
    const auto kind = [&] { return parse_reduce_kind(eqn.attrs.get<std::string>("kind")); };
    if (name == "pvary") return own;
    if (name == "all_reduce") return reduced(kind(), group);
    if (name == "all_gather") return joined(group, dim("dim"));
    if (name == "reduce_scatter") return piece(reduced(kind(), group), dim("dim"), mine, count);
    if (name == "shard_slice") return piece(own, dim("dim"), mine, count);
    if (name == "pbroadcast") return group[dim("source")];
    if (name == "all_to_all") {
      for (Buffer& one : group) one = piece(one, dim("split_dim"), mine, count);
      return joined(group, dim("concat_dim"));
    }
    if (name == "exclusive_scan") {
      const bool reverse = eqn.attrs.get<bool>("reverse");
      const auto first = group.begin() + (reverse ? mine + 1 : 0);
      const auto last = reverse ? group.end() : group.begin() + mine;
      std::vector<Buffer> before = {neutral(kind(), own)};
      before.insert(before.end(), first, last);
      return reduced(kind(), before);
    }
    if (name == "rearrange") {
      const Buffer whole = rearranged(joined(group, dim("dim")), eqn.attrs);
      return piece(whole, dim("dim"), mine, count);
    }
    SHOAL_CHECK(name == "collective_permute",
                "nobody has taught tests/parity/oracle.cc the collective " + std::string(name));
    const Dims& sources = eqn.attrs.get<Dims>("sources");
    const Dims& targets = eqn.attrs.get<Dims>("targets");
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] == mine) return group[static_cast<std::size_t>(sources[i])];
    }
    Buffer zeros = make_buffer(own.dtype(), own.shape());
    std::memset(zeros.mutable_data(), 0, zeros.size_bytes());
    return zeros;
  }

  // The rows that every member sends to this device, number `mine` among them, written or added to what is there.
  static Buffer ragged(const Eqn& eqn, const std::vector<std::vector<Buffer>>& values, std::int64_t position,
                       const std::vector<std::int64_t>& members, std::int64_t mine) {
    const auto of = [&](std::size_t operand, std::int64_t device) -> const Buffer& {
      return values[static_cast<std::size_t>(eqn.inputs[operand])][static_cast<std::size_t>(device)];
    };
    const auto entry = [&](std::size_t operand, std::int64_t device, std::int64_t i) {
      return static_cast<std::int64_t>(static_cast<const std::int32_t*>(of(operand, device).data())[i]);
    };
    const Buffer& before = of(1, position);
    Buffer out = make_buffer(before.dtype(), before.shape());
    copy_elements(before, Dims(before.shape().size(), 0), out, Dims(before.shape().size(), 0), before.shape());
    const std::int64_t slices = of(2, position).shape()[0] / static_cast<std::int64_t>(members.size());
    for (std::int64_t sender : members) {
      for (std::int64_t i = mine * slices; i < (mine + 1) * slices; ++i) {
        Shape extents = before.shape();
        extents[0] = entry(3, sender, i);
        Dims from(extents.size(), 0);
        Dims to(extents.size(), 0);
        from[0] = entry(2, sender, i);
        to[0] = entry(4, sender, i);
        if (!eqn.attrs.contains("adds")) {
          copy_elements(of(0, sender), from, out, to, extents);
          continue;
        }
        Buffer sent = make_buffer(before.dtype(), extents);
        Buffer there = make_buffer(before.dtype(), extents);
        const Dims start(extents.size(), 0);
        copy_elements(of(0, sender), from, sent, start, extents);
        copy_elements(out, to, there, start, extents);
        copy_elements(reduced(ReduceKind::kSum, {there, sent}), start, out, to, extents);
      }
    }
    return out;
  }

  const Mesh mesh_;
  std::vector<std::int64_t> positions_;
};

// ---- Loops and branches, by their names and attributes alone.

Buffer slice_of(const Buffer& stack, std::int64_t at) {
  Shape shape(stack.shape().begin() + 1, stack.shape().end());
  Shape one = stack.shape();
  one[0] = 1;
  Buffer slice = make_buffer(stack.dtype(), one);
  Dims start(one.size(), 0);
  start[0] = at;
  copy_elements(stack, start, slice, Dims(one.size(), 0), one);
  return slice.reshaped(shape);
}

void put_slice(const Buffer& slice, std::int64_t at, Buffer& stack) {
  Shape one = stack.shape();
  one[0] = 1;
  Dims start(one.size(), 0);
  start[0] = at;
  copy_elements(slice.reshaped(one), Dims(one.size(), 0), stack, start, one);
}

template <class T>
T scalar_in(const Buffer& buffer) {
  T value;
  std::memcpy(&value, buffer.data(), sizeof value);
  return value;
}

std::vector<Buffer> run_body(const GraphAttr& body, const std::vector<Buffer>& arguments) {
  return outputs_of(*body.graph, evaluate(*body.graph, arguments));
}

std::vector<Buffer> run_scan(const Eqn& eqn, const std::vector<Type>& types, const std::vector<Buffer>& operands) {
  const auto carries = eqn.attrs.get<std::int64_t>("carries");
  const auto slices = eqn.attrs.get<std::int64_t>("slices");
  const auto length = eqn.attrs.get<std::int64_t>("length");
  std::vector<Buffer> results(operands.begin(), operands.begin() + carries);
  for (std::size_t i = results.size(); i < types.size(); ++i)
    results.push_back(make_buffer(types[i].dtype, types[i].shape));
  for (std::int64_t trip = 0; trip < length; ++trip) {
    const std::int64_t at = eqn.attrs.get<bool>("reverse") ? length - 1 - trip : trip;
    std::vector<Buffer> arguments(results.begin(), results.begin() + carries);
    for (std::int64_t i = carries; i < static_cast<std::int64_t>(operands.size()); ++i) {
      const Buffer& operand = operands[static_cast<std::size_t>(i)];
      arguments.push_back(i < carries + slices ? slice_of(operand, at) : operand);
    }
    const auto& bodies = eqn.attrs.get<std::vector<GraphAttr>>("bodies");
    const std::vector<Buffer> yields = run_body(bodies[0], arguments);
    for (std::size_t i = 0; i < yields.size(); ++i) {
      if (i < static_cast<std::size_t>(carries)) {
        results[i] = yields[i];
      } else {
        put_slice(yields[i], at, results[i]);
      }
    }
  }
  return results;
}

std::vector<Buffer> run_while(const Eqn& eqn, std::vector<Buffer> arguments) {
  const auto carries = eqn.attrs.get<std::int64_t>("carries");
  const auto& bodies = eqn.attrs.get<std::vector<GraphAttr>>("bodies");
  while (scalar_in<bool>(run_body(bodies[0], arguments)[0])) {
    const std::vector<Buffer> yields = run_body(bodies[1], arguments);
    std::ranges::copy(yields, arguments.begin());
  }
  return {arguments.begin(), arguments.begin() + carries};
}

std::vector<Buffer> run_switch(const Eqn& eqn, const std::vector<Buffer>& operands) {
  const auto& bodies = eqn.attrs.get<std::vector<GraphAttr>>("bodies");
  auto index = static_cast<std::int64_t>(scalar_in<std::int32_t>(operands[0]));
  index = std::min(std::max<std::int64_t>(index, 0), static_cast<std::int64_t>(bodies.size()) - 1);
  return run_body(bodies[static_cast<std::size_t>(index)], {operands.begin() + 1, operands.end()});
}

}  // namespace

std::vector<Buffer> evaluate(const Graph& graph, const Eqn& eqn, const std::vector<Buffer>& operands) {
  if (eqn.op->name == "scan") return run_scan(eqn, graph.types(eqn.outputs), operands);
  if (eqn.op->name == "while") return run_while(eqn, operands);
  if (eqn.op->name == "switch") return run_switch(eqn, operands);
  if (eqn.op->name == "region") return run_body(eqn.attrs.get<std::vector<GraphAttr>>("bodies")[0], operands);
  if (eqn.op->name == "shard_map") {
    const auto& axes = eqn.attrs.get<std::vector<std::string>>("axes");
    return ManualRegion(manual_mesh(eqn.attrs.get<Mesh>("mesh"), axes)).run(eqn, graph.types(eqn.outputs), operands);
  }
  if (eqn.op->name == "jit") {
    const Graph& body = eqn.attrs.graph();
    return outputs_of(body, evaluate(body, operands));
  }
  if (eqn.op->op_class == OpClass::kConstraint) return {operands[0]};
  return run_kernel(graph, eqn, operands);
}

std::vector<Buffer> evaluate(const Graph& graph, const std::vector<Buffer>& inputs) {
  std::vector<Buffer> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[static_cast<std::size_t>(graph.inputs[i])] = inputs[i];
  for (const Eqn& eqn : graph.eqns) {
    std::vector<Buffer> operands;
    for (ValueId id : eqn.inputs) operands.push_back(values[static_cast<std::size_t>(id)]);
    std::vector<Buffer> results = evaluate(graph, eqn, operands);
    for (std::size_t i = 0; i < results.size(); ++i) {
      values[static_cast<std::size_t>(eqn.outputs[i])] = std::move(results[i]);
    }
  }
  return values;
}

}  // namespace shoal::parity
