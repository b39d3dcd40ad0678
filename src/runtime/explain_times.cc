#include "runtime/explain_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ir/bodies.h"
#include "spmd/cost.h"
#include "spmd/cost_text.h"

namespace shoal {
namespace {

// Of those that are fused into a step, no more ops are named.
constexpr std::size_t kOpsToName = 4;

std::string op_text(const Eqn& eqn) {
  std::string text(eqn.op->name);
  if (eqn.op->control != nullptr) return text;
  std::vector<std::string_view> inside;
  for (const Graph* body : bodies_of(eqn)) {
    for (const Eqn& one : body->eqns) {
      if (std::ranges::find(inside, one.op->name) == inside.end()) inside.push_back(one.op->name);
    }
  }
  if (inside.empty()) return text;
  const bool names_all = inside.size() <= kOpsToName;
  inside.resize(std::min(inside.size(), kOpsToName));
  return fmt::format("{} ({}{})", text, fmt::join(inside, ", "), names_all ? "" : ", ...");
}

class Table {
 public:
  explicit Table(const Executable& executable) : launches_(executable.schedule().tally().times.load()) {
    if (launches_ == 0) return;
    const double whole = add_steps(executable.schedule(), 1, 0);
    mean_ = mean_of(executable.schedule().tally());
    estimate_ = whole;
  }

  std::string text() const {
    if (launches_ == 0) return "";
    std::string text =
        fmt::format("measured in {} launch{} on this process: {} on average; estimated for each device: {}\n",
                    launches_, launches_ == 1 ? "" : "es", seconds_text(mean_), seconds_text(estimate_));
    std::size_t width = 0;
    for (const Row& row : rows_) width = std::max(width, row.where.size());
    text += "  estimated  measured\n";
    for (const Row& row : rows_) {
      text += fmt::format("  {:>9}  {:>8}  {:<{}}  {}\n", seconds_text(row.estimated), seconds_text(row.measured),
                          row.where, width, row.op);
    }
    return text;
  }

 private:
  struct Row {
    double estimated;
    double measured;
    std::string where;
    std::string op;
  };

  double mean_of(const profiler::Tally& tally) const {
    return 1e-9 * static_cast<double>(tally.nanoseconds.load()) / static_cast<double>(launches_);
  }

  // Adds those of a schedule that runs so often in a launch. Returns the sum of their estimates.
  double add_steps(const Schedule& schedule, double times, int depth) {
    double sum = 0;
    for (const Step& step : schedule.steps) {
      const Eqn& eqn = *step.eqn;
      const std::size_t row = rows_.size();
      rows_.push_back({.estimated = times * cost_of(schedule.graph, eqn).seconds(*schedule.graph.grid),
                       .measured = mean_of(schedule.tally_of(step)),
                       .where = to_string(eqn.where),
                       .op = std::string(2 * static_cast<std::size_t>(depth), ' ') + op_text(eqn)});
      if (const auto* control = std::get_if<ControlStep>(&step.work)) {
        const double weight = times * control->control.weight();
        double inside = 0;
        for (const ControlStep::Body& body : control->bodies) inside += add_steps(*body.schedule, weight, depth + 1);
        if (control->bodies.empty()) {
          for (const Graph* body : bodies_of(eqn)) {
            inside += weight * cost_of_program(*body).seconds(*schedule.graph.grid);
          }
        }
        rows_[row].estimated += inside;
      }
      sum += rows_[row].estimated;
    }
    return sum;
  }

  std::int64_t launches_;
  double mean_ = 0;
  double estimate_ = 0;
  std::vector<Row> rows_;
};

}  // namespace

std::string explain_times(const Executable& executable) { return Table(executable).text(); }

}  // namespace shoal
