// What a user waits for before anything is fast: from the start of a process to its first result, and from the first
// call of a function to its result, with nothing compiled before. Each measurement is a process of its own, which
// starts without compiled code on disk.
//
// Spawn is the limit of the first: a process that does nothing.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt.h"
#include "support.h"

namespace shoal::bench {
namespace {

using Clock = std::chrono::steady_clock;

// ---- In the new process: returns 0 if all is well, and writes the seconds that the parent asks for to standard
// output.

template <class F>
Array timed(F&& call) {
  const auto begin = Clock::now();
  Array y = call();
  y.block_until_ready();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  fmt::print("{}", seconds);
  return y;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6; }

int first_result() {
  const Array x = device_put(arange(64.0F), NamedSharding(eight_devices(), P("x")));
  const std::vector<float> y = jit([](Array v) { return v * 2 + 1; })(x).to_vector<float>();
  return y.size() == 64 && y[0] == 1 && y[63] == 127 ? 0 : 1;
}

int first_sigmoid() {
  const Array x = device_put(arange(1024.0F) / 1024, eight_devices().devices()[0]);
  x.block_until_ready();
  const auto f = jit([](Array v) { return 0.5 * (tanh(0.5 * v) + 1); });
  const std::vector<float> y = timed([&] { return f(x); }).to_vector<float>();
  return near(y[512], 1 / (1 + std::exp(-0.5))) ? 0 : 1;
}

// GPT on a mesh of data × model × rest devices, over the last of which nothing is split.
int first_gpt(int data, int model, int rest) {
  set_num_cpu_devices(data * model * rest);
  const Mesh mesh = make_mesh({data, model, rest}, {"data", "model", "rest"});
  RandomWeights weights;
  const Gpt gpt = make_gpt([&](GptKind kind, const Dims& shape, const PartitionSpec& spec) {
    return weights(kind, shape, NamedSharding(mesh, spec));
  });
  const Array tokens = device_put(array(random_tokens()).reshape({kBatch, kSequence}), NamedSharding(mesh, P("data")));
  tokens.block_until_ready();
  const auto f = jit(gpt_forward);
  const Array y = timed([&] { return f(gpt, tokens); });
  return all(isfinite(y)).item<bool>() ? 0 : 1;  // gpt_bench checks the numbers.
}

int child(const std::vector<std::string>& arguments) {
  if (arguments[0] == "nothing") return 0;
  if (arguments[0] == "first_result") return first_result();
  if (arguments[0] == "sigmoid") return first_sigmoid();
  return first_gpt(std::stoi(arguments.at(1)), std::stoi(arguments.at(2)), std::stoi(arguments.at(3)));
}

// ---- In the parent.

constexpr const char* kChild = "--child";

// Runs this program as a child; what it wrote. Throws if it fails.
std::string run_child(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/proc/self/exe", kChild});
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t process = 0;
  const int failure = posix_spawn(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string written;
  char buffer[64];
  for (ssize_t n; failure == 0 && (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    written.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  if (failure != 0 || waitpid(process, &status, 0) < 0 || status != 0) {
    throw std::runtime_error(fmt::format("the process {} failed", arguments[2]));
  }
  return written;
}

// A folder for compiled code that is empty for each process.
class EmptyCache {
 public:
  EmptyCache() : folder_(std::filesystem::temp_directory_path() / fmt::format("shoal_startup_bench_{}", getpid())) {
    setenv("SHOAL_CACHE_DIR", folder_.c_str(), 1);
    clear();
  }
  ~EmptyCache() { std::filesystem::remove_all(folder_); }
  void clear() const {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

 private:
  std::filesystem::path folder_;
};

void whole_process(benchmark::State& state, const std::string& work) try {
  for (auto _ : state) run_child({work});
} catch (const std::exception& error) {
  state.SkipWithError(error.what());
}
BENCHMARK_CAPTURE(whole_process, Spawn, "nothing")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(whole_process, FirstResultOverEight, "first_result")->UseRealTime()->Unit(benchmark::kMillisecond);

void first_call(benchmark::State& state, const std::vector<std::string>& arguments) try {
  const EmptyCache cache;
  for (auto _ : state) {
    cache.clear();
    state.SetIterationTime(std::stod(run_child(arguments)));
  }
} catch (const std::exception& error) {
  state.SkipWithError(error.what());
}
void slow(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);
}
BENCHMARK_CAPTURE(first_call, Sigmoid, {"sigmoid"})->Apply(slow);
BENCHMARK_CAPTURE(first_call, Gpt, {"gpt", "1", "1", "1"})->Apply(slow);
BENCHMARK_CAPTURE(first_call, GptOver2x4, {"gpt", "2", "4", "1"})->Apply(slow);
BENCHMARK_CAPTURE(first_call, GptOver2x4x512, {"gpt", "2", "4", "512"})->Apply(slow);

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], shoal::bench::kChild) == 0) {
    return shoal::bench::child({argv + 2, argv + argc});
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
