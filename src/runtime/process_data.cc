#include "runtime/process_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/collectives/exchange.h"
#include "comm/record/communicator.h"
#include "core/this_process.h"
#include "runtime/lane.h"
#include "shoal/device.h"

namespace shoal {
namespace {

// Every process reads the buffers of `sources` (places in the list of processes), as large as `mine`.
// arrived(place, data) is told of those of others.
template <class Arrived>
void exchange(const std::vector<int>& processes, const std::vector<std::int32_t>& sources, const Buffer& mine,
              std::string_view what, SourceLocation where, Arrived&& arrived) {
  const std::size_t bytes = mine.size_bytes();
  const Exchange exchange(
      processes,
      [&](int, std::vector<Need>& needs) {
        for (std::int32_t source : sources) needs.push_back({0, source, bytes_region(bytes)});
      },
      [&](std::int32_t, std::int32_t place) { return std::vector{processes[static_cast<std::size_t>(place)]}; });
  Communicator& communicator = Communicator::of(processes);
  const Digest program = digest_of(digest_of(what), bytes);
  const LaunchCall call = communicator.call(what, where);
  run_on_lane([&] {
    communicator.launch(call, program, {}, [&](const MessageTag& tag) {
      Exchange::Run run(exchange, {communicator, tag, what, where}, [&](std::int32_t, std::int32_t) {
        return Exchange::Held{static_cast<const std::byte*>(mine.data()), &mine};
      });
      run.receive([&](std::int32_t, std::int32_t place, const std::byte* data) { arrived(place, data); });
      run.finish();
    });
  });
}

std::int32_t place_of(const std::vector<int>& processes, int process) {
  return static_cast<std::int32_t>(std::ranges::lower_bound(processes, process) - processes.begin());
}

std::vector<std::int32_t> all_places(const std::vector<int>& processes) {
  std::vector<std::int32_t> places;
  for (std::size_t i = 0; i < processes.size(); ++i) places.push_back(static_cast<std::int32_t>(i));
  return places;
}

// Of values without pointers.
template <class T>
std::vector<T> gather(const std::vector<int>& processes, const T& mine, std::string_view what, SourceLocation where) {
  std::vector<T> all(processes.size(), mine);
  if (processes.size() < 2) return all;
  Buffer here(host_space(kDeviceMemory), Dtype::kU8, {static_cast<std::int64_t>(sizeof mine)});
  std::memcpy(here.mutable_data(), &mine, sizeof mine);
  exchange(processes, all_places(processes), here, what, where, [&](std::int32_t place, const std::byte* data) {
    std::memcpy(&all[static_cast<std::size_t>(place)], data, sizeof mine);
  });
  return all;
}

}  // namespace

std::vector<int> all_processes() {
  std::vector<int> all;
  for (const Device& device : devices()) {
    if (all.empty() || all.back() != device.process_index) all.push_back(device.process_index);
  }
  return all;
}

std::vector<Digest> gather_digests(const std::vector<int>& processes, const Digest& mine, std::string_view what,
                                   SourceLocation where) {
  return gather(processes, mine, what, where);
}

std::vector<std::array<Digest, 2>> gather_digests(const std::vector<int>& processes, const std::array<Digest, 2>& mine,
                                                  std::string_view what, SourceLocation where) {
  return gather(processes, mine, what, where);
}

std::vector<int> differing(const std::vector<int>& processes, const std::vector<Digest>& digests) {
  std::vector<int> others;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    if (digests[i] != digests[0]) others.push_back(processes[i]);
  }
  return others;
}

void check_same(const std::vector<int>& processes, const std::vector<Digest>& digests, std::string_view what,
                SourceLocation where) {
  const std::vector<int> others = differing(processes, digests);
  if (others.empty()) return;
  throw ValuesDiffer(fmt::format("{}: process{} {} gave {} than process {}; all processes must give the same", what,
                                 others.size() == 1 ? "" : "es", fmt::join(others, ", "),
                                 others.size() == 1 ? "something else" : "other things", processes[0]),
                     where);
}

void check_agreed(const std::vector<int>& processes, const Digest& digest, std::string_view what,
                  SourceLocation where) {
  check_same(processes, gather_digests(processes, digest, what, where), what, where);
}

Buffer gather_buffers(const std::vector<int>& processes, const Buffer& mine, std::string_view what,
                      SourceLocation where) {
  Shape shape = mine.shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(processes.size()));
  Buffer all(mine.space(), mine.dtype(), std::move(shape));
  const std::size_t bytes = mine.size_bytes();
  const auto put = [&](std::int32_t place, const void* data) {
    if (bytes == 0) return;
    std::memcpy(static_cast<std::byte*>(all.mutable_data()) + static_cast<std::size_t>(place) * bytes, data, bytes);
  };
  put(place_of(processes, this_process()), mine.data());
  if (processes.size() > 1) exchange(processes, all_places(processes), mine, what, where, put);
  return all;
}

Buffer broadcast_buffer(const std::vector<int>& processes, int source, const Buffer& mine, std::string_view what,
                        SourceLocation where) {
  if (processes.size() < 2) return mine;
  Buffer result = source == this_process() ? mine : Buffer(mine.space(), mine.dtype(), mine.shape());
  exchange(processes, {place_of(processes, source)}, mine, what, where,
           [&](std::int32_t, const std::byte* data) { std::memcpy(result.mutable_data(), data, result.size_bytes()); });
  return result;
}

}  // namespace shoal
