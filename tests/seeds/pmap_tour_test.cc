// Runs the tour of pmap and compares the output of every cell with what the same cells printed in JAX: 0.10
// (seed001_auto) and, for pmaps inside each other, which it no longer has, 0.4 (seed001_old).
#include "../../examples/pmap_cells.h"
#include "cells.h"

namespace seeds {
namespace {

// The recorded cell that each cell of the tour stands for. Left out is 5, which sets an option of JAX.
const std::vector<int> kRecordedCell = {1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22};

// Recorded from JAX 0.4: pmaps inside each other, and errors that JAX 0.10 finds late and in other words.
bool is_of_old(int recorded) { return recorded == 4 || recorded == 6 || recorded == 11 || recorded == 13; }

const std::map<int, ErrorCell> kErrorsOfTour{
    {11, {"ValueError", "InvalidArgument", {{"9 logical devices", "9 devices"}, {"8 XLA devices", "there are 8"}}}},
    {13,
     {"ValueError",
      "InvalidArgument",
      {{"one axis had size 4", "extent 4"},
       {"one axis had size 8", "extent 8"},
       {"axis 0 of argument x", "dimension 0 of argument [0]"},
       {"axis 0 of argument y", "dimension 0 of argument [1]"},
       {"float32[4]", "float32[4]"},
       {"float32[8]", "float32[8]"}}}},
    {22, {"NameError", "UnboundAxisError", {{"k", "k"}, {"psum", "psum"}}}},
};

// What JAX prints otherwise: the Python class of an array, sets in any order, and the name of an axis that has none.
std::string normalised(std::string text) {
  text = std::regex_replace(text, std::regex("<class '[^']*'> "), "");
  text = std::regex_replace(text, std::regex("_internal_pmap_axis_name"), "pmap_axis_0");
  const std::size_t begin = text.find("{CpuDevice");
  if (begin == std::string::npos) return text;
  std::vector<std::string> devices;
  const std::size_t end = text.find('}', begin);
  std::istringstream list(text.substr(begin + 1, end - begin - 1));
  for (std::string device; std::getline(list, device, ',');) devices.push_back(device.substr(device.find('C')));
  std::sort(devices.begin(), devices.end());
  return text.substr(0, begin + 1) + examples::join(devices, [](const std::string& name) { return name; }) +
         text.substr(end);
}

TEST(PmapTour, EveryCellPrintsWhatJaxPrints) {
  const std::map<int, Cell> recent = recorded_cells("seed001_auto.txt");
  const std::map<int, Cell> old = recorded_cells("seed001_old.txt");
  ASSERT_EQ(recent.size(), 22U);
  ASSERT_EQ(old.size(), 22U);
  const std::map<int, Cell> shown = shown_cells([](std::ostream& out) { examples::run_pmap_tour(out); });
  ASSERT_EQ(shown.size(), kRecordedCell.size());
  for (const auto& [number, cell] : shown) {
    const int recorded = kRecordedCell.at(static_cast<std::size_t>(number) - 1);
    SCOPED_TRACE("cell " + std::to_string(number) + ", recorded as " + std::to_string(recorded));
    const std::string expected = (is_of_old(recorded) ? old : recent).at(recorded).output;
    EXPECT_FALSE(cell.source.empty());
    if (const auto error = kErrorsOfTour.find(recorded); error != kErrorsOfTour.end()) {
      expect_same_error(error->second, "pmap_cells.h", expected, cell.output);
    } else {
      EXPECT_TRUE(same_output(normalised(expected), cell.output)) << "recorded:\n"
                                                                  << expected << "\nhere:\n"
                                                                  << cell.output;
    }
  }
}

}  // namespace
}  // namespace seeds
