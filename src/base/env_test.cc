#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "shoal/error.h"

namespace shoal {
namespace {

constexpr const char* kVariable = "SHOAL_ENV_TEST";

/// Sets the variable for the length of one test.
class Env : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv(kVariable); }
  static void set(const char* value) { setenv(kVariable, value, 1); }
};

template <typename Read>
std::string error_of(Read read) {
  try {
    read();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST_F(Env, UnsetAndEmptyGiveNothing) {
  EXPECT_EQ(env_text(kVariable), std::nullopt);
  set("");
  EXPECT_EQ(env_text(kVariable), std::nullopt);
  EXPECT_EQ(env_int(kVariable, 1, 2), std::nullopt);
  EXPECT_EQ(env_bool(kVariable), std::nullopt);
  EXPECT_EQ(env_seconds(kVariable), std::nullopt);
  EXPECT_EQ(env_choice(kVariable, {"a"}), std::nullopt);
}

TEST_F(Env, IntegersWithinTheirRange) {
  set("1");
  EXPECT_EQ(env_int(kVariable, 1, 8), 1);
  set("8");
  EXPECT_EQ(env_int(kVariable, 1, 8), 8);
  set("-3");
  EXPECT_EQ(env_int(kVariable, -5, 8), -3);
}

TEST_F(Env, MalformedIntegersNameVariableValueAndRange) {
  for (const char* value : {"many", "0", "9", "3x", " 3", "2.5", "99999999999999999999"}) {
    set(value);
    EXPECT_EQ(error_of([] { env_int(kVariable, 1, 8); }),
              "environment variable SHOAL_ENV_TEST: \"" + std::string(value) + "\" is not an integer from 1 to 8");
  }
}

TEST_F(Env, Switches) {
  for (const char* value : {"1", "true", "on"}) {
    set(value);
    EXPECT_EQ(env_bool(kVariable), true) << value;
  }
  for (const char* value : {"0", "false", "off"}) {
    set(value);
    EXPECT_EQ(env_bool(kVariable), false) << value;
  }
  set("yes");
  EXPECT_EQ(error_of([] { env_bool(kVariable); }),
            "environment variable SHOAL_ENV_TEST: \"yes\" is not one of 1, true, on, 0, false, off");
}

TEST_F(Env, Seconds) {
  set("0.5");
  EXPECT_EQ(env_seconds(kVariable), 0.5);
  for (const char* value : {"0", "-1", "inf", "nan", "1s"}) {
    set(value);
    EXPECT_EQ(error_of([] { env_seconds(kVariable); }), "environment variable SHOAL_ENV_TEST: \"" + std::string(value) +
                                                            "\" is not a number of seconds above zero");
  }
}

TEST_F(Env, ChoicesAreExact) {
  set("fast");
  EXPECT_EQ(env_choice(kVariable, {"fast", "exact"}), "fast");
  set("Fast");
  EXPECT_EQ(error_of([] {
              env_choice(kVariable, {"fast", "exact"});
            }),
            "environment variable SHOAL_ENV_TEST: \"Fast\" is not one of fast, exact");
}

TEST_F(Env, BytesTakeBinarySuffixes) {
  const std::pair<const char*, std::size_t> cases[] = {{"1", 1},
                                                       {"1000", 1000},
                                                       {"3KiB", 3072},
                                                       {"512MiB", 512U << 20U},
                                                       {"16GiB", std::size_t{16} << 30U},
                                                       {"2TiB", std::size_t{2} << 40U}};
  for (const auto& [text, bytes] : cases) {
    set(text);
    EXPECT_EQ(env_bytes(kVariable), bytes) << text;
  }
}

TEST_F(Env, BytesAreRefused) {
  for (const char* text : {"0", "-1", "1.5GiB", "16GB", "16 GiB", "GiB", "x", "9223372036854775808", "8388608TiB"}) {
    set(text);
    EXPECT_EQ(error_of([] { env_bytes(kVariable); }),
              std::string("environment variable SHOAL_ENV_TEST: \"") + text +
                  "\" is not a number of bytes above zero and below 2^63, such as 1073741824, 512MiB or 16GiB");
  }
}

}  // namespace
}  // namespace shoal
