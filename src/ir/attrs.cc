#include "ir/attrs.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <boost/container_hash/hash.hpp>
#include <cstdint>

#include "base/check.h"
#include "core/dispatch.h"
#include "shoal/error.h"

namespace shoal {
namespace {

template <class To, class From>
To convert_value(From value) {
  if constexpr (kIsSmallFloat<From>) {
    return convert_value<To>(static_cast<float>(value));
  } else if constexpr (kIsComplexElement<From> && kIsComplexElement<To>) {
    return To(value);
  } else if constexpr (kIsComplexElement<From>) {
    return convert_value<To>(value.real());
  } else if constexpr (kIsComplexElement<To>) {
    return To(static_cast<typename To::value_type>(value));
  } else if constexpr (kIsSmallFloat<To>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

Scalar Scalar::converted_to(Dtype to) const {
  if (dtype == to) return *this;
  if (is_key(to)) {  // Each word is the number.
    std::array<std::uint32_t, 4> words{};
    const auto count = static_cast<std::ptrdiff_t>(size_of(to) / sizeof(words[0]));
    std::fill_n(words.begin(), count, converted_to(uint32).as<std::uint32_t>());
    return {.dtype = to, .bytes = std::bit_cast<decltype(bytes)>(words)};
  }
  return with_element_type(dtype, [&](auto from_tag) {
    return with_element_type(
        to, [&](auto to_tag) { return Scalar::of(convert_value<decltype(to_tag)>(as<decltype(from_tag)>())); });
  });
}

CallbackAttr CallbackAttr::of(Callback callback) {
  static std::atomic<std::int64_t> next{0};
  return {.number = next++, .callback = std::make_shared<const Callback>(std::move(callback))};
}

const Attrs::Entries Attrs::kNone;

Attrs::Attrs(std::initializer_list<std::pair<std::string, Attr>> entries) {
  if (entries.size() == 0) return;
  Entries sorted;
  sorted.reserve(entries.size());
  for (const auto& entry : entries) {  // The last of a name counts.
    const auto place = std::ranges::lower_bound(sorted, entry.first, {}, &Entries::value_type::first);
    if (place != sorted.end() && place->first == entry.first) {
      place->second = entry.second;
    } else {
      sorted.insert(place, entry);
    }
  }
  entries_ = std::move(sorted);
}

void Attrs::set(std::string name, Attr value) {
  Entries changed;
  changed.reserve(entries().size() + 1);
  auto next = entries().begin();
  while (next != entries().end() && next->first < name) changed.push_back(*next++);
  if (next != entries().end() && next->first == name) ++next;
  changed.emplace_back(std::move(name), std::move(value));
  changed.insert(changed.end(), next, entries().end());
  entries_ = std::move(changed);
}

void Attrs::erase(std::string_view name) {
  if (!contains(name)) return;
  Entries changed = entries();
  std::erase_if(changed, [&](const auto& entry) { return entry.first == name; });
  entries_ = changed.empty() ? Shared<Entries>() : Shared<Entries>(std::move(changed));
}

const Attr* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : entries()) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Attr& Attrs::at(std::string_view name) const {
  const Attr* value = find(name);
  SHOAL_CHECK(value != nullptr, "attribute '" + std::string(name) + "' is missing");
  return *value;
}

namespace {

struct HashAttr {
  std::size_t operator()(bool value) const { return value ? 1 : 0; }
  std::size_t operator()(std::int64_t value) const { return boost::hash<std::int64_t>()(value); }
  std::size_t operator()(const std::string& value) const { return boost::hash<std::string>()(value); }
  std::size_t operator()(Dtype value) const { return static_cast<std::size_t>(value); }
  std::size_t operator()(MemoryKind value) const { return static_cast<std::size_t>(value.kind()); }
  std::size_t operator()(const Dims& value) const { return boost::hash_range(value.begin(), value.end()); }
  std::size_t operator()(const std::vector<std::string>& value) const {
    return boost::hash_range(value.begin(), value.end());
  }
  std::size_t operator()(const Scalar& value) const {
    std::size_t seed = static_cast<std::size_t>(value.dtype);
    for (std::byte byte : value.bytes) boost::hash_combine(seed, static_cast<unsigned char>(byte));
    return seed;
  }
  std::size_t operator()(const Mesh& value) const { return value.hash(); }
  std::size_t operator()(const NamedSharding& value) const { return Sharding(value).hash(); }
  std::size_t operator()(const std::vector<PartitionSpec>& value) const {
    std::size_t seed = value.size();
    for (const PartitionSpec& spec : value) boost::hash_combine(seed, spec.hash());
    return seed;
  }
  std::size_t operator()(const GraphAttr& value) const { return hash_of_graph(*value.graph); }
  std::size_t operator()(const std::vector<GraphAttr>& value) const {
    std::size_t seed = value.size();
    for (const GraphAttr& graph : value) boost::hash_combine(seed, (*this)(graph));
    return seed;
  }
  std::size_t operator()(const CallbackAttr& value) const { return static_cast<std::size_t>(value.number); }
};

}  // namespace

std::size_t Attrs::hash() const {
  std::size_t seed = entries().size();
  for (const auto& [name, value] : entries()) {
    boost::hash_combine(seed, name);
    boost::hash_combine(seed, std::visit(HashAttr{}, value));
  }
  return seed;
}

void Attrs::wrong_kind(std::string_view name) {
  throw InternalError("attribute '" + std::string(name) + "' is of another kind");
}

}  // namespace shoal
