#include "comm/transport/mpi_channel.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "shoal/error.h"

namespace shoal {
namespace {

constexpr int kHeads = 1;  // The tags, of MPI, of what there is between two processes.
constexpr int kBodies = 2;

// sleep() looks without a pause, then gives its core away between looks, then waits between them: nothing wakes it.
constexpr auto kSpin = std::chrono::microseconds(30);
constexpr auto kYield = std::chrono::milliseconds(2);
constexpr auto kShortPause = std::chrono::microseconds(50);
constexpr auto kLongPause = std::chrono::milliseconds(1);
constexpr auto kLong = std::chrono::milliseconds(100);

// Calls f(begin, size) for each piece that MPI takes at once.
template <class F>
void for_each_piece(std::size_t bytes, F&& f) {
  for (std::size_t begin = 0; begin < bytes; begin += MpiApi::kMostBytes) {
    f(begin, std::min(MpiApi::kMostBytes, bytes - begin));
  }
}

}  // namespace

MpiChannel::~MpiChannel() {
  if (world_.is_over()) return;
  static const Header goodbye{Kind::kGoodbye, {}};
  std::vector<Request> last(1);
  bool is_sent = failure_.empty() && api_.send(&goodbye, sizeof(goodbye), peer_, kHeads, last.data()) == 0;
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(1);
  while (is_sent && !(outgoing_.empty() && are_done(last)) && Clock::now() < deadline) progress();
  // MPI reads and writes what is under way until it is done, and that cannot be called back.
  if (!outgoing_.empty() || complete_ < released_ + incoming_.size() || state_ == State::kArriving) world_.abandon();
}

void MpiChannel::throw_failure() const {
  throw ProcessFailed(fmt::format("channel to process {}: {}", peer_, failure_));
}

void MpiChannel::check(int error) {
  if (error != 0 && failure_.empty()) failure_ = fmt::format("MPI: {}", api_.describe(error));
}

/// Drops those that are done.
bool MpiChannel::are_done(std::vector<Request>& requests) {
  std::erase_if(requests, [this](Request& request) {
    bool done = false;
    check(api_.test(&request, &done));
    return done;
  });
  return requests.empty();
}

/// Moves on all that is under way.
void MpiChannel::progress() {
  if (world_.is_over() && failure_.empty()) failure_ = "the program has finalised MPI";
  while (failure_.empty() && !outgoing_.empty() && are_done(outgoing_.front().requests)) {
    outgoing_.pop_front();
    ++done_;
    waits_since_ = {};
  }
  while (failure_.empty() && complete_ < released_ + incoming_.size()) {
    Incoming& message = incoming_[complete_ - released_];
    if (!are_done(message.requests)) break;
    message.landing.finish();
    ++complete_;
    waits_since_ = {};
  }
  if (failure_.empty() && state_ != State::kUnaccepted) receive_header();
}

// ---- Sending

std::uint64_t MpiChannel::send(const MessageTag& tag, const Region& region, const std::byte* data) {
  if (!failure_.empty()) throw_failure();
  Outgoing& message = outgoing_.emplace_back(Outgoing{{}, Parcel(region, data), {}});
  ++sent_;
  const Header header{Kind::kMessage, tag};
  const std::size_t bytes = message.parcel.bytes();
  const bool is_small = bytes <= kSmall;
  message.head.resize(sizeof(header) + (is_small ? bytes : 0));
  std::memcpy(message.head.data(), &header, sizeof(header));
  if (is_small && bytes > 0) std::memcpy(message.head.data() + sizeof(header), message.parcel.data(), bytes);
  check(api_.send(message.head.data(), message.head.size(), peer_, kHeads, &message.requests.emplace_back()));
  if (!is_small) {
    for_each_piece(bytes, [&](std::size_t begin, std::size_t size) {
      check(api_.send(message.parcel.data() + begin, size, peer_, kBodies, &message.requests.emplace_back()));
    });
  }
  if (!failure_.empty()) throw_failure();
  return sent_;
}

bool MpiChannel::is_done(std::uint64_t number) {
  SHOAL_CHECK(number <= sent_, "a message is done after it was sent");
  if (number > done_) progress();
  told_done_ = done_;
  if (number > done_ && !failure_.empty()) throw_failure();
  return number <= done_;
}

// ---- Receiving

/// Receives the head of the next message, if it has come.
void MpiChannel::receive_header() {
  bool is_there = false;
  if (state_ == State::kNothing) {
    MpiApi::Message found;
    check(api_.probe(peer_, kHeads, &is_there, &found, &input_bytes_));
    if (!is_there) return;
    if (input_bytes_ < sizeof(Header) || input_bytes_ > input_.size()) {
      failure_ = "it does not speak as Shoal does";
      return;
    }
    check(api_.receive_probed(&found, input_.data(), input_bytes_, &receiving_));
    state_ = State::kArriving;
  }
  bool has_arrived = false;
  if (failure_.empty()) check(api_.test(&receiving_, &has_arrived));
  if (has_arrived) take_header();
}

void MpiChannel::take_header() {
  std::memcpy(&header_, input_.data(), sizeof(header_));
  state_ = State::kNothing;
  waits_since_ = {};
  const std::size_t along = header_.tag.bytes <= kSmall ? header_.tag.bytes : 0;
  if (header_.kind == Kind::kMessage && input_bytes_ == sizeof(header_) + along) {
    state_ = State::kUnaccepted;
    told_next_ = false;
    begin_if_expected();
  } else {
    failure_ = header_.kind == Kind::kGoodbye ? "it has closed the channel" : "it does not speak as Shoal does";
  }
}

/// Lets the message whose header has come arrive, if it is expected.
void MpiChannel::begin_if_expected() {
  if (std::optional<Landing> landing = expected_.begin(header_.tag)) begin_payload(std::move(*landing));
}

/// The payload of the message whose header has come arrives there.
void MpiChannel::begin_payload(Landing landing) {
  Incoming& message = incoming_.emplace_back(Incoming{std::move(landing), {}});
  state_ = State::kNothing;
  const std::size_t bytes = message.landing.bytes();
  if (bytes <= kSmall) {
    if (bytes > 0) std::memcpy(message.landing.data(), input_.data() + sizeof(Header), bytes);
    return;
  }
  for_each_piece(bytes, [&](std::size_t begin, std::size_t size) {
    check(api_.receive(message.landing.data() + begin, size, peer_, kBodies, &message.requests.emplace_back()));
  });
}

void MpiChannel::expect(const MessageTag& tag, const Region& region) {
  expected_.add(tag, Landing(region));
  if (state_ == State::kUnaccepted) begin_if_expected();
  progress();
}

const MessageTag* MpiChannel::next() {
  if (!has_next()) progress();
  if (has_next()) {
    told_next_ = true;
    return expected_.begun() == nullptr ? &header_.tag : expected_.begun();
  }
  if (!failure_.empty()) throw_failure();
  return nullptr;
}

std::uint64_t MpiChannel::accept(const Region& region) {
  SHOAL_CHECK(has_next(), "no message to accept");
  const MessageTag* const begun = expected_.begun();
  SHOAL_CHECK(region.bytes() == (begun == nullptr ? header_.tag : *begun).bytes,
              "a message is accepted as a region of its size");
  if (begun != nullptr) {
    expected_.accept_begun();
    if (has_next()) told_next_ = false;
    return ++accepted_;
  }
  ++accepted_;
  begin_payload(Landing(region));
  progress();
  return accepted_;
}

const std::byte* MpiChannel::payload(std::uint64_t number) {
  if (number > complete_) progress();
  told_complete_ = complete_;
  if (number <= complete_) return incoming_[number - released_ - 1].landing.array();
  if (!failure_.empty()) throw_failure();
  return nullptr;
}

void MpiChannel::release(std::uint64_t number) {
  SHOAL_CHECK(number <= std::min(complete_, accepted_), "a message is released after it has arrived");
  for (; released_ < number; ++released_) incoming_.pop_front();
}

// ---- Waiting

bool MpiChannel::has_changed() const {
  return (has_next() && !told_next_) || done_ != told_done_ || complete_ != told_complete_;
}

void MpiChannel::sleep(Clock::time_point deadline) {
  if (waits_since_ == Clock::time_point()) waits_since_ = Clock::now();
  while (true) {
    progress();
    if (has_changed() || !failure_.empty()) break;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) break;
    const auto waited = now - waits_since_;
    if (waited < kSpin) continue;
    if (waited < kYield) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>(waited < kLong ? kShortPause : kLongPause, deadline - now));
    }
  }
  const bool changed = has_changed();
  told_next_ = has_next();
  told_done_ = done_;
  told_complete_ = complete_;
  if (!changed && !failure_.empty()) throw_failure();
}

}  // namespace shoal
