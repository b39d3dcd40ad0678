// Meshes of made-up devices, and errors as text, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "shoal/error.h"
#include "shoal/mesh.h"

namespace shoal::test_support {

inline std::vector<Device> devices_of(const std::vector<std::int64_t>& ids) {
  std::vector<Device> out;
  for (std::int64_t id : ids) out.push_back(Device{.id = id});
  return out;
}

/// CPU devices 0 to count - 1.
inline std::vector<Device> cpus(std::int64_t count) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return devices_of(ids);
}

/// A mesh with axes "x", "y", "z" of these sizes over the first devices, or over those with the given ids.
inline Mesh grid(const Shape& sizes, const std::vector<std::int64_t>& ids = {}) {
  static const std::vector<std::string> kNames = {"x", "y", "z"};
  return Mesh(ids.empty() ? cpus(num_elements(sizes)) : devices_of(ids), sizes,
              {kNames.begin(), kNames.begin() + static_cast<std::ptrdiff_t>(sizes.size())});
}

/// The message of the error of exactly type E that `action` throws, without the user's line, which must be in a test.
template <class E, class Action>
std::string message_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    EXPECT_EQ(typeid(error), typeid(E)) << error.what();
    const std::string text = error.what();
    const std::size_t end = text.find("\n  at ");
    EXPECT_TRUE(end != std::string::npos && text.find("_test.cc:", end) != std::string::npos) << text;
    return text.substr(0, end);
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

}  // namespace shoal::test_support
