#include "checkpoints/meeting.h"

#include <fmt/format.h>

#include <charconv>
#include <exception>
#include <optional>

#include "base/misuse.h"
#include "shoal/checkpoints.h"

namespace shoal::checkpoints {
namespace {

// Of a text that is longer than the service takes at once.
constexpr std::size_t kPartBytes = std::size_t{8} << 20;

constexpr char kSaid = '+';
constexpr char kFailed = '-';

// A text in parts, of which the first, written last, says how many there are.
void put(distributed::Client& client, const std::string& key, std::string_view text) {
  const std::size_t parts = text.size() / kPartBytes + 1;
  for (std::size_t i = parts; i-- > 0;) {
    const std::string part(text.substr(i * kPartBytes, kPartBytes));
    client.key_value_set(fmt::format("{}/{}", key, i), i == 0 ? fmt::format("{} {}", parts, part) : part, true);
  }
}

std::string get(distributed::Client& client, const std::string& key, std::chrono::milliseconds timeout) {
  std::string text = client.blocking_key_value_get(fmt::format("{}/0", key), timeout);
  std::size_t parts = 1;
  std::from_chars(text.data(), text.data() + text.size(), parts);
  text.erase(0, text.find(' ') + 1);
  for (std::size_t i = 1; i < parts; ++i) text += client.blocking_key_value_get(fmt::format("{}/{}", key, i), timeout);
  return text;
}

// What an error says, without this process's function and line: others add theirs.
std::string bare_text(std::string_view text) {
  const std::string prefix = fmt::format("{}: ", Caller::function_or(""));
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return std::string(text.substr(0, text.rfind("\n  at ")));
}

// What a process says, or why it cannot.
std::string said_by(const std::function<std::string()>& say, std::exception_ptr& error) {
  try {
    return kSaid + say();
  } catch (const std::exception& thrown) {
    error = std::current_exception();
    return kFailed + bare_text(thrown.what());
  }
}

}  // namespace

std::string Meeting::key(std::string_view topic) const { return fmt::format("{}/{}/{}", folder_, number_, topic); }

std::string Meeting::from_first(std::string_view topic, const std::function<std::string()>& say) {
  if (is_alone()) return say();
  std::string text;
  if (is_first()) {
    std::exception_ptr error;
    text = said_by(say, error);
    put(session_->client(), key(topic), text);
    if (error) std::rethrow_exception(error);
  } else {
    text = get(session_->client(), key(topic), timeout_);
    if (text[0] == kFailed) throw misuse<CheckpointError>("process 0: {}", std::string_view(text).substr(1));
  }
  return text.substr(1);
}

std::vector<std::string> Meeting::to_first(std::string_view topic, const std::function<std::string()>& say) {
  if (is_alone()) return {say()};
  std::exception_ptr error;
  std::string mine = said_by(say, error);
  std::vector<std::string> texts;
  if (is_first()) {
    std::optional<std::string> failure;
    for (int process = 0; process < num_processes(); ++process) {
      std::string text =
          process == 0 ? std::move(mine) : get(session_->client(), fmt::format("{}/{}", key(topic), process), timeout_);
      if (text[0] == kFailed && !failure) failure = fmt::format("process {}: {}", process, text.substr(1));
      texts.push_back(text.substr(1));
    }
    if (error) std::rethrow_exception(error);
    if (failure) throw misuse<CheckpointError>("{}", *failure);
  } else {
    put(session_->client(), fmt::format("{}/{}", key(topic), process()), mine);
    if (error) std::rethrow_exception(error);
  }
  return texts;
}

void Meeting::all(std::string_view topic, const std::function<void()>& act) {
  std::exception_ptr error;
  std::exception_ptr of_others;
  try {
    to_first(fmt::format("{}/done", topic), [&] {
      try {
        act();
      } catch (...) {
        error = std::current_exception();
        throw;
      }
      return std::string();
    });
  } catch (...) {
    of_others = std::current_exception();
  }
  try {
    from_first(fmt::format("{}/result", topic), [&] {
      if (of_others) std::rethrow_exception(of_others);
      return std::string();
    });
  } catch (...) {
    if (!error) throw;
  }
  if (error) std::rethrow_exception(error);
}

void Meeting::forget(std::uint64_t number) {
  if (is_alone() || !is_first() || number == 0) return;
  session_->client().key_value_delete(fmt::format("{}/{}", folder_, number));
}

}  // namespace shoal::checkpoints
