// Runs the examples of many processes by `shoal run`, and compares what each process prints with what the same programs
// printed in JAX, and the results of all processes together with those of one process.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cells.h"

namespace seeds {
namespace {

#ifdef SHOAL_TOOL

using Lines = std::vector<std::string>;

struct Layout {
  int processes;
  int devices;  // Of each.
};

const std::vector<Layout> kLayouts{{2, 4}, {4, 2}};

std::string name_of(const Layout& layout) {
  return std::to_string(layout.processes) + "x" + std::to_string(layout.devices);
}

// What each process of an example prints. One process is started without the tool.
std::map<int, Lines> run_example(const std::string& example, const Layout& layout) {
  const std::string program = std::string(SHOAL_EXAMPLES) + "/" + example;
  const std::string devices = std::to_string(layout.devices);
  const std::string command = layout.processes == 1 ? "SHOAL_NUM_CPU_DEVICES=" + devices + " timeout 300 " + program
                                                    : std::string("timeout 300 ") + SHOAL_TOOL + " run -n " +
                                                          std::to_string(layout.processes) + " --devices-per-process " +
                                                          devices + " -- " + program;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> part{};
  for (std::size_t size = 0; (size = fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), size);
  EXPECT_EQ(pclose(pipe), 0) << text;
  std::map<int, Lines> printed;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (layout.processes == 1) {
      printed[0].push_back(line);
    } else {
      const std::size_t end = line.find("] ");  // "[process] text".
      printed[std::stoi(line.substr(1))].push_back(line.substr(end + 2));
    }
  }
  return printed;
}

// The same that was recorded, with the ids that devices have here.
std::map<int, Lines> recorded(const std::string& name) {
  std::ifstream file("tests/seeds/data/" + name + ".txt");
  std::map<int, Lines> printed;
  int process = -1;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("===== process ")) {
      process = std::stoi(line.substr(14));
    } else if (process >= 0 && !line.empty()) {
      static const std::regex number(R"(\d+)");
      std::string renamed;
      std::size_t end = 0;
      for (std::sregex_iterator match(line.begin(), line.end(), number), last; match != last; ++match) {
        renamed += line.substr(end, static_cast<std::size_t>(match->position()) - end);
        end = static_cast<std::size_t>(match->position() + match->length());
        const long id = match->length() < 6 ? std::stol(match->str()) : 0;
        const bool is_id = id >= 2048 && id < 8 * 2048 && id % 2048 < 8;
        renamed += is_id ? std::to_string(id / 2048 * 131072 + id % 2048) : match->str();
      }
      printed[process].push_back(renamed + line.substr(end));
    }
  }
  return printed;
}

// Results of all processes together: what an example prints of them in process 0.
Lines wholes(const Lines& lines) {
  Lines found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with("all of ")) continue;
    found.push_back(lines[i]);
    // Arrays go over several lines.
    while (i + 1 < lines.size() && lines[i + 1].starts_with("       ")) found.back() += "\n" + lines[++i];
  }
  return found;
}

// Everything else.
Lines without_wholes(const Lines& lines) {
  Lines rest;
  bool in_whole = false;
  for (const std::string& line : lines) {
    in_whole = line.starts_with("all of ") || (in_whole && line.starts_with("       "));
    if (!in_whole) rest.push_back(line);
  }
  return rest;
}

void expect_same_results(const std::string& example) {
  const Lines alone = wholes(run_example(example, {1, 8})[0]);
  EXPECT_FALSE(alone.empty());
  for (const Layout& layout : kLayouts) {
    std::map<int, Lines> printed = run_example(example, layout);
    EXPECT_EQ(wholes(printed[0]), alone) << name_of(layout);
  }
}

// ---- The grid of devices.

TEST(DeviceGrid, EveryProcessPrintsWhatJaxPrints) {
  for (const Layout& layout : kLayouts) {
    const std::map<int, Lines> expected = recorded("device_grid_" + name_of(layout));
    const std::map<int, Lines> printed = run_example("device_grid", layout);
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(layout.processes));
    ASSERT_EQ(printed.size(), expected.size());
    for (const auto& [process, lines] : expected) {
      SCOPED_TRACE(name_of(layout) + ", process " + std::to_string(process));
      const auto text_of = [](const Lines& all) {
        std::string text;
        for (const std::string& line : all) {
          // JAX prints the type of an array that spans processes even where a process has all of it.
          if (line != "Array(shape=(8, 8), dtype=float32)") text += line + "\n";
        }
        // Cells of pictures are as wide as the ids in them.
        return std::regex_replace(text, std::regex("─| *\n"), "\n");
      };
      EXPECT_EQ(without_space(text_of(without_wholes(printed.at(process)))), without_space(text_of(lines)));
    }
  }
}

TEST(DeviceGrid, GivesTheResultsOfOneProcess) { expect_same_results("device_grid"); }

// ---- The guide to many processes.

// By name; "head" is what comes before the first.
std::map<std::string, std::string> sections(const Lines& lines) {
  static const std::regex title(R"(\[([a-z][^\]\[]*)\] (.*))");
  std::map<std::string, std::string> found;
  std::string name = "head";
  for (const std::string& line : lines) {
    std::smatch match;
    if (line.starts_with("Mesh(") || line == "DONE") {
      name = line == "DONE" ? "end" : "mesh";
      found[name] = line;
    } else if (std::regex_match(line, match, title)) {
      name = match.str(1);
      found[name] = match.str(2);
    } else {
      found[name] += "\n" + line;
    }
  }
  return found;
}

// NumPy's arrays and JAX's are one kind of array here.
std::string as_printed_here(std::string text) {
  text = std::regex_replace(text, std::regex("\\barray\\("), "Array(");
  return std::regex_replace(text, std::regex("<class '[^']*'>, "), "");
}

const std::map<std::string, std::pair<std::string, std::string>> kKinds{
    {"AssertionError", {"InvalidArgument", "process"}},
    {"ValueError", {"InvalidArgument", "tiled = true"}},
    {"RuntimeError", {"InvalidState", "process_allgather"}},
};

TEST(MultiProcess, EveryProcessPrintsWhatJaxPrints) {
  for (const Layout& layout : kLayouts) {
    const std::map<int, Lines> expected = recorded("multi_process_" + name_of(layout));
    std::map<int, Lines> printed = run_example("multi_process", layout);
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(layout.processes));
    for (const auto& [process, lines] : expected) {
      std::map<std::string, std::string> here = sections(without_wholes(printed[process]));
      std::map<std::string, std::string> there = sections(lines);
      there.erase("pmap psum np.asarray");  // Its result is the array.
      EXPECT_GE(there.size(), 34U);
      for (const auto& [name, text] : there) {
        SCOPED_TRACE(name_of(layout) + ", process " + std::to_string(process) + ": " + name);
        if (!text.starts_with("EXC ")) {
          EXPECT_TRUE(same_output(as_printed_here(text), here[name])) << "recorded:\n"
                                                                      << text << "\nhere:\n"
                                                                      << here[name];
          continue;
        }
        const auto& [kind, fact] = kKinds.at(text.substr(4, text.find(':') - 4));
        EXPECT_THAT(here[name], testing::StartsWith(kind + ": "));
        EXPECT_THAT(here[name], testing::HasSubstr(fact));
        EXPECT_THAT(here[name], testing::HasSubstr("\n  at multi_process.cc:"));
      }
      EXPECT_EQ(here["reached_preemption_sync_point"], "all at one step");
      EXPECT_EQ(here["live_devices"], "8");
      EXPECT_EQ(here["to_host"], here["process_allgather global tiled"]);
    }
  }
}

TEST(MultiProcess, GivesTheResultsOfOneProcess) { expect_same_results("multi_process"); }

// ---- A loop with a last batch that does not divide.

TEST(DataParallel, GivesTheResultsOfOneProcess) {
  const std::map<int, Lines> alone = run_example("data_parallel", {1, 8});
  std::vector<double> losses;
  for (const std::string& line : alone.at(0)) {
    if (line.starts_with("epoch ")) losses.push_back(std::stod(line.substr(line.find("loss ") + 5)));
  }
  ASSERT_EQ(losses.size(), 5U);
  EXPECT_LT(losses[4], losses[0] / 20);
  for (const Layout& layout : kLayouts) EXPECT_EQ(run_example("data_parallel", layout), alone) << name_of(layout);
}

// ---- The heat equation.

struct HeatRun {
  Lines results;  // All but the progress bar.
  std::vector<std::string> bars;
  std::string picture;  // The bytes of the file.
};

HeatRun run_heat(const Layout& layout) {
  const std::string path = testing::TempDir() + "heat.pgm";
  std::remove(path.c_str());
  std::map<int, Lines> printed = run_example("heat 128 5 30 " + path, layout);
  EXPECT_EQ(printed.size(), 1U) << "only process 0 speaks";
  HeatRun run;
  for (const std::string& line : printed[0]) (line.starts_with("[") ? run.bars : run.results).push_back(line);
  std::ifstream file(path, std::ios::binary);
  run.picture = std::string(std::istreambuf_iterator<char>(file), {});
  std::remove(path.c_str());
  return run;
}

std::string result_named(const HeatRun& run, const std::string& name) {
  for (const std::string& line : run.results) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  ADD_FAILURE() << "there is no line " << name;
  return "0";
}

TEST(Heat, IsTheExactSolution) {
  const HeatRun run = run_heat({1, 8});
  EXPECT_LT(std::stod(result_named(run, "largest error ")), 1e-5);
  ASSERT_EQ(run.bars.size(), 5U);
  EXPECT_THAT(run.bars[1], testing::StartsWith("[################........................] 60 steps, "));
  EXPECT_THAT(run.bars[4], testing::StartsWith("[########################################] 150 steps, "));
  ASSERT_EQ(run.results.size(), 2U + 32U + 2U);
  for (std::size_t row = 2; row < 34; ++row) EXPECT_EQ(run.results[row].size(), 64U);
  const std::string header = "P5 128 128 255\n";
  ASSERT_EQ(run.picture.size(), header.size() + 128 * 128);
  EXPECT_TRUE(run.picture.starts_with(header));
  // The whole range of grey is used, and the terminal shows the coldest and the hottest.
  const std::string pixels = run.picture.substr(header.size());
  EXPECT_NE(pixels.find('\0'), std::string::npos);
  EXPECT_NE(pixels.find('\xff'), std::string::npos);
  const Lines shown(run.results.begin() + 2, run.results.begin() + 34);
  const auto shows = [&](char shade) {
    return std::ranges::any_of(shown, [&](const std::string& row) { return row.find(shade) != std::string::npos; });
  };
  EXPECT_TRUE(shows(' '));
  EXPECT_TRUE(shows('@'));
}

TEST(Heat, GivesTheBitsOfOneDevice) {
  const HeatRun alone = run_heat({1, 1});
  for (const Layout& layout : {Layout{1, 8}, Layout{2, 4}, Layout{4, 2}}) {
    SCOPED_TRACE(name_of(layout));
    const HeatRun run = run_heat(layout);
    // But for the first two lines, which say what each device has.
    ASSERT_GT(run.results.size(), 2U);
    EXPECT_EQ(Lines(run.results.begin() + 2, run.results.end()), Lines(alone.results.begin() + 2, alone.results.end()));
    EXPECT_TRUE(run.picture == alone.picture);
  }
}

#else
TEST(Processes, NeedTheToolAndTheExamples) { GTEST_SKIP() << "built without the tool or without examples"; }
#endif

}  // namespace
}  // namespace seeds
