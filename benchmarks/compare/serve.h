// What the C++ sides of the comparison share: they take one request a line, as JSON, and answer each with one line.
//
// A request names its "work" and says how it is to be done; given as the only argument it is done once. An answer holds
// "seconds", the median of several calls, and "sample", elements of the result to be compared with those of other
// sides; or "unsupported", a reason. peers/serve.py is the same in Python.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace shoal::compare {

using Json = nlohmann::json;
using Works = std::map<std::string, std::function<Json(const Json&)>>;

/// What a side cannot do.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline int serve(const Works& works, int argc, char** argv) {
  const auto answer = [&](const std::string& line) {
    Json result;
    try {
      const Json request = Json::parse(line);
      const auto work = works.find(request.at("work"));
      if (work == works.end()) throw Unsupported("no such work here");
      result = work->second(request);
    } catch (const Unsupported& reason) {
      result = {{"unsupported", reason.what()}};
    } catch (const std::exception& error) {
      result = {{"error", error.what()}};
    }
    if (!result.is_null()) std::cout << result.dump() << std::endl;  // One of several processes answers.
    return !result.contains("error");
  };
  if (argc > 1) return answer(argv[1]) ? 0 : 1;
  for (std::string line; std::getline(std::cin, line);) answer(line);
  return 0;
}

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The time of one call of `calls`, which makes `batch` of them. Runs for about the seconds that the request allows,
/// and longer for up to five calls that are slow.
template <class F>
Json measure(const Json& request, F&& calls, int batch = 1) {
  const double budget = request.value("budget", 1.0);
  calls();
  std::vector<double> times;
  const double begin = seconds_now();
  for (double spent = 0; spent < budget || (times.size() < 5 && spent < 4 * budget);) {
    const double before = seconds_now();
    calls();
    const double now = seconds_now();
    times.push_back((now - before) / batch);
    spent = now - begin;
  }
  return {{"seconds", median(times)}, {"least", *std::min_element(times.begin(), times.end())}};
}

/// The same for processes that call together: as many times in each. `agree` tells all what the first of them says.
template <class F, class Agree>
Json measure_together(const Json& request, F&& calls, Agree&& agree) {
  const int batch = request.value("batch", 1);
  const double budget = request.value("budget", 1.0);
  std::vector<double> times;
  double spent = 0;
  for (int i = 0; agree(i < 4 || spent < budget); ++i) {
    const double before = seconds_now();
    for (int j = 0; j < batch; ++j) calls();
    if (i == 0) continue;
    times.push_back((seconds_now() - before) / batch);
    spent += seconds_now() - before;
  }
  return {{"seconds", median(times)}, {"least", *std::min_element(times.begin(), times.end())}};
}

constexpr std::int64_t kSample = 64;

/// Elements spread evenly over the result, the first and the last among them.
inline Json sample(std::span<const float> elements) {
  const auto count = static_cast<std::int64_t>(elements.size());
  Json result = Json::array();
  for (std::int64_t i = 0; i < std::min(count, kSample); ++i) {
    const std::int64_t at = count <= kSample ? i : i * (count - 1) / (kSample - 1);
    result.push_back(elements[static_cast<std::size_t>(at)]);
  }
  return result;
}

/// The operands of all sides: numbers from -0.5 to 0.499, shuffled.
inline float number(std::int64_t i) { return static_cast<float>(i * 7919 % 1000) / 1000.0F - 0.5F; }

inline std::vector<float> numbers(std::int64_t count) {
  std::vector<float> result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] = number(i);
  return result;
}

/// Memory of this process: what it holds, and the most since reset_peak.
struct Memory {
  double mib = 0, peak_mib = 0;
};
inline Memory memory() {
  Memory result;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> result.mib;
    if (word == "VmHWM:") status >> result.peak_mib;
  }
  return {result.mib / 1024, result.peak_mib / 1024};
}
inline void reset_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

}  // namespace shoal::compare
