#include "elastic/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/misuse.h"
#include "checkpoints/restoring.h"
#include "comm/collectives/exchange.h"
#include "comm/record/communicator.h"
#include "comm/transport/box_copy.h"
#include "core/this_process.h"
#include "distributed/serialization.h"
#include "distributed/session.h"
#include "frontend/array/array_impl.h"
#include "runtime/device_array.h"
#include "runtime/lane.h"
#include "runtime/process_data.h"

namespace shoal::elastic {
namespace {

constexpr const char* kStocks = "shoal/elastic/copies";
constexpr std::chrono::seconds kMeeting{60};

// The process that keeps what `process` alone holds: the next one on another host, if there is one.
int neighbour_of(int process, const std::vector<int>& processes, const distributed::Session& session) {
  const auto host = [&](int one) { return session.members()[static_cast<std::size_t>(one)].host_identity; };
  const auto place = std::ranges::find(processes, process) - processes.begin();
  std::vector<int> others(processes.begin() + place + 1, processes.end());
  others.insert(others.end(), processes.begin(), processes.begin() + place);
  const auto elsewhere = std::ranges::find_if(others, [&](int other) { return host(other) != host(process); });
  return elsewhere != others.end() ? *elsewhere : others.front();
}

// Makes an exchange among all processes as a program of its own. `arrived` is told of what comes; `finish` runs when
// all of it is here.
void run_exchange(const Exchange& exchange, const std::vector<int>& processes, const Digest& program,
                  Exchange::Find find, Exchange::Arrived arrived, FunctionRef<void()> finish) {
  const std::string_view what = Caller::function_or("elastic::run");
  Communicator& communicator = Communicator::of(processes);
  const LaunchCall call = communicator.call(what, Caller::line());
  run_on_lane([&, where = Caller::line()] {
    communicator.launch(call, program, {}, [&](const MessageTag& tag) {
      Exchange::Run run(exchange, {communicator, tag, what, where}, find);
      run.receive(arrived);
      finish();
      run.finish();
    });
  });
}

// The boxes that `process` holds of an array: those of devices of one process alone are the same in all of them.
std::vector<Box> boxes_of(const Layout& layout, const Shape& shape, int process) {
  const Grid& grid = *layout.grid;
  const AtomSet varying = layout.placement.varying();
  std::vector<Box> boxes;
  for (std::int64_t shard = 0; shard < grid.size_of(varying); ++shard) {
    if (!grid.is_local() && !grid.held_by(process, varying).has(shard)) continue;
    boxes.push_back(Box::of(grid, shape, layout.placement, grid.representative(varying, shard)));
  }
  return boxes;
}

// A piece as processes tell each other of it.
struct ToldPiece {
  std::uint32_t leaf = 0;
  std::int32_t dtype = 0;
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> extents;
  static void fields(auto& self, auto& archive) { archive(self.leaf, self.dtype, self.start, self.extents); }
};
struct ToldCopy {
  std::int64_t generation = 0;
  std::int64_t step = 0;
  std::vector<ToldPiece> pieces;
  static void fields(auto& self, auto& archive) { archive(self.generation, self.step, self.pieces); }
};
struct ToldStock {
  std::vector<ToldCopy> copies;
  static void fields(auto& self, auto& archive) { archive(self.copies); }
};

}  // namespace

void Copies::take(std::int64_t generation, std::int64_t step, const std::vector<Array>& leaves) {
  std::vector<DeviceArray> arrays;
  for (const Array& leaf : leaves) arrays.push_back(shoal::detail::concrete(leaf));
  Copy copy{.generation = generation, .step = step, .pieces = {}};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const ShardSet& shards = arrays[i].wait();
    for (std::size_t shard = 0; shard < shards.shards.size(); ++shard) {
      if (!shards.shards[shard]) continue;
      copy.pieces.push_back(
          {i, arrays[i].type().dtype,
           Box::of(*arrays[i].grid(), arrays[i].type().shape, arrays[i].placement(), shards.position_of(shard)),
           shards.shards[shard]});
    }
  }
  // From here on it serves for a restore, whatever becomes of the rest; and others may read these buffers until then.
  copies_.push_back(std::move(copy));
  const std::vector<int> processes = all_processes();
  if (processes.size() == 1) return;
  const auto session = distributed::Session::current();
  std::map<int, std::vector<int>> given;  // To each process, of which others it keeps something.
  for (const int process : processes) given[neighbour_of(process, processes, *session)].push_back(process);
  const auto holders = [&](std::int32_t leaf, std::int32_t shard) {
    const DeviceArray& array = arrays[static_cast<std::size_t>(leaf)];
    return holders_of(*array.grid(), array.placement().varying(), shard);
  };
  const auto shard_box = [&](std::int32_t leaf, std::int32_t shard) {
    const DeviceArray& array = arrays[static_cast<std::size_t>(leaf)];
    return Box::of(*array.grid(), array.type().shape, array.placement(),
                   array.grid()->representative(array.placement().varying(), shard));
  };
  Digest program = digest_of(digest_of("elastic copy"), static_cast<std::uint64_t>(step));
  for (const DeviceArray& array : arrays) {
    program =
        digest_of(fmt::format("{} {}", to_string(array.type()), to_string(*array.grid(), array.placement())), program);
  }
  const Exchange exchange(
      processes,
      [&](int process, std::vector<Need>& needs) {
        for (std::size_t i = 0; i < arrays.size(); ++i) {
          if (arrays[i].grid()->is_local()) continue;
          const auto leaf = static_cast<std::int32_t>(i);
          const auto count = static_cast<std::int32_t>(arrays[i].grid()->size_of(arrays[i].placement().varying()));
          for (std::int32_t shard = 0; shard < count && num_elements(arrays[i].type().shape) > 0; ++shard) {
            const std::vector<int> of_shard = holders(leaf, shard);
            if (of_shard.size() != 1 || std::ranges::count(given[process], of_shard[0]) == 0) continue;
            const Box box = shard_box(leaf, shard);
            needs.push_back({leaf,
                             shard,
                             {box.extents, Dims(box.extents.size(), 0), box.extents, size_of(arrays[i].type().dtype)}});
          }
        }
      },
      holders);
  std::vector<Piece> received;
  run_exchange(
      exchange, processes, program,
      [&](std::int32_t leaf, std::int32_t shard) {
        const Buffer& buffer = arrays[static_cast<std::size_t>(leaf)].wait().shards[static_cast<std::size_t>(shard)];
        return Exchange::Held{static_cast<const std::byte*>(buffer.data()), &buffer};
      },
      [&](std::int32_t leaf, std::int32_t shard, const std::byte* data) {
        const Type& type = arrays[static_cast<std::size_t>(leaf)].type();
        Box box = shard_box(leaf, shard);
        Buffer elements(host_space(type.memory), type.dtype, box.extents);
        copy_bytes(elements.mutable_data(), data, elements.size_bytes());
        received.push_back({static_cast<std::size_t>(leaf), type.dtype, std::move(box), std::move(elements)});
      },
      [] {});
  std::ranges::move(received, std::back_inserter(copies_.back().pieces));
}

void Copies::keep_last() {
  if (copies_.size() > 1) copies_.erase(copies_.begin(), copies_.end() - 1);
}

// What all processes have of one copy: the distinct boxes of each array, and who has each.
struct Copies::Stock {
  struct Held {
    Box box;
    Dtype dtype;
    std::vector<int> holders;
  };
  std::int64_t generation = 0;
  std::int64_t step = 0;
  std::map<std::size_t, std::vector<Held>> leaves;

  void add(std::size_t leaf, const Box& box, Dtype dtype, int process) {
    std::vector<Held>& all = leaves[leaf];
    const auto found = std::ranges::find(all, box, &Held::box);
    if (found == all.end()) {
      all.push_back({box, dtype, {process}});
    } else if (found->holders.back() != process) {
      found->holders.push_back(process);
    }
  }
  bool is_complete(const std::vector<Array>& like) {
    for (std::size_t i = 0; i < like.size(); ++i) {
      std::int64_t covered = 0;
      for (const Held& held : leaves[i]) covered += num_elements(held.box.extents);
      if (covered != num_elements(like[i].shape()) || leaves[i].empty()) return false;
    }
    return true;
  }
};

// The same in all processes, the last one first.
std::vector<Copies::Stock> Copies::stocks() const {
  ToldStock mine;
  for (const Copy& copy : copies_) {
    ToldCopy& told = mine.copies.emplace_back(ToldCopy{.generation = copy.generation, .step = copy.step, .pieces = {}});
    for (const Piece& piece : copy.pieces) {
      told.pieces.push_back({static_cast<std::uint32_t>(piece.leaf),
                             static_cast<std::int32_t>(piece.dtype),
                             {piece.box.start.begin(), piece.box.start.end()},
                             {piece.box.extents.begin(), piece.box.extents.end()}});
    }
  }
  const std::vector<int> processes = all_processes();
  std::map<std::pair<std::int64_t, std::int64_t>, Stock> all;
  const auto session = distributed::Session::current();
  const auto key = [](int process) { return fmt::format("{}/{}", kStocks, process); };
  if (processes.size() > 1) session->client().key_value_set(key(this_process()), distributed::encode(mine));
  for (const int process : processes) {
    const ToldStock told =
        process == this_process()
            ? mine
            : distributed::decode<ToldStock>(session->client().blocking_key_value_get(key(process), kMeeting));
    for (const ToldCopy& copy : told.copies) {
      Stock& stock = all[{copy.generation, copy.step}];
      stock.generation = copy.generation;
      stock.step = copy.step;
      for (const ToldPiece& piece : copy.pieces) {
        const Box box{Dims(piece.start.begin(), piece.start.end()), Shape(piece.extents.begin(), piece.extents.end())};
        stock.add(piece.leaf, box, static_cast<Dtype>(piece.dtype), process);
      }
    }
  }
  std::vector<Stock> sorted;
  for (auto& [number, stock] : all) sorted.insert(sorted.begin(), std::move(stock));
  return sorted;
}

void Copies::hand_over(const std::vector<int>& staying) {
  const std::vector<int> processes = all_processes();
  for (const Stock& stock : stocks()) {
    const auto mine = std::ranges::find_if(
        copies_, [&](const Copy& copy) { return copy.generation == stock.generation && copy.step == stock.step; });
    Copy& copy = mine != copies_.end()
                     ? *mine
                     : copies_.emplace_back(Copy{.generation = stock.generation, .step = stock.step, .pieces = {}});
    const auto held = [&](std::int32_t leaf, std::int32_t box) -> const Stock::Held& {
      return stock.leaves.at(static_cast<std::size_t>(leaf))[static_cast<std::size_t>(box)];
    };
    const Exchange exchange(
        processes,
        [&](int process, std::vector<Need>& needs) {
          std::size_t turn = 0;
          for (const auto& [leaf, boxes] : stock.leaves) {
            for (std::size_t i = 0; i < boxes.size(); ++i) {
              const Shape& shape = boxes[i].box.extents;
              const auto stays = [&](int holder) { return std::ranges::count(staying, holder) > 0; };
              if (num_elements(shape) == 0 || std::ranges::any_of(boxes[i].holders, stays)) continue;
              if (staying[turn++ % staying.size()] != process) continue;
              needs.push_back({static_cast<std::int32_t>(leaf),
                               static_cast<std::int32_t>(i),
                               {shape, Dims(shape.size(), 0), shape, size_of(boxes[i].dtype)}});
            }
          }
        },
        [&](std::int32_t leaf, std::int32_t box) { return held(leaf, box).holders; });
    std::vector<Piece> received;
    run_exchange(
        exchange, processes, digest_of(digest_of("elastic hand-over"), static_cast<std::uint64_t>(stock.step)),
        [&](std::int32_t leaf, std::int32_t box) {
          const auto piece = std::ranges::find_if(copy.pieces, [&](const Piece& one) {
            return one.leaf == static_cast<std::size_t>(leaf) && one.box == held(leaf, box).box;
          });
          return Exchange::Held{static_cast<const std::byte*>(piece->elements.data()), &piece->elements};
        },
        [&](std::int32_t leaf, std::int32_t box, const std::byte* data) {
          Buffer elements(host_space(kDeviceMemory), held(leaf, box).dtype, held(leaf, box).box.extents);
          copy_bytes(elements.mutable_data(), data, elements.size_bytes());
          received.push_back(
              {static_cast<std::size_t>(leaf), held(leaf, box).dtype, held(leaf, box).box, std::move(elements)});
        },
        [] {});
    std::ranges::move(received, std::back_inserter(copy.pieces));
  }
}

std::optional<Copies::Restored> Copies::restore(const std::vector<Array>& like, const std::vector<std::string>& paths) {
  std::vector<Stock> stocks = this->stocks();
  const auto found = std::ranges::find_if(stocks, [&](Stock& stock) { return stock.is_complete(like); });
  if (found == stocks.end()) {
    clear();
    return std::nullopt;
  }
  const Stock& stock = *found;
  std::erase_if(copies_,
                [&](const Copy& copy) { return copy.generation != stock.generation || copy.step != stock.step; });
  // Where the pieces lie that this process has.
  std::map<std::pair<std::int32_t, std::int32_t>, const Buffer*> here;
  for (const Copy& copy : copies_) {
    for (const Piece& piece : copy.pieces) {
      const auto& all = stock.leaves.at(piece.leaf);
      const auto box = std::ranges::find(all, piece.box, &Stock::Held::box) - all.begin();
      here[{static_cast<std::int32_t>(piece.leaf), static_cast<std::int32_t>(box)}] = &piece.elements;
    }
  }
  std::vector<checkpoints::Place> places;
  std::vector<std::vector<checkpoints::Target>> targets(like.size());
  for (std::size_t i = 0; i < like.size(); ++i) {
    places.push_back(checkpoints::place_like(like[i], paths[i], targets[i]));
    for (const Copy& copy : copies_) {
      for (const Piece& piece : copy.pieces) {
        if (piece.leaf == i && piece.dtype != like[i].dtype()) {
          throw misuse<InvalidArgument>("{}: the copies have elements of {}, and the state of this mesh of {}",
                                        paths[i], name_of(piece.dtype), name_of(like[i].dtype()));
        }
      }
    }
  }
  const auto element = [&](std::size_t leaf) { return size_of(like[leaf].dtype()); };
  const std::vector<int> processes = all_processes();
  const Exchange exchange(
      processes,
      [&](int process, std::vector<Need>& needs) {
        for (std::size_t leaf = 0; leaf < like.size(); ++leaf) {
          const auto& boxes = stock.leaves.at(leaf);
          for (const Box& target : boxes_of(places[leaf].kind->layout, like[leaf].shape(), process)) {
            for (std::size_t i = 0; i < boxes.size(); ++i) {
              const std::optional<Box> part = overlap(boxes[i].box, target);
              if (!part) continue;
              needs.push_back({static_cast<std::int32_t>(leaf),
                               static_cast<std::int32_t>(i),
                               {boxes[i].box.extents, start_in(boxes[i].box, *part), part->extents, element(leaf)}});
            }
          }
        }
      },
      [&](std::int32_t leaf, std::int32_t box) {
        return stock.leaves.at(static_cast<std::size_t>(leaf))[static_cast<std::size_t>(box)].holders;
      });
  std::map<std::pair<std::int32_t, std::int32_t>, const std::byte*> sources;
  for (const auto& [number, buffer] : here) sources[number] = static_cast<const std::byte*>(buffer->data());
  const auto fill = [&] {
    std::vector<PlacedCopy> copies;
    for (std::size_t leaf = 0; leaf < like.size(); ++leaf) {
      const auto& boxes = stock.leaves.at(leaf);
      for (const checkpoints::Target& target : targets[leaf]) {
        for (std::size_t i = 0; i < boxes.size(); ++i) {
          const std::optional<Box> part = overlap(boxes[i].box, target.box);
          if (!part) continue;
          const std::byte* from = sources.at({static_cast<std::int32_t>(leaf), static_cast<std::int32_t>(i)});
          const TensorView source{like[leaf].dtype(), boxes[i].box.extents,
                                  const_cast<std::byte*>(from)};  // Read only.
          const TensorView to{like[leaf].dtype(), target.box.extents, target.data};
          copies.push_back(
              place_copy(source, start_in(boxes[i].box, *part), to, start_in(target.box, *part), part->extents));
        }
      }
    }
    copy_boxes(copies);
  };
  if (processes.size() == 1) {
    fill();
  } else {
    const Digest program = digest_of(digest_of("elastic restore"), static_cast<std::uint64_t>(stock.step));
    run_exchange(
        exchange, processes, program,
        [&](std::int32_t leaf, std::int32_t box) {
          const Buffer* const buffer = here.at({leaf, box});
          return Exchange::Held{static_cast<const std::byte*>(buffer->data()), buffer};
        },
        [&](std::int32_t leaf, std::int32_t box, const std::byte* data) {
          sources[{leaf, box}] = data;
        },
        fill);
  }
  Restored restored{.step = stock.step, .leaves = {}};
  for (checkpoints::Place& place : places) restored.leaves.push_back(checkpoints::array_at(std::move(place)));
  return restored;
}

}  // namespace shoal::elastic
