// Looking at arrays, and at values while a program runs.
#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shoal/array.h"

namespace shoal::debug {

/// Whether each program of this process, operations outside jit included, waits for its results and looks for NaN, or
/// for infinities, in them: finding one throws InvalidState, with the user's line, the program's name, and the
/// operation that it comes of, or whose derivative it comes of, for which the program is run once more with all that
/// lies between; not if it calls functions of the host, or runs in several processes. What reaches no result is not
/// looked at. Each process sees its own shards.
void check_results(bool nans, bool infinities = false);

/// Whether this process looks for keys of random numbers that are used twice: KeyReuseError names both lines. Functions
/// of random use the key that they draw from, split too; fold_in and key_data do not, and clone gives a key that nobody
/// has used. Looked at are operations outside jit and the graphs of jitted functions, before they run: what a loop uses
/// of what stands outside of it is used in every trip, and of branches any may be taken. Keys that are moved are
/// followed key by key; those chosen by what only the program knows are not. It costs time with each call that has
/// keys; of key arrays it remembers which of them are used.
void check_key_reuse(bool check);
/// Whether it does.
bool is_key_reuse_checked();

struct VisualizeOptions {
  std::optional<bool> use_color = {};  ///< Default: when `out` is a terminal.
  std::optional<int> max_width = {};   ///< Columns; default: the terminal's width, 80 otherwise.
  double scale = 1.0;                  ///< Of the height of pictures of matrices.
  std::ostream* out = nullptr;         ///< Default: std::cout.
};

/// Draws where the shards of an array of rank 1 or 2 lie: a box for each, with the devices that hold it. Inside a
/// traced function it does so as inspect_array_sharding says.
void visualize_array_sharding(const Array& array, const VisualizeOptions& options = {},
                              SourceLocation where = SourceLocation::current());
/// The same for a shape.
void visualize_sharding(const Shape& shape, const Sharding& sharding, const VisualizeOptions& options = {},
                        SourceLocation where = SourceLocation::current());

/// The same picture as an SVG document: a rectangle for each shard, in the proportions of the array. Of an array of
/// rank 1 or 2. Throws as visualize_sharding does.
std::string sharding_svg(const Shape& shape, const Sharding& sharding,
                         SourceLocation where = SourceLocation::current());
std::string sharding_svg(const Array& array, SourceLocation where = SourceLocation::current());
/// The same picture as an HTML table, with a cell for each shard.
std::string sharding_html(const Shape& shape, const Sharding& sharding,
                          SourceLocation where = SourceLocation::current());
std::string sharding_html(const Array& array, SourceLocation where = SourceLocation::current());

/// Calls `f` with where x lies. Under jit that is once the program is compiled, with what the compiler chose; inside
/// shard_map it is how a shard is split over the axes that are not manual. Elsewhere at once.
void inspect_array_sharding(const Operand& x, std::function<void(const Sharding&)> f);

/// Calls `f` with the values of `operands`, as arrays on the default device, when the program comes to this line: under
/// jit each time the program runs, with whole arrays; inside shard_map once for each device along the mesh's axes that
/// comes there, in their order, with its shards; elsewhere at once. Calls are made one at a time, in the order of the
/// program's lines and of the programs. They are made even if nothing else depends on them. f may compute with arrays,
/// but must not wait for results of calls that are made after the one that runs it. What it throws is thrown where a
/// result of the program is read; a program without results warns.
void callback(std::function<void(const std::vector<Array>&)> f, const std::vector<Operand>& operands = {},
              SourceLocation where = SourceLocation::current());

/// A text with places for values, and the line of the user's program where it stands.
struct Format {
  Format(const char* format, SourceLocation line = SourceLocation::current()) : text(format), where(line) {}
  std::string text;
  SourceLocation where;
};

/// A value for print, perhaps under a name.
struct PrintOperand {
  std::string name;
  Operand value;
};
/// A value that a format names: print("loss {loss:.3f}", arg("loss", loss)).
inline PrintOperand arg(std::string name, const Operand& value) { return {std::move(name), value}; }

namespace detail {
void print(const Format& format, const std::vector<PrintOperand>& operands);
inline PrintOperand print_operand(PrintOperand operand, SourceLocation) { return operand; }
template <class T>
requires std::convertible_to<const T&, Operand> PrintOperand print_operand(const T& operand, SourceLocation where) {
  return {{}, Operand(operand, where)};
}
}  // namespace detail

/// Writes a line to std::cout when the program comes to it, as callback does. In `format` each {} stands for the value
/// of the next operand, {name} for that of arg("name", …), and {{ and }} for a brace. A format as of std::format may
/// follow a colon, as in {:.3f} and {name:>8}: it is that of every element. Throws InvalidArgument if there are more or
/// fewer places than operands, for names that are not those of the operands, and for a format that suits not the dtype.
template <class... Args>
void print(const Format& format, const Args&... operands) {
  detail::print(format, {detail::print_operand(operands, format.where)...});
}

}  // namespace shoal::debug
