// Every device sends slices of rows of its operand, as many to each of its group, to where it says in the receiver's
// output, or adds them to what is there; what no slice covers stays. The operands are operand, output, input_offsets,
// send_sizes, output_offsets and recv_sizes.
#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "comm/collectives/collective_parts.h"
#include "comm/collectives/table.h"
#include "ops/reduction.h"

namespace shoal::collectives {
namespace {

// A run throws OutOfRange for a slice outside an array, and InvalidArgument if a receiver expects another size than is
// sent.
class RaggedExchange final : public Collective {
 public:
  RaggedExchange(std::vector<ShardShapes> in, ShardShapes result, const Groups& groups, bool adds, SourceLocation where)
      : Collective(std::move(result)), in_(std::move(in)), groups_(groups), adds_(adds), where_(where) {
    tiles_ = result_.count();
    bytes_ = 2 * total_bytes(result_);
  }

  // What the slices cover is known only from their elements.
  void add_needs_of(std::int64_t shard, std::vector<Need>& needs) const override {
    const std::int64_t position = result_.position_of(shard);
    for (std::size_t operand : {1U, 5U}) {
      needs.push_back(whole_need(in_[operand], in_[operand].shard_at(position), operand));
    }
    for (std::int64_t member : groups_.members(position)) {
      for (std::size_t operand : {0U, 2U, 3U, 4U}) {
        needs.push_back(whole_need(in_[operand], in_[operand].shard_at(member), operand));
      }
    }
  }

  void run(std::span<std::byte* const* const> operands, std::byte* const* result, std::int64_t tile) const override {
    const std::int64_t position = result_.position_of(tile);
    const auto at = [&](std::size_t operand, std::int64_t device) {
      return operands[operand][in_[operand].shard_at(device)];
    };
    const auto entries = [&](std::size_t operand, std::int64_t device) {
      return reinterpret_cast<const std::int32_t*>(at(operand, device));
    };
    const auto check = [&](std::string_view what, std::int64_t start, std::int64_t size, std::int64_t rows) {
      if (start >= 0 && size >= 0 && start + size <= rows) return;
      throw OutOfRange(fmt::format("ragged_all_to_all: a slice of {} rows from row {} lies outside {}, which has {}",
                                   size, start, what, rows),
                       where_);
    };
    const Shape& shape = result_.shape(tile);
    const std::size_t row = unit_of(shape, 0, result_.dtype);
    std::memcpy(result[tile], at(1, position), result_.bytes(tile));
    const std::vector<std::int64_t> members = groups_.members(position);
    const std::int64_t slices = in_[2].shape_at(position)[0] / static_cast<std::int64_t>(members.size());
    const std::int64_t first = groups_.rank(position) * slices;
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (std::int64_t k = 0; k < slices; ++k) {
        const std::int64_t start = entries(2, members[m])[first + k];
        const std::int64_t size = entries(3, members[m])[first + k];
        const std::int64_t to = entries(4, members[m])[first + k];
        const std::int64_t expected = entries(5, position)[static_cast<std::int64_t>(m) * slices + k];
        if (size != expected) {
          throw InvalidArgument(fmt::format("ragged_all_to_all: recv_sizes says that device {} of a group gets {} rows "
                                            "from device {}, but send_sizes there says {}",
                                            groups_.rank(position), expected, m, size),
                                where_);
        }
        check("the operand", start, size, in_[0].shape_at(members[m])[0]);
        check("the output", to, size, shape[0]);
        const std::byte* const sent = at(0, members[m]) + static_cast<std::size_t>(start) * row;
        std::byte* const written = result[tile] + static_cast<std::size_t>(to) * row;
        const std::size_t bytes = static_cast<std::size_t>(size) * row;
        if (adds_) {
          const auto count = static_cast<std::int64_t>(bytes / size_of(result_.dtype));
          combine(ReduceKind::kSum, result_.dtype, written, sent, written, count);
        } else {
          std::memcpy(written, sent, bytes);
        }
      }
    }
  }

 private:
  std::vector<ShardShapes> in_;
  Groups groups_;
  bool adds_;
  SourceLocation where_;
};

}  // namespace

CollectivePtr ragged_all_to_all(const Context& context) {
  AtomSet varying;
  for (const ShardShapes& operand : context.operands) varying = varying | operand.varying;
  const ShardShapes& output = context.operands[1];
  ShardShapes result = shapes_of(output.grid, context.groups.split(varying) & context.wanted, output.dtype,
                                 output.even(), [&](std::int64_t position) { return output.shape_at(position); });
  return std::make_unique<RaggedExchange>(context.operands, std::move(result), context.groups,
                                          context.attrs.contains("adds"), context.where);
}

}  // namespace shoal::collectives
