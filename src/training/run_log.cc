#include "shoal/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "base/caller.h"
#include "base/misuse.h"
#include "base/safe_file.h"

namespace shoal {
namespace {

// ---- Curves.

constexpr double kWidth = 720;
constexpr double kHeight = 320;
constexpr double kLeft = 70;  // Of the coordinate system, where numbers stand beside it,
constexpr double kRight = 20;
constexpr double kTop = 34;
constexpr double kBottom = 40;
// That tell apart without red and green: Okabe and Ito 2008, "Color universal design".
constexpr std::array<std::string_view, 6> kColours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"};

struct Interval {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double x) {
    if (!std::isfinite(x)) return;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  // Where there is nothing, or one number, a range around it.
  Interval widened() const {
    if (!(low <= high)) return {0, 1};
    if (low < high) return *this;
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    return {low - room, high + room};
  }
};

// The distance of about `count` marks in a range: 1, 2 or 5 times a power of ten.
double mark_distance(const Interval& range, int count) {
  const double raw = (range.high - range.low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (raw <= step * power) return step * power;
  }
  return 10 * power;
}

std::vector<double> marks(const Interval& range, int count) {
  const double distance = mark_distance(range, count);
  std::vector<double> made;
  for (double k = std::ceil(range.low / distance); k * distance <= range.high + distance * 1e-9; ++k) {
    made.push_back(k * distance);
  }
  return made;
}

std::string escaped(std::string_view text) {
  std::string made;
  for (const char c : text) {
    switch (c) {
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      case '&':
        made += "&amp;";
        break;
      case '"':
        made += "&quot;";
        break;
      default:
        made += c;
    }
  }
  return made;
}

// A field of a table, in quotes where it has a comma, a quote or a line's end (RFC 4180).
std::string field_of(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

struct Point {
  double x;
  double y;
};
struct Curve {
  std::string name;
  std::vector<Point> points;
};

std::string drawn(const std::string& title, const std::vector<Curve>& curves) {
  Interval steps;
  Interval values;
  for (const Curve& curve : curves) {
    for (const Point& p : curve.points) {
      if (!std::isfinite(p.y)) continue;
      steps.add(p.x);
      values.add(p.y);
    }
  }
  steps = steps.widened();
  values = values.widened();
  const auto x_of = [&](double x) {
    return kLeft + (x - steps.low) / (steps.high - steps.low) * (kWidth - kLeft - kRight);
  };
  const auto y_of = [&](double y) {
    return kHeight - kBottom - (y - values.low) / (values.high - values.low) * (kHeight - kTop - kBottom);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += fmt::format("<text x=\"{}\" y=\"20\" font-size=\"14\">{}</text>\n", kLeft, escaped(title));
  for (const double y : marks(values, 5)) {
    svg += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n",
        kLeft, kWidth - kRight, y_of(y), y_of(y), kLeft - 6, y_of(y) + 4, y);
  }
  for (const double x : marks(steps, 8)) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", x_of(x),
                       kHeight - kBottom + 18, x);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n", (kLeft + kWidth - kRight) / 2,
                     kHeight - 6);
  double legend = kWidth - kRight;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::string_view colour = kColours[i % kColours.size()];
    std::string path;
    bool is_drawing = false;
    for (const Point& p : curves[i].points) {
      const bool is_there = std::isfinite(p.y);
      if (is_there) path += fmt::format("{}{:.1f} {:.1f}", is_drawing ? "L" : "M", x_of(p.x), y_of(p.y));
      is_drawing = is_there;
    }
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, colour);
    if (curves.size() > 1) {
      svg += fmt::format("<text x=\"{}\" y=\"20\" text-anchor=\"end\" fill=\"{}\">{}</text>\n", legend, colour,
                         escaped(curves[i].name));
      legend -= 12 + 7 * static_cast<double>(curves[i].name.size());
    }
  }
  return svg + "</svg>\n";
}

}  // namespace

void RunLog::add(std::int64_t step, const std::map<std::string, double>& values) { rows_.push_back({step, values}); }

void RunLog::describe(const std::string& heading, const std::string& text) {
  descriptions_.emplace_back(heading, text);
}

std::vector<std::string> RunLog::names() const {
  std::set<std::string> made;
  for (const Row& row : rows_) {
    for (const auto& [name, value] : row.values) made.insert(name);
  }
  return {made.begin(), made.end()};
}

std::string RunLog::csv() const {
  const std::vector<std::string> columns = names();
  std::string text = "step";
  for (const std::string& name : columns) text += "," + field_of(name);
  text += '\n';
  for (const Row& row : rows_) {
    text += std::to_string(row.step);
    for (const std::string& name : columns) {
      const auto found = row.values.find(name);
      text += found == row.values.end() ? "," : fmt::format(",{:.17g}", found->second);
    }
    text += '\n';
  }
  return text;
}

std::string RunLog::svg(const std::vector<std::string>& names, SourceLocation where) const {
  const Caller caller("RunLog::svg", where);
  std::vector<Curve> curves;
  for (const std::string& name : names) {
    Curve curve{name, {}};
    for (const Row& row : rows_) {
      const auto found = row.values.find(name);
      if (found != row.values.end()) curve.points.push_back({static_cast<double>(row.step), found->second});
    }
    if (curve.points.empty()) throw misuse<InvalidArgument>("nothing was told of \"{}\"", name);
    curves.push_back(std::move(curve));
  }
  return drawn(names.size() == 1 ? title_ + ": " + names[0] : title_, curves);
}

std::string RunLog::html() const {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>body {{ "
      "font-family: "
      "sans-serif; max-width: 60em; margin: 2em auto; color: #222 }} table {{ border-collapse: collapse }} td, th {{ "
      "padding: 0.2em 1em; text-align: right; border-bottom: 1px solid #ddd }} pre {{ background: #f6f6f6; padding: "
      "1em; overflow-x: auto }} svg {{ max-width: 100%; height: auto }}</style></head>\n<body><h1>{0}</h1>\n",
      escaped(title_));
  page += "<table><tr><th>measured</th><th>steps</th><th>first</th><th>last</th><th>least</th><th>greatest</th></tr>\n";
  const std::vector<std::string> columns = names();
  for (const std::string& name : columns) {
    std::vector<double> values;
    Interval range;
    for (const Row& row : rows_) {
      const auto found = row.values.find(name);
      if (found == row.values.end()) continue;
      values.push_back(found->second);
      range.add(found->second);
    }
    page += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.6g}</td><td>{:.6g}</td><td>{:.6g}</td><td>{:.6g}</td></tr>\n",
                        escaped(name), values.size(), values.front(), values.back(), range.low, range.high);
  }
  page += "</table>\n";
  for (const std::string& name : columns) page += svg({name});
  for (const auto& [heading, text] : descriptions_) {
    page += fmt::format("<h2>{}</h2>\n<pre>{}</pre>\n", escaped(heading), escaped(text));
  }
  return page + "</body></html>\n";
}

void RunLog::save(const std::string& path, const std::vector<std::string>& curves, SourceLocation where) const {
  const Caller caller("RunLog::save", where);
  std::string text;
  if (path.ends_with(".csv")) {
    text = csv();
  } else if (path.ends_with(".html")) {
    text = html();
  } else if (path.ends_with(".svg")) {
    text = svg(curves.empty() ? names() : curves);
  } else {
    throw misuse<InvalidArgument>("\"{}\" ends neither in .csv nor in .svg or .html", path);
  }
  write_file(path, text);
}

std::string progress_bar(double fraction, int width) {
  const double filled = std::clamp(fraction, 0.0, 1.0) * width;
  std::string bar = "[";
  for (int i = 0; i < width; ++i) bar += i < static_cast<int>(filled) ? '#' : ' ';
  return bar + "]";
}

}  // namespace shoal
