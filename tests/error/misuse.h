// Checks what misuse of the library throws.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "base/shape_mismatch.h"
#include "frontend/array/tracer_errors.h"
#include "runtime/result_checks.h"
#include "shoal/shoal.h"

namespace shoal::test {

inline std::vector<std::string> parts_of(std::initializer_list<std::string> parts) { return parts; }

/// The class of an exception as users know it: what only bindings tell apart counts as the public class.
inline std::string class_of(const Error& error) {
  const bool is_of_tracer =
      dynamic_cast<const LeakedTracer*>(&error) != nullptr || dynamic_cast<const ValueOfTracer*>(&error) != nullptr;
  if (is_of_tracer || dynamic_cast<const NotFinite*>(&error) != nullptr) return typeid(InvalidState).name();
  return dynamic_cast<const ShapeMismatch*>(&error) != nullptr ? typeid(InvalidArgument).name() : typeid(error).name();
}

/// Expects `misuse` to throw exactly E, with a message that has all of `parts` and, unless `line` is 0, the place
/// `file`:`line` as the user's.
template <class E, class F>
void expect_misuse(const char* file, unsigned line, const std::vector<std::string>& parts, F&& misuse) {
  try {
    misuse();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(class_of(error), typeid(E).name()) << message;
    for (const std::string& part : parts) EXPECT_THAT(message, testing::HasSubstr(part));
    if (line == 0) {
      EXPECT_FALSE(error.where().has_value()) << message;
    } else if (error.where()) {
      EXPECT_EQ(error.where()->line(), line) << message;
      EXPECT_STREQ(error.where()->file_name(), file) << message;
    } else {
      ADD_FAILURE() << "the message has no line: " << message;
    }
    return;
  } catch (const std::exception& error) {
    FAIL() << "not an exception of this library: " << error.what();
  }
  FAIL() << "nothing was thrown";
}

inline Mesh mesh_4x2() { return make_mesh({4, 2}, {"x", "y"}); }
inline Mesh mesh_8() { return make_mesh({8}, {"i"}); }
inline Array put(const Array& array, const Mesh& mesh, const PartitionSpec& spec) {
  return device_put(array, NamedSharding(mesh, spec));
}

}  // namespace shoal::test

/// EXPECT_MISUSE(InvalidArgument, ("what the message says", "…"), statement): the statement throws, and names the line
/// where this stands.
#define EXPECT_MISUSE(E, parts, ...) EXPECT_MISUSE_AT(__LINE__, E, parts, __VA_ARGS__)

/// The same where the exception names another line of this file: that where the function was made.
#define EXPECT_MISUSE_AT(line, E, parts, ...)                                                                       \
  do {                                                                                                              \
    SCOPED_TRACE(#__VA_ARGS__);                                                                                     \
    shoal::test::expect_misuse<E>(__FILE__, static_cast<unsigned>(line), shoal::test::parts_of(SHOAL_BRACED parts), \
                                  [&] { static_cast<void>(__VA_ARGS__); });                                         \
  } while (false)

/// The same where C++ leaves no place for a line, as in a conversion.
#define EXPECT_MISUSE_ANYWHERE(E, parts, ...) EXPECT_MISUSE_AT(0, E, parts, __VA_ARGS__)

#define SHOAL_BRACED(...) \
  { __VA_ARGS__ }
