#include "multihost/gather_whole.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/misuse.h"
#include "comm/collectives/exchange.h"
#include "comm/record/communicator.h"
#include "comm/transport/box_copy.h"
#include "core/this_process.h"
#include "runtime/lane.h"
#include "sharding/box.h"

namespace shoal::multihost {
Buffer gather_whole(const DeviceArray& array, std::int64_t chunk_bytes) {
  const std::string_view what = Caller::function_or("gather_whole");
  const Grid& grid = *array.grid();
  const Type& type = array.type();
  const auto item_bytes = static_cast<std::int64_t>(size_of(type.dtype));
  if (chunk_bytes < item_bytes) {
    throw misuse<InvalidArgument>("{}: chunk_bytes is {}, but an element of {} has {} bytes", what, chunk_bytes,
                                  to_string(type), item_bytes);
  }
  if (!std::ranges::binary_search(grid.processes(), this_process())) {
    throw misuse<InvalidState>("{}: {} lies as {}, on devices of other processes only", what, to_string(type),
                               to_string(array.sharding()));
  }
  // What some have and others lack is given by those to these.
  const AtomSet varying = array.placement().varying();
  const auto has_all = [&](int process) {
    return static_cast<std::int64_t>(grid.held_by(process, varying).shards.size()) == grid.size_of(varying);
  };
  if (std::ranges::all_of(grid.processes(), has_all)) return to_host(array, what, Caller::line());
  const ShardSet& from = array.wait();
  std::vector<Box> boxes;
  std::vector<const std::byte*> sources;
  for (std::size_t shard = 0; shard < from.shards.size(); ++shard) {
    const std::int64_t position = from.position_of(shard);
    boxes.push_back(Box::of(grid, type.shape, array.placement(), position));
    sources.push_back(static_cast<const std::byte*>(from.shards[shard].data()));
  }
  Communicator& communicator = Communicator::of(grid.processes());
  Buffer whole(host_space(kDeviceMemory), type.dtype, type.shape);
  for (const Box& chunk : chunks_of(type.shape, chunk_bytes / item_bytes)) {
    const auto add_needs = [&](int, std::vector<Need>& needs) {
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        const std::optional<Box> part = overlap(boxes[i], chunk);
        if (!part) continue;
        needs.push_back({0,
                         static_cast<std::int32_t>(i),
                         {boxes[i].extents, start_in(boxes[i], *part), part->extents, size_of(type.dtype)}});
      }
    };
    const Exchange exchange(grid.processes(), add_needs,
                            [&](std::int32_t, std::int32_t shard) { return holders_of(grid, from.varying, shard); });
    const Digest program =
        digest_of(fmt::format("gather {} {} of {} at {}", to_string(type), to_string(grid, array.placement()),
                              to_string(chunk.extents), to_string(Shape(chunk.start.begin(), chunk.start.end()))));
    const LaunchCall call = communicator.call(what, Caller::line());
    const auto gather = [&] {
      communicator.launch(call, program, array.lineage(), [&](const MessageTag& tag) {
        std::vector<const std::byte*> here = sources;
        Exchange::Run run(exchange, {communicator, tag, what, Caller::line()}, [&](std::int32_t, std::int32_t shard) {
          return Exchange::Held{sources[static_cast<std::size_t>(shard)]};
        });
        run.receive([&](std::int32_t, std::int32_t shard, const std::byte* data) {
          here[static_cast<std::size_t>(shard)] = data;
        });
        std::vector<PlacedCopy> copies;
        for (std::size_t i = 0; i < boxes.size(); ++i) {
          const std::optional<Box> part = overlap(boxes[i], chunk);
          if (!part) continue;
          const TensorView source{type.dtype, boxes[i].extents, const_cast<std::byte*>(here[i])};  // It is only read.
          copies.push_back(place_copy(source, start_in(boxes[i], *part), whole.view(), part->start, part->extents));
        }
        copy_boxes(copies);
        run.finish();
      });
    };
    try {
      run_on_lane(gather);
    } catch (...) {
      new ShardSet(from);  // For good: other processes may still be reading it.
      throw;
    }
  }
  return whole;
}

}  // namespace shoal::multihost
