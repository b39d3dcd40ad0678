#include "ir/dim_attrs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace shoal {
namespace {

constexpr AttrFact kOutSharding{.name = "out_sharding", .role = AttrRole::kSpec, .of = AttrFact::kResult};

std::optional<std::size_t> position_in(const ExtraDim& dim, int tensor) {
  if (tensor == AttrFact::kResult) return dim.result;
  const auto operand = static_cast<std::size_t>(tensor);
  return operand < dim.operands.size() ? dim.operands[operand] : std::nullopt;
}

// Whether each operand that has batch dimensions has got the new one.
bool is_batch(const OpDef& op, const ExtraDim& dim) {
  return std::ranges::all_of(op.attributes, [&](const AttrFact& fact) {
    return fact.role != AttrRole::kBatchDims || position_in(dim, fact.of).has_value();
  });
}

template <class T>
auto place(T& list, std::size_t position) {
  return list.begin() + static_cast<std::ptrdiff_t>(position);
}

NamedSharding with_entries(const NamedSharding& sharding, std::vector<PartitionEntry> entries) {
  return {sharding.mesh(),
          PartitionSpec(std::move(entries), sharding.spec().unreduced(), sharding.spec().reduced()),
          {.memory_kind = sharding.memory_kind()}};
}

// ---- One dimension more.

std::int64_t moved_up(std::int64_t d, std::size_t position) { return d + (d >= static_cast<std::int64_t>(position)); }

Attr with_dim(const OpDef& op, const AttrFact& fact, Attr attr, const ExtraDim& dim) {
  const std::optional<std::size_t> position = position_in(dim, fact.of);
  if (!position) return attr;
  if (fact.role == AttrRole::kDim) return moved_up(std::get<std::int64_t>(attr), *position);
  if (fact.role == AttrRole::kSpec) {
    const NamedSharding& sharding = std::get<NamedSharding>(attr);
    std::vector<PartitionEntry> entries = sharding.spec().entries();
    if (!dim.axes.empty() && entries.size() < *position) entries.resize(*position);
    if (*position < entries.size() || !dim.axes.empty()) {
      entries.insert(place(entries, *position), dim.axes.empty() ? PartitionEntry() : PartitionEntry(dim.axes));
    }
    return with_entries(sharding, std::move(entries));
  }
  Dims& list = std::get<Dims>(attr);
  switch (fact.role) {
    case AttrRole::kPerDim:
    case AttrRole::kExtents:
      list.insert(place(list, *position), fact.role == AttrRole::kPerDim ? fact.neutral : dim.extent);
      break;
    default:
      for (std::int64_t& d : list) d = moved_up(d, *position);
  }
  const auto as_dim = static_cast<std::int64_t>(*position);
  if (fact.role == AttrRole::kBatchDims && is_batch(op, dim)) list.insert(list.begin(), as_dim);
  if (fact.role == AttrRole::kDimOfEach) {
    if (const auto from = position_in(dim, fact.from)) list.insert(place(list, *from), as_dim);
  }
  return attr;
}

// ---- One dimension less.

std::int64_t moved_down(const OpDef& op, const AttrFact& fact, std::int64_t d, std::size_t position) {
  SHOAL_CHECK(d != static_cast<std::int64_t>(position),
              fmt::format("{} of {} names dimension {}, which is to go", fact.name, op.name, d));
  return d - (d > static_cast<std::int64_t>(position));
}

Attr without_dim(const OpDef& op, const AttrFact& fact, Attr attr, const ExtraDim& dim) {
  const std::optional<std::size_t> position = position_in(dim, fact.of);
  if (!position) return attr;
  if (fact.role == AttrRole::kDim) return moved_down(op, fact, std::get<std::int64_t>(attr), *position);
  if (fact.role == AttrRole::kSpec) {
    const NamedSharding& sharding = std::get<NamedSharding>(attr);
    std::vector<PartitionEntry> entries = sharding.spec().entries();
    if (*position < entries.size()) entries.erase(place(entries, *position));
    return with_entries(sharding, std::move(entries));
  }
  Dims& list = std::get<Dims>(attr);
  if (fact.role == AttrRole::kPerDim || fact.role == AttrRole::kExtents) {
    list.erase(place(list, *position));
    return attr;
  }
  if (fact.role == AttrRole::kBatchDims)
    list.erase(std::remove(list.begin(), list.end(), static_cast<std::int64_t>(*position)), list.end());
  if (fact.role == AttrRole::kDimOfEach) {
    if (const auto from = position_in(dim, fact.from)) list.erase(place(list, *from));
  }
  for (std::int64_t& d : list) d = moved_down(op, fact, d, *position);
  return attr;
}

template <class F>
Attrs rewritten(const OpDef& op, const Attrs& attrs, F&& rewrite) {
  Attrs result = attrs;
  for (const auto& [name, value] : attrs.entries()) {
    const AttrFact* fact = name == kOutSharding.name ? &kOutSharding : op.attributes.find(name);
    if (fact == nullptr || fact->role == AttrRole::kOther || fact->role == AttrRole::kLabel) continue;
    result.set(name, rewrite(*fact, value));
  }
  return result;
}

}  // namespace

Attrs with_dim(const OpDef& op, const Attrs& attrs, const ExtraDim& dim) {
  return rewritten(op, attrs, [&](const AttrFact& fact, const Attr& attr) { return with_dim(op, fact, attr, dim); });
}

Attrs without_dim(const OpDef& op, const Attrs& attrs, const ExtraDim& dim) {
  return rewritten(op, attrs, [&](const AttrFact& fact, const Attr& attr) { return without_dim(op, fact, attr, dim); });
}

Type with_dim(Type type, std::size_t position, std::int64_t extent) {
  type.shape.insert(place(type.shape, position), extent);
  if (type.explicit_axes) {
    type.explicit_axes.edit([&](ExplicitAxes& axes) { axes.dims.emplace(place(axes.dims, position)); });
  }
  return type;
}

Type without_dim(Type type, std::size_t position) {
  type.shape.erase(place(type.shape, position));
  if (type.explicit_axes) {
    type.explicit_axes.edit([&](ExplicitAxes& axes) { axes.dims.erase(place(axes.dims, position)); });
  }
  return type;
}

}  // namespace shoal
