// What errors and equations name: the function that the user called, and his line, however that is composed.
#include <sstream>
#include <string>

#include "misuse.h"

namespace shoal::test {
namespace {

// ---- Errors.

TEST(Caller, TheOutermostFunctionIsNamed) {
  const Array x = ones({4});
  EXPECT_MISUSE(InvalidArgument, ("softmax_cross_entropy: shapes", "(4,)", "(3,)"),
                nn::softmax_cross_entropy(x, ones({3})));
  EXPECT_MISUSE(TypeMismatch, ("ptp: complex numbers have no order"), ptp(x.astype(complex64)));
  EXPECT_MISUSE(InvalidState, ("swish: an Array without a value"), nn::swish(Array()));
}

TEST(Caller, FunctionsOfTheUserBeginAnew) {
  const Array x = ones({4});
  const auto traced = jit([](const Array& a) { return sort(a, {.axis = 3}); }, {.name = "step"});
  EXPECT_MISUSE_AT(__LINE__ - 1, OutOfRange, ("sort: axis 3"), traced(x));
  const auto mapped = shard_map([](const Array& a) { return sort(a, {.axis = 3}); },
                                {.mesh = mesh_8(), .in_specs = P(), .out_specs = P()});
  EXPECT_MISUSE_AT(__LINE__ - 2, OutOfRange, ("sort: axis 3"), mapped(x));
  const auto sliced = pmap([](const Array& a) { return sort(a, {.axis = 3}); });
  EXPECT_MISUSE_AT(__LINE__ - 1, OutOfRange, ("sort: axis 3"), sliced(ones({8, 4})));
  const auto part = [](const Array& a) { return sort(a, {.axis = 3}); };
  EXPECT_MISUSE_AT(__LINE__ - 1, OutOfRange, ("sort: axis 3"), x.at(0).apply(part));
  const auto told = [](const std::vector<Array>& values) { sort(values[0], {.axis = 3}); };
  EXPECT_MISUSE_AT(__LINE__ - 1, OutOfRange, ("sort: axis 3"), debug::callback(told, {x}));
  const auto made = [](const ShardIndex&) { return sort(ones({4}), {.axis = 3}); };
  EXPECT_MISUSE_AT(__LINE__ - 1, OutOfRange, ("sort: axis 3"),
                   make_array_from_callback({4}, NamedSharding(mesh_8(), P()), made));
}

// What the function computes after the user's own has returned is the function's again.
TEST(Caller, AfterFunctionsOfTheUserTheFunctionIsNamed) {
  const auto nothing = jit([](const Array&) { return Array(); }, {.name = "step"});
  EXPECT_MISUSE(InvalidState, ("step: result is an Array without a value"), nothing(ones({4})));
}

// ---- Equations.

// The lines of a compiled program's ops that are not of this file.
template <class F>
std::string foreign_lines(F f, const Array& x) {
  std::istringstream lines(jit(f).lower(x).compile().explain(std::int64_t{1} << 40));
  std::string foreign;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(".cc:") != std::string::npos && line.find("caller_test.cc:") == std::string::npos) {
      foreign += line + "\n";
    }
  }
  return foreign;
}

TEST(Caller, EquationsOfComposedFunctionsHaveTheUsersLine) {
  const auto f = [](const Array& x) {
    std::vector<Array> results = {nn::softmax(x),
                                  nn::gelu(x),
                                  nn::one_hot(argmax(x), 8),
                                  var(x),
                                  logsumexp(x),
                                  nanmax(x),
                                  median(x),
                                  histogram(x, 4).counts,
                                  interp(x, x, x),
                                  gradient(x)[0],
                                  trapezoid(x),
                                  convolve(x, x),
                                  searchsorted(x, x),
                                  special::gammainc(x, x),
                                  linspace(0, x[0], 5),
                                  vander(x),
                                  pad(x, {{1, 2}}, {.mode = "reflect"}),
                                  tril(outer(x, x)),
                                  einsum("i,j->ij", x, x),
                                  linalg::norm(x),
                                  linalg::matrix_power(outer(x, x), 3),
                                  cov(outer(x, x)),
                                  take(x, argsort(x)),
                                  ops::segment_sum(x, argsort(x), 4),
                                  x.at(range(1, 3)).add(1),
                                  isclose(x, x),
                                  nan_to_num(x),
                                  unique(x, {.size = 3})};
    for (const Array& row : outer(x, x)) results.push_back(row);
    return results;
  };
  const std::string foreign = foreign_lines(f, ones({8}));
  EXPECT_EQ(foreign, "");
}

}  // namespace
}  // namespace shoal::test
