#include "shoal/partition_spec.h"

#include <boost/container_hash/hash.hpp>
#include <ostream>

#include "sharding/text.h"

namespace shoal {

std::size_t PartitionSpec::hash() const {
  std::size_t hash = 0;
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
  return "P(" + text::tuple_body(parts) + ")";
}

std::ostream& operator<<(std::ostream& out, const PartitionSpec& spec) { return out << to_string(spec); }

}  // namespace shoal
