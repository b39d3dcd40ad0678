#include "shoal/debug.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <utility>

#include "frontend/array_impl.h"
#include "frontend/promote.h"
#include "frontend/trace.h"
#include "ops/table.h"
#include "sharding/picture.h"
#include "shoal/numpy.h"

namespace shoal::debug {
namespace {

constexpr int kDefaultWidth = 80;

bool is_terminal(const std::ostream& out) { return &out == &std::cout && isatty(STDOUT_FILENO) == 1; }

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultWidth;
  return size.ws_col;
}

DeviceArray concrete(const Array& array, std::string_view function, SourceLocation where) {
  return shoal::detail::concrete(array, function, where);
}

Array array_of(const Buffer& buffer) {
  return shoal::detail::array_from_host(buffer.dtype(), buffer.shape(), buffer.data(), {}, {});
}

// The text with values in its places, or an InvalidArgument that says what is wrong with it.
std::string formatted(const Format& format, const std::vector<Array>& values) {
  std::string text;
  std::size_t next = 0;
  for (std::size_t i = 0; i < format.text.size(); ++i) {
    const char c = format.text[i];
    const char after = i + 1 < format.text.size() ? format.text[i + 1] : '\0';
    if (c != '{' && c != '}') {
      text += c;
      continue;
    }
    ++i;
    if (after == c) {
      text += c;
    } else if (c == '{' && after == '}') {
      if (next < values.size()) text += str(values[next]);
      ++next;
    } else {
      throw InvalidArgument(fmt::format("debug::print: '{}' has a single '{}'; write {{}} for a value, and {{{{ or "
                                        "}}}} for a brace",
                                        format.text, c),
                            format.where);
    }
  }
  if (next != values.size()) {
    throw InvalidArgument(fmt::format("debug::print: '{}' has {} places for {} values; write one {{}} for each",
                                      format.text, next, values.size()),
                          format.where);
  }
  return text;
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
  inspect_array_sharding({array, where}, draw);
}

std::string sharding_svg(const Shape& shape, const Sharding& sharding, SourceLocation where) {
  return svg_picture(shape, sharding, where);
}

std::string sharding_svg(const Array& array, SourceLocation where) {
  const DeviceArray device = concrete(array, "sharding_svg", where);
  return svg_picture(device.type.shape, device.sharding, where);
}

std::string sharding_html(const Shape& shape, const Sharding& sharding, SourceLocation where) {
  return html_picture(shape, sharding, where);
}

std::string sharding_html(const Array& array, SourceLocation where) {
  const DeviceArray device = concrete(array, "sharding_html", where);
  return html_picture(device.type.shape, device.sharding, where);
}

void inspect_array_sharding(const Operand& x, std::function<void(const Sharding&)> f) {
  const Array array = to_array(x);
  Trace* trace = Trace::current();
  if (trace == nullptr) {
    f(array.sharding(x.where()));
  } else if (trace->kind() == Trace::Kind::kEager) {
    trace->lift(array, "inspect_array_sharding", x.where());
    f(NamedSharding(trace->mesh(), P()));  // All axes are manual: none is left to split the shard.
  } else {
    Callback callback{.on_values = {}, .on_sharding = std::move(f)};
    bind(op_named("inspect_sharding"), {{"callback", CallbackAttr::of(std::move(callback))}}, {&array, 1}, x.where());
  }
}

void callback(std::function<void(const std::vector<Array>&)> f, const std::vector<Operand>& operands,
              SourceLocation where) {
  std::vector<Array> arrays;
  for (const Operand& operand : operands) arrays.push_back(to_array(operand));
  if (Trace::current() == nullptr) {
    for (const Array& array : arrays) concrete(array, "debug::callback", where);
    f(arrays);
    return;
  }
  const auto on_values = [f = std::move(f)](std::span<const Buffer> buffers) {
    const Trace::Pause outside;  // An eager shard_map calls this from within its trace.
    std::vector<Array> values;
    for (const Buffer& buffer : buffers) values.push_back(array_of(buffer));
    f(values);
  };
  bind(op_named("debug_callback"), {{"callback", CallbackAttr::of({.on_values = on_values, .on_sharding = {}})}},
       arrays, where);
}

void detail::print(const Format& format, const std::vector<Operand>& operands) {
  formatted(format, std::vector<Array>(operands.size(), Array(0)));  // A wrong text is told of at once.
  const auto write = [format](const std::vector<Array>& values) { std::cout << formatted(format, values) + '\n'; };
  callback(write, operands, format.where);
}

}  // namespace shoal::debug
