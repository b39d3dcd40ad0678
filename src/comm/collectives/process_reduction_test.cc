// Reductions over processes, all of which this one plays, one after the other.
#include "comm/collectives/process_reduction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "comm/collectives/exchange.h"
#include "comm/collectives/table.h"
#include "comm/record/peers.h"
#include "comm/transport/region_copy.h"
#include "core/this_process.h"

namespace shoal::collectives {
namespace {

// Processes that are on some hosts, and are never spoken to.
class Hosts final : public Peers {
 public:
  explicit Hosts(std::vector<int> host_of) : host_of_(std::move(host_of)) {}
  Channel& channel(int) override { throw InternalError("nobody is there"); }
  int host_of(int process) const override { return host_of_[static_cast<std::size_t>(process)]; }
  std::string name_of(int) const override { return {}; }
  bool is_leaving(int) const override { return false; }
  std::string whereabouts_of(int, const std::vector<int>&) override { return {}; }
  std::exception_ptr failure_of(const std::vector<int>&) const override { return nullptr; }
  std::exception_ptr settle(const std::vector<int>&, const std::exception_ptr& error, bool) noexcept override {
    return error;
  }
  void leave() noexcept override {}

 private:
  std::vector<int> host_of_;
};

// How devices are divided: the process of each, and the host of each process.
struct Layout {
  std::vector<int> process_of;
  std::vector<int> host_of;
  int processes() const { return static_cast<int>(host_of.size()); }
};

// So many devices for each process, in order.
Layout layout_of(const std::vector<int>& devices, std::vector<int> host_of) {
  Layout layout{.process_of = {}, .host_of = std::move(host_of)};
  for (std::size_t process = 0; process < devices.size(); ++process) {
    layout.process_of.insert(layout.process_of.end(), static_cast<std::size_t>(devices[process]),
                             static_cast<int>(process));
  }
  return layout;
}

// What comes to hosts from others, and how often, if a process that is given the same twice gets it twice.
struct Traffic {
  std::size_t bytes = 0;
  std::size_t messages = 0;
};

// The sum over all devices, or the pieces of it, as each process gets it: by process and shard of the result.
struct Outcome {
  std::map<std::pair<int, std::int64_t>, std::vector<float>> shards;
  Traffic between_hosts;
};

using Rows = std::vector<std::vector<float>>;  // Of each device.

class Job {
 public:
  Job(const Layout& layout, const Rows& rows, bool scatters) : layout_(layout), rows_(rows), scatters_(scatters) {
    set_peers(std::make_unique<Hosts>(layout.host_of));
    for (int process = 0; process < layout.processes(); ++process) players_.push_back(make_player(process));
  }
  ~Job() {
    set_this_process(0);
    set_peers(nullptr);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Outcome run() {
    const std::size_t rounds = players_[0].collective->rounds().size();
    for (std::size_t round = 0; round < rounds; ++round) {
      // All give before anybody goes on, so that nobody gets what is made later.
      for (int process = 0; process < layout_.processes(); ++process) {
        if (players_[static_cast<std::size_t>(process)].collective->rounds()[round].exchanges) give(round, process);
      }
      for (Player& player : players_) run_tiles(player, round);
    }
    for (int process = 0; process < layout_.processes(); ++process) {
      const Player& player = players_[static_cast<std::size_t>(process)];
      for (const auto& [shard, elements] : player.result) outcome_.shards[{process, shard}] = elements;
    }
    return outcome_;
  }

 private:
  static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

  struct Player {
    int process;
    std::unique_ptr<const Collective> collective;
    AtomSet varying;
    GridPtr grid;
    std::vector<std::byte*> operand;
    std::vector<std::byte*> extras;
    std::vector<std::byte*> out;
    std::map<std::int64_t, std::vector<float>> result;
    std::vector<float> scratch;
    std::vector<std::unique_ptr<std::vector<float>>> received;
  };

  Player make_player(int process) const {
    set_this_process(process);
    std::vector<Device> devices;
    for (std::size_t i = 0; i < layout_.process_of.size(); ++i) {
      devices.push_back({.id = static_cast<std::int64_t>(i), .process_index = layout_.process_of[i]});
    }
    const auto count = static_cast<std::int64_t>(devices.size());
    const auto size = static_cast<std::int64_t>(rows_[0].size());
    Player player{.process = process,
                  .collective = {},
                  .varying = {},
                  .grid = {},
                  .operand = {},
                  .extras = {},
                  .out = {},
                  .result = {},
                  .scratch = {},
                  .received = {}};
    player.grid = std::make_shared<const Grid>(Mesh(devices, Shape{count}, {"x"}));
    const Atoms atoms = player.grid->atoms_of("x");
    player.varying = AtomSet(atoms);
    const ShardShapes in{.grid = player.grid, .varying = player.varying, .dtype = Dtype::kF32, .shapes = {{size}}};
    const Attrs attrs = {{"dim", std::int64_t{0}}, {"kind", std::string("sum")}};
    const Context context{.attrs = attrs,
                          .where = {},
                          .groups = {player.grid, atoms},
                          .operands = {in},
                          .wanted = scatters_ ? player.varying : AtomSet(),
                          .more_wanted = {}};
    player.collective = scatters_ ? reduce_scatter(context) : all_reduce(context);
    const ShardShapes& result = player.collective->result();
    player.operand.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (layout_.process_of[i] != process) continue;
      player.operand[i] = reinterpret_cast<std::byte*>(const_cast<float*>(rows_[i].data()));
    }
    player.out.resize(static_cast<std::size_t>(result.count()));
    for (std::int64_t shard = 0; shard < result.count(); ++shard) {
      if (!result.is_held(shard)) continue;
      std::vector<float>& elements = player.result[shard];
      elements.assign(result.bytes(shard) / sizeof(float), kUnknown);
      player.out[static_cast<std::size_t>(shard)] = reinterpret_cast<std::byte*>(elements.data());
    }
    player.scratch.assign(player.collective->scratch_bytes() / sizeof(float), kUnknown);
    for (const Collective::Extra& extra : player.collective->extras()) {
      std::byte* place = nullptr;
      if (extra.scratch) place = reinterpret_cast<std::byte*>(player.scratch.data()) + *extra.scratch;
      if (extra.result >= 0) place = player.out[static_cast<std::size_t>(extra.result)];
      player.extras.push_back(place);
    }
    return player;
  }

  std::byte*& pointer(Player& player, const Need& need) {
    return (need.operand == 0 ? player.operand : player.extras)[static_cast<std::size_t>(need.shard)];
  }

  // What a process is given for a round, with nothing but the region in it.
  void give(std::size_t round, int process) {
    Player& reader = players_[static_cast<std::size_t>(process)];
    set_this_process(process);
    std::vector<Need> needs;
    reader.collective->add_needs(round, process, needs);
    std::map<std::pair<std::int32_t, std::int32_t>, Need> joint;
    for (const Need& need : needs) {
      const auto [found, is_new] = joint.try_emplace({need.operand, need.shard}, need);
      if (!is_new) found->second.region = joined(found->second.region, need.region);
    }
    for (const auto& [place, need] : joint) {
      const std::vector<int> holders = need.operand == 0
                                           ? holders_of(*reader.grid, reader.varying, need.shard)
                                           : reader.collective->extras()[static_cast<std::size_t>(need.shard)].holders;
      if (std::ranges::binary_search(holders, process)) continue;
      const int from = provider_of(process, holders);
      if (host_of(from) != host_of(process)) {
        outcome_.between_hosts.bytes += need.region.bytes();
        ++outcome_.between_hosts.messages;
      }
      const std::byte* const sent = pointer(players_[static_cast<std::size_t>(from)], need);
      ASSERT_NE(sent, nullptr) << "process " << from << " does not have what it is to give";
      auto& got = reader.received.emplace_back(
          std::make_unique<std::vector<float>>(static_cast<std::size_t>(num_elements(need.region.shape)), kUnknown));
      auto* const to = reinterpret_cast<std::byte*>(got->data());
      const std::size_t offset = range_of(need.region).begin;
      copy_in_place(need.region).copy(sent + offset, to + offset);
      pointer(reader, need) = to;
    }
  }

  static void run_tiles(Player& player, std::size_t round) {
    const std::vector<Collective::Round>& rounds = player.collective->rounds();
    std::byte* const* const operands[] = {player.operand.data(), player.extras.data()};
    for (std::int64_t tile = round == 0 ? 0 : rounds[round - 1].end; tile < rounds[round].end; ++tile) {
      player.collective->run(operands, player.out.data(), tile);
    }
  }

  const Layout& layout_;
  const Rows& rows_;
  const bool scatters_;
  std::vector<Player> players_;
  Outcome outcome_;
};

// Values whose sum depends on the order.
Rows rows_of(std::size_t devices, std::size_t elements) {
  Rows rows(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    for (std::size_t i = 0; i < elements; ++i) {
      const auto angle = static_cast<float>(d * 131 + i * 7 + 1);
      rows[d].push_back(std::sin(angle) * std::pow(10.0F, static_cast<float>((d * 5 + i) % 9)));
    }
  }
  return rows;
}

constexpr std::size_t kSmall = 64;        // Each process makes all of it.
constexpr std::size_t kLarge = 48 << 10;  // They share the work.

TEST(ProcessReduction, GivesTheBitsOfOneProcessHoweverDevicesAndHostsAreDivided) {
  const std::vector<Layout> layouts = {
      layout_of({4, 4}, {0, 1}),
      layout_of({2, 2, 2, 2}, {0, 0, 1, 1}),
      layout_of({2, 2, 2, 2}, {0, 1, 0, 1}),
      layout_of({2, 2, 2, 2}, {0, 1, 2, 3}),
      layout_of({1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 1, 1, 1, 1}),
      layout_of({1, 1, 1, 1, 1, 1, 1, 1}, {0, 1, 1, 0, 2, 1, 0, 2}),
      layout_of({1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0}),
      layout_of({3, 3, 2}, {0, 0, 1}),
      layout_of({3, 3, 2}, {0, 1, 0}),
      {.process_of = {0, 1, 2, 3, 3, 2, 1, 0}, .host_of = {0, 0, 1, 1}},
  };
  for (const std::size_t elements : {kSmall, kLarge}) {
    const Rows rows = rows_of(8, elements);
    for (const bool scatters : {false, true}) {
      const Layout together = layout_of({7, 1}, {0, 0});
      const Outcome wanted = Job(together, rows, scatters).run();
      std::map<std::int64_t, std::vector<float>> shards;
      for (const auto& [place, elements_of] : wanted.shards) shards[place.second] = elements_of;
      for (const Layout& layout : layouts) {
        const Outcome got = Job(layout, rows, scatters).run();
        for (const auto& [place, some] : got.shards) {
          EXPECT_EQ(std::memcmp(some.data(), shards[place.second].data(), some.size() * sizeof(float)), 0)
              << fmt::format("{} elements, {}, processes of devices {}, hosts {}: shard {} of process {}", elements,
                             scatters ? "scattered" : "whole", fmt::join(layout.process_of, " "),
                             fmt::join(layout.host_of, " "), place.second, place.first);
        }
      }
    }
  }
}

TEST(ProcessReduction, CrossesToEachHostOnce) {
  const Rows rows = rows_of(8, kLarge);
  const std::size_t bytes = kLarge * sizeof(float);
  for (const Layout& layout :
       {layout_of({2, 2, 2, 2}, {0, 0, 1, 1}), layout_of({1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 1, 1, 1, 1})}) {
    // Half of the sum is made on each host, of what the other one has summed, and the other gets it from there.
    EXPECT_EQ(Job(layout, rows, false).run().between_hosts.bytes, 2 * bytes);
    // Of a sum that stays divided the second half of that.
    EXPECT_EQ(Job(layout, rows, true).run().between_hosts.bytes, bytes);
  }
}

TEST(ProcessReduction, AnswersOtherHostsWithOneMessageForEachOfTheirProcesses) {
  const Rows rows = rows_of(8, kSmall);
  const Layout layout = layout_of({1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 1, 1, 1, 1});
  EXPECT_EQ(Job(layout, rows, false).run().between_hosts.messages, 8U);
}

}  // namespace
}  // namespace shoal::collectives
