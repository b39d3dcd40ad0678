// `shoal run` on several hosts, with a stand-in for ssh that runs the command here, in a clean environment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "launcher/tool.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

/// What sshd and a login shell do with a command. Only the test's mark comes along.
constexpr const char* kSsh = R"(#!/bin/sh
host=$1
shift
cd /
echo "$host" >> "${0%/*}/log"
exec env -i PATH="$PATH" HOST="$host" SHOAL_LAUNCHER_TEST="$SHOAL_LAUNCHER_TEST" sh -c "$*"
)";

class Hosts : public ::testing::Test {
 protected:
  Tool::Options options(const ScratchFile& ssh) const { return {.environment = {"SHOAL_SSH=" + ssh.path()}}; }

  std::vector<std::string> words(std::vector<std::string> before, const std::vector<std::string>& program) const {
    before.insert(before.begin(), {"run", "--hosts", hosts_.path()});
    before.emplace_back("--");
    before.insert(before.end(), program.begin(), program.end());
    return before;
  }
  std::vector<std::string> shell(const std::string& script, const std::vector<std::string>& before = {}) const {
    return words(before, {"sh", "-c", script, "sh"});
  }

  ScratchFile ssh_{kSsh};
  ScratchFile hosts_{"# the first\nalpha slots=2\n\nuser@beta # one\ngamma slots=3\n"};
};

TEST_F(Hosts, ProcessesFillTheSlotsInOrder) {
  const Ended ended = run_tool(
      shell("echo $HOST $SHOAL_RUN_PROCESS_ID/$SHOAL_RUN_NUM_PROCESSES $SHOAL_RUN_LOCAL_INDEX/$SHOAL_RUN_LOCAL_COUNT",
            {"--no-prefix"}),
      options(ssh_));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.sorted_lines(), ElementsAre("alpha 0/6 0/2", "alpha 1/6 1/2", "gamma 3/6 0/3", "gamma 4/6 1/3",
                                                "gamma 5/6 2/3", "user@beta 2/6 0/1"));
  const Ended fewer = run_tool(shell("echo $HOST $SHOAL_RUN_LOCAL_COUNT", {"-n", "2", "--no-prefix"}), options(ssh_));
  EXPECT_THAT(fewer.sorted_lines(), ElementsAre("alpha 2", "alpha 2"));
}

TEST_F(Hosts, TheCoordinatorIsOnTheFirst) {
  const auto addresses = [&](const std::string& n) {
    return run_tool(shell("echo ${SHOAL_RUN_COORDINATOR_ADDRESS%:*} ${SHOAL_RUN_COORDINATOR_ADDRESS##*:}",
                          {"-n", n, "--no-prefix"}),
                    options(ssh_))
        .sorted_lines();
  };
  const auto lines = addresses("3");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines.front(), lines.back());
  EXPECT_TRUE(lines[0].starts_with("alpha ")) << lines[0];
  EXPECT_GT(std::stoi(lines[0].substr(6)), 1023);
  EXPECT_TRUE(addresses("2").at(0).starts_with("127.0.0.1 "));
}

TEST_F(Hosts, ArgumentsFolderAndVariablesArriveAsTheyAre) {
  const std::vector<std::string> arguments = {"a  b", "",     "'",  "\"", "$(id)", "`id`",
                                              "*",    "a\nb", "\\", "-n", "--",    "é\377"};
  std::vector<std::string> program = {
      "sh", "-c", R"(pwd; echo "$SHOAL_MINE|$GIVEN|$PASSED|$NOT_PASSED"; for a in "$@"; do printf '<%s>' "$a"; done)",
      "sh"};
  program.insert(program.end(), arguments.begin(), arguments.end());
  Tool::Options with = options(ssh_);
  with.environment.insert(with.environment.end(), {"SHOAL_MINE=1", "PASSED=$(2)\n'", "NOT_PASSED=3"});
  const Ended ended =
      run_tool(words({"-n", "1", "--no-prefix", "--env", "GIVEN=a\nb", "--env", "PASSED"}, program), with);
  std::string expected = std::filesystem::current_path().string() + "\n1|a\nb|$(2)\n'|\n";
  for (const std::string& argument : arguments) expected += "<" + argument + ">";
  EXPECT_EQ(ended.out, expected);
}

TEST_F(Hosts, OutputAndExitCodesAreThoseOfTheProcesses) {
  const Ended ended =
      run_tool(shell("echo out; echo err >&2; test $SHOAL_RUN_PROCESS_ID = 4 && { sleep 0.5; exit 9; }; sleep 60"),
               options(ssh_));
  EXPECT_EQ(ended.exit_code, 9);
  EXPECT_LT(ended.seconds, 8);
  EXPECT_THAT(ended.sorted_lines(), ElementsAre("[0] out", "[1] out", "[2] out", "[3] out", "[4] out", "[5] out"));
  EXPECT_THAT(ended.err, AllOf(HasSubstr("[5] err\n"), HasSubstr("shoal run: process 4 exited with 9\n")));
}

TEST_F(Hosts, LongLinesComeWhole) {
  const Ended ended = run_tool(
      shell("head -c 1048576 /dev/zero | tr '\\0' $SHOAL_RUN_PROCESS_ID; echo", {"--no-prefix"}), options(ssh_));
  const auto lines = ended.sorted_lines();
  ASSERT_EQ(lines.size(), 6u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_TRUE(lines[i] == std::string(1 << 20, static_cast<char>('0' + i))) << i;
  }
}

TEST_F(Hosts, SignalsArePassedOn) {
  Tool tool(shell("trap 'echo interrupted; exit 0' INT; echo ready; while :; do sleep 0.05; done"), options(ssh_));
  tool.read_until("ready", 6);
  tool.signal(SIGINT);
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.sorted_lines().size(), 12u);
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(500)));
}

TEST_F(Hosts, NothingIsLeftWhenTheToolIsKilled) {
  Tool tool(shell("sleep 60 & echo ready; sleep 60"), options(ssh_));
  tool.read_until("ready", 6);
  EXPECT_GE(tool.num_descendants(), 18);
  tool.signal(SIGKILL);
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(2000)));
}

TEST_F(Hosts, TheEndOfInputEndsTheProcessesOfAnAgent) {
  // The connection ends without a word, and nobody kills the agent.
  const ScratchFile ssh("#!/bin/sh\nshift\n(cat; echo) | setsid sh -c \"$*\"\n");
  Tool tool(shell("trap '' HUP; echo ready; sleep 60", {"-n", "2"}), options(ssh));
  tool.read_until("ready", 2);
  tool.signal(SIGKILL);
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(4000)));
}

TEST_F(Hosts, WhatALoginShellPrintsIsPassedOver) {
  const ScratchFile ssh("#!/bin/sh\nshift\necho 'Welcome!'; echo 'Mind the gap.' >&2\nexec sh -c \"$*\"\n");
  const Ended ended = run_tool(shell("echo out", {"-n", "1"}), options(ssh));
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.out, "[0] out\n");
  EXPECT_EQ(ended.err, "Mind the gap.\n");
}

TEST_F(Hosts, HostsThatCannotBeReachedAreNamed) {
  const ScratchFile ssh(
      "#!/bin/sh\nif [ $1 = gamma ]; then echo refused >&2; exit 255; fi; shift; exec sh -c \"$*\"\n");
  Tool tool(shell("echo out"), options(ssh));
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 255);
  EXPECT_THAT(ended.out, IsEmpty());  // none has started
  EXPECT_THAT(ended.err, AllOf(HasSubstr("refused\n"), HasSubstr("shoal run: host gamma: `shoal agent` could not be "
                                                                 "started there")));
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(2000)));

  Tool::Options elsewhere = options(ssh_);
  elsewhere.environment.emplace_back("SHOAL_REMOTE_TOOL=/no/such/shoal");
  EXPECT_THAT(run_tool(shell("echo out"), elsewhere).err, HasSubstr("SHOAL_REMOTE_TOOL names another"));
  EXPECT_THAT(run_tool(shell("echo out"), {.environment = {"SHOAL_SSH=/no/such/ssh"}}).err,
              HasSubstr("shoal run: host alpha: cannot run \"/no/such/ssh\""));
}

TEST_F(Hosts, OtherVersionsAreToldApart) {
  const ScratchFile ssh("#!/bin/sh\nprintf '\\001shoal agent 9.9.9\\n'; sleep 60\n");
  const Ended ended = run_tool(shell("echo out"), options(ssh));
  // Whichever host answers first.
  EXPECT_THAT(ended.err, HasSubstr(": Shoal 9.9.9 is installed there, this is "));
}

TEST_F(Hosts, AHostThatIsLostEndsTheJob) {
  // Its connection breaks while its processes run.
  const ScratchFile ssh(R"(#!/bin/sh
host=$1
shift
if [ "$host" = gamma ]; then timeout -s KILL 2 sh -c "$*"; else exec sh -c "$*"; fi
)");
  Tool tool(shell("echo ready; sleep 60"), options(ssh));
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 255);
  EXPECT_THAT(ended.err, HasSubstr("shoal run: host gamma: its connection has ended\n"));
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(3000)));
}

TEST_F(Hosts, AProgramThatIsMissingThereIsToldWithItsHost) {
  const Ended ended = run_tool(words({}, {"no_such_program"}), options(ssh_));
  EXPECT_EQ(ended.exit_code, 127);
  EXPECT_THAT(ended.err,
              MatchesRegex("shoal run: host (alpha|user@beta|gamma): cannot run \"no_such_program\" in .*\n"));
}

TEST_F(Hosts, SecretsAreInNoCommandLine) {
  Tool tool(shell("echo secret=$SHOAL_SECRET; sleep 60", {"--no-prefix", "--env", "PASSWORD=very_secret_1234"}),
            options(ssh_));
  const std::string text = tool.read_until("\n", 6);
  const std::string secret = text.substr(text.find('=') + 1, 64);
  EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_FALSE(Tool::is_in_a_command_line(secret));
}

TEST_F(Hosts, FilesThatAreWrongAreRefused) {
  const auto error_for = [](const std::string& text) {
    const ScratchFile hosts(text);
    const Ended ended = run_tool({"run", "--hosts", hosts.path(), "--", "true"});
    EXPECT_EQ(ended.exit_code, 1);
    return ended.err;
  };
  EXPECT_THAT(error_for("alpha\n-oProxyCommand=touch\n"),
              HasSubstr(":2: \"-oProxyCommand=touch\": the name of a host does not begin with '-'"));
  EXPECT_THAT(error_for("alpha slots=0\n"), HasSubstr(":1: \"alpha slots=0\": \"slots=0\" is not slots=K"));
  EXPECT_THAT(error_for("alpha 4\n"), HasSubstr("\"4\" is not slots=K"));
  EXPECT_THAT(error_for("# none\n"), HasSubstr("there is no host in it"));
  EXPECT_THAT(run_tool({"run", "--hosts", "/no/such/file", "--", "true"}).err,
              HasSubstr("cannot read \"/no/such/file\""));
  EXPECT_THAT(run_tool(shell("true", {"-n", "7"}), options(ssh_)).err, HasSubstr("take 6 processes in all"));
}

}  // namespace
}  // namespace shoal
