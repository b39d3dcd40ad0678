// Stored programs and exported functions: any bytes, their checksum being right, are one of them or are refused.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "shoal/error.h"
#include "shoal/export.h"
#include "shoal/serialize.h"
#include "support/programs.h"
#include "support/words.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using namespace shoal;

void expect(bool condition) {
  if (!condition) std::abort();  // The fuzzer shows where, and keeps the input.
}

constexpr std::size_t kNumber = sizeof(std::int64_t);

std::string without_checksum(const std::string& bytes) { return bytes.substr(0, bytes.size() - kNumber); }

const std::vector<std::string>& programs() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list = fuzz::stored_programs();
    std::ranges::transform(list, list.begin(), without_checksum);
    return list;
  }();
  return all;
}

// Where texts lie in the bytes, and how long they are: what has a fitting length before it.
std::vector<std::pair<std::size_t, std::size_t>> texts_in(std::string_view bytes) {
  std::vector<std::pair<std::size_t, std::size_t>> texts;
  for (std::size_t at = 0; at + kNumber < bytes.size(); ++at) {
    std::int64_t length = 0;
    std::memcpy(&length, bytes.data() + at, kNumber);
    if (length <= 0 || static_cast<std::uint64_t>(length) > bytes.size() - at - kNumber) continue;
    const std::string_view text = bytes.substr(at + kNumber, static_cast<std::size_t>(length));
    const auto is_of_text = [](char c) { return std::isprint(static_cast<unsigned char>(c)) != 0 || c == '\n'; };
    if (!std::ranges::all_of(text, is_of_text)) continue;
    texts.emplace_back(at, text.size());
    at += kNumber + text.size() - 1;
  }
  return texts;
}

}  // namespace

// Begins with programs, and changes texts together with their lengths.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t choice = size < 2 ? 0 : below(100);
  if (choice == 0) {
    bytes = programs()[below(programs().size())];
  } else if (choice < 25) {
    return LLVMFuzzerMutate(data, size, most);
  } else {
    const auto texts = texts_in(bytes);
    if (texts.empty()) return LLVMFuzzerMutate(data, size, most);
    const auto [at, length] = texts[below(texts.size())];
    std::string text = bytes.substr(at + kNumber, length);
    if (choice < 60) {
      // A part of it: the whole would mostly become another one at its start.
      const std::size_t start = below(length);
      const std::size_t before = std::min(1 + below(40), length - start);
      std::string part = text.substr(start, before);
      part.resize(before + 40);
      part.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(part.data()), before, part.size()));
      text.replace(start, before, part);
    } else {
      text = fuzz::with_other_words(std::move(text), random);
    }
    bytes.replace(at + kNumber, length, text);
    const auto new_length = static_cast<std::int64_t>(text.size());
    std::memcpy(bytes.data() + at, &new_length, kNumber);
  }
  if (bytes.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  programs();  // The devices.
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::int64_t checksum = checksum_of(bytes);
  bytes.append(reinterpret_cast<const char*>(&checksum), kNumber);
  const auto try_to = [](std::string_view name, auto&& load) {
    try {
      load();
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      expect(std::string_view(error.what()).find(name) != std::string_view::npos);
    }
  };
  try_to("deserialize_and_load", [&] { detail::load_compiled(bytes, {}, SourceLocation()); });
  try_to("deserialize_exported", [&] { detail::load_exported(bytes, SourceLocation()); });
  return 0;
}
