#include "transform/save_rules.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <system_error>

#include "base/check.h"
#include "ir/bodies.h"

namespace shoal {
namespace {

constexpr std::string_view kAnyValue = "any value";
constexpr std::string_view kAnyName = "any name";
constexpr std::string_view kName = "name ";
constexpr std::string_view kUnbatched = "unbatched ";
constexpr std::string_view kBut = "but ";
constexpr std::string_view kTo = "to ";
constexpr std::string_view kAtMost = "at most ";

// What follows a beginning of a text, if it begins so.
std::optional<std::string_view> after(std::string_view beginning, std::string_view text) {
  if (!text.starts_with(beginning)) return std::nullopt;
  return text.substr(beginning.size());
}

bool falls_under(std::string_view rule, const Computed& value) {
  if (rule == kAnyValue || rule == value.op) return true;
  if (rule == kAnyName) return !value.names.empty();
  if (const auto name = after(kName, rule)) return std::ranges::find(value.names, *name) != value.names.end();
  return after(kUnbatched, rule) == value.op && !value.is_batched;
}

}  // namespace

const std::string* given_name(const Eqn& eqn) {
  return eqn.op->op_class == OpClass::kTyping ? eqn.attrs.find_as<std::string>("name") : nullptr;
}

bool is_batched(const Eqn& eqn) {
  return std::ranges::any_of(eqn.op->attributes, [&](const AttrFact& fact) {
    return fact.role == AttrRole::kBatchDims && !eqn.attrs.get<Dims>(fact.name).empty();
  });
}

std::vector<Names> names_of_values(const Graph& graph) {
  std::vector<ValueId> named(graph.values.size());
  std::iota(named.begin(), named.end(), 0);
  std::vector<Names> names(graph.values.size());
  for (const Eqn& eqn : graph.eqns) {
    const std::string* name = given_name(eqn);
    if (name == nullptr) continue;
    const ValueId value = named[slot(eqn.inputs[0])];
    named[slot(eqn.outputs[0])] = value;
    names[slot(value)].push_back(*name);
  }
  return names;
}

SaveRules::SaveRules(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (const auto name = after(kBut, text)) {
      SHOAL_CHECK(!rules_.empty(), "a rule comes first");
      rules_.back().but.emplace_back(*name);
    } else if (const auto memory = after(kTo, text)) {
      SHOAL_CHECK(!rules_.empty(), "a rule comes first");
      rules_.back().memory = MemoryKind(*memory);
    } else if (const auto bytes = after(kAtMost, text)) {
      std::uint64_t number = 0;
      const auto end = std::from_chars(bytes->data(), bytes->data() + bytes->size(), number);
      SHOAL_CHECK(end.ec == std::errc() && end.ptr == bytes->data() + bytes->size(), "a budget is a number of bytes");
      budget_ = std::max(budget_.value_or(0), static_cast<double>(number));
    } else {
      rules_.push_back({.what = text});
    }
  }
}

Keeping SaveRules::keeping(const Computed& value) const {
  for (const Rule& rule : rules_) {
    if (!falls_under(rule.what, value)) continue;
    const bool is_excepted = std::ranges::any_of(
        rule.but, [&](const std::string& name) { return std::ranges::find(value.names, name) != value.names.end(); });
    if (!is_excepted) return {.kept = true, .memory = rule.memory};
  }
  return {};
}

bool SaveRules::is_chosen(const Graph& graph, ValueId id) const {
  const auto found = chosen_.find(&graph);
  return found != chosen_.end() && found->second.contains(id);
}

bool SaveRules::keep_any_inside(const Eqn& eqn) const {
  return std::ranges::any_of(bodies_of(eqn), [&](const Graph* body) {
    const auto has_chosen = [&](const Eqn& inside) { return keep_any_inside(inside); };
    if (chosen_.contains(body) || (!chosen_.empty() && std::ranges::any_of(body->eqns, has_chosen))) return true;
    return any_eqn(*body, [&](const Eqn& inside) {
      Computed value{.op = inside.op->name, .is_batched = is_batched(inside), .names = {}};
      if (const std::string* name = given_name(inside)) value.names.push_back(*name);
      return keeping(value).kept;
    });
  });
}

}  // namespace shoal
