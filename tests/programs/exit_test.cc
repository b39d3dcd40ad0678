// Programs that end while something is under way: each is this test program, started anew with one test.
#include <gtest/gtest.h>
#include <shoal/shoal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/test_command.h"

namespace shoal {
namespace {

// Without files of machine code, all is compiled.
void expect_to_end(const std::string& program) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (int i = 0; i < 40; ++i) {
    // The leak checker of the address sanitizer fails where a library was loaded while the process exits.
    const CommandOutcome outcome =
        run_command({"env", "SHOAL_CACHE_DIR=", "ASAN_OPTIONS=detect_leaks=0", self, "--gtest_also_run_disabled_tests",
                     "--gtest_filter=ExitProgram.DISABLED_" + program});
    ASSERT_EQ(outcome.code, 0) << "the run of number " << i << ":\n" << outcome.output;
  }
}

TEST(ExitProgram, DISABLED_Small) {
  const Array x = arange(8.0F);
  for (int i = 0; i < 10; ++i) EXPECT_EQ((x * i + 1)[7].item<float>(), static_cast<float>(7 * i + 1));
}

TEST(ExitProgram, DISABLED_Large) {
  const Array x = ones({1 << 21});
  const auto f = jit([](Array v) { return sin(v) * exp(v) + log1p(v); });
  f(x);
  jit([](Array v) { return nn::softmax(v); })(x.reshape({1 << 10, 1 << 11}));
}

TEST(ExitProgram, DISABLED_Products) {
  const Array x = ones({700, 700});
  matmul(x, x);
  matmul(x.astype(bfloat16), x.astype(bfloat16));
  matmul(x.astype(bfloat16), x.astype(bfloat16));
}

// Of the sizes that oneDNN takes, in all dtypes that it has instructions for on some machine: the first ones of each
// kind are under way when the program ends.
TEST(ExitProgram, DISABLED_SmallProducts) {
  const Array x = ones({256, 128, 128});
  for (const Dtype dtype : {float32, bfloat16, int8, uint8}) {
    const Array y = x.astype(dtype);
    matmul(y, y);
    matmul(y, y.transpose({0, 2, 1}));
    einsum("bij,bik->bjk", {y, y});
    einsum("bij,bjk->bki", {y, y});
  }
}

TEST(ExitProgram, DISABLED_Sorts) { sort(sin(arange(300'000.0F))); }

// The child has none of the threads that compute and compile.
TEST(ExitProgram, DISABLED_Fork) {
  EXPECT_EQ((arange(8.0F) * 2)[7].item<float>(), 14);
  const Array large = sin(ones({1 << 21}));
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(large.shape()[0], 1 << 21);
}

TEST(Exit, WhileSmallLoopsAreCompiled) { expect_to_end("Small"); }
TEST(Exit, WhileLargeLoopsRun) { expect_to_end("Large"); }
TEST(Exit, WhileProductsRun) { expect_to_end("Products"); }
TEST(Exit, WhileSmallProductsRun) { expect_to_end("SmallProducts"); }
TEST(Exit, WhileArraysAreSorted) { expect_to_end("Sorts"); }
TEST(Exit, OfAForkedChild) { expect_to_end("Fork"); }

}  // namespace
}  // namespace shoal
