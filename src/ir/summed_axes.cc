#include "ir/summed_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/caller.h"

namespace shoal {
namespace {

enum class Mode : std::uint8_t { kExplicit, kManual };

// What a type says of axes of one mode.
struct Said {
  AxisNames unreduced;
  AxisNames reduced;
  AxisNames split;  // Those that split it, or over which devices have different data of it.
  bool at_all = true;
};

Said said_by(const Type& type, Mode mode) {
  if (mode == Mode::kManual) {
    return {.unreduced = type.summands, .reduced = type.reduced, .split = difference_of(type.varying, type.summands)};
  }
  if (!type.explicit_axes) return {.unreduced = {}, .reduced = {}, .split = {}, .at_all = false};
  const ExplicitAxes& axes = *type.explicit_axes;
  AxisNames split;
  for (const auto& dim : axes.dims) split.insert(split.end(), dim.begin(), dim.end());
  std::ranges::sort(split);
  return {.unreduced = axes.unreduced, .reduced = axes.reduced, .split = std::move(split)};
}

AxisNames common_of(const AxisNames& a, const AxisNames& b) {
  AxisNames common;
  std::ranges::set_intersection(a, b, std::back_inserter(common));
  return common;
}

std::string names_text_of(const AxisNames& axes) { return fmt::format("({})", fmt::join(axes, ", ")); }

bool is_together(Linear linear) { return linear == Linear::kTogether || linear == Linear::kMoved; }

struct Summed {
  AxisNames unreduced;
  AxisNames reduced;
};

class SumsOfTypes {
 public:
  SumsOfTypes(const InferContext& context, Mode mode) : context_(context), mode_(mode) {
    for (const Type& type : context.inputs) said_.push_back(said_by(type, mode));
  }

  // Whether an operand is unreduced or reduced at all.
  bool any() const {
    return std::ranges::any_of(said_, [](const Said& one) { return !one.unreduced.empty() || !one.reduced.empty(); });
  }

  Summed of_results() const {
    if (context_.op.op_class == OpClass::kCollective) return of_collective();
    Summed made{.unreduced = unreduced(), .reduced = is_elementwise() ? reduced_of_elements() : reduced_of_arrays()};
    made.reduced = difference_of(made.reduced, made.unreduced);
    return made;
  }

 private:
  bool is_elementwise() const { return context_.op.elementwise != nullptr; }
  bool is_scalar(std::size_t i) const {
    return context_.inputs[i].rank() == 0 && said_[i].unreduced.empty() && said_[i].reduced.empty();
  }
  // By its record: rounding of summands is what was asked for where the types say that they are such.
  Linear linear(std::size_t i) const {
    const auto* kind = context_.attrs.find_as<std::string>("kind");
    return kind != nullptr && *kind != name_of(ReduceKind::kSum) ? Linear::kNo : context_.op.linear[i];
  }
  // Of an elementwise op: whether it chooses between elements of the others.
  bool is_choice(std::size_t i) const {
    return is_elementwise() && i == 0 && said_.size() > 1 && linear(0) == Linear::kNo && is_together(linear(1));
  }

  template <class E = ShardingTypeError>
  [[noreturn]] void fail(const std::string& text) const {
    throw E(fmt::format("{}: {}", Caller::function_or(context_.op.name), text), context_.where);
  }
  template <class E = ShardingTypeError>
  [[noreturn]] void fail_unreduced(std::string_view why) const {
    fail<E>(fmt::format("{}, but takes {}, of which devices hold summands; finish the sum with {} first", why,
                        operands_text(), mode_ == Mode::kExplicit ? "reshard" : "psum"));
  }
  std::string operands_text() const {
    std::vector<std::string> texts;
    for (const Type& type : context_.inputs) texts.push_back(to_string(type));
    return fmt::format("{}", fmt::join(texts, " and "));
  }

  // Over which axes devices hold summands of the results.
  AxisNames unreduced() const {
    const auto is_summed = [](const Said& one) { return !one.unreduced.empty(); };
    const auto first = std::ranges::find_if(said_, is_summed);
    if (first == said_.end()) return {};
    const AxisNames& axes = first->unreduced;
    const auto own = linear(static_cast<std::size_t>(first - said_.begin()));
    const bool alone = own == Linear::kAlone && (is_elementwise() || context_.is_derived) &&
                       std::ranges::count_if(said_, is_summed) == 1;
    if (!is_together(own) && !alone) fail_unreduced("is not linear");
    for (std::size_t i = 0; i < said_.size(); ++i) {
      if (said_[i].unreduced == axes && (alone || is_together(linear(i)))) continue;
      if (is_summed(said_[i])) fail_unreduced(same_axes());
      if (!alone && is_together(linear(i))) {
        // A rule of derivatives is linear, so that what it adds is zero. What pads an array is, too, or is as in JAX.
        if ((is_scalar(i) && !is_elementwise()) || is_constant_of_rule(i)) continue;
        fail_unreduced(same_axes());
      }
      if ((is_elementwise() || alone) && !is_factor(i, axes)) {
        fail(
            fmt::format("takes {}, of which one is unreduced over {}, so that the other must be reduced over these; "
                        "reshard one of them first",
                        operands_text(), names_text_of(axes)));
      }
    }
    return axes;
  }
  static constexpr const char* same_axes() { return "needs operands that are all unreduced over the same axes"; }

  // Whether what is the same on all devices is taken for reduced: over manual axes, where cotangents are summed by
  // themselves, and in derivatives, where a cotangent becomes what its value asks for once all of it is there.
  bool takes_as_it_is() const { return mode_ == Mode::kManual || context_.is_derived; }

  // Whether an operand may be a constant of a rule of derivatives. Over manual axes types do not tell.
  bool is_constant_of_rule(std::size_t i) const {
    const Said& one = said_[i];
    const bool says_nothing = one.unreduced.empty() && one.reduced.empty() && one.split.empty();
    return context_.is_derived && says_nothing && (is_scalar(i) || !one.at_all || mode_ == Mode::kManual);
  }

  // Whether devices have the same of a factor of summands.
  bool is_factor(std::size_t i, const AxisNames& axes) const {
    if (is_choice(i) || said_[i].reduced == axes) return true;
    if (is_constant_of_rule(i)) return true;
    return takes_as_it_is() && common_of(said_[i].split, axes).empty();
  }

  // Of what meets element by element, all is reduced over the same axes.
  AxisNames reduced_of_elements() const {
    std::optional<AxisNames> found;
    for (std::size_t i = 0; i < said_.size(); ++i) {
      const Said& one = said_[i];
      if (one.reduced.empty() || is_choice(i)) continue;
      if (!found) found = one.reduced;
      if (*found == one.reduced) continue;
      if (takes_as_it_is()) {
        found = common_of(*found, one.reduced);
        continue;
      }
      fail(fmt::format("takes {}, which are reduced over different axes, {} and {}; move one with reshard",
                       operands_text(), names_text_of(*found), names_text_of(one.reduced)));
    }
    if (!found || found->empty()) return {};
    const AxisNames& axes = *found;
    AxisNames differ;
    for (std::size_t i = 0; i < said_.size(); ++i) {
      const Said& one = said_[i];
      if (!one.reduced.empty() || is_choice(i) || is_scalar(i) || !one.at_all) continue;
      if (takes_as_it_is()) {
        differ = union_of(differ, one.split);
        continue;
      }
      const AxisNames split = common_of(axes, one.split);
      if (!split.empty()) {
        fail(
            fmt::format("takes {}, of which one is split over {} and another is reduced over it; split that, too, "
                        "with reshard",
                        operands_text(), names_text_of(split)));
      }
      if (difference_of(axes, one.unreduced).empty()) continue;
      fail(
          fmt::format("takes {}, of which one is the same along {} and another is reduced over it, so that the "
                      "gradient of the first would be summed unasked; make both reduced, or none, with reshard",
                      operands_text(), names_text_of(axes)));
    }
    return difference_of(axes, differ);
  }

  // Of arrays that are put together, all are reduced over the same axes. Positions do not count, and products are
  // reduced over none.
  AxisNames reduced_of_arrays() const {
    std::vector<std::size_t> arrays;
    int factors = 0;
    for (std::size_t i = 0; i < said_.size(); ++i) {
      if (linear(i) == Linear::kAlone) ++factors;
      if (linear(i) != Linear::kNo) arrays.push_back(i);
    }
    if (factors > 1) return {};
    if (arrays.empty()) {
      for (std::size_t i = 0; i < said_.size(); ++i) arrays.push_back(i);
    }
    std::optional<AxisNames> axes;
    for (const std::size_t i : arrays) {
      if (is_scalar(i) || !said_[i].at_all) continue;
      if (!axes) axes = said_[i].reduced;
      if (*axes == said_[i].reduced) continue;
      if (takes_as_it_is()) {
        axes = common_of(*axes, said_[i].reduced);
        continue;
      }
      fail(fmt::format("takes {}, which are reduced over different axes, {} and {}; move one with reshard",
                       operands_text(), names_text_of(*axes), names_text_of(said_[i].reduced)));
    }
    if (!axes) return {};
    for (const Said& one : said_) axes = difference_of(*axes, one.split);
    return *axes;
  }

  // Along its axes a collective finishes sums, or takes none. What is reduced is not sent, as all have it.
  Summed of_collective() const {
    const auto& list = context_.attrs.get<std::vector<std::string>>("axes");
    const AxisNames along = AxisNames(list.begin(), list.end());
    AxisNames sorted = along;
    std::ranges::sort(sorted);
    const CollectiveFacts& facts = *context_.op.collective;
    Summed made;
    for (std::size_t i = 0; i < said_.size(); ++i) {
      const Said& one = said_[i];
      if (!one.unreduced.empty() && (!is_together(linear(i)) || mode_ == Mode::kExplicit)) {
        fail_unreduced("is not linear");
      }
      const bool finishes = facts.finishes_sums && !context_.attrs.contains("groups");
      if (!finishes && !common_of(one.unreduced, sorted).empty()) {
        fail_unreduced<InvalidArgument>(fmt::format("moves data along {}", names_text_of(along)));
      }
      if (!facts.stays && !common_of(one.reduced, sorted).empty()) {
        fail<InvalidArgument>(
            fmt::format("takes {}, which is reduced over {}: all devices have it already; make it "
                        "vary with pcast first if that is what you want",
                        operands_text(), names_text_of(common_of(one.reduced, sorted))));
      }
      made.unreduced = union_of(made.unreduced, difference_of(one.unreduced, sorted));
      made.reduced = union_of(made.reduced, difference_of(one.reduced, sorted));
    }
    return made;
  }

  const InferContext& context_;
  Mode mode_;
  std::vector<Said> said_;
};

bool says_something(const Type& type) {
  const Shared<ExplicitAxes>& axes = type.explicit_axes;
  return !type.summands.empty() || !type.reduced.empty() ||
         (axes && !(axes->unreduced.empty() && axes->reduced.empty()));
}

}  // namespace

bool is_unreduced(const Type& type) {
  return !type.summands.empty() || (type.explicit_axes && !type.explicit_axes->unreduced.empty());
}

void infer_summed_axes(const InferContext& context, std::vector<Type>& results) {
  const bool gives_reduced = context.op.op_class == OpClass::kCollective && context.attrs.contains("reduced");
  // Asked for each equation: most have no such operands.
  if (!gives_reduced && std::ranges::none_of(context.inputs, says_something)) {
    for (Type& type : results) type.summands = type.reduced = {};
    return;
  }
  if (const SumsOfTypes rule(context, Mode::kExplicit); rule.any()) {
    const Summed made = rule.of_results();
    for (Type& type : results) {
      if (!type.explicit_axes) continue;
      const AxisNames split = said_by(type, Mode::kExplicit).split;
      type.explicit_axes.edit([&](ExplicitAxes& axes) {
        axes.unreduced = made.unreduced;
        axes.reduced = difference_of(made.reduced, split);
      });
    }
  }
  Summed made;
  if (const SumsOfTypes rule(context, Mode::kManual); rule.any()) made = rule.of_results();
  for (Type& type : results) {
    type.summands = made.unreduced;
    type.reduced = made.reduced;
    if (gives_reduced) {
      AxisNames along = context.attrs.get<std::vector<std::string>>("axes");
      std::ranges::sort(along);
      type.reduced = union_of(type.reduced, along);
    }
    type.reduced = difference_of(type.reduced, type.varying);
  }
}

void refuse_unreduced(const InferContext& context) {
  if (std::ranges::none_of(context.inputs, is_unreduced)) return;
  std::vector<std::string> texts;
  for (const Type& type : context.inputs) texts.push_back(to_string(type));
  throw ShardingTypeError(fmt::format("{}: takes {}, of which devices hold summands; finish the sum with reshard first",
                                      Caller::function_or(context.op.name), fmt::join(texts, " and ")),
                          context.where);
}

}  // namespace shoal
