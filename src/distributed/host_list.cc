#include "distributed/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

namespace shoal::distributed {

namespace {

// Beyond any cluster. A list is input: a short text must not fill the memory.
constexpr std::size_t kMostItems = 1'000'000;

/// A number without a sign, or nullopt.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  if (text.empty() || text.front() == '-') return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

/// Takes the text up to the first `separator` off the front, and the separator; all of it if there is none.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view front = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return front;
}

/// Takes an item off a list, up to a comma outside brackets. An empty one means that the list is malformed.
std::string_view take_item(std::string_view& list) {
  bool in_brackets = false;
  std::size_t end = 0;
  for (; end < list.size() && (in_brackets || list[end] != ','); ++end) {
    if (list[end] == '[') in_brackets = true;
    if (list[end] == ']') in_brackets = false;
  }
  const std::string_view item = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return item;
}

/// The numbers of "1-4,07", each as it is written in a name.
std::optional<std::vector<std::string>> expand_ranges(std::string_view text) {
  std::vector<std::string> numbers;
  if (text.empty() || text.back() == ',') return std::nullopt;
  while (!text.empty()) {
    std::string_view range = take_until(text, ',');
    const bool is_single = range.find('-') == std::string_view::npos;
    const std::string_view first = take_until(range, '-');
    const auto lowest = parse_number<std::size_t>(first);
    const auto highest = is_single ? lowest : parse_number<std::size_t>(range);
    if (!lowest || !highest || *highest < *lowest || *highest - *lowest >= kMostItems - numbers.size()) {
      return std::nullopt;
    }
    for (std::size_t number = *lowest; number <= *highest; ++number) {
      numbers.push_back(fmt::format("{:0{}}", number, first.size()));
    }
  }
  return numbers;
}

/// The hosts of one item: every choice of a number for each pair of brackets, the last one changing first.
std::optional<std::vector<std::string>> expand_item(std::string_view item) {
  std::vector<std::string> hosts = {""};
  while (!item.empty()) {
    const std::size_t open = std::min(item.find('['), item.size());
    const std::string_view literal = item.substr(0, open);
    if (literal.find(']') != std::string_view::npos) return std::nullopt;
    for (std::string& host : hosts) host += literal;
    item.remove_prefix(open);
    if (item.empty()) break;

    const std::size_t close = item.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const auto numbers = expand_ranges(item.substr(1, close - 1));
    if (!numbers || hosts.size() * numbers->size() > kMostItems) return std::nullopt;
    std::vector<std::string> longer;
    for (const std::string& host : hosts) {
      for (const std::string& number : *numbers) longer.push_back(host + number);
    }
    hosts = std::move(longer);
    item.remove_prefix(close + 1);
  }
  return hosts;
}

}  // namespace

std::optional<std::vector<std::string>> expand_host_list(std::string_view text) {
  std::vector<std::string> hosts;
  if (text.empty() || text.back() == ',') return std::nullopt;
  while (!text.empty()) {
    const std::string_view item = take_item(text);
    const auto more = item.empty() ? std::nullopt : expand_item(item);
    if (!more || hosts.size() + more->size() > kMostItems) return std::nullopt;
    hosts.insert(hosts.end(), more->begin(), more->end());
  }
  return hosts;
}

std::optional<std::vector<int>> expand_counts(std::string_view text) {
  std::vector<int> counts;
  if (text.empty() || text.back() == ',') return std::nullopt;
  while (!text.empty()) {
    std::string_view item = take_until(text, ',');
    std::size_t times = 1;
    if (const std::size_t open = item.find("(x"); open != std::string_view::npos) {
      std::string_view repeat = item.substr(open + 2);
      if (repeat.empty() || repeat.back() != ')') return std::nullopt;
      repeat.remove_suffix(1);
      times = parse_number<std::size_t>(repeat).value_or(0);
      item = item.substr(0, open);
    }
    const auto count = parse_number<int>(item);
    if (!count || times == 0 || times > kMostItems - counts.size()) return std::nullopt;
    counts.insert(counts.end(), times, *count);
  }
  return counts;
}

}  // namespace shoal::distributed
