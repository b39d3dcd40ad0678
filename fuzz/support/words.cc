#include "support/words.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "ops/table.h"

namespace shoal::fuzz {
namespace {

constexpr std::string_view kWords[] = {
    "on",   "graph",    "in",   "over",     "return", "manual",      "varying", "of",    "partial",
    "sum",  "max",      "mesh", "devices",  "device", "explicit",    "memory",  "specs", "graphs",
    "P",    "sharding", "_",    "callback", "true",   "unreduced",   "false",   "bool",  "i8",
    "i32",  "i64",      "u8",   "u64",      "f16",    "bf16",        "f32",     "f64",   "c64",
    "c128", "inf",      "nan",  "x",        "y",      "pinned_host", "body",    "shape", "dims",
};

constexpr std::string_view kNumbers[] = {
    "-1",         "65536", "1048576", "2147483647", "2147483648", "-9223372036854775808", "9223372036854775807",
    "4294967296", "1e300", "-2",      "0.5",        "3037000500", "18446744073709551615",
};

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Random {
 public:
  explicit Random(std::minstd_rand& random) : random_(random) {}
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }
  template <std::size_t N>
  std::string_view pick(const std::string_view (&list)[N]) {
    return list[below(N)];
  }

 private:
  std::minstd_rand& random_;
};

// The word at this place or after it.
std::string_view word_at(std::string_view text, std::size_t at) {
  while (at < text.size() && !in_word(text[at])) ++at;
  while (at > 0 && in_word(text[at - 1])) --at;
  std::size_t end = at;
  while (end < text.size() && in_word(text[end])) ++end;
  return text.substr(at, end - at);
}

std::string other_number(std::string_view number, Random& random) {
  std::int32_t value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  switch (random.below(4)) {
    case 0:
      return std::to_string(std::int64_t{value} + (random.below(2) == 0 ? 1 : -1));
    case 1:
      return std::string(random.pick(kNumbers));
    default:
      return std::to_string(random.below(17));
  }
}

std::string other_word(std::string_view text, Random& random) {
  const std::span<const OpDef* const> ops = all_ops();
  switch (random.below(4)) {
    case 0:
      return std::string(ops[random.below(ops.size())]->name);
    case 1:
      return std::string(random.pick(kWords));
    default:
      return std::string(word_at(text, random.below(text.size())));
  }
}

}  // namespace

std::string with_other_words(std::string text, std::minstd_rand& engine) {
  Random random(engine);
  for (std::size_t changes = 1 + random.below(3); changes > 0 && !text.empty(); --changes) {
    const std::string_view word = word_at(text, random.below(text.size()));
    const bool is_number = !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0;
    const std::string other = is_number ? other_number(word, random) : other_word(text, random);
    text.replace(static_cast<std::size_t>(word.data() - text.data()), word.size(), other);
  }
  return text;
}

}  // namespace shoal::fuzz
