#include "shoal/partition_spec.h"

#include <fmt/format.h>

#include <boost/container_hash/hash.hpp>
#include <ostream>

#include "base/sort_unique.h"
#include "sharding/python_text.h"

namespace shoal {

PartitionSpec::PartitionSpec(std::vector<PartitionEntry> entries, std::vector<std::string> unreduced,
                             std::vector<std::string> reduced)
    : entries_(std::move(entries)), unreduced_(std::move(unreduced)), reduced_(std::move(reduced)) {
  sort_unique(unreduced_);
  sort_unique(reduced_);
}

PartitionSpec operator+(PartitionSpec a, const PartitionSpec& b) {
  a.entries_.insert(a.entries_.end(), b.entries_.begin(), b.entries_.end());
  a.unreduced_.insert(a.unreduced_.end(), b.unreduced_.begin(), b.unreduced_.end());
  a.reduced_.insert(a.reduced_.end(), b.reduced_.begin(), b.reduced_.end());
  return PartitionSpec(std::move(a.entries_), std::move(a.unreduced_), std::move(a.reduced_));
}

std::size_t PartitionSpec::hash() const {
  std::size_t hash = 0;
  boost::hash_combine(hash, unreduced());
  boost::hash_combine(hash, reduced());
  for (const PartitionEntry& entry : entries_) {
    boost::hash_combine(hash, entry.axes());
    boost::hash_combine(hash, entry.is_unconstrained());
  }
  return hash;
}

// A tuple of one axis is written as that axis and an empty one as None, so that equal entries have one text form.
std::string to_string(const PartitionEntry& entry) {
  if (entry.is_unconstrained()) return "UNCONSTRAINED";
  if (entry.is_none()) return "None";
  if (entry.axes().size() == 1) return text::quoted(entry.axes().front());
  return text::tuple(text::quoted(entry.axes()));
}

std::string to_string(const PartitionSpec& spec) {
  std::vector<std::string> parts;
  parts.reserve(spec.size());
  for (const PartitionEntry& entry : spec) parts.push_back(to_string(entry));
  if (spec.unreduced().empty() && spec.reduced().empty()) return "P(" + text::tuple_body(parts) + ")";
  const auto add = [&](const char* name, const std::vector<std::string>& axes) {
    if (!axes.empty()) parts.push_back(fmt::format("{}={{{}}}", name, fmt::join(text::quoted(axes), ", ")));
  };
  add("unreduced", spec.unreduced());
  add("reduced", spec.reduced());
  return fmt::format("P({})", fmt::join(parts, ", "));
}

std::ostream& operator<<(std::ostream& out, const PartitionSpec& spec) { return out << to_string(spec); }

}  // namespace shoal
