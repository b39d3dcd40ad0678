#include "runtime/result_checks.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

namespace shoal {
namespace {

constexpr unsigned kNans = 1;
constexpr unsigned kInfinities = 2;
std::atomic<unsigned> looked_for = 0;

struct Found {
  bool nan = false;
  bool infinity = false;
};

// Bits without the sign are those of infinity, or greater, which is NaN.
template <class Bits>
Found look(const void* data, std::size_t count, Bits infinity) {
  const auto* bytes = static_cast<const std::byte*>(data);
  Found found;
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    bits = static_cast<Bits>(bits & static_cast<Bits>(~Bits{0} >> 1));
    found.nan |= bits > infinity;
    found.infinity |= bits == infinity;
  }
  return found;
}

Found look(const Buffer& buffer) {
  const Dtype dtype = buffer.dtype();
  const auto count = static_cast<std::size_t>(num_elements(buffer.shape()));
  if (dtype == float16) return look<std::uint16_t>(buffer.data(), count, 0x7C00);
  if (dtype == bfloat16) return look<std::uint16_t>(buffer.data(), count, 0x7F80);
  if (dtype == float32 || dtype == complex64) {
    return look<std::uint32_t>(buffer.data(), count * (dtype == complex64 ? 2 : 1), 0x7F800000U);
  }
  return look<std::uint64_t>(buffer.data(), count * (dtype == complex128 ? 2 : 1), 0x7FF0000000000000U);
}

}  // namespace

void set_result_checks(bool nans, bool infinities) { looked_for = (nans ? kNans : 0) | (infinities ? kInfinities : 0); }
bool are_results_checked() { return looked_for.load(std::memory_order_relaxed) != 0; }

std::string_view what_is_wrong(const DeviceArray& array) {
  const Dtype dtype = array.type().dtype;
  if (!is_floating(dtype) && !is_complex(dtype)) return {};
  return what_is_wrong(dtype, array.wait().shards);
}

std::string_view what_is_wrong(Dtype dtype, std::span<const Buffer> shards) {
  const unsigned checks = looked_for;
  if (!is_floating(dtype) && !is_complex(dtype)) return {};
  Found found;
  for (const Buffer& shard : shards) {
    const Found here = look(shard);
    found.nan |= here.nan;
    found.infinity |= here.infinity;
  }
  if (found.nan && (checks & kNans) != 0) return "NaN";
  return found.infinity && (checks & kInfinities) != 0 ? "an infinity" : std::string_view();
}

namespace {

std::string message(std::string_view program, std::size_t number, const Type& type, std::string_view wrong) {
  return fmt::format("{}: result {} {} has {}, which debug::check_results looks for", program, number, to_string(type),
                     wrong);
}

}  // namespace

void check_results(const DeviceArrays& results, std::string_view program, SourceLocation where,
                   FunctionRef<std::string()> origin) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string_view wrong = what_is_wrong(results[i]);
    if (wrong.empty()) continue;
    throw NotFinite(message(program, i, results[i].type(), wrong) + origin(), where);
  }
}

void check_result(const Type& type, std::span<const Buffer> shards, std::size_t number, std::string_view program,
                  SourceLocation where) {
  const std::string_view wrong = what_is_wrong(type.dtype, shards);
  if (!wrong.empty()) throw NotFinite(message(program, number, type, wrong), where);
}

}  // namespace shoal
