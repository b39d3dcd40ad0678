#include "ir/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "sharding/text.h"

namespace shoal {
namespace {

std::string suffix(const Type& type, const AxisNames& varying) {
  std::string text = fmt::format("[{}]", fmt::join(type.shape, ","));
  if (type.memory != kDeviceMemory) text = fmt::format("<{}>", type.memory.name()) + text;
  if (!varying.empty()) text += fmt::format("{{V:{}}}", fmt::join(varying, ","));
  return text;
}

}  // namespace

std::string to_string(const Type& type) {
  AxisNames varying;
  for (const std::string& axis : type.varying) varying.push_back(text::axis_name(axis));
  return fmt::format("{}{}{}", type.weak ? "~" : "", short_name_of(type.dtype), suffix(type, varying));
}

std::string user_string(const Type& type) { return std::string(name_of(type.dtype)) + suffix(type, type.varying); }

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
