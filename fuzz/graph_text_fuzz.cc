// Texts of graphs: any text is a graph or is refused with its place, what is read is written so that it is the same
// when it is read again, and whatever a graph says, it checks or is refused.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ops/table.h"
#include "shoal/error.h"
#include "support/programs.h"
#include "support/words.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using namespace shoal;

void expect(bool condition) {
  if (!condition) std::abort();  // The fuzzer shows where, and keeps the input.
}

// What `read` gives for a text; nothing if it refuses it, in its way.
template <class F>
auto read(std::string_view text, F&& parse) -> std::optional<decltype(parse(text, find_op))> {
  try {
    return parse(text, find_op);
  } catch (const InternalError&) {
    throw;  // A text is never the library's mistake.
  } catch (const InvalidArgument& error) {
    expect(std::string_view(error.what()).starts_with("parse_graph: line "));
    return std::nullopt;
  }
}

}  // namespace

// Begins with the texts of programs, and puts other words into the places of words.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  static const std::vector<std::string> texts = fuzz::texts_of_programs();
  std::minstd_rand random(seed);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t choice = size < 2 ? 0 : below(100);
  if (choice == 0) {
    text = texts[below(texts.size())];
  } else if (choice < 50) {
    return LLVMFuzzerMutate(data, size, most);
  } else {
    text = fuzz::with_other_words(std::move(text), random);
  }
  size = std::min(text.size(), most);
  std::memcpy(data, text.data(), size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto attr = read(text, [](auto... args) { return parse_attr(args...); })) {
    const auto again = read(to_text(*attr), [](auto... args) { return parse_attr(args...); });
    expect(again && *again == *attr);
  }
  const auto graph = read(text, [](auto... args) { return parse_graph(args...); });
  if (!graph) return 0;
  const std::string written = to_text(*graph);
  const auto again = read(written, [](auto... args) { return parse_graph(args...); });
  expect(again && to_text(*again) == written);
  try {
    verify(*graph, "fuzz");
  } catch (const InternalError& error) {
    expect(std::string_view(error.what()).find("verify after fuzz") != std::string_view::npos);
  }
  return 0;
}
