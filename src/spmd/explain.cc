#include "spmd/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "ir/bodies.h"
#include "ir/makers.h"
#include "spmd/cost.h"
#include "spmd/cost_text.h"

namespace shoal {
namespace {

std::string value_text(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  Type type = value.type;
  if (!value.global) return to_string(type);
  type.shape = value.global->shape;
  std::string text = fmt::format("{} @{}", to_string(type), to_string(*graph.grid, value.global->placement));
  if (!value.manual.empty()) {
    text += fmt::format(" manual({})", fmt::join(graph.grid->axis_refs(value.manual.sorted()), ", "));
  }
  return text;
}

std::string values_text(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> texts;
  for (ValueId id : ids) texts.push_back(value_text(graph, id));
  return texts.empty() ? "()" : fmt::format("{}", fmt::join(texts, ", "));
}

// Whether every one of several devices holds the whole of a value.
bool is_replicated(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return graph.grid->num_devices() > 1 && value.global && value.varying.empty() &&
         value.global->placement.sharded().empty();
}

// Finds attention that is written out: a product with the softmax of another product, all of whose elements are there.
class WrittenOut {
 public:
  explicit WrittenOut(const Graph& graph) : graph_(graph), makers_(graph) {}

  // The bytes of the softmax that an equation multiplies by, if they are `threshold` or more; 0 if there is none, or it
  // was told of already.
  double bytes_in(const Eqn& eqn, double threshold) {
    if (!is_product(*eqn.op)) return 0;
    for (const ValueId id : eqn.inputs) {
      const double bytes = bytes_of(graph_.type(id));
      if (bytes < threshold || bytes <= bytes_of(graph_.type(eqn.outputs[0]))) continue;
      const Eqn* product = product_behind(id);
      if (product != nullptr && told_.insert(product).second) return bytes;
    }
    return 0;
  }

 private:
  // Of two factors, and a sum over what they have in common.
  static bool is_product(const OpDef& op) {
    return op.op_class == OpClass::kCompute && op.elementwise == nullptr && op.arity == 2 &&
           op.linear[0] == Linear::kAlone && op.linear[1] == Linear::kAlone;
  }

  // The product that a value is the softmax of, or nullptr: what only a maximum, a sum and operations on elements lie
  // between.
  const Eqn* product_behind(ValueId weights) const {
    const std::int64_t size = num_elements(graph_.type(weights).shape);
    std::set<const Eqn*> seen;
    std::vector<ValueId> ahead = {weights};
    const Eqn* product = nullptr;
    bool has_most = false;
    bool has_sum = false;
    while (!ahead.empty()) {
      const Eqn* maker = makers_.of(ahead.back());
      ahead.pop_back();
      if (maker == nullptr || !seen.insert(maker).second) continue;
      const OpDef& op = *maker->op;
      if (is_product(op) && num_elements(graph_.type(maker->outputs[0]).shape) == size) product = maker;
      has_most = has_most || op.reduces == ReduceKind::kMax;
      has_sum = has_sum || op.reduces == ReduceKind::kSum;
      if (op.elementwise == nullptr && !op.reduces && !moves_elements(op)) continue;
      ahead.insert(ahead.end(), maker->inputs.begin(), maker->inputs.end());
    }
    return has_most && has_sum ? product : nullptr;
  }

  const Graph& graph_;
  const Makers makers_;
  std::set<const Eqn*> told_;
};

struct Line {
  std::string where;
  std::string op;
  std::string text;
};

// What a body of an equation with several is.
std::string heading(const Control& control, std::size_t number) {
  if (control.asks) return number == 0 ? "while" : "do";
  return fmt::format("branch {}", number);
}

}  // namespace

std::string explain(const Graph& partitioned, std::int64_t threshold) {
  const Grid& grid = *partitioned.grid;
  const auto devices = static_cast<double>(grid.num_devices());
  std::vector<Line> lines;
  double all_bytes = 0;
  int collectives = 0;
  for_each_counted(partitioned,
                   [&](const CountedEqn& one) { all_bytes += one.times * received_bytes(one.graph, one.eqn); });
  const Cost whole = cost_of_program(partitioned);
  // What part of an equation takes, which runs so often.
  const auto share_text = [&](const Cost& part, double times) {
    const double seconds = part.seconds(grid);
    return fmt::format("{}, {:.0f}% of the program's cost", seconds_text(seconds),
                       100 * times * seconds / whole.seconds(grid));
  };
  std::size_t equations = 0;
  const auto tell = [&](const Graph& graph, const Eqn& eqn, WrittenOut& written_out, double times, int depth) {
    // What leaves everything as it is marks where a shard_map begins or ends.
    if (eqn.op->collective && eqn.op->collective->gives == CollectiveFacts::Gives::kAsBefore) return;
    Line line{.where = to_string(eqn.where),
              .op = std::string(2 * static_cast<std::size_t>(depth), ' ') + std::string(eqn.op->name),
              .text = fmt::format("{} -> {}", values_text(graph, eqn.inputs), values_text(graph, eqn.outputs))};
    if (eqn.op->control != nullptr) {
      const Control control = eqn.op->control(eqn.attrs);
      if (control.loops && control.trips) line.text += fmt::format("\n    runs {} times:", *control.trips);
      if (control.loops && !control.trips) line.text += "\n    runs as often as data says:";
    }
    const Cost cost = cost_of(graph, eqn);
    if (const double bytes = received_bytes(graph, eqn); bytes > 0) {
      ++collectives;
      line.text += fmt::format(
          "\n    moves {} to each device, {} in all, over ({}): {}", bytes_text(bytes), bytes_text(bytes * devices),
          fmt::join(eqn.attrs.get<std::vector<std::string>>("axes"), ", "), share_text({.bytes = cost.bytes}, times));
    }
    if (cost.operations > 0) {
      line.text += fmt::format("\n    computes {} operation{} on each device: {}", count_text(cost.operations),
                               cost.operations == 1 ? "" : "s", share_text({.operations = cost.operations}, times));
    }
    for (ValueId id : eqn.outputs) {
      const double bytes = bytes_of(graph.type(id));
      if (bytes < static_cast<double>(threshold) || !is_replicated(graph, id)) continue;
      line.text += fmt::format("\n    REPLICATED: {} on each of {} devices", bytes_text(bytes), devices);
    }
    if (const double bytes = written_out.bytes_in(eqn, static_cast<double>(threshold)); bytes > 0) {
      line.text += fmt::format(
          "\n    WRITTEN OUT: attention by an array of weights, {} on each device. It stays so, as "
          "programs keep their bits; nn.dot_product_attention makes no such array",
          bytes_text(bytes));
    }
    lines.push_back(std::move(line));
    ++equations;
  };
  const auto tell_all = [&](auto&& self, const Graph& graph, double times, int depth) -> void {
    WrittenOut written_out(graph);
    for (const Eqn& eqn : graph.eqns) {
      tell(graph, eqn, written_out, times, depth);
      if (eqn.op->control == nullptr) continue;
      const Control control = eqn.op->control(eqn.attrs);
      const auto bodies = bodies_of(eqn);
      for (std::size_t b = 0; b < bodies.size(); ++b) {
        if (bodies.size() > 1) {
          const std::string indent(2 * static_cast<std::size_t>(depth) + 1, ' ');
          lines.push_back({.where = "", .op = indent + heading(control, b), .text = ""});
        }
        self(self, *bodies[b], times * control.weight(), depth + 1);
      }
    }
  };
  tell_all(tell_all, partitioned, 1, 0);
  std::size_t where_width = 0;
  std::size_t op_width = 0;
  for (const Line& line : lines) {
    where_width = std::max(where_width, line.where.size());
    op_width = std::max(op_width, line.op.size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string told = fmt::format("{:<{}}  {:<{}}  {}", line.where, where_width, line.op, op_width, line.text);
    told.erase(told.find_last_not_of(' ') + 1);
    text += told + '\n';
  }
  return text + fmt::format(
                    "{} on {} devices: {} of {} equations move {} to each device, {} in all\n"
                    "each device computes {} operations: {} are estimated, {} of them for what moves\n",
                    partitioned.name, devices, collectives, equations, bytes_text(all_bytes),
                    bytes_text(all_bytes * devices), count_text(whole.operations), seconds_text(whole.seconds(grid)),
                    seconds_text(Cost{.bytes = whole.bytes}.seconds(grid)));
}

}  // namespace shoal
