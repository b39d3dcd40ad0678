// `shoal run` on this host.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "launcher/tool.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// `shoal run -n N options... -- sh -c script sh`.
std::vector<std::string> shell(int n, const std::string& script, std::vector<std::string> options = {}) {
  std::vector<std::string> words = {"run", "-n", std::to_string(n)};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", script, "sh"});
  return words;
}

constexpr const char* kId = "$SHOAL_RUN_PROCESS_ID";

TEST(Run, LinesTellTheirProcess) {
  const Ended ended = run_tool(shell(3, std::string("echo one ") + kId + "; echo; echo wrong >&2; printf last"));
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.sorted_lines(), ElementsAre("[0] ", "[0] last", "[0] one 0", "[1] ", "[1] last", "[1] one 1",
                                                "[2] ", "[2] last", "[2] one 2"));
  EXPECT_EQ(ended.err.size(), std::string("[0] wrong\n[1] wrong\n[2] wrong\n").size());
}

TEST(Run, WithoutPrefixTheBytesStayWhatTheyAre) {
  const Ended ended = run_tool(shell(1, R"(printf 'a\0b\377\nlast')", {"--no-prefix"}));
  EXPECT_EQ(ended.out, std::string("a\0b\377\nlast", 9));
}

TEST(Run, LongLinesAreNotMixed) {
  const Ended ended = run_tool(
      shell(4, std::string("for i in 1 2 3; do head -c 1048576 /dev/zero | tr '\\0' ") + kId + "; echo; done"));
  const auto lines = ended.sorted_lines();
  ASSERT_EQ(lines.size(), 12u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char process = static_cast<char>('0' + i / 3);
    EXPECT_TRUE(lines[i] == std::string("[") + process + "] " + std::string(1 << 20, process)) << i;
  }
}

TEST(Run, SixteenProcessesPrintWholeLines) {
  const Ended ended = run_tool(
      shell(16, std::string("i=0; while [ $i -lt 100 ]; do printf 'line '; echo $i of ") + kId + "; i=$((i+1)); done"));
  EXPECT_EQ(ended.exit_code, 0);
  const auto lines = ended.sorted_lines();
  const std::set<std::string> different(lines.begin(), lines.end());
  EXPECT_EQ(lines.size(), 1600u);
  EXPECT_EQ(different.size(), 1600u);
  const std::regex whole(R"(\[(\d+)\] line \d+ of \1)");
  for (const std::string& line : lines) EXPECT_TRUE(std::regex_match(line, whole)) << line;
}

TEST(Run, LogsHoldWhatEachProcessPrinted) {
  const ScratchFile scratch("");
  const std::string logs = scratch.folder() / "new" / "logs";
  run_tool(shell(2, std::string("echo out ") + kId + "; echo err >&2", {"--log-dir", logs}));
  for (const std::string process : {"0", "1"}) {
    std::ifstream file(logs + "/process_" + process + ".log");
    std::multiset<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.insert(line);
    EXPECT_THAT(lines, ElementsAre("err", "out " + process));
  }
}

// Where others may write to the folder, the names of the logs are known before they are there.
TEST(Run, LogsFollowNoLinks) {
  const ScratchFile scratch("dear");
  std::filesystem::create_symlink(scratch.path(), scratch.folder() / "process_0.log");
  const Ended ended = run_tool(shell(1, "echo spoiled", {"--log-dir", scratch.folder()}));
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("it is a link, which is not followed"));
  std::ifstream file(scratch.path());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "dear");
}

TEST(Run, JsonTellsLinesAndEvents) {
  const Ended ended = run_tool(shell(2, std::string(R"(printf '"\377\n'; echo e >&2; exit )") + kId, {"--json"}));
  EXPECT_EQ(ended.exit_code, 1);
  std::map<std::string, int> events;
  for (const std::string& line : ended.sorted_lines()) {
    const auto event = nlohmann::json::parse(line);
    ++events[event.at("event")];
    if (event.at("event") == "output") {
      EXPECT_EQ(event.at("text"), event.at("stream") == "stderr" ? "e" : "\"\xEF\xBF\xBD");
    } else if (event.at("event") == "exit") {
      // The failure of process 1 may find process 0 still there, which is stopped then.
      EXPECT_TRUE(event.at("code") == event.at("process") || (event.at("process") == 0 && event.at("code") == 143));
    } else if (event.at("event") == "end") {
      EXPECT_EQ(event.at("code"), 1);
    }
  }
  EXPECT_EQ(events["start"], 2);
  EXPECT_EQ(events["exit"], 2);
  EXPECT_EQ(events["end"], 1);
  EXPECT_GE(events["output"], 2);
}

TEST(Run, ArgumentsArriveAsTheyAre) {
  const std::vector<std::string> arguments = {"a  b", "",     "'",  "\"", "$(id)", "`id`",
                                              "*",    "a\nb", "\\", "-n", "--",    "é"};
  auto words = shell(1, R"(for a in "$@"; do printf '<%s>' "$a"; done)", {"--no-prefix"});
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::string expected;
  for (const std::string& argument : arguments) expected += "<" + argument + ">";
  EXPECT_EQ(run_tool(words).out, expected);
}

TEST(Run, TheSeparatorMayBeLeftOut) {
  EXPECT_EQ(run_tool({"run", "-n", "1", "--no-prefix", "echo", "-n", "a", "--", "--json"}).out, "a -- --json");
}

TEST(Run, ProcessesKnowTheirPlace) {
  const Ended ended = run_tool(
      shell(4,
            "echo $SHOAL_RUN_PROCESS_ID/$SHOAL_RUN_NUM_PROCESSES $SHOAL_RUN_LOCAL_INDEX/$SHOAL_RUN_LOCAL_COUNT "
            "$SHOAL_NUM_CPU_DEVICES $GIVEN",
            {"--devices-per-process", "3", "--env", "GIVEN=a b", "--no-prefix"}));
  EXPECT_THAT(ended.sorted_lines(), ElementsAre("0/4 0/4 3 a b", "1/4 1/4 3 a b", "2/4 2/4 3 a b", "3/4 3/4 3 a b"));

  const Ended same =
      run_tool(shell(2, "echo $SHOAL_RUN_COORDINATOR_ADDRESS $SHOAL_RUN_JOB_ID $SHOAL_SECRET", {"--no-prefix"}));
  const auto lines = same.sorted_lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(R"(127\.0\.0\.1:\d+ [0-9a-f]{32} [0-9a-f]{64})"))) << lines[0];
  const Ended other = run_tool(shell(2, "echo $SHOAL_RUN_JOB_ID $SHOAL_SECRET", {"--no-prefix"}));
  EXPECT_THAT(lines[0], Not(HasSubstr(other.sorted_lines()[0])));
}

// The tool says nothing of threads: processes divide the cores when they meet, as under every launcher.
TEST(Run, LeavesTheNumberOfThreadsToItsProcesses) {
  const auto threads = [](const std::string& environment) {
    return run_tool(shell(2, "echo threads $SHOAL_NUM_THREADS", {"--no-prefix"}), {{environment}}).sorted_lines();
  };
  EXPECT_THAT(threads("SHOAL_NUM_THREADS="), ElementsAre("threads", "threads"));
  EXPECT_THAT(threads("SHOAL_NUM_THREADS=7"), ElementsAre("threads 7", "threads 7"));
}

/// Binds to a port of this host, and listens. 0 if it could, else what went wrong.
int try_to_listen(int port, bool reuse) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = reuse ? 1 : 0;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool could =
      bind(descriptor, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0 && listen(descriptor, 1) == 0;
  const int error = could ? 0 : errno;
  close(descriptor);
  return error;
}

TEST(Run, ThePortStaysFreeForTheCoordinator) {
  Tool tool(shell(1, "echo $SHOAL_RUN_COORDINATOR_ADDRESS; sleep 60", {"--no-prefix"}));
  const std::string& text = tool.read_until("\n");
  const int port = std::stoi(text.substr(text.find(':') + 1));
  EXPECT_EQ(try_to_listen(port, false), EADDRINUSE);
  EXPECT_EQ(try_to_listen(port, true), 0);
  EXPECT_EQ(try_to_listen(port, true), 0);
}

TEST(Run, StandardInputIsThatOfProcessZero) {
  EXPECT_THAT(run_tool(shell(2, "cat"), {.input = "a\nb\n"}).sorted_lines(), ElementsAre("[0] a", "[0] b"));
  const Ended closed = run_tool(shell(2, "cat; echo end"), {.close_input = true});
  EXPECT_EQ(closed.exit_code, 0);
  EXPECT_THAT(closed.sorted_lines(), ElementsAre("[0] end", "[1] end"));
}

TEST(Run, TheFirstFailureIsTheExitCode) {
  const Ended ended = run_tool(shell(3, std::string("test ") + kId + " = 1 && exit 7; sleep 60"));
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_LT(ended.seconds, 5);
  EXPECT_EQ(ended.err, "shoal run: process 1 exited with 7\n");

  const Ended killed = run_tool(shell(2, std::string("test ") + kId + " = 0 && kill -SEGV $$; sleep 60"));
  EXPECT_EQ(killed.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(killed.err, HasSubstr("process 0 was ended by signal 11"));
}

TEST(Run, ProgramsThatCannotBeRunAreToldAsShellsDo) {
  const Ended missing = run_tool({"run", "-n", "2", "--", "no_such_program"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.err, "shoal run: cannot run \"no_such_program\": No such file or directory\n");
  EXPECT_EQ(run_tool({"run", "-n", "2", "--", "/etc/passwd"}).exit_code, 126);
  EXPECT_THAT(run_tool({"run", "-n", "2"}).err, HasSubstr("the program is missing"));
  EXPECT_THAT(run_tool({"run", "--", "true"}).err, HasSubstr("-n is needed"));
  EXPECT_NE(run_tool({"run", "-n", "0", "--", "true"}).exit_code, 0);
  EXPECT_THAT(run_tool({"run", "-n", "1", "--env", "NOT_SET_HERE", "--", "true"}).err, HasSubstr("is not set here"));
}

TEST(Run, WhoIgnoresSigtermIsKilled) {
  // Process 1 fails once process 0 is deaf.
  const ScratchFile scratch("");
  const std::string ready = scratch.folder() / "ready";
  const std::string script = "if [ $SHOAL_RUN_PROCESS_ID = 0 ]; then trap '' TERM; touch " + ready +
                             "; while :; do sleep 1; done; fi; until [ -e " + ready + " ]; do sleep 0.01; done; exit 3";
  Tool tool(shell(2, script));
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_GE(ended.seconds, 4);
  EXPECT_LT(ended.seconds, 6);
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(0)));

  std::filesystem::remove(ready);
  EXPECT_LT(run_tool(shell(2, script, {"--grace", "0.2"})).seconds, 2);
}

TEST(Run, AnInterruptArrivesOnceAndEndsAll) {
  Tool tool(shell(3, "trap 'echo interrupted; exit 0' INT; echo ready; while :; do sleep 0.05; done"));
  tool.read_until("ready", 3);
  tool.signal(SIGINT);
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.sorted_lines(), ElementsAre("[0] interrupted", "[0] ready", "[1] interrupted", "[1] ready",
                                                "[2] interrupted", "[2] ready"));
  EXPECT_THAT(ended.err, IsEmpty());
}

TEST(Run, AnInterruptThatIsIgnoredEndsAllWithinFiveSeconds) {
  Tool tool(shell(2, "trap '' INT TERM; echo ready; while :; do sleep 1; done"));
  tool.read_until("ready", 2);
  const auto start = std::chrono::steady_clock::now();
  tool.signal(SIGINT);
  EXPECT_EQ(tool.wait().exit_code, 128 + SIGKILL);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(0)));
}

TEST(Run, ASecondInterruptKills) {
  Tool tool(shell(2, "trap '' INT TERM; echo ready; while :; do sleep 1; done", {"--grace", "60"}));
  tool.read_until("ready", 2);
  tool.signal(SIGINT);
  usleep(100'000);  // two that come together are one
  tool.signal(SIGINT);
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_LT(ended.seconds, 5);
}

TEST(Run, OtherSignalsArePassedOn) {
  Tool tool(shell(2, "trap 'echo usr1; exit 0' USR1; echo ready; while :; do sleep 0.05; done"));
  tool.read_until("ready", 2);
  tool.signal(SIGUSR1);
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.sorted_lines(), ElementsAre("[0] ready", "[0] usr1", "[1] ready", "[1] usr1"));
}

TEST(Run, NothingIsLeftWhenTheToolIsKilled) {
  Tool tool(shell(4, "trap '' INT TERM HUP; sleep 60 & sleep 60 > /dev/null & echo ready; while :; do sleep 1; done"));
  tool.read_until("ready", 4);
  EXPECT_GE(tool.num_descendants(), 12);
  tool.signal(SIGKILL);
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(2000)));
}

TEST(Run, NothingIsLeftOfWhatProcessesLeave) {
  Tool tool(shell(2, "sleep 60 & trap '' TERM; (while :; do sleep 1; done) > /dev/null 2>&1 & echo done"));
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_LT(ended.seconds, 5);
  EXPECT_THAT(ended.sorted_lines(), ElementsAre("[0] done", "[1] done"));
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(500)));
}

TEST(Run, EndsWhenNobodyReadsItsOutput) {
  Tool tool(shell(2, "while :; do echo line; done"));
  tool.read_until("line");
  tool.stop_reading();
  EXPECT_EQ(tool.wait().exit_code, 128 + SIGPIPE);
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(0)));
}

TEST(Run, AnInterruptGetsThroughWhenOutputIsStuck) {
  Tool tool(shell(2, "while :; do echo line; done"));
  tool.read_until("line");
  usleep(200'000);  // the pipe fills
  const auto start = std::chrono::steady_clock::now();
  tool.signal(SIGINT);
  EXPECT_TRUE(tool.descendants_end_within(milliseconds(5000)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(tool.wait().exit_code, 128 + SIGINT);
}

TEST(Run, TheSecretIsInNoCommandLine) {
  Tool tool(shell(2, "echo secret=$SHOAL_SECRET; sleep 60", {"--no-prefix"}));
  const std::string text = tool.read_until("\n", 2);
  const std::string secret = text.substr(text.find('=') + 1, 64);
  EXPECT_TRUE(Tool::is_in_a_command_line("echo secret="));  // it looks in the right place
  EXPECT_FALSE(Tool::is_in_a_command_line(secret));
}

// ---- Restarts.

TEST(Run, AJobThatFailsIsStartedAgainUnderANewSecret) {
  const std::string script =
      "echo run $SHOAL_RUN_RESTART of secret $SHOAL_SECRET; [ $SHOAL_RUN_RESTART = 0 ] && kill -9 $$; "
      "[ $SHOAL_RUN_RESTART = 1 ] && exit 3; exit 0";
  const Ended ended = run_tool(shell(1, script, {"--restarts", "5", "--no-prefix"}));
  EXPECT_EQ(ended.exit_code, 0);
  const auto lines = ended.sorted_lines();
  ASSERT_EQ(lines.size(), 3u);
  std::set<std::string> secrets;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], testing::StartsWith("run " + std::to_string(i) + " of secret "));
    secrets.insert(lines[i].substr(lines[i].rfind(' ')));
  }
  EXPECT_EQ(secrets.size(), 3u);
  EXPECT_THAT(ended.err,
              HasSubstr("process 0 was ended by signal 9 (Killed)\nshoal run: the job is started again, 1 of 5"));
  EXPECT_THAT(ended.err, HasSubstr("process 0 exited with 3\nshoal run: the job is started again, 2 of 5"));
}

TEST(Run, RestartsHaveAnEnd) {
  const Ended ended = run_tool(shell(2, "echo x; exit 5", {"--restarts", "2", "--no-prefix"}));
  EXPECT_EQ(ended.exit_code, 5);
  EXPECT_THAT(ended.err, HasSubstr("started again, 2 of 2"));
  EXPECT_THAT(ended.err, Not(HasSubstr("started again, 3")));
  EXPECT_EQ(run_tool(shell(1, "exit 5")).exit_code, 5);
}

// A job that has written checkpoints and comes no further is given up: what fails at one step fails there again.
TEST(Run, RestartsStopWhereThereIsNoProgress) {
  const std::string stuck = "echo 7 > $SHOAL_RUN_PROGRESS; echo run; exit 4";
  const Ended ended = run_tool(shell(1, stuck, {"--restarts", "9", "--no-prefix"}));
  EXPECT_EQ(ended.exit_code, 4);
  EXPECT_EQ(ended.sorted_lines().size(), 3u);
  EXPECT_THAT(ended.err, HasSubstr("two runs in a row have failed without a new checkpoint"));
  const std::string moving =
      "echo $SHOAL_RUN_RESTART > $SHOAL_RUN_PROGRESS; echo run; [ $SHOAL_RUN_RESTART = 6 ] || exit 4";
  const Ended moved = run_tool(shell(1, moving, {"--restarts", "9", "--no-prefix"}));
  EXPECT_EQ(moved.exit_code, 0);
  EXPECT_EQ(moved.sorted_lines().size(), 7u);
}

TEST(Run, AnInterruptedJobIsNotStartedAgain) {
  Tool tool(shell(1, "trap 'exit 3' INT; echo ready; while :; do sleep 0.05; done", {"--restarts", "5"}));
  tool.read_until("ready", 1);
  tool.signal(SIGINT);
  const Ended ended = tool.wait();
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.err, Not(HasSubstr("started again")));
}

}  // namespace
}  // namespace shoal
