// The wire protocol of PMI version 1: lines "cmd=name key=value ...", each answered by one.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <sstream>

#include "distributed/launcher_space.h"
#include "distributed/net.h"
#include "shoal/error.h"

namespace shoal::distributed {
namespace {

class PmiSpace final : public LauncherSpace {
 public:
  explicit PmiSpace(int connection) : connection_(connection) {
    ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
    name_ = field(ask("cmd=get_my_kvsname", "my_kvsname"), "kvsname");
  }

  // The launcher takes a process that ends without this word for one that has crashed.
  ~PmiSpace() override {
    try {
      ask("cmd=finalize", "finalize_ack");
    } catch (const DistributedError&) {  // The launcher is gone.
    }
  }

  void put(const std::string& key, const std::string& value) override {
    ask(fmt::format("cmd=put kvsname={} key={} value={}", name_, key, value), "put_result");
  }
  void meet() override { ask("cmd=barrier_in", "barrier_out"); }
  std::string get(const std::string& key) override {
    return field(ask(fmt::format("cmd=get kvsname={} key={}", name_, key), "get_result"), "value");
  }

 private:
  static DistributedError failure(const std::string& why) {
    return DistributedError(
        fmt::format("distributed::initialize: the launcher does not speak PMI 1 as it should: {}; "
                    "give coordinator_address and SHOAL_SECRET instead",
                    why));
  }

  std::string ask(std::string question, const std::string& expected) {
    question += '\n';
    for (std::size_t sent = 0; sent < question.size();) {
      const ssize_t count = ::send(connection_, question.data() + sent, question.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR) throw failure(error_text(errno));
      if (count > 0) sent += static_cast<std::size_t>(count);
    }
    std::string answer;
    for (char letter = 0; letter != '\n';) {
      const ssize_t count = ::read(connection_, &letter, 1);
      if (count == 0) throw failure("it has closed the connection");
      if (count < 0 && errno != EINTR) throw failure(error_text(errno));
      if (count > 0 && letter != '\n') answer += letter;
    }
    const std::string result = find(answer, "rc").value_or("0");
    if (find(answer, "cmd") != expected || result != "0") {
      throw failure(
          fmt::format("it answers \"{}\" with \"{}\"", question.substr(0, question.find_first_of(" \n")), answer));
    }
    return answer;
  }

  static std::optional<std::string> find(const std::string& answer, const std::string& name) {
    std::istringstream words(answer);
    for (std::string word; words >> word;) {
      if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
    }
    return std::nullopt;
  }
  static std::string field(const std::string& answer, const std::string& name) {
    auto value = find(answer, name);
    if (!value) throw failure(fmt::format("\"{}\" has no {}", answer, name));
    return std::move(*value);
  }

  int connection_;
  std::string name_;
};

}  // namespace

std::unique_ptr<LauncherSpace> open_pmi_space(const Environment& environment) {
  const std::string number = environment("PMI_FD").value_or("");
  int connection = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), connection);
  if (number.empty() || error != std::errc() || end != number.data() + number.size()) return nullptr;
  if (dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr) return nullptr;
  return std::make_unique<PmiSpace>(connection);
}

}  // namespace shoal::distributed
