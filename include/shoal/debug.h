// Looking at arrays, and at values while a program runs.
//
// @param x The array.
// @param array The array.
// @param shape The extents of an array.
// @param sharding How it lies.
// @param nans Whether NaN is looked for.
// @param infinities Whether infinities are looked for.
// @param check Whether keys that are used twice are looked for.
// @param operands What is passed on, once its values are there.
// @param format The text, with {} for each operand.
// @param f The function that is called.
// @param name The name by which the text has it.
// @param value The array.
// @param line The text, with {} for each operand.
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

/// Sets whether each program of this process, operations outside jit included, waits for its results and looks for NaN,
/// or for infinities, in them. If there are any, throws InvalidState with the user's line, the program's name, and the
/// operation that produced them, or whose derivative did. To find that operation, the program runs once more with all
/// of its intermediate values, unless it calls functions of the host or runs in several processes. Values that reach no
/// result are not looked at. Each process looks at its own shards.
void check_results(bool nans, bool infinities = false);

/// Sets whether this process detects keys of random numbers that are used twice: KeyReuseError names both lines.
/// Functions of random use the key that they draw from, and split uses its key, too; fold_in and key_data do not, and
/// clone returns an unused key. Checked are operations outside jit and the graphs of jitted functions, before they run:
/// a loop uses keys from outside of it in every trip, and any branch may be taken. Keys that are moved are followed key
/// by key; keys that are chosen by values that only the program knows are not. Every call with keys takes longer, and
/// it is remembered which keys of key arrays are used.
void check_key_reuse(bool check);
/// Whether check_key_reuse is on.
bool is_key_reuse_checked();

struct VisualizeOptions {
  std::optional<bool> use_color = {};  ///< Default: when `out` is a terminal.
  std::optional<int> max_width = {};   ///< Columns; default: the terminal's width, 80 otherwise.
  double scale = 1.0;                  ///< Scales the height of pictures of matrices.
  std::ostream* out = nullptr;         ///< Default: std::cout.
};

/// Draws how the shards of an array of rank 1 or 2 are placed: a box for each, with the devices that hold it. Inside a
/// traced function it does so when inspect_array_sharding would call its function.
void visualize_array_sharding(const Array& array, const VisualizeOptions& options = {},
                              SourceLocation where = SourceLocation::current());
/// The same for a shape.
void visualize_sharding(const Shape& shape, const Sharding& sharding, const VisualizeOptions& options = {},
                        SourceLocation where = SourceLocation::current());

/// The same picture as an SVG document: a rectangle for each shard, in the proportions of the array, which has rank 1
/// or 2. Throws as visualize_sharding does.
std::string sharding_svg(const Shape& shape, const Sharding& sharding,
                         SourceLocation where = SourceLocation::current());
std::string sharding_svg(const Array& array, SourceLocation where = SourceLocation::current());
/// The same picture as an HTML table, with a cell for each shard.
std::string sharding_html(const Shape& shape, const Sharding& sharding,
                          SourceLocation where = SourceLocation::current());
std::string sharding_html(const Array& array, SourceLocation where = SourceLocation::current());

/// Calls `f` with the sharding of x: under jit when the program is compiled, with what the compiler chose; inside
/// shard_map with the sharding of a shard over the axes that are not manual; elsewhere immediately.
/// @param f The function that is called with the sharding.
void inspect_array_sharding(const Operand& x, std::function<void(const Sharding&)> f);

/// Calls `f` with the values of `operands`, as arrays on the default device, when the program gets to this line: under
/// jit each time the program runs, with whole arrays; inside shard_map once for each device that gets there, in mesh
/// order, with its shards; elsewhere immediately. Calls are made one at a time, in the order of the program's lines and
/// of the programs, even if nothing else depends on them. f may compute with arrays, but must not wait for results of
/// calls that are made after the one that runs it. Exceptions of f are thrown where a result of the program is read; a
/// program without results warns.
void callback(std::function<void(const std::vector<Array>&)> f, const std::vector<Operand>& operands = {},
              SourceLocation where = SourceLocation::current());

/// A format with places for values, and the line of the user's program where it stands.
struct Format {
  Format(const char* format, SourceLocation line = SourceLocation::current()) : text(format), where(line) {}
  std::string text;
  SourceLocation where;
};

/// A value for print, which may have a name.
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

/// Writes a line to std::cout when the program gets to it, as callback does. In `format` each {} stands for the value
/// of the next operand, {name} for that of arg("name", …), and {{ and }} for a brace. A format as in std::format may
/// follow a colon, as in {:.3f} and {name:>8}: it applies to every element. Throws InvalidArgument if there are more or
/// fewer places than operands, for names that no operand has, and for a format that does not suit the dtype.
template <class... Args>
void print(const Format& format, const Args&... operands) {
  detail::print(format, {detail::print_operand(operands, format.where)...});
}

}  // namespace shoal::debug
