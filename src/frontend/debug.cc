#include "shoal/debug.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "frontend/array_impl.h"
#include "sharding/picture.h"

namespace shoal::debug {
namespace {

constexpr int kDefaultWidth = 80;

bool is_terminal(const std::ostream& out) { return &out == &std::cout && isatty(STDOUT_FILENO) == 1; }

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultWidth;
  return size.ws_col;
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
  const DeviceArray concrete = detail::concrete(array, "visualize_array_sharding", where);
  visualize_sharding(concrete.type.shape, concrete.sharding, options, where);
}

}  // namespace shoal::debug
