#include "shoal/debug.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <utility>

#include "base/misuse.h"
#include "core/dispatch.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/key_mode.h"
#include "frontend/array/promotion.h"
#include "frontend/array/tape.h"
#include "frontend/array/trace.h"
#include "frontend/transforms/host_callback.h"
#include "ops/table.h"
#include "runtime/result_checks.h"
#include "sharding/picture.h"
#include "shoal/numpy.h"

namespace shoal::debug {

void check_results(bool nans, bool infinities) { set_result_checks(nans, infinities); }

void check_key_reuse(bool check) {
  KeyMode mode = key_mode();
  mode.checks_reuse = check;
  set_key_mode(mode);
}
bool is_key_reuse_checked() { return key_mode().checks_reuse; }

namespace {

constexpr int kDefaultWidth = 80;

bool is_terminal(const std::ostream& out) { return &out == &std::cout && isatty(STDOUT_FILENO) == 1; }

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultWidth;
  return size.ws_col;
}

// ---- The format of print.

// A place of the format.
struct Place {
  std::string name;  // Empty for the next value without a name.
  std::string spec;  // What follows the colon.
};

// The format cut at its places: text, place, text, …, text.
struct Pieces {
  std::vector<std::string> texts = {""};
  std::vector<Place> places;
};

[[noreturn]] void refuse(const Format& format, const std::string& text) {
  throw misuse<InvalidArgument>("'{}' {}", format.text, text);
}

Pieces pieces_of(const Format& format) {
  Pieces pieces;
  const std::string& text = format.text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      pieces.texts.back() += c;
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == c) {
      pieces.texts.back() += text[++i];
      continue;
    }
    const std::size_t end = text.find_first_of("{}", i + 1);
    if (c == '}' || end == std::string::npos || text[end] == '{') {
      refuse(format, fmt::format("has a single '{}'; write {{}} for a value, and {{{{ or }}}} for a brace", c));
    }
    const std::string inner = text.substr(i + 1, end - i - 1);
    const std::size_t colon = std::min(inner.find(':'), inner.size());
    pieces.places.push_back({inner.substr(0, colon), inner.substr(std::min(colon + 1, inner.size()))});
    pieces.texts.emplace_back();
    i = end;
  }
  return pieces;
}

// For each place, the position of its operand.
std::vector<std::size_t> operands_of(const Format& format, const Pieces& pieces,
                                     const std::vector<std::string>& names) {
  std::vector<std::size_t> positions;
  std::vector<bool> used(names.size(), false);
  std::size_t next = 0;
  std::size_t unnamed_places = 0;
  for (const Place& place : pieces.places) {
    std::size_t position = 0;
    if (place.name.empty()) {
      ++unnamed_places;
      while (next < names.size() && !names[next].empty()) ++next;
      position = next++;
    } else {
      position = static_cast<std::size_t>(std::ranges::find(names, place.name) - names.begin());
      if (position == names.size()) {
        refuse(format, fmt::format("names a value '{}', which is not given; give it as arg(\"{}\", value)", place.name,
                                   place.name));
      }
    }
    if (position < names.size()) used[position] = true;
    positions.push_back(position);
  }
  const auto unnamed = static_cast<std::size_t>(std::ranges::count(names, std::string()));
  if (unnamed_places != unnamed) {
    refuse(format, fmt::format("has {} places for {} values; write one {{}} for each", unnamed_places, unnamed));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!used[i]) refuse(format, fmt::format("has no place for the value '{}'", names[i]));
  }
  return positions;
}

// One element by the format that follows the colon.
template <class E>
std::string element_text(const Format& format, const std::string& spec, E element) {
  const auto text = [&](const auto& value) {
    try {
      return fmt::vformat("{:" + spec + "}", fmt::make_format_args(value));
    } catch (const fmt::format_error& error) {
      refuse(format, fmt::format("has the format '{}', which does not suit an element of {}: {}", spec,
                                 name_of(dtype_of<E>()), error.what()));
    }
  };
  if constexpr (std::is_same_v<E, bool>) {
    return text(std::string(element ? "True" : "False"));
  } else if constexpr (kIsComplexElement<E>) {
    refuse(format,
           fmt::format("has the format '{}', but formats are not for complex numbers; write {{}}, or print real "
                       "and imag",
                       spec));
  } else if constexpr (std::is_integral_v<E> || std::is_same_v<E, double>) {
    return text(element);
  } else {
    return text(static_cast<float>(element));
  }
}

std::string nested_text(const std::vector<std::string>& elements, const Shape& shape, std::size_t dim,
                        std::size_t& next) {
  if (dim == shape.size()) return elements[next++];
  const std::string line_ends(shape.size() - dim - 1, '\n');
  const std::string between = line_ends.empty() ? " " : line_ends + std::string(dim + 1, ' ');
  std::string text = "[";
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    if (i > 0) text += between;
    text += nested_text(elements, shape, dim + 1, next);
  }
  return text + "]";
}

std::string value_text(const Format& format, const std::string& spec, const Array& value) {
  if (spec.empty()) return str(value);
  return with_element_type(value.dtype(), [&](auto tag) {
    using E = decltype(tag);
    std::vector<std::string> elements;
    for (const E element : value.to_vector<E>(format.where)) {
      elements.push_back(element_text<E>(format, spec, element));
    }
    std::size_t next = 0;
    return nested_text(elements, value.shape(), 0, next);
  });
}

}  // namespace

void visualize_sharding(const Shape& shape, const Sharding& sharding, const VisualizeOptions& options,
                        SourceLocation where) {
  std::ostream& out = options.out == nullptr ? std::cout : *options.out;
  const bool terminal = is_terminal(out);
  PictureOptions picture;
  picture.use_color = options.use_color.value_or(terminal);
  picture.scale = options.scale;
  picture.max_width = options.max_width.value_or(terminal ? terminal_width() : kDefaultWidth);
  out << sharding_picture(shape, sharding, picture, where);
}

void visualize_array_sharding(const Array& array, const VisualizeOptions& options, SourceLocation where) {
  const auto draw = [shape = array.shape(), options, where](const Sharding& sharding) {
    visualize_sharding(shape, sharding, options, where);
  };
  const Caller caller("visualize_array_sharding", where);
  inspect_array_sharding(array, draw);
}

std::string sharding_svg(const Shape& shape, const Sharding& sharding, SourceLocation where) {
  return svg_picture(shape, sharding, where);
}

std::string sharding_svg(const Array& array, SourceLocation where) {
  const Caller caller("sharding_svg", where);
  const DeviceArray device = shoal::detail::concrete(array);
  return svg_picture(device.type().shape, device.sharding(), Caller::line());
}

std::string sharding_html(const Shape& shape, const Sharding& sharding, SourceLocation where) {
  return html_picture(shape, sharding, where);
}

std::string sharding_html(const Array& array, SourceLocation where) {
  const Caller caller("sharding_html", where);
  const DeviceArray device = shoal::detail::concrete(array);
  return html_picture(device.type().shape, device.sharding(), Caller::line());
}

void inspect_array_sharding(const Operand& x, std::function<void(const Sharding&)> f) {
  const Caller caller("inspect_array_sharding", x.where());
  const Array array = to_array(x);
  const auto tell = [f = std::move(f)](const Sharding& sharding) {
    const Caller::Pause pause;
    f(sharding);
  };
  Trace* trace = Trace::current();
  if (trace == nullptr) {
    tell(array.sharding());
  } else if (trace->kind() == Trace::Kind::kEager) {
    trace->lift(array);
    tell(NamedSharding(trace->mesh(), P()));  // All axes are manual: none is left to split the shard.
  } else {
    Callback callback{.on_values = {}, .on_sharding = tell};
    bind(op_named("inspect_sharding"), {{"callback", CallbackAttr::of(std::move(callback))}}, {&array, 1});
  }
}

void callback(std::function<void(const std::vector<Array>&)> f, const std::vector<Operand>& operands,
              SourceLocation where) {
  const Caller caller("debug::callback", where);
  std::vector<Array> arrays;
  for (const Operand& operand : operands) arrays.push_back(to_array(operand));
  for (Array& array : arrays) array = without_tangents(array);
  if (Trace::current() == nullptr && !of_layers(arrays)) {
    for (const Array& array : arrays) static_cast<void>(shoal::detail::concrete(array));
    const Caller::Pause pause;
    f(arrays);
    return;
  }
  const auto on_values = [f = std::move(f)](std::span<const Buffer> buffers) {
    on_buffers(f, buffers);
    return std::vector<Buffer>();
  };
  bind(op_named("debug_callback"), {{"callback", CallbackAttr::of({.on_values = on_values, .on_sharding = {}})}},
       arrays);
}

void detail::print(const Format& format, const std::vector<PrintOperand>& operands) {
  const Caller caller("debug::print", format.where);
  std::vector<std::string> names;
  std::vector<Operand> values;
  for (const PrintOperand& operand : operands) {
    names.push_back(operand.name);
    values.push_back(operand.value);
  }
  // A wrong format is told of at once.
  const Pieces pieces = pieces_of(format);
  const std::vector<std::size_t> positions = operands_of(format, pieces, names);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (pieces.places[i].spec.empty()) continue;
    with_element_type(to_array(values[positions[i]]).dtype(),
                      [&](auto tag) { element_text<decltype(tag)>(format, pieces.places[i].spec, {}); });
  }
  const auto write = [format, pieces, positions](const std::vector<Array>& arrays) {
    const Caller printing("debug::print", format.where);
    std::string line = pieces.texts[0];
    for (std::size_t i = 0; i < positions.size(); ++i) {
      line += value_text(format, pieces.places[i].spec, arrays[positions[i]]) + pieces.texts[i + 1];
    }
    std::cout << line + '\n';
  };
  callback(write, values, format.where);
}

}  // namespace shoal::debug
