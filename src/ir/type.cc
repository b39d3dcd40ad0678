#include "ir/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace shoal {
namespace {

std::string dim_text(const Type& type, std::size_t d) {
  if (!type.explicit_axes || type.explicit_axes->dims[d].empty()) return fmt::format("{}", type.shape[d]);
  const std::vector<std::string>& axes = type.explicit_axes->dims[d];
  return axes.size() == 1 ? fmt::format("{}@{}", type.shape[d], axes[0])
                          : fmt::format("{}@({})", type.shape[d], fmt::join(axes, ","));
}

std::string suffix(const Type& type) {
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < type.rank(); ++d) dims.push_back(dim_text(type, d));
  std::string text = fmt::format("[{}]", fmt::join(dims, ","));
  if (type.memory != kDeviceMemory) text = fmt::format("<{}>", type.memory.name()) + text;
  if (!type.varying.empty()) text += fmt::format("{{V:{}}}", fmt::join(type.varying, ","));
  return text;
}

}  // namespace

std::string to_string(const Type& type) {
  return fmt::format("{}{}{}", type.weak ? "~" : "", short_name_of(type.dtype), suffix(type));
}

std::string user_string(const Type& type) { return std::string(name_of(type.dtype)) + suffix(type); }

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
  const std::size_t colon = ref.find(":(");
  const std::string_view name = ref.substr(0, colon);
  // The innermost binding of a name wins.
  const auto found = std::find_if(axes_.rbegin(), axes_.rend(), [&](const auto& axis) { return axis.first == name; });
  if (found == axes_.rend()) return std::nullopt;
  if (colon == std::string_view::npos) return found->second;
  std::int64_t size = 0;
  const std::size_t close = ref.find(')', colon);
  if (close == std::string_view::npos) return std::nullopt;
  const char* end = ref.data() + ref.size();
  const auto [rest, error] = std::from_chars(ref.data() + close + 1, end, size);
  if (error != std::errc() || rest != end) return std::nullopt;
  return size;
}

}  // namespace shoal
