#include "comm/collectives/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/profiler.h"
#include "base/sort_unique.h"
#include "comm/record/flight_recorder.h"
#include "comm/record/peers.h"
#include "comm/transport/region_copy.h"
#include "core/this_process.h"

namespace shoal {
namespace {

constexpr std::chrono::microseconds kMoment{50};
// How long after the first process the last one hears of a failure.
constexpr std::chrono::milliseconds kNews{1000};
// From what size on several processes of a host have something of one of them: getting it twice takes longer than one
// message more on the way.
constexpr std::size_t kRelayedBytes = std::size_t{64} << 10;

std::string text_of(const MessageTag& tag) {
  return fmt::format("launch {} of program {:016x}{:016x} on data {:016x}{:016x}, step {}.{}, {} bytes", tag.sequence,
                     tag.program[0], tag.program[1], tag.lineage[0], tag.lineage[1], tag.step, tag.part, tag.bytes);
}

// What differs first, in words.
std::string_view difference(const MessageTag& mine, const MessageTag& other) {
  if (mine.communicator != other.communicator) return "another set of processes";
  if (mine.sequence != other.sequence) return "another launch: one of them skipped or repeated a call";
  if (mine.program != other.program) return "another program";
  if (mine.lineage != other.lineage) return "the same program on other arrays";
  if (mine.history != other.history) {
    return Communicator::is_strict() ? "before this step they ran other programs, or in another order, made other "
                                       "numbers of trips in a loop, or took other branches"
                                     : "before this launch they ran other programs, or in another order";
  }
  return "another step";
}

}  // namespace

int provider_of(int reader, const std::vector<int>& holders) {
  std::vector<int> near;
  std::ranges::copy_if(holders, std::back_inserter(near),
                       [&](int holder) { return host_of(holder) == host_of(reader); });
  const std::vector<int>& some = near.empty() ? holders : near;
  return some[static_cast<std::size_t>(reader) % some.size()];
}

std::vector<int> holders_of(const Grid& grid, AtomSet varying, std::int64_t shard) {
  std::vector<int> holders;
  for (int process : grid.processes()) {
    if (grid.held_by(process, varying).has(shard)) holders.push_back(process);
  }
  return holders;
}

namespace {

// What processes of a host need of another host, for which it crosses once.
struct Crossing {
  Need need;
  const std::vector<int>* holders;
  std::vector<int> readers;
};

bool is_near(int reader, const std::vector<int>& holders) {
  return std::ranges::any_of(holders, [&](int holder) { return host_of(holder) == host_of(reader); });
}

}  // namespace

Exchange::Exchange(const std::vector<int>& processes, FunctionRef<void(int, std::vector<Need>&)> add_needs,
                   FunctionRef<std::vector<int>(std::int32_t, std::int32_t)> holders, std::span<const int> parties) {
  const int me = this_process();
  std::map<std::pair<int, int>, std::uint32_t> parts;  // By sender and reader, the number of the next.
  const auto add = [&](int from, int to, const Need& need, std::vector<Transfer> Legs::*leg) {
    const std::uint32_t part = parts[{from, to}]++;
    if (from == me) (sends_.*leg).push_back({.from = from, .to = to, .part = part, .need = need});
    if (to == me) (receives_.*leg).push_back({.from = from, .to = to, .part = part, .need = need});
  };
  const auto place = [](const Need& need) { return std::pair(need.operand, need.shard); };
  const auto party_of = [&](int process) {
    return parties.empty()
               ? 0
               : parties[static_cast<std::size_t>(std::ranges::find(processes, process) - processes.begin())];
  };
  std::map<std::tuple<int, std::int32_t, std::int32_t>, std::vector<int>> holders_at;           // By party and place.
  std::map<std::tuple<int, int, std::int32_t, std::int32_t>, std::vector<Crossing>> crossings;  // Of a host.
  for (int reader : processes) {
    const int party = party_of(reader);
    std::vector<Need> needs;
    add_needs(reader, needs);
    std::ranges::stable_sort(needs, {}, place);
    for (std::size_t i = 0; i < needs.size();) {
      Need need = needs[i];
      for (++i; i < needs.size() && place(needs[i]) == place(need); ++i) {
        need.region = joined(need.region, needs[i].region);
      }
      if (need.region.bytes() == 0) continue;
      const auto [found, is_new] = holders_at.try_emplace({party, need.operand, need.shard});
      std::vector<int>& have = found->second;
      if (is_new) {
        have = holders(need.operand, need.shard);
        std::erase_if(have, [&](int holder) { return party_of(holder) != party; });
      }
      if (std::ranges::binary_search(have, reader)) continue;
      if (have.empty()) {
        is_possible_ = false;
        continue;
      }
      if (need.region.bytes() < kRelayedBytes || is_near(reader, have)) {
        add(provider_of(reader, have), reader, need, &Legs::first);
        continue;
      }
      std::vector<Crossing>& of_place = crossings[{party, host_of(reader), need.operand, need.shard}];
      const auto same = [&](const Crossing& crossing) { return crossing.need.region == need.region; };
      const auto crossing = std::ranges::find_if(of_place, same);
      if (crossing != of_place.end()) {
        crossing->readers.push_back(reader);
      } else {
        of_place.push_back({.need = std::move(need), .holders = &have, .readers = {reader}});
      }
    }
  }
  std::size_t turn = 0;  // The processes of a host take turns.
  for (const auto& [at, of_place] : crossings) {
    for (const Crossing& crossing : of_place) {
      const int relay = crossing.readers[turn++ % crossing.readers.size()];
      const int provider = provider_of(relay, *crossing.holders);
      add(provider, relay, crossing.need, &Legs::first);
      for (int reader : crossing.readers) {
        if (reader == relay) continue;
        relays_ = true;
        add(relay, reader, crossing.need, &Legs::second);
        if (relay == me) relayed_.push_back(provider);
      }
    }
  }
  sort_unique(relayed_);
  for (std::vector<Transfer> Legs::*leg : {&Legs::first, &Legs::second}) {
    std::ranges::stable_sort(receives_.*leg, {}, &Transfer::from);
    for (const Transfer& send : sends_.*leg) peers_.push_back(send.to);
    for (const Transfer& receive : receives_.*leg) peers_.push_back(receive.from);
  }
  sort_unique(peers_);
}

std::size_t Exchange::received_bytes() const {
  std::size_t bytes = 0;
  for (const Transfer& receive : receives_.first) bytes += receive.need.region.bytes();
  for (const Transfer& receive : receives_.second) bytes += receive.need.region.bytes();
  return bytes;
}

std::size_t Exchange::peer_index(int process) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(peers_, process) - peers_.begin());
}

// ---- Runs

namespace {

// Channels have room for a few hundred messages, and for half a MiB of small ones, and get it back only when messages
// are released. So of the messages of one process in a step, only the last are read where they lie.
constexpr std::size_t kMostHeld = 64;
constexpr std::size_t kMostHeldBytes = std::size_t{256} << 10;

// What a message takes of the room for small ones.
std::size_t small_bytes(const Transfer& receive) {
  const std::size_t bytes = receive.need.region.bytes();
  return bytes <= kMostHeldBytes ? bytes : 0;
}

// Copies the payload of a message to memory of its own. Returns where the array would begin.
const std::byte* copied(const std::byte* data, const Region& region, std::vector<std::unique_ptr<std::byte[]>>& kept) {
  const std::size_t bytes = static_cast<std::size_t>(num_elements(region.shape)) * region.element;
  std::byte* const to = kept.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
  const std::size_t offset = range_of(region).begin;
  copy_in_place(region).copy(data + offset, to + offset);
  return to;
}

}  // namespace

void Exchange::Run::Forget::operator()(const Exchange* exchange) const noexcept {
  for (const Transfer& receive : exchange->receives_.first) peers()->channel(receive.from).expect_nothing();
}

Exchange::Run::Run(const Exchange& exchange, const Step& step, Find find)
    : exchange_(exchange), step_(step), sent_(exchange.peers_.size()), accepted_(exchange.peers_.size()) {
  for (const int peer : exchange_.peers_) peers()->channel(peer).let_go();
  for (const Transfer& transfer : exchange_.sends_.first) {
    send(transfer, find(transfer.need.operand, transfer.need.shard));
  }
}

MessageTag Exchange::Run::tag_of(const Transfer& transfer) const {
  MessageTag tag = step_.tag;
  tag.part = transfer.part;
  tag.bytes = transfer.need.region.bytes();
  return tag;
}

void Exchange::Run::send(const Transfer& transfer, const Held& held) {
  Channel& channel = peers()->channel(transfer.to);
  const std::uint64_t number = channel.send(tag_of(transfer), transfer.need.region, held.data);
  if (held.buffer == nullptr || !channel.is_on_its_way(number)) {
    sent_[exchange_.peer_index(transfer.to)] = number;
  } else if (!channel.is_done(number)) {
    channel.hold(number, *held.buffer);
  }
}

void Exchange::Run::expect() {
  expects_.reset(&exchange_);
  for (const Transfer& receive : exchange_.receives_.first) {
    peers()->channel(receive.from).expect(tag_of(receive), receive.need.region);
  }
}

void Exchange::Run::move_on() {
  for (const int peer : exchange_.peers_) peers()->channel(peer).move_on();
}

// What there was no room for goes on its way to other peers while this process waits for one.
void Exchange::Run::wait_for(Channel& channel, Awaited awaited, FunctionRef<bool()> is_over) {
  if (is_over()) return;
  const profiler::TallyScope waiting(profiler::timed(&profiler::RunTallies::waits));
  channel.sleep(Clock::now() + kMoment);  // Most waits are short.
  if (is_over()) return;
  wait_until({step_.communicator, step_.name, step_.where}, channel, awaited, is_over, [&] {
    for (std::size_t i = 0; i < exchange_.peers_.size(); ++i) {
      if (sent_[i] != 0) peers()->channel(exchange_.peers_[i]).is_done(sent_[i]);
    }
  });
}

// The next message of a peer. Those of a step come together, so what others have left is before the first of them.
const MessageTag& Exchange::Run::next_message(Channel& channel, bool is_first) {
  while (true) {
    wait_for(channel, Awaited::kArrival, [&] { return channel.next() != nullptr; });
    const MessageTag& tag = *channel.next();
    if (!is_first || tag.communicator == step_.tag.communicator) return tag;
    // The peer may have heard earlier that the work of the others has failed.
    const Clock::time_point latest = Clock::now() + kNews;
    bool has_failed = false;
    wait_for(channel, Awaited::kArrival,
             [&] { return (has_failed = Communicator::has_failed(tag.communicator)) || Clock::now() >= latest; });
    if (!has_failed) return tag;
    const std::uint64_t number = channel.accept(bytes_region(tag.bytes));
    wait_for(channel, Awaited::kProgress, [&] { return channel.payload(number) != nullptr; });
    channel.release(number);
  }
}

void Exchange::Run::receive(Arrived arrived) {
  if (FlightRecorder* const recorder = FlightRecorder::current()) {
    recorder->step(step_.tag.step, step_.name, step_.where, step_.trip);
  }
  boost::container::small_vector<Left, 4> left(exchange_.peers_.size());
  for (const std::vector<Transfer>* leg : {&exchange_.receives_.first, &exchange_.receives_.second}) {
    for (const Transfer& receive : *leg) {
      Left& of_peer = left[exchange_.peer_index(receive.from)];
      ++of_peer.messages;
      of_peer.bytes += small_bytes(receive);
    }
  }
  std::map<std::pair<std::int32_t, std::int32_t>, const std::byte*> relayed;
  receive_from(exchange_.receives_.first, left, [&](std::int32_t operand, std::int32_t shard, const std::byte* data) {
    if (!exchange_.sends_.second.empty()) relayed[{operand, shard}] = data;
    arrived(operand, shard, data);
  });
  static_cast<void>(expects_.release());
  for (const Transfer& transfer : exchange_.sends_.second) {
    send(transfer, {relayed.at({transfer.need.operand, transfer.need.shard})});
  }
  receive_from(exchange_.receives_.second, left, arrived);
}

// What comes first is accepted first, and waited for when all have been accepted.
void Exchange::Run::receive_from(std::span<const Transfer> transfers, std::span<Left> left, Arrived arrived) {
  boost::container::small_vector<std::pair<const Transfer*, std::uint64_t>, 8> accepted;
  const auto payload = [&](Channel& channel, std::uint64_t number) {
    const std::byte* data = nullptr;
    wait_for(channel, Awaited::kProgress, [&] { return (data = channel.payload(number)) != nullptr; });
    return data;
  };
  for (const Transfer& receive : transfers) {
    Channel& channel = peers()->channel(receive.from);
    const std::size_t peer = exchange_.peer_index(receive.from);
    check_tag(receive, next_message(channel, accepted_[peer] == 0));
    const std::uint64_t number = accepted_[peer] = channel.accept(receive.need.region);
    const bool is_full = left[peer].messages > kMostHeld || left[peer].bytes > kMostHeldBytes;
    --left[peer].messages;
    left[peer].bytes -= small_bytes(receive);
    if (is_full) {
      const std::byte* const data = copied(payload(channel, number), receive.need.region, kept_);
      channel.release(number);
      arrived(receive.need.operand, receive.need.shard, data);
    } else {
      accepted.emplace_back(&receive, number);
    }
  }
  for (const auto& [receive, number] : accepted) {
    arrived(receive->need.operand, receive->need.shard, payload(peers()->channel(receive->from), number));
  }
}

void Exchange::Run::check_tag(const Transfer& receive, const MessageTag& tag) const {
  const MessageTag expected = tag_of(receive);
  if (tag == expected) return;
  throw Disagreement(fmt::format("{}: {} and {} do not do the same: {}. The first is at {}; the second at {}",
                                 step_.name, peers()->name_of(this_process()), peers()->name_of(receive.from),
                                 difference(expected, tag), text_of(expected), text_of(tag)),
                     step_.where);
}

void Exchange::Run::release() {
  for (std::size_t i = 0; i < exchange_.peers_.size(); ++i) {
    if (accepted_[i] == 0 || std::ranges::binary_search(exchange_.relayed_, exchange_.peers_[i])) continue;
    peers()->channel(exchange_.peers_[i]).release(accepted_[i]);
  }
}

// Where what is relayed came from: others have read it.
void Exchange::Run::release_relayed() const {
  for (const int peer : exchange_.relayed_) peers()->channel(peer).release(accepted_[exchange_.peer_index(peer)]);
}

bool Exchange::Run::is_read() const {
  for (std::size_t i = 0; i < exchange_.peers_.size(); ++i) {
    if (sent_[i] != 0 && !peers()->channel(exchange_.peers_[i]).is_done(sent_[i])) return false;
  }
  release_relayed();
  return true;
}

void Exchange::Run::wait_until_read() {
  for (std::size_t i = 0; i < exchange_.peers_.size(); ++i) {
    if (sent_[i] == 0) continue;
    Channel& channel = peers()->channel(exchange_.peers_[i]);
    wait_for(channel, Awaited::kRelease, [&] { return channel.is_done(sent_[i]); });
  }
  release_relayed();
}

}  // namespace shoal
