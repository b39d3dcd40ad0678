#include "distributed/net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "shoal/error.h"

namespace shoal::distributed {
namespace {

using ::testing::HasSubstr;

std::chrono::steady_clock::time_point soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(2); }

TEST(Net, ResolvesAllNamesOfAHostInOrder) {
  const auto endpoints = resolve(parse_address("[127.0.0.3,::1,127.0.0.2]:7", "address"));
  ASSERT_EQ(endpoints.size(), 3u);
  EXPECT_EQ(endpoints[0].family(), AF_INET);
  EXPECT_EQ(endpoints[1].family(), AF_INET6);
  EXPECT_EQ(resolve({"no.such.host.invalid,127.0.0.1", 7}).size(), 1u);
  try {
    resolve({"no.such.host.invalid,nor.this.invalid", 7});
    ADD_FAILURE() << "names that are nobody's";
  } catch (const DistributedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"no.such.host.invalid\" cannot be resolved"));
    EXPECT_THAT(error.what(), HasSubstr("\"nor.this.invalid\" cannot be resolved"));
  }
}

TEST(Net, SaysWhereAConnectionLed) {
  std::uint16_t port = 0;
  {
    const Socket free = listen_at({"127.0.0.1", 0});
    port = local_address(free.get()).port;
  }
  std::string why;
  EXPECT_FALSE(connect_to(resolve({"127.0.0.1", port}).front(), soon(), why));
  EXPECT_EQ(why, "127.0.0.1: Connection refused");
  EXPECT_FALSE(connect_to(resolve({"127.0.1.1", port}).front(), soon(), why));
  EXPECT_EQ(why, "127.0.1.1 (this host itself): Connection refused");
}

TEST(Net, ListensAndConnectsByIpv6) {
  Socket listener;
  try {
    listener = listen_at({"::1", 0});
  } catch (const DistributedError& error) {
    GTEST_SKIP() << "this host has no IPv6: " << error.what();
  }
  const Address address = local_address(listener.get());
  EXPECT_EQ(address.host, "::1");
  std::string why;
  const Socket connected = connect_to(resolve(address).front(), soon(), why);
  EXPECT_TRUE(connected) << why;
  EXPECT_EQ(remote_address(connected.get()), address);
}

TEST(Net, TellsOfAPortThatIsTaken) {
  const Socket listener = listen_at({"127.0.0.1", 0});
  const Address taken = local_address(listener.get());
  try {
    listen_at(taken);
    ADD_FAILURE() << "two listen at one port";
  } catch (const DistributedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot listen at " + to_string(taken)));
    EXPECT_THAT(error.what(), HasSubstr("uses the port: choose another"));
  }
}

}  // namespace
}  // namespace shoal::distributed
