// Trees of Python objects: tuples, named tuples, lists, dicts, None, and objects of registered classes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bindings/core/convert.h"
#include "shoal/pmap.h"

namespace shoal::python {

/// The structure of a tree: what is left when its leaves are taken out.
class PyTree {
 public:
  enum class Kind : std::uint8_t {
    kLeaf,
    kNone,
    kTuple,
    kList,
    kNamedTuple,
    kDict,
    kOrderedDict,
    kDefaultDict,
    kCustom
  };

  /// The structure of a tree, whose leaves are appended to `leaves`. What `is_leaf` is true of is a leaf; it may be
  /// none.
  static PyTree flatten(nb::handle tree, std::vector<nb::object>& leaves, nb::handle is_leaf = nb::none());
  /// A single leaf.
  static PyTree leaf() { return {}; }
  static PyTree tuple(std::vector<PyTree> children);

  /// The tree with these leaves. `next` is moved on.
  nb::object unflatten(const std::vector<nb::object>& leaves, std::size_t& next) const;
  nb::object unflatten(const std::vector<nb::object>& leaves) const;
  /// The parts of a tree that stand at the leaves of this one. Throws ValueError, naming the place, where they part.
  void flatten_up_to(nb::handle tree, std::vector<nb::object>& parts, const std::string& path = "") const;

  /// Those of the leaves, which this is the structure of, that are arrays of float0 are so again in what unflatten()
  /// gives, in the shape of the leaf that stands there.
  void mark_float0(const std::vector<nb::object>& leaves);
  bool is_float0() const { return is_float0_; }

  Kind kind() const { return kind_; }
  bool is_leaf() const { return kind_ == Kind::kLeaf; }
  const std::vector<PyTree>& children() const { return children_; }
  std::size_t num_leaves() const;
  std::size_t num_nodes() const;
  /// The keys of children as they stand in paths: objects of key_paths.py.
  std::vector<nb::object> keys() const;
  nb::object node_data() const;
  /// The same for the library, which names places in its messages by it.
  TreeDef to_def() const;
  std::string text() const;

  std::size_t hash() const;
  friend bool operator==(const PyTree& a, const PyTree& b);

 private:
  std::string key_text(std::size_t child) const;

  void mark_float0(const std::vector<bool>& flags, std::size_t& next);

  Kind kind_ = Kind::kLeaf;
  bool is_float0_ = false;
  std::vector<PyTree> children_;
  Held type_;  // Of a named tuple or registered class; the factory of a defaultdict.
  Held data_;  // The keys of a dict, as a list; what a registered class keeps beside its children.
};

/// The leaves of a tree and, as bytes, all that its structure is, for looking up calls: equal for equal structures.
void append_structure(nb::handle tree, std::string& structure, std::vector<nb::handle>& leaves,
                      std::vector<nb::object>& held);

/// A prefix of a tree, with `leaf` of every object at its leaves; what `is_leaf` is true of ends it.
template <class Leaf, class IsLeaf, class F>
Prefix<Leaf> prefix_of(nb::handle x, const IsLeaf& is_leaf, const F& leaf) {
  if (is_leaf(x)) return Prefix<Leaf>(leaf(x));
  std::vector<nb::object> leaves;
  const PyTree tree =
      PyTree::flatten(x, leaves, nb::cpp_function([x](nb::handle part) { return !part.is(x); }, nb::arg().none()));
  if (tree.is_leaf()) return Prefix<Leaf>(leaf(x));
  // A sequence may stand for arguments of which some are static, so that its numbers are not theirs.
  const TreeDef def = tree.to_def();
  const bool is_sequence = PyTuple_Check(x.ptr()) || PyList_Check(x.ptr());
  std::vector<std::pair<std::string, Prefix<Leaf>>> children;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    children.emplace_back(is_sequence ? std::string() : def.children[i].key, prefix_of<Leaf>(leaves[i], is_leaf, leaf));
  }
  return Prefix<Leaf>(def.kind, std::move(children));
}

/// Makes an array of a leaf that is none, given the structure of its tree and its number there.
using LeafMaker = std::function<Array(nb::handle leaf, const TreeDef& tree, std::size_t number)>;

/// The arrays of a tree, whose leaves must be arrays or numbers, and its structure.
struct ArrayTree {
  std::vector<Array> leaves;
  PyTree tree;
  TreeDef def;
};
ArrayTree array_tree(nb::handle x, std::string_view function, const LeafMaker& make = {});
/// The structure of the tree x, in which children of registered classes have the names that these give them
/// (register_dataclass, register_pytree_with_keys), and not their positions: for what is found again by its path.
TreeDef named_def(nb::handle x, const PyTree& tree);
nb::object tree_object(const PyTree& tree, const std::vector<Array>& leaves);

/// The dimensions that pmap or vmap maps: None, a number, or a tree of these that is a prefix. `what` is for messages.
AxisTree axis_tree(nb::handle x, std::string_view what);

}  // namespace shoal::python
