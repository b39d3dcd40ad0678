#include "ir/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "sharding/python_text.h"

namespace shoal {
namespace {

using NameText = std::string (*)(const std::string&);
enum class Brackets { kNone, kAroundSeveral };  // Around the names of the axes over which a value varies.

std::string names_text(std::vector<std::string> names, NameText text) {
  std::transform(names.begin(), names.end(), names.begin(), text);
  return fmt::format("{}", fmt::join(names, ","));
}

// "x" or "(x,y)".
std::string bracketed(const std::vector<std::string>& names, NameText name_text) {
  const std::string text = names_text(names, name_text);
  return names.size() == 1 ? text : fmt::format("({})", text);
}

std::string dim_text(const Type& type, std::size_t d, NameText name_text) {
  if (!type.explicit_axes || type.explicit_axes->dims[d].empty()) return fmt::format("{}", type.shape[d]);
  const std::vector<std::string>& axes = type.explicit_axes->dims[d];
  return fmt::format("{}@{}", type.shape[d], bracketed(axes, name_text));
}

std::string suffix(const Type& type, NameText name_text, Brackets brackets) {
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < type.rank(); ++d) dims.push_back(dim_text(type, d, name_text));
  std::string text = fmt::format("[{}]", fmt::join(dims, ","));
  if (type.memory != kDeviceMemory) text = fmt::format("<{}>", type.memory.name()) + text;
  const Shared<ExplicitAxes>& own = type.explicit_axes;
  std::vector<std::string> groups;
  const auto add = [&](char letter, const AxisNames& names, Brackets how) {
    if (names.empty()) return;
    groups.push_back(fmt::format("{}:{}", letter,
                                 how == Brackets::kNone ? names_text(names, name_text) : bracketed(names, name_text)));
  };
  add('V', difference_of(type.varying, type.summands), brackets);
  add('U', own ? union_of(own->unreduced, type.summands) : type.summands, Brackets::kAroundSeveral);
  add('R', own ? union_of(own->reduced, type.reduced) : type.reduced, Brackets::kAroundSeveral);
  if (groups.empty()) return text;
  text += fmt::format("{{{}}}", fmt::join(groups, brackets == Brackets::kNone ? "}{" : ", "));
  return text;
}

}  // namespace

std::string to_string(const Type& type) {
  return fmt::format("{}{}{}", type.weak ? "~" : "", short_name_of(type.dtype),
                     suffix(type, text::axis_name, Brackets::kNone));
}

std::string user_string(const Type& type) {
  const auto as_it_is = [](const std::string& name) { return name; };
  return std::string(name_of(type.dtype)) + suffix(type, as_it_is, Brackets::kAroundSeveral);
}

Type cotangent_type(Type type) {
  if (type.explicit_axes) {
    type.explicit_axes.edit([](ExplicitAxes& axes) { std::swap(axes.unreduced, axes.reduced); });
  }
  type.varying = union_of(difference_of(type.varying, type.summands), type.reduced);
  std::swap(type.summands, type.reduced);
  return type;
}

std::vector<Type> cotangent_types(std::vector<Type> types) {
  for (Type& type : types) type = cotangent_type(std::move(type));
  return types;
}

AxisNames union_of(const AxisNames& a, const AxisNames& b) {
  AxisNames result;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

AxisNames difference_of(const AxisNames& a, const AxisNames& b) {
  AxisNames result;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

std::optional<std::int64_t> AxisEnv::size_of(std::string_view ref) const {
  // The innermost binding of a name wins.
  const auto bound = [&](std::string_view name) {
    return std::find_if(axes_.rbegin(), axes_.rend(), [&](const auto& axis) { return axis.first == name; });
  };
  if (const auto found = bound(ref); found != axes_.rend()) return found->second;
  // The name itself may have a colon.
  const std::size_t colon = ref.rfind(":(");
  if (colon == std::string_view::npos || bound(ref.substr(0, colon)) == axes_.rend()) return std::nullopt;
  std::int64_t size = 0;
  const std::size_t close = ref.find(')', colon);
  if (close == std::string_view::npos) return std::nullopt;
  const char* end = ref.data() + ref.size();
  const auto [rest, error] = std::from_chars(ref.data() + close + 1, end, size);
  if (error != std::errc() || rest != end) return std::nullopt;
  return size;
}

}  // namespace shoal
