#include "hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

namespace shoal::tool {

namespace {

constexpr int kMostSlots = 1 << 16;

/// "slots=4" gives 4, anything else 0.
int parse_slots(std::string_view word) {
  constexpr std::string_view kKey = "slots=";
  if (!word.starts_with(kKey)) return 0;
  word.remove_prefix(kKey.size());
  int slots = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), slots);
  return error == std::errc() && stop == word.data() + word.size() && slots <= kMostSlots ? slots : 0;
}

}  // namespace

std::vector<HostEntry> parse_hosts(std::string_view text, const std::string& file) {
  std::vector<HostEntry> hosts;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    HostEntry host;
    if (!(words >> host.name)) continue;
    const auto refuse = [&](std::string_view why) {
      throw std::runtime_error(fmt::format("{}:{}: \"{}\": {}", file, number, line, why));
    };
    if (host.name.front() == '-') refuse("the name of a host does not begin with '-'");
    for (std::string word; words >> word;) {
      host.slots = parse_slots(word);
      if (host.slots < 1) refuse(fmt::format("\"{}\" is not slots=K, with K from 1 to {}", word, kMostSlots));
    }
    const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.name == host.name; });
    if (known == hosts.end()) {
      hosts.push_back(host);
    } else {
      known->slots = std::min(known->slots + host.slots, kMostSlots);
    }
  }
  if (hosts.empty()) throw std::runtime_error(fmt::format("{}: there is no host in it", file));
  return hosts;
}

}  // namespace shoal::tool
