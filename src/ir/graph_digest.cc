#include "ir/graph_digest.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shoal {
namespace {

// Writes down what counts of a graph, as bytes that can be read in one way only: what may be longer or shorter is
// preceded by its length, and what may be of several kinds by its kind.
class Writer {
 public:
  GraphDigest of(const Graph& graph) {
    numbers_.assign(graph.values.size(), -1);
    grid(graph.grid);
    number(static_cast<std::int64_t>(graph.axes.axes().size()));
    for (const auto& [name, size] : graph.axes.axes()) {
      text(name);
      number(size);
    }
    define(graph, graph.inputs);
    number(static_cast<std::int64_t>(graph.eqns.size()));
    for (const Eqn& eqn : graph.eqns) {
      text(eqn.op->name);
      use(eqn.inputs);
      define(graph, eqn.outputs);
      for (const auto& [name, attr] : eqn.attrs.entries()) {
        const AttrFact* fact = eqn.op->attributes.find(name);
        if (fact != nullptr && fact->role == AttrRole::kLabel) continue;
        text(name);
        number(static_cast<std::int64_t>(attr.index()));
        std::visit([this](const auto& value) { write(value); }, attr);
      }
      text("");  // No attribute's name.
    }
    use(graph.outputs);
    return {.digest = digest_of(bytes_), .callbacks = std::move(callbacks_)};
  }

 private:
  void number(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>((static_cast<std::uint64_t>(value) >> shift) & 0xFFU));
    }
  }
  void text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes_ += value;
  }
  template <class T, class F>
  void list(const T& values, F&& each) {
    number(static_cast<std::int64_t>(values.size()));
    for (const auto& value : values) each(value);
  }

  // ---- Values.

  void define(const Graph& graph, std::span<const ValueId> ids) {
    list(ids, [&](ValueId id) {
      numbers_[slot(id)] = next_++;
      value(graph.value(id));
    });
  }
  void use(std::span<const ValueId> ids) {
    list(ids, [&](ValueId id) { number(numbers_[slot(id)]); });
  }

  void value(const Value& value) {
    write(value.type.dtype);
    write(value.type.shape);
    write(value.type.weak);
    write(value.type.memory);
    write(value.type.varying);
    number(value.type.explicit_axes.has_value() ? 1 : 0);
    if (value.type.explicit_axes) {
      write(value.type.explicit_axes->mesh);
      list(value.type.explicit_axes->dims, [&](const auto& dim) { write(dim); });
      write(value.type.explicit_axes->unreduced);
      write(value.type.explicit_axes->reduced);
    }
    write(value.type.summands);
    write(value.type.reduced);
    number(value.placement.has_value() ? 1 : 0);
    if (value.placement) placement(*value.placement);
    number(static_cast<std::int64_t>(value.manual.bits()));
    number(static_cast<std::int64_t>(value.varying.bits()));
    number(value.global.has_value() ? 1 : 0);
    if (value.global) {
      write(value.global->shape);
      placement(value.global->placement);
    }
  }

  void placement(const Placement& placement) {
    const auto atoms = [&](const Atoms& list_of_atoms) { list(list_of_atoms, [&](Atom atom) { number(atom); }); };
    list(placement.dims, atoms);
    atoms(placement.partial);
    number(static_cast<std::int64_t>(placement.kind));
  }

  void grid(const GridPtr& grid) {
    number(grid != nullptr ? 1 : 0);
    if (grid == nullptr) return;
    write(grid->mesh());
    list(grid->devices(), [&](const Device& device) { write(device); });
  }

  // ---- Attributes.

  void write(bool value) { number(value ? 1 : 0); }
  void write(std::int64_t value) { number(value); }
  void write(const std::string& value) { text(value); }
  void write(Dtype value) { number(static_cast<std::int64_t>(value)); }
  void write(MemoryKind value) { number(static_cast<std::int64_t>(value.kind())); }
  void write(const Dims& value) {
    list(value, [&](std::int64_t entry) { number(entry); });
  }
  void write(const std::vector<std::string>& value) {
    list(value, [&](const std::string& entry) { text(entry); });
  }
  void write(const Scalar& value) {
    write(value.dtype);
    for (const std::byte byte : value.bytes) bytes_.push_back(static_cast<char>(byte));
  }
  void write(const Mesh& value) {
    write(value.axis_names());
    list(value.axis_sizes(), [&](auto size) { number(size); });
    list(value.axis_types(), [&](AxisType type) { number(static_cast<std::int64_t>(type)); });
    list(value.speeds().axes, [&](double speed) { number(std::bit_cast<std::int64_t>(speed)); });
    number(std::bit_cast<std::int64_t>(value.speeds().device));
    number(value.is_abstract() ? 1 : 0);
    if (value.is_abstract()) return;
    list(value.devices(), [&](const Device& device) { write(device); });
  }
  void write(const Device& value) {
    number(static_cast<std::int64_t>(value.platform));
    number(value.id);
  }
  void write(const PartitionSpec& value) {
    list(value.entries(), [&](const PartitionEntry& entry) {
      number(entry.is_unconstrained() ? 1 : 0);
      write(entry.axes());
    });
    write(value.unreduced());
    write(value.reduced());
  }
  void write(const NamedSharding& value) {
    write(value.mesh());
    write(value.spec());
    write(value.memory_kind());
  }
  void write(const std::vector<PartitionSpec>& value) {
    list(value, [&](const PartitionSpec& spec) { write(spec); });
  }
  void write(const GraphAttr& value) {
    const std::shared_ptr<const GraphDigest> inner = kept_digest(*value.graph);
    for (const std::uint64_t word : inner->digest) number(static_cast<std::int64_t>(word));
    list(inner->callbacks, [&](std::int64_t callback) { write_callback(callback); });
  }
  void write(const std::vector<GraphAttr>& value) {
    list(value, [&](const GraphAttr& graph) { write(graph); });
  }
  void write(const CallbackAttr& value) { write_callback(value.number); }
  void write_callback(std::int64_t callback) {
    const auto found = std::ranges::find(callbacks_, callback);
    number(found - callbacks_.begin());
    if (found == callbacks_.end()) callbacks_.push_back(callback);
  }

  std::string bytes_;
  std::vector<std::int64_t> numbers_;  // Of each value, by order of definition.
  std::int64_t next_ = 0;
  std::vector<std::int64_t> callbacks_;
};

}  // namespace

GraphDigest make_digest(const Graph& graph) { return Writer().of(graph); }

std::shared_ptr<const GraphDigest> kept_digest(const Graph& graph) {
  if (auto kept = graph.digest.get()) return kept;
  auto made = std::make_shared<const GraphDigest>(make_digest(graph));
  graph.digest.set(made);
  return made;
}

std::size_t hash_of_graph(const Graph& graph) { return static_cast<std::size_t>(kept_digest(graph)->digest[0]); }

}  // namespace shoal
