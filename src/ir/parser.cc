// Reads the text form of graphs; printer.cc gives the grammar.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/error_text.h"
#include "ir/graph.h"
#include "sharding/shared_grid.h"
#include "shoal/error.h"

namespace shoal {
namespace {

// A complaint that names its place.
class ParseError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

class Parser {
 public:
  Parser(std::string_view text, OpLookup lookup) : text_(text), lookup_(lookup) {}

  Graph parse_all() { return up_to_the_end(parse_graph()); }
  Attr parse_one_attr() { return up_to_the_end(parse_attr()); }

 private:
  template <class T>
  T up_to_the_end(T read) {
    skip_space();
    if (position_ != text_.size()) fail("the end of the text");
    return read;
  }

  // Bodies and what else nests. More than this would be a danger to the stack, and no program has it.
  static constexpr int kDeepest = 200;
  // Of all meshes together: more than any machine has. A range of devices is a short text, whatever its length.
  static constexpr std::int64_t kMostDevices = std::int64_t{1} << 21;
  // Meshes that are remembered.
  static constexpr std::size_t kMostKnown = 64;

  Graph parse_graph() {
    if (++depth_ > kDeepest) fail(fmt::format("at most {} graphs inside each other", kDeepest));
    Graph graph;
    if (accept_word("on")) graph.grid = parse_grid();
    expect_word("graph");
    graph.name = parse_string();
    const std::vector<Mesh> outer = std::exchange(meshes_, {});
    if (accept_word("in")) {
      do meshes_.push_back(parse_mesh());
      while (accept(','));
    }
    if (accept_word("over")) {
      parse_list('(', ')', [&] {
        std::string name = parse_string();
        expect('=');
        graph.axes.bind(std::move(name), parse_int());
      });
    }
    Names names;
    parse_list('(', ')', [&] { graph.inputs.push_back(parse_definition(graph, names)); });
    expect('{');
    while (!accept_word("return")) graph.eqns.push_back(parse_eqn(graph, names));
    if (peek() == '%') {
      do graph.outputs.push_back(parse_use(names));
      while (accept(','));
    }
    expect('}');
    meshes_ = outer;
    --depth_;
    return graph;
  }

  using Names = std::unordered_set<ValueId>;

  Eqn parse_eqn(Graph& graph, Names& names) {
    Eqn eqn;
    if (peek() == '%') {
      do eqn.outputs.push_back(parse_definition(graph, names));
      while (accept(','));
      expect('=');
    }
    const std::string name = parse_word();
    eqn.op = lookup_(name);
    if (eqn.op == nullptr) fail(fmt::format("the name of an op, which '{}' is not", name));
    parse_list('(', ')', [&] {
      const ValueId id = parse_use(names);
      if (std::ranges::find(eqn.outputs, id) != eqn.outputs.end()) fail_use(id);
      eqn.inputs.push_back(id);
    });
    if (peek() == '{') {
      parse_list('{', '}', [&] {
        std::string key = parse_word();
        expect('=');
        eqn.attrs.set(std::move(key), parse_attr());
      });
    }
    return eqn;
  }

  // Values keep the numbers they have in the text.
  ValueId parse_definition(Graph& graph, Names& names) {
    expect('%');
    const std::int64_t number = parse_int();
    // There is a value for each number up to it. All graphs of the text together have no more than it has letters.
    const std::size_t before = graph.values.size();
    const std::size_t free = text_.size() - std::min(text_.size(), num_values_);
    if (number < 0 || static_cast<std::size_t>(number) >= before + free) fail("a number of a value before this");
    const auto id = static_cast<ValueId>(number);
    if (!names.insert(id).second) fail(fmt::format("a value that is not defined yet, which %{} is", number));
    if (before <= slot(id)) graph.values.resize(slot(id) + 1);
    num_values_ += graph.values.size() - before;
    expect(':');
    Value& value = graph.value(id);
    value.type = parse_type(graph);
    if (accept('@')) value.placement = parse_placement(graph);
    if (accept_word("manual")) parse_axes(graph, value.manual);
    if (accept_word("varying")) parse_axes(graph, value.varying);
    if (accept_word("of")) {
      GlobalShape global;
      parse_list('[', ']', [&] { global.shape.push_back(parse_int()); });
      expect('@');
      global.placement = parse_placement(graph);
      value.global = std::move(global);
    }
    return id;
  }

  void parse_axes(const Graph& graph, AtomSet& atoms) {
    parse_list('(', ')', [&] { atoms = atoms | AtomSet(parse_axis(graph)); });
  }

  ValueId parse_use(const Names& names) {
    expect('%');
    const std::int64_t number = parse_int();
    const auto id = static_cast<ValueId>(number);
    if (id != number || !names.contains(id)) fail_use(number);
    return id;
  }

  [[noreturn]] void fail_use(std::int64_t number) const {
    fail(fmt::format("a value defined before, which %{} is not", number));
  }

  Type parse_type(const Graph& graph) {
    Type type;
    type.weak = accept('~');
    type.dtype = read([&] { return parse_dtype(parse_word()); });
    if (accept('<')) {
      type.memory = read([&] { return MemoryKind(parse_word()); });
      expect('>');
    }
    std::vector<std::vector<std::string>> split;
    bool is_split = false;
    parse_list('[', ']', [&] {
      type.shape.push_back(parse_int());
      split.emplace_back();
      if (!accept('@')) return;
      is_split = true;
      if (peek() == '(') {
        parse_list('(', ')', [&] { split.back().push_back(parse_name()); });
      } else {
        split.back().push_back(parse_name());
      }
    });
    AxisNames unreduced;
    AxisNames reduced;
    while (accept('{')) {
      AxisNames& names = accept_word("U") ? unreduced : accept_word("R") ? reduced : type.varying;
      if (&names == &type.varying) expect_word("V");
      expect(':');
      if (&names != &type.varying && peek() == '(') {
        parse_list('(', ')', [&] { names.push_back(parse_name()); });
      } else {
        do names.push_back(parse_name());
        while (accept(','));
      }
      expect('}');
    }
    // Axes that are bound are manual; the others are Explicit.
    const auto take_bound = [&](AxisNames& names) {
      const auto is_bound = [&](const std::string& name) { return graph.axes.size_of(name).has_value(); };
      std::ranges::sort(names);
      AxisNames bound;
      std::ranges::copy_if(names, std::back_inserter(bound), is_bound);
      std::erase_if(names, is_bound);
      return bound;
    };
    type.summands = take_bound(unreduced);
    type.reduced = take_bound(reduced);
    type.varying = union_of(type.varying, type.summands);
    const bool numbered = accept('#');
    if (is_split || numbered || !unreduced.empty() || !reduced.empty()) {
      const std::int64_t index = numbered ? parse_int() : 0;
      if (index < 0 || static_cast<std::size_t>(index) >= meshes_.size()) fail("the number of a mesh after 'in'");
      type.explicit_axes = ExplicitAxes{.mesh = meshes_[static_cast<std::size_t>(index)],
                                        .dims = std::move(split),
                                        .unreduced = std::move(unreduced),
                                        .reduced = std::move(reduced)};
    }
    return type;
  }

  void check_grid(const Graph& graph) const {
    if (graph.grid == nullptr) fail("a graph with a grid ('on …') before a placement");
  }

  Placement parse_placement(const Graph& graph) {
    check_grid(graph);
    Placement placement;
    parse_list('[', ']', [&] {
      Atoms atoms;
      if (peek() == '(') {
        parse_list('(', ')', [&] { append(atoms, parse_axis(graph)); });
      } else if (!accept_word("_")) {
        atoms = parse_axis(graph);
      }
      placement.dims.push_back(std::move(atoms));
    });
    if (accept_word("partial")) {
      expect('(');
      placement.kind = read([&] { return parse_reduce_kind(parse_word()); });
      expect(':');
      do append(placement.partial, parse_axis(graph));
      while (accept(','));
      expect(')');
    }
    return placement;
  }

  Attr parse_attr() {
    const char c = peek();
    if (c == '"') return parse_string();
    if (c == '(') {
      Dims dims;
      parse_list('(', ')', [&] { dims.push_back(parse_int()); });
      return dims;
    }
    if (c == '[') {
      std::vector<std::string> strings;
      parse_list('[', ']', [&] { strings.push_back(parse_string()); });
      return strings;
    }
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c)) != 0) return parse_int();
    const std::size_t start = position_;
    const std::string word = parse_word();
    if (word == "true" || word == "false") return word == "true";
    if (word == "memory") return parse_memory();
    if (word == "specs") {
      std::vector<PartitionSpec> specs;
      parse_list('(', ')', [&] { specs.push_back(parse_spec()); });
      return specs;
    }
    if (word == "graphs") {
      std::vector<GraphAttr> graphs;
      parse_list('(', ')', [&] { graphs.push_back({std::make_shared<const Graph>(parse_graph())}); });
      return graphs;
    }
    if (word == "sharding") return parse_sharding();
    if (word == "callback") {
      expect('(');
      CallbackAttr callback{.number = parse_int(), .callback = nullptr};
      expect(')');
      return callback;
    }
    if (word == "mesh" || word == "graph" || word == "on") {
      position_ = start;
      if (word == "mesh") return parse_mesh();
      return GraphAttr{std::make_shared<const Graph>(parse_graph())};
    }
    const Dtype dtype = read([&] { return parse_dtype(word); });
    if (peek() != '(') return dtype;
    return parse_scalar(dtype);
  }

  Scalar parse_scalar(Dtype dtype) {
    expect('(');
    Scalar scalar;
    if (dtype == bool_) {
      const bool value = accept_word("true");
      if (!value) expect_word("false");
      scalar = Scalar::of(value);
    } else if (is_key(dtype)) {
      std::array<std::uint64_t, 2> words = {parse_number<std::uint64_t>()};
      if (size_of(dtype) == sizeof(words)) {
        expect(',');
        words[1] = parse_number<std::uint64_t>();
      }
      scalar = {.dtype = dtype, .bytes = std::bit_cast<decltype(scalar.bytes)>(words)};
    } else if (is_integer(dtype)) {
      scalar = is_signed(dtype) ? parse_integer<std::int64_t>(dtype) : parse_integer<std::uint64_t>(dtype);
    } else if (is_complex(dtype)) {
      const double real = parse_number<double>();
      expect(',');
      scalar = Scalar::of(std::complex<double>(real, parse_number<double>())).converted_to(dtype);
    } else {
      scalar = Scalar::of(parse_number<double>()).converted_to(dtype);
    }
    expect(')');
    return scalar;
  }

  template <class T>
  Scalar parse_integer(Dtype dtype) {
    const T number = parse_number<T>();
    const Scalar scalar = Scalar::of(number).converted_to(dtype);
    if (scalar.converted_to(dtype_of<T>()).template as<T>() != number) {
      fail(fmt::format("a number that {} holds before this, which {} is not", short_name_of(dtype), number));
    }
    return scalar;
  }

  NamedSharding parse_sharding() {
    expect('(');
    PartitionSpec spec = parse_spec();
    expect(',');
    expect_word("memory");
    const MemoryKind memory = parse_memory();
    expect(',');
    Mesh mesh = parse_mesh();
    expect(')');
    return read([&] { return NamedSharding(std::move(mesh), std::move(spec), {.memory_kind = memory}); });
  }

  MemoryKind parse_memory() {
    expect('(');
    const MemoryKind kind = read([&] { return MemoryKind(parse_word()); });
    expect(')');
    return kind;
  }

  PartitionSpec parse_spec() {
    expect_word("P");
    std::vector<PartitionEntry> entries;
    std::vector<std::string> unreduced;
    std::vector<std::string> reduced;
    parse_list('(', ')', [&] {
      if (accept_word("unreduced")) {
        expect('=');
        parse_list('{', '}', [&] { unreduced.push_back(parse_string()); });
      } else if (accept_word("reduced")) {
        expect('=');
        parse_list('{', '}', [&] { reduced.push_back(parse_string()); });
      } else if (accept('?')) {
        entries.emplace_back(unconstrained);
      } else if (accept_word("_")) {
        entries.emplace_back();
      } else if (peek() == '(') {
        std::vector<std::string> names;
        parse_list('(', ')', [&] { names.push_back(parse_string()); });
        entries.emplace_back(std::move(names));
      } else {
        entries.emplace_back(parse_string());
      }
    });
    return PartitionSpec(std::move(entries), std::move(unreduced), std::move(reduced));
  }

  // Ids tell the processes.
  Device parse_device() {
    const std::int64_t id = parse_int();
    if (id < 0 || (id >> kLocalIdBits) > std::numeric_limits<int>::max()) {
      fail(fmt::format("the id of a device before this, which {} is not", id));
    }
    return device_of(id);
  }

  static Device device_of(std::int64_t id) { return {.id = id, .process_index = static_cast<int>(id >> kLocalIdBits)}; }

  GridPtr parse_grid() {
    if (accept_word("device")) return shared_grid(parse_device());
    const Mesh mesh = parse_mesh();
    if (mesh.is_abstract()) fail("a mesh with devices before this");
    return shared_grid(mesh);
  }

  // Graphs name few meshes, often: what is written alike is read once.
  struct KnownMesh {
    std::string_view text;
    Mesh mesh;
  };

  Mesh parse_mesh() {
    skip_space();
    const std::string_view rest = text_.substr(position_);
    for (const KnownMesh& known : known_meshes_) {
      if (!rest.starts_with(known.text)) continue;
      position_ += known.text.size();
      return known.mesh;
    }
    const std::size_t start = position_;
    Mesh mesh = parse_new_mesh();
    if (known_meshes_.size() < kMostKnown) known_meshes_.push_back({text_.substr(start, position_ - start), mesh});
    return mesh;
  }

  Mesh parse_new_mesh() {
    expect_word("mesh");
    expect('(');
    std::vector<std::string> names;
    Shape sizes;
    std::vector<AxisType> types;
    MeshSpeeds speeds;
    const auto speed_or = [&](double usual) { return accept_word("at") ? parse_number<double>() : usual; };
    if (peek() == '"') {
      do {
        names.push_back(parse_string());
        expect('=');
        sizes.push_back(parse_int());
        types.push_back(accept_word("explicit") ? AxisType::kExplicit
                        : accept_word("manual") ? AxisType::kManual
                                                : AxisType::kAuto);
        speeds.axes.push_back(speed_or(MeshSpeeds::kBytesPerSecond));
      } while (accept(','));
    }
    const auto abstract_mesh = [&] {
      expect(')');
      return read(
          [&] { return AbstractMesh(std::move(sizes), std::move(names), std::move(types)).with_speeds(speeds); });
    };
    if (peek() == ')') return abstract_mesh();
    expect(';');
    expect_word("devices");
    speeds.device = speed_or(speeds.device);
    if (peek() == ')') return abstract_mesh();
    std::vector<Device> devices;
    do {
      const std::int64_t first = parse_device().id;
      const std::int64_t last = accept_text("..") ? parse_device().id : first;
      if (last < first) fail("the last of these devices, not before the first");
      if (last - first >= kMostDevices - num_devices_)
        fail(fmt::format("at most {} devices before this", kMostDevices));
      num_devices_ += last - first + 1;
      for (std::int64_t id = first; id <= last; ++id) devices.push_back(device_of(id));
    } while (accept(','));
    speeds.device = speed_or(speeds.device);
    expect(')');
    return read([&] {
      return Mesh(std::move(devices), std::move(sizes), std::move(names), std::move(types)).with_speeds(speeds);
    });
  }

  // An axis or sub-axis of the graph's grid.
  Atoms parse_axis(const Graph& graph) {
    check_grid(graph);
    std::string ref = parse_name();
    if (accept_text(":(")) {
      const std::int64_t pre = parse_int();
      expect(')');
      ref += fmt::format(":({}){}", pre, parse_int());
    }
    return read([&] { return graph.grid->atoms_of(ref); });
  }

  static void append(Atoms& to, const Atoms& from) { to.insert(to.end(), from.begin(), from.end()); }

  // ---- Tokens.

  template <class F>
  void parse_list(char open, char close, F&& parse_item) {
    expect(open);
    if (accept(close)) return;
    do parse_item();
    while (accept(','));
    expect(close);
  }

  std::int64_t parse_int() { return parse_number<std::int64_t>(); }

  template <class T>
  T parse_number() {
    skip_space();
    T value{};
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    position_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::string parse_string() {
    expect('"');
    std::string result;
    while (position_ < text_.size() && text_[position_] != '"') {
      const bool escaped = text_[position_] == '\\';
      if (escaped && ++position_ == text_.size()) break;
      const char c = text_[position_++];
      result += escaped && c == 'n' ? '\n' : c;
    }
    if (position_ == text_.size()) fail("a closing quote");
    ++position_;
    return result;
  }

  static bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

  std::string parse_word() {
    skip_space();
    std::size_t end = position_;
    while (end < text_.size() && in_word(text_[end])) ++end;
    if (end == position_) fail("a word");
    std::string word(text_.substr(position_, end - position_));
    position_ = end;
    return word;
  }

  // The name of an axis: a word, or quoted.
  std::string parse_name() { return peek() == '"' ? parse_string() : parse_word(); }

  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(position_, word.size()) != word) return false;
    const std::size_t end = position_ + word.size();
    if (end < text_.size() && in_word(text_[end])) return false;
    position_ = end;
    return true;
  }

  bool accept_text(std::string_view text) {
    if (text_.substr(position_, text.size()) != text) return false;
    position_ += text.size();
    return true;
  }

  bool accept(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}'", c));
  }

  void expect_word(std::string_view word) {
    if (!accept_word(word)) fail(fmt::format("'{}'", word));
  }

  char peek() {
    skip_space();
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  void skip_space() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_])) != 0) ++position_;
  }

  // What `make` gives; its complaint about what the text says names the place, too.
  template <class F>
  std::invoke_result_t<F> read(F&& make) {
    try {
      return make();
    } catch (const ParseError&) {
      throw;
    } catch (const Error& error) {
      fail_with(message_of(error));
    }
  }

  [[noreturn]] void fail(std::string_view expected) const {
    fail_with(fmt::format("expected {}, got '{}'", expected, text_.substr(position_, 20)));
  }

  [[noreturn]] void fail_with(std::string_view complaint) const {
    const std::string_view before = text_.substr(0, position_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = newline == std::string_view::npos ? position_ + 1 : position_ - newline;
    throw ParseError(fmt::format("parse_graph: line {}, column {}: {}", line, column, complaint));
  }

  std::string_view text_;
  OpLookup lookup_;
  std::vector<Mesh> meshes_;  // Those that the types of the graph at hand speak of.
  std::vector<KnownMesh> known_meshes_;
  std::int64_t num_devices_ = 0;
  std::size_t num_values_ = 0;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Graph parse_graph(std::string_view text, OpLookup lookup) { return Parser(text, lookup).parse_all(); }

Attr parse_attr(std::string_view text, OpLookup lookup) { return Parser(text, lookup).parse_one_attr(); }

}  // namespace shoal
