#include "passes/open_keys.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "ops/table.h"
#include "passes/dce.h"

namespace shoal {
namespace {

std::string opened(std::string_view text) {
  const Graph graph = parse_graph(text, find_op);
  verify(graph, "traced");
  const Graph result = dce(open_keys(graph));
  verify(result, "opened");
  return to_text(result);
}

TEST(OpenKeys, KeysOfOneWordAreNumbers) {
  EXPECT_EQ(opened(R"(graph "main"(%0: key_fry[4]) {
  %1: key_fry[2] = slice(%0) {limits = (2), starts = (0), strides = (1)}
  %2: u32[2,2] = bitcast(%1) {dtype = u32}
  return %1, %2
})"),
            R"(graph "main"(%0: u64[4]) {
  %1: u64[2] = slice(%0) {limits = (2), starts = (0), strides = (1)}
  %2: u32[2,2] = bitcast(%1) {dtype = u32}
  return %1, %2
})");
}

TEST(OpenKeys, KeysOfTwoWordsAreTwoValues) {
  EXPECT_EQ(opened(R"(graph "main"(%0: key_rbg[2,3]) {
  %1: key_rbg[3,2] = transpose(%0) {perm = (1, 0)}
  return %1
})"),
            R"(graph "main"(%0: c128[2,3]) {
  %1: f64[2,3] = real(%0)
  %2: u64[2,3] = bitcast(%1) {dtype = u64}
  %3: f64[2,3] = imag(%0)
  %4: u64[2,3] = bitcast(%3) {dtype = u64}
  %5: u64[3,2] = transpose(%2) {perm = (1, 0)}
  %6: u64[3,2] = transpose(%4) {perm = (1, 0)}
  %7: f64[3,2] = bitcast(%5) {dtype = f64}
  %8: f64[3,2] = bitcast(%6) {dtype = f64}
  %9: c128[3,2] = complex(%7, %8)
  return %9
})");
}

TEST(OpenKeys, AllWordsAreCompared) {
  EXPECT_EQ(opened(R"(graph "main"(%0: u32[4], %1: u32[4]) {
  %2: key_urbg[] = bitcast(%0) {dtype = key_urbg}
  %3: key_urbg[] = bitcast(%1) {dtype = key_urbg}
  %4: bool[] = not_equal(%2, %3)
  return %4
})"),
            R"(graph "main"(%0: u32[4], %1: u32[4]) {
  %2: u32[2] = slice(%0) {limits = (2), starts = (0), strides = (1)}
  %3: u64[] = bitcast(%2) {dtype = u64}
  %4: u32[2] = slice(%0) {limits = (4), starts = (2), strides = (1)}
  %5: u64[] = bitcast(%4) {dtype = u64}
  %6: u32[2] = slice(%1) {limits = (2), starts = (0), strides = (1)}
  %7: u64[] = bitcast(%6) {dtype = u64}
  %8: u32[2] = slice(%1) {limits = (4), starts = (2), strides = (1)}
  %9: u64[] = bitcast(%8) {dtype = u64}
  %10: u64[] = bitwise_xor(%3, %7)
  %11: u64[] = bitwise_xor(%5, %9)
  %12: u64[] = bitwise_or(%10, %11)
  %13: u64[] = full() {shape = (), value = u64(0)}
  %14: bool[] = not_equal(%12, %13)
  return %14
})");
}

TEST(OpenKeys, KeysThatAreMadeOfNothing) {
  EXPECT_EQ(opened(R"(graph "main"() {
  %0: key_rbg[3] = full() {shape = (3), value = key_rbg(18442240474082181120, 7)}
  return %0
})"),
            R"(graph "main"() {
  %0: u64[3] = full() {shape = (3), value = u64(18442240474082181120)}
  %1: u64[3] = full() {shape = (3), value = u64(7)}
  %2: f64[3] = bitcast(%0) {dtype = f64}
  %3: f64[3] = bitcast(%1) {dtype = f64}
  %4: c128[3] = complex(%2, %3)
  return %4
})");
}

TEST(OpenKeys, BodiesGetThemWhole) {
  const std::string text = opened(R"(graph "main"(%0: key_rbg[], %1: f32[5]) {
  %2: key_rbg[], %3: f32[5] = scan(%0, %1) {bodies = graphs(graph "body"(%0: key_rbg[], %1: f32[]) {
      return %0, %1
    }), carries = 1, length = 5, reverse = false, slices = 1}
  return %2
})");
  EXPECT_NE(text.find("(%0: c128[], %1: f32[5])"), std::string::npos) << text;
  EXPECT_EQ(text.find("key"), std::string::npos) << text;
}

}  // namespace
}  // namespace shoal
