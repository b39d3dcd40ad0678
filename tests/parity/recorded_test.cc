// The oracle itself: reference kernels, and the loops that stand for collectives, against values recorded from JAX or
// from arithmetic of many digits. tools/record_parity_cases.py writes the cases and describes their form.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "core/dispatch.h"
#include "ops/table.h"
#include "oracle.h"
#include "values.h"

namespace shoal::parity {
namespace {

struct RecordedCase {
  std::string title;
  int within = 0;  // Units in the last place.
  std::string graph;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

constexpr const char* kFiles[] = {"elementwise", "reductions", "movement",    "collectives", "items",
                                  "order",       "linalg",     "convolution", "fft",         "attention"};

std::vector<RecordedCase> read_cases(const std::string& name) {
  std::ifstream file("tests/parity/data/" + name + ".txt");
  EXPECT_TRUE(file) << "run the tests in the root of the repository";
  std::vector<RecordedCase> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    if (line.starts_with("case ")) {
      cases.push_back({.title = line.substr(5), .within = 0, .graph = {}, .inputs = {}, .outputs = {}});
      cases.back().within = std::stoi(line.substr(line.rfind(' ') + 1));
    } else if (line.starts_with("in ")) {
      cases.back().inputs.push_back(line.substr(3));
    } else if (line.starts_with("out ")) {
      cases.back().outputs.push_back(line.substr(4));
    } else {
      cases.back().graph += line + "\n";
    }
  }
  return cases;
}

template <class T>
T parse(const std::string& text) {
  if constexpr (std::is_same_v<T, bool>) {
    return text == "1";
  } else if constexpr (std::is_integral_v<T>) {
    return std::is_signed_v<T> ? static_cast<T>(std::stoll(text)) : static_cast<T>(std::stoull(text));
  } else if constexpr (kIsComplexElement<T>) {
    using Part = typename T::value_type;
    const std::size_t comma = text.find(',');
    return T(parse<Part>(text.substr(0, comma)), parse<Part>(text.substr(comma + 1)));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::strtod(text.c_str(), nullptr);
  } else {
    return T(std::strtof(text.c_str(), nullptr));
  }
}

Buffer parse_buffer(const Type& type, const std::string& text) {
  Buffer buffer = make_buffer(type.dtype, type.shape);
  std::istringstream words(text);
  with_element_type(type.dtype, [&](auto tag) {
    using T = decltype(tag);
    auto* data = static_cast<T*>(buffer.mutable_data());
    for (std::int64_t i = 0; i < num_elements(type.shape); ++i) {
      std::string word;
      EXPECT_TRUE(words >> word) << "too few elements for " << to_string(type) << ": " << text;
      data[i] = parse<T>(word);
    }
  });
  return buffer;
}

// The distance between the numbers of a dtype near `value`; that of normal numbers at least.
double unit_in_last_place(Dtype dtype, double value) {
  const auto unit = [&](int digits, int least) {
    return std::ldexp(1.0, std::max(value == 0 ? least : std::ilogb(value), least) - digits + 1);
  };
  switch (real_dtype(dtype)) {
    case Dtype::kF16:
      return unit(11, -14);
    case Dtype::kBF16:
      return unit(8, -126);
    case Dtype::kF32:
      return unit(24, -126);
    default:
      return unit(53, -1022);
  }
}

// The first element that is off by more than the case allows, as text.
std::optional<std::string> first_error(const Buffer& actual, const Buffer& expected, int within) {
  if (within == 0) return difference(actual, expected, {});
  const auto got = numbers_of(actual);
  const auto want = numbers_of(expected);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double size = std::max(std::abs(got[i]), std::abs(want[i]));
    const double allowed = within * unit_in_last_place(expected.dtype(), size);
    const bool close =
        std::abs(got[i].real() - want[i].real()) <= allowed && std::abs(got[i].imag() - want[i].imag()) <= allowed;
    if (!close) {
      return fmt::format("element {} is {}{:+}i, not {}{:+}i (allowed error {})", i, got[i].real(), got[i].imag(),
                         want[i].real(), want[i].imag(), allowed);
    }
  }
  return {};
}

// Checks every case of a file; returns the number of cases of each op.
std::map<std::string, int> check_file(const std::string& name) {
  std::map<std::string, int> counts;
  for (const RecordedCase& recorded : read_cases(name)) {
    const Graph graph = parse_graph(recorded.graph, find_op);
    verify(graph, "recorded");
    std::vector<Buffer> inputs;
    for (std::size_t i = 0; i < recorded.inputs.size(); ++i) {
      inputs.push_back(parse_buffer(graph.type(graph.inputs[i]), recorded.inputs[i]));
    }
    const std::vector<Buffer> values = evaluate(graph, inputs);
    EXPECT_EQ(graph.outputs.size(), recorded.outputs.size()) << recorded.title;
    for (std::size_t i = 0; i < recorded.outputs.size(); ++i) {
      const Buffer expected = parse_buffer(graph.type(graph.outputs[i]), recorded.outputs[i]);
      const auto error = first_error(values[static_cast<std::size_t>(graph.outputs[i])], expected, recorded.within);
      EXPECT_FALSE(error) << recorded.title << ", output " << i << ": " << *error << "\n"
                          << recorded.graph << fmt::format("{}", fmt::join(recorded.inputs, "\n"));
    }
    ++counts[recorded.title.substr(0, recorded.title.find(' '))];
  }
  return counts;
}

class Recorded : public testing::TestWithParam<const char*> {};

TEST_P(Recorded, TheOracleGivesTheRecordedValues) {
  int cases = 0;
  for (const auto& [op, count] : check_file(GetParam())) cases += count;
  std::cout << fmt::format("{}: {} recorded cases\n", GetParam(), cases);
}

INSTANTIATE_TEST_SUITE_P(Files, Recorded, testing::ValuesIn(kFiles),
                         [](const auto& file) { return std::string(file.param); });

TEST(Recorded, EveryOpThatComputesHasCases) {
  std::set<std::string> recorded;
  for (const char* file : kFiles) {
    for (const RecordedCase& one : read_cases(file)) recorded.insert(one.title.substr(0, one.title.find(' ')));
  }
  // These give their operand back, or nothing, what a user wrote, or what other ops give; the cases of the other
  // collectives hold shard_map.
  const std::set<std::string> exempt = {
      "sharding_constraint", "relax_axes", "pcast", "to_memory", "jit", "shard_map", "enter_manual", "leave_manual",
      "pvary", "shard_slice", "rearrange", "geqrf", "getrf", "potrf", "potri", "trsm", "trtri", "syevd",
      "cholesky_inverse", "triangular_inverse", "exclusive_scan", "debug_callback", "pure_callback", "io_callback",
      "inspect_sharding", "shard_alike", "custom_op", "custom_kernel", "fusion", "summed_product", "scatter_combine",
      "stop_gradient", "checkpoint_name", "use_key", "clone_key",
      // What JAX makes of these is recorded in python/tests/recorded/control_flow.txt.
      "scan", "while", "switch", "region",
      // Of these in python/tests/recorded/matrix_functions.txt.
      "hessenberg", "householder_product", "schur", "eig",
      // And of this in python/tests/recorded/custom_rules.txt.
      "linear_call"};
  for (const OpDef* op : all_ops()) {
    const std::string name(op->name);
    EXPECT_TRUE(recorded.contains(name) || exempt.contains(name))
        << "nothing is recorded of " << name
        << ": add it to tools/record_parity_cases.py and run that, or to exempt here";
  }
}

}  // namespace
}  // namespace shoal::parity
