#include "distributed/launcher_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "shoal/error.h"

namespace shoal::distributed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A launcher that gives these answers, whatever it is asked, and keeps the questions.
class Launcher {
 public:
  explicit Launcher(std::vector<std::string> answers) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
    thread_ = std::thread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        std::string question;
        for (char letter = 0; letter != '\n';) {
          if (read(ends_[1], &letter, 1) != 1) return;
          question += letter;
        }
        questions.push_back(question);
        EXPECT_EQ(send(ends_[1], answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
      }
      shutdown(ends_[1], SHUT_RDWR);
    });
  }
  ~Launcher() {
    join();
    for (const int end : ends_) close(end);
  }
  Environment environment() const {
    return [fd = std::to_string(ends_[0])](const char* name) -> std::optional<std::string> {
      return name == std::string("PMI_FD") ? std::optional(fd) : std::nullopt;
    };
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  std::vector<std::string> questions;

 private:
  int ends_[2] = {-1, -1};
  std::thread thread_;
};

const std::string kInit = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
const std::string kName = "cmd=my_kvsname kvsname=kvs_7\n";

TEST(PmiSpace, SpeaksTheProtocol) {
  Launcher launcher({kInit, kName, "cmd=put_result rc=0 msg=success\n", "cmd=barrier_out\n",
                     "cmd=get_result rc=0 msg=success value=a=b/c\n", "cmd=finalize_ack\n"});
  {
    const auto space = open_pmi_space(launcher.environment());
    ASSERT_NE(space, nullptr);
    space->put("k", "a=b/c");
    space->meet();
    EXPECT_EQ(space->get("k"), "a=b/c");
  }
  launcher.join();
  EXPECT_THAT(launcher.questions, ElementsAre("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=get_my_kvsname\n",
                                              "cmd=put kvsname=kvs_7 key=k value=a=b/c\n", "cmd=barrier_in\n",
                                              "cmd=get kvsname=kvs_7 key=k\n", "cmd=finalize\n"));
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const DistributedError& error) {
    return error.what();
  }
  return "";
}

TEST(PmiSpace, SaysWhatTheLauncherDoesWrong) {
  Launcher refusing({"cmd=response_to_init pmi_version=2 rc=-1\n"});
  EXPECT_THAT(error_of([&] { open_pmi_space(refusing.environment()); }),
              HasSubstr("it answers \"cmd=init\" with \"cmd=response_to_init pmi_version=2 rc=-1\""));
  Launcher silent({kInit});
  EXPECT_THAT(error_of([&] { open_pmi_space(silent.environment()); }), HasSubstr("give coordinator_address and"));
  Launcher forgetful({kInit, kName, "cmd=get_result rc=-1 msg=key_k_not_found\n", "cmd=finalize_ack\n"});
  EXPECT_THAT(error_of([&] { open_pmi_space(forgetful.environment())->get("k"); }), HasSubstr("key_k_not_found"));
}

TEST(LauncherSpace, IsNotThereWithoutALauncher) {
  const Environment nothing = [](const char*) { return std::nullopt; };
  EXPECT_EQ(open_pmi_space(nothing), nullptr);
  EXPECT_EQ(open_pmix_space(nothing, 0), nullptr);
  const Environment other_rank = [](const char* name) {
    return std::string(name) == "PMIX_RANK" ? std::optional<std::string>("3") : "job";
  };
  EXPECT_EQ(open_pmix_space(other_rank, 0), nullptr);
  Cluster cluster;
  cluster.method = "k8s";
  EXPECT_EQ(share_by_launcher(cluster, "text", std::chrono::seconds(1)), std::nullopt);
}

}  // namespace
}  // namespace shoal::distributed
