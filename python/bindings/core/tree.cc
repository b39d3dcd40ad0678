#include "bindings/core/tree.h"

#include <fmt/format.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <unordered_map>

#include "bindings/core/flag.h"

namespace shoal::python {
namespace {

// ---- Registered classes.

struct Registered {
  nb::object to_iterable;    // object -> (children, data)
  nb::object from_iterable;  // (data, children) -> object
  nb::object with_keys;      // object -> ((key, child)..., data), or none
};

std::unordered_map<PyObject*, Registered>& registry() {
  static auto& all = *new std::unordered_map<PyObject*, Registered>;
  return all;
}

bool is_namedtuple(PyObject* p) {
  if (!PyTuple_Check(p) || PyTuple_CheckExact(p)) return false;
  return PyObject_HasAttrString(p, "_fields") != 0;
}

PyObject* ordered_dict() {
  static PyObject* const type = nb::object(nb::module_::import_("collections").attr("OrderedDict")).release().ptr();
  return type;
}
PyObject* default_dict() {
  static PyObject* const type = nb::object(nb::module_::import_("collections").attr("defaultdict")).release().ptr();
  return type;
}

using Kind = PyTree::Kind;

Kind kind_of(PyObject* p) {
  if (p == Py_None) return Kind::kNone;
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(p));
  if (PyTuple_CheckExact(p)) return Kind::kTuple;
  if (PyList_CheckExact(p)) return Kind::kList;
  if (PyDict_CheckExact(p)) return Kind::kDict;
  if (!registry().empty() && registry().contains(type)) return Kind::kCustom;
  if (PyTuple_Check(p)) return is_namedtuple(p) ? Kind::kNamedTuple : Kind::kLeaf;
  if (PyDict_Check(p)) {
    if (type == ordered_dict()) return Kind::kOrderedDict;
    if (type == default_dict()) return Kind::kDefaultDict;
  }
  return Kind::kLeaf;
}

nb::object sorted_keys(PyObject* dict, bool sort) {
  nb::object keys = nb::steal(PyDict_Keys(dict));
  if (sort && PyList_GET_SIZE(keys.ptr()) > 1 && PyList_Sort(keys.ptr()) != 0) {
    PyErr_Clear();
    value_error("a dict in a tree must have keys that can be sorted; got " + nb::cast<std::string>(nb::repr(keys)));
  }
  return keys;
}

// What a registered class makes of an object: its children, and what else there is to know.
std::pair<nb::object, nb::object> taken_apart(nb::handle x) {
  const Registered& how = registry().at(reinterpret_cast<PyObject*>(Py_TYPE(x.ptr())));
  const nb::object both = how.to_iterable(x);
  if (!PyTuple_Check(both.ptr()) || nb::len(both) != 2) {
    type_error(fmt::format("flattening {} must give a pair of children and auxiliary data, got {}", type_text(x),
                           nb::cast<std::string>(nb::repr(both))));
  }
  PyObject* const children = PySequence_Tuple(PyTuple_GET_ITEM(both.ptr(), 0));
  if (children == nullptr) nb::raise_python_error();
  return {nb::steal(children), nb::borrow(PyTuple_GET_ITEM(both.ptr(), 1))};
}

std::string repr_text(nb::handle x) { return nb::cast<std::string>(nb::repr(x)); }

// ---- Numbers for objects that are compared by value, as bytes of a structure.

struct HashObject {
  std::size_t operator()(const nb::object& x) const {
    const Py_hash_t hash = PyObject_Hash(x.ptr());
    if (hash == -1) throw nb::python_error();
    return static_cast<std::size_t>(hash);
  }
};
struct EqualObject {
  bool operator()(const nb::object& a, const nb::object& b) const { return a.equal(b); }
};

template <class T>
void append_bytes(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Keys and auxiliary data of one type and value have one number.
void append_value(nb::handle x, std::string& structure) {
  PyObject* p = x.ptr();
  if (PyUnicode_CheckExact(p)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(p, &size);
    if (text != nullptr) {
      structure.push_back('s');
      append_bytes(structure, size);
      structure.append(text, static_cast<std::size_t>(size));
      return;
    }
    PyErr_Clear();
  }
  static auto& numbers = *new std::unordered_map<nb::object, std::uint64_t, HashObject, EqualObject>;
  const nb::object key = nb::make_tuple(x.type(), x);
  const auto number = numbers.try_emplace(key, numbers.size()).first->second;
  structure.push_back('v');
  append_bytes(structure, number);
}

// Types are kept, so that their addresses stay theirs.
void append_type(PyObject* type, std::string& structure) {
  static auto& kept = *new std::unordered_map<PyObject*, bool>;
  if (kept.try_emplace(type, true).second) Py_INCREF(type);
  append_bytes(structure, type);
}

}  // namespace

void append_structure(nb::handle tree, std::string& structure, std::vector<nb::handle>& leaves,
                      std::vector<nb::object>& held) {
  PyObject* p = tree.ptr();
  const Kind kind = kind_of(p);
  if (kind == Kind::kLeaf) {
    structure.push_back('*');
    leaves.push_back(tree);
    return;
  }
  structure.push_back(static_cast<char>('A' + static_cast<int>(kind)));
  switch (kind) {
    case Kind::kTuple:
    case Kind::kNamedTuple:
      if (kind == Kind::kNamedTuple) append_type(reinterpret_cast<PyObject*>(Py_TYPE(p)), structure);
      append_bytes(structure, PyTuple_GET_SIZE(p));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(p); ++i) {
        append_structure(PyTuple_GET_ITEM(p, i), structure, leaves, held);
      }
      break;
    case Kind::kList:
      append_bytes(structure, PyList_GET_SIZE(p));
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(p); ++i) {
        append_structure(PyList_GET_ITEM(p, i), structure, leaves, held);
      }
      break;
    case Kind::kDict:
    case Kind::kOrderedDict:
    case Kind::kDefaultDict: {
      const nb::object keys = sorted_keys(p, kind != Kind::kOrderedDict);
      if (kind == Kind::kDefaultDict) append_value(tree.attr("default_factory"), structure);
      append_bytes(structure, PyList_GET_SIZE(keys.ptr()));
      for (nb::handle key : keys) {
        append_value(key, structure);
        append_structure(PyDict_GetItem(p, key.ptr()), structure, leaves, held);
      }
      break;
    }
    case Kind::kCustom: {
      append_type(reinterpret_cast<PyObject*>(Py_TYPE(p)), structure);
      auto [children, data] = taken_apart(tree);
      append_value(data, structure);
      append_bytes(structure, PyTuple_GET_SIZE(children.ptr()));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children.ptr()); ++i) {
        append_structure(PyTuple_GET_ITEM(children.ptr(), i), structure, leaves, held);
      }
      held.push_back(std::move(children));
      break;
    }
    default:
      break;
  }
}

PyTree PyTree::tuple(std::vector<PyTree> children) {
  PyTree tree;
  tree.kind_ = Kind::kTuple;
  tree.children_ = std::move(children);
  return tree;
}

PyTree PyTree::flatten(nb::handle x, std::vector<nb::object>& leaves, nb::handle is_leaf) {
  PyTree tree;
  PyObject* p = x.ptr();
  const bool ends = !is_leaf.is_none() && nb::cast<bool>(nb::object(is_leaf(x)));
  tree.kind_ = ends ? Kind::kLeaf : kind_of(p);
  const auto add = [&](nb::handle child) { tree.children_.push_back(flatten(child, leaves, is_leaf)); };
  switch (tree.kind_) {
    case Kind::kLeaf:
      leaves.push_back(nb::borrow(x));
      break;
    case Kind::kNone:
      break;
    case Kind::kNamedTuple:
      tree.type_ = Held(x.type());
      [[fallthrough]];
    case Kind::kTuple:
    case Kind::kList:
      for (nb::handle child : x) add(child);
      break;
    case Kind::kDict:
    case Kind::kOrderedDict:
    case Kind::kDefaultDict: {
      const nb::object keys = sorted_keys(p, tree.kind_ != Kind::kOrderedDict);
      if (tree.kind_ == Kind::kDefaultDict) tree.type_ = Held(x.attr("default_factory"));
      tree.data_ = Held(keys);
      for (nb::handle key : keys) add(PyDict_GetItem(p, key.ptr()));
      break;
    }
    case Kind::kCustom: {
      tree.type_ = Held(x.type());
      const auto [children, data] = taken_apart(x);
      tree.data_ = Held(data);
      for (nb::handle child : children) add(child);
      break;
    }
  }
  return tree;
}

nb::object PyTree::unflatten(const std::vector<nb::object>& leaves, std::size_t& next) const {
  switch (kind_) {
    case Kind::kLeaf: {
      const nb::object& leaf = leaves.at(next++);
      return is_float0_ ? float0_array(leaf.attr("shape")) : leaf;
    }
    case Kind::kNone:
      return nb::none();
    case Kind::kDict:
    case Kind::kOrderedDict:
    case Kind::kDefaultDict: {
      nb::object dict = kind_ == Kind::kDict          ? nb::object(nb::dict())
                        : kind_ == Kind::kOrderedDict ? nb::borrow(ordered_dict())()
                                                      : nb::borrow(default_dict())(type_.get());
      std::size_t i = 0;
      for (nb::handle key : data_.get()) {
        const nb::object value = children_[i++].unflatten(leaves, next);
        // Also of an ordered dict, which keeps its order besides.
        if (PyObject_SetItem(dict.ptr(), key.ptr(), value.ptr()) != 0) throw nb::python_error();
      }
      return dict;
    }
    default:
      break;
  }
  nb::list parts;
  for (const PyTree& child : children_) parts.append(child.unflatten(leaves, next));
  switch (kind_) {
    case Kind::kList:
      return parts;
    case Kind::kTuple:
      return nb::tuple(parts);
    case Kind::kNamedTuple:
      return type_.get()(*nb::tuple(parts));
    default:
      return registry().at(type_.get().ptr()).from_iterable(data_.get(), nb::tuple(parts));
  }
}

void PyTree::mark_float0(const std::vector<nb::object>& leaves) {
  std::vector<bool> flags;
  for (const nb::object& leaf : leaves) flags.push_back(python::is_float0(leaf));
  if (std::ranges::find(flags, true) == flags.end()) return;
  std::size_t next = 0;
  mark_float0(flags, next);
}

void PyTree::mark_float0(const std::vector<bool>& flags, std::size_t& next) {
  if (is_leaf()) is_float0_ = flags[next++];
  for (PyTree& child : children_) child.mark_float0(flags, next);
}

nb::object PyTree::unflatten(const std::vector<nb::object>& leaves) const {
  if (leaves.size() != num_leaves()) {
    value_error(fmt::format("{} leaves for the tree {}, which has {}", leaves.size(), text(), num_leaves()));
  }
  std::size_t next = 0;
  return unflatten(leaves, next);
}

void PyTree::flatten_up_to(nb::handle x, std::vector<nb::object>& parts, const std::string& path) const {
  if (is_leaf()) {
    parts.push_back(nb::borrow(x));
    return;
  }
  std::vector<nb::object> leaves;
  // One level of it.
  const nb::object self = nb::borrow(x);
  const Kind kind = kind_of(x.ptr());
  const auto part = [&](const std::string& why) {
    value_error(
        fmt::format("Expected {}, got {} at {}: {}", text(), repr_text(x), path.empty() ? "the root" : path, why));
  };
  const bool both_dicts =
      kind >= Kind::kDict && kind <= Kind::kDefaultDict && kind_ >= Kind::kDict && kind_ <= Kind::kDefaultDict;
  if (kind != kind_ && !both_dicts) part("the structures differ");
  std::vector<nb::object> children;
  switch (kind_) {
    case Kind::kNone:
      return;
    case Kind::kNamedTuple:
    case Kind::kTuple:
    case Kind::kList:
      if (kind_ == Kind::kNamedTuple && !x.type().is(type_.get())) part("the classes differ");
      for (nb::handle child : x) children.push_back(nb::borrow(child));
      break;
    case Kind::kDict:
    case Kind::kOrderedDict:
    case Kind::kDefaultDict:
      if (nb::len(x) != nb::len(data_.get())) part("the keys differ");
      for (nb::handle key : data_.get()) {
        PyObject* child = PyDict_GetItem(x.ptr(), key.ptr());
        if (child == nullptr) part("the key " + repr_text(key) + " is missing");
        children.push_back(nb::borrow(child));
      }
      break;
    default: {
      if (!x.type().is(type_.get())) part("the classes differ");
      const auto [items, data] = taken_apart(x);
      if (!data.equal(data_.get())) part("the auxiliary data differ");
      for (nb::handle child : items) children.push_back(nb::borrow(child));
    }
  }
  if (children.size() != children_.size()) {
    part(fmt::format("it has {} children where {} are expected", children.size(), children_.size()));
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    children_[i].flatten_up_to(children[i], parts, path + key_text(i));
  }
}

std::size_t PyTree::num_leaves() const {
  if (is_leaf()) return 1;
  std::size_t sum = 0;
  for (const PyTree& child : children_) sum += child.num_leaves();
  return sum;
}

std::size_t PyTree::num_nodes() const {
  std::size_t sum = 1;
  for (const PyTree& child : children_) sum += child.num_nodes();
  return sum;
}

std::vector<nb::object> PyTree::keys() const {
  const nb::module_ paths = nb::module_::import_("shoal._key_paths");
  std::vector<nb::object> list;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    switch (kind_) {
      case Kind::kTuple:
      case Kind::kList:
        list.push_back(paths.attr("SequenceKey")(i));
        break;
      case Kind::kNamedTuple:
        list.push_back(paths.attr("GetAttrKey")(type_.get().attr("_fields")[i]));
        break;
      case Kind::kDict:
      case Kind::kOrderedDict:
      case Kind::kDefaultDict:
        list.push_back(paths.attr("DictKey")(data_.get()[i]));
        break;
      default:
        list.push_back(paths.attr("FlattenedIndexKey")(i));
    }
  }
  return list;
}

std::string PyTree::key_text(std::size_t child) const {
  switch (kind_) {
    case Kind::kNamedTuple:
      return "." + nb::cast<std::string>(type_.get().attr("_fields")[child]);
    case Kind::kDict:
    case Kind::kOrderedDict:
    case Kind::kDefaultDict:
      return "[" + repr_text(data_.get()[child]) + "]";
    default:
      return detail::index_text(child);
  }
}

nb::object PyTree::node_data() const {
  switch (kind_) {
    case Kind::kLeaf:
      return nb::none();
    case Kind::kNone:
      return nb::make_tuple(nb::borrow(nb::none().type()), nb::none());
    case Kind::kTuple:
      return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyTuple_Type)), nb::none());
    case Kind::kList:
      return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyList_Type)), nb::none());
    case Kind::kDict:
      return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyDict_Type)), data_.get());
    case Kind::kOrderedDict:
      return nb::make_tuple(nb::borrow(ordered_dict()), data_.get());
    case Kind::kDefaultDict:
      return nb::make_tuple(nb::borrow(default_dict()), nb::make_tuple(type_.get(), data_.get()));
    default:
      return nb::make_tuple(type_.get(), data_.get().is_valid() ? nb::borrow(data_.get()) : nb::none());
  }
}

TreeDef PyTree::to_def() const {
  static constexpr const char* kKinds[] = {"leaf", "None",        "tuple",       "list", nullptr,
                                           "dict", "OrderedDict", "defaultdict", nullptr};
  TreeDef def;
  const char* name = kKinds[static_cast<std::size_t>(kind_)];
  def.kind = name != nullptr ? name : nb::cast<std::string>(type_.get().attr("__name__"));
  for (std::size_t i = 0; i < children_.size(); ++i) def.children.emplace_back(key_text(i), children_[i].to_def());
  return def;
}

std::string PyTree::text() const {
  std::vector<std::string> parts;
  for (const PyTree& child : children_) parts.push_back(child.text());
  const auto joined = [&] { return fmt::format("{}", fmt::join(parts, ", ")); };
  switch (kind_) {
    case Kind::kLeaf:
      return "*";
    case Kind::kNone:
      return "None";
    case Kind::kTuple:
      return parts.size() == 1 ? "(" + parts[0] + ",)" : "(" + joined() + ")";
    case Kind::kList:
      return "[" + joined() + "]";
    case Kind::kNamedTuple: {
      std::string text;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        text += fmt::format("{}{}={}", i == 0 ? "" : ", ", key_text(i).substr(1), parts[i]);
      }
      return fmt::format("{}({})", nb::cast<std::string>(type_.get().attr("__name__")), text);
    }
    case Kind::kDict:
    case Kind::kOrderedDict:
    case Kind::kDefaultDict: {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string key = key_text(i);
        parts[i] = key.substr(1, key.size() - 2) + ": " + parts[i];
      }
      const std::string inner = "{" + joined() + "}";
      if (kind_ == Kind::kOrderedDict) return "OrderedDict(" + inner + ")";
      if (kind_ == Kind::kDefaultDict) return fmt::format("defaultdict({}, {})", repr_text(type_.get()), inner);
      return inner;
    }
    default:
      return fmt::format("CustomNode({}[{}], [{}])", nb::cast<std::string>(type_.get().attr("__name__")),
                         repr_text(data_.get()), joined());
  }
}

std::size_t PyTree::hash() const {
  std::size_t hash = static_cast<std::size_t>(kind_) + 31 * children_.size();
  if (kind_ >= Kind::kDict && kind_ <= Kind::kDefaultDict) {
    for (nb::handle key : data_.get()) hash = 31 * hash + static_cast<std::size_t>(nb::hash(key));
  }
  for (const PyTree& child : children_) hash = 31 * hash + child.hash();
  return hash;
}

bool operator==(const PyTree& a, const PyTree& b) {
  if (a.kind_ != b.kind_ || a.children_ != b.children_) return false;
  if (a.kind_ == Kind::kLeaf || a.kind_ == Kind::kNone) return true;
  nb::gil_scoped_acquire gil;
  const auto same = [](const Held& x, const Held& y) {
    if (!x.get().is_valid() || !y.get().is_valid()) return x.get().is_valid() == y.get().is_valid();
    return x.get().is(y.get()) || nb::borrow(x.get()).equal(y.get());
  };
  return same(a.type_, b.type_) && same(a.data_, b.data_);
}

ArrayTree array_tree(nb::handle x, std::string_view function, const LeafMaker& make) {
  ArrayTree result;
  std::vector<nb::object> leaves;
  result.tree = PyTree::flatten(x, leaves);
  result.def = result.tree.to_def();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (const Array* array = array_of(leaves[i])) {
      result.leaves.push_back(*array);
      continue;
    }
    if (!is_array_like(leaves[i])) {
      type_error(fmt::format("{}: a leaf{}{} must be an array or a number, got {}", function,
                             result.tree.is_leaf() ? "" : " at ", result.def.leaf_paths()[i], type_text(leaves[i])));
    }
    result.leaves.push_back(make ? make(leaves[i], result.def, i) : to_array(leaves[i], function));
  }
  return result;
}

nb::object tree_object(const PyTree& tree, const std::vector<Array>& leaves) {
  std::vector<nb::object> objects;
  objects.reserve(leaves.size());
  for (const Array& leaf : leaves) objects.push_back(nb::cast(leaf));
  return tree.unflatten(objects);
}

namespace {

void paths_of(nb::handle x, const nb::tuple& path, nb::handle is_leaf, bool with_path, nb::list& out) {
  if (!is_leaf.is_none() && nb::cast<bool>(with_path ? nb::object(is_leaf(path, x)) : nb::object(is_leaf(x)))) {
    out.append(nb::make_tuple(path, x));
    return;
  }
  const Kind kind = kind_of(x.ptr());
  if (kind == Kind::kLeaf) {
    out.append(nb::make_tuple(path, x));
    return;
  }
  const auto down = [&](nb::handle key, nb::handle child) {
    paths_of(child, nb::tuple(path + nb::make_tuple(key)), is_leaf, with_path, out);
  };
  if (kind == Kind::kCustom) {
    const Registered& how = registry().at(reinterpret_cast<PyObject*>(Py_TYPE(x.ptr())));
    if (!how.with_keys.is_none()) {
      const nb::object both = how.with_keys(x);
      for (nb::handle pair : nb::object(both[0])) down(nb::object(pair[0]), nb::object(pair[1]));
      return;
    }
  }
  // Children are leaves here: only one level is taken apart.
  const nb::object stop = nb::cpp_function([x](nb::handle y) { return !y.is(x); }, nb::arg().none());
  std::vector<nb::object> children;
  const PyTree one = PyTree::flatten(x, children, stop);
  const std::vector<nb::object> keys = one.keys();
  for (std::size_t i = 0; i < children.size(); ++i) down(keys[i], children[i]);
}

// Names the children of registered classes as these name them.
void name_children(nb::handle x, TreeDef& def) {
  const Kind kind = kind_of(x.ptr());
  if (kind == Kind::kLeaf) return;
  std::vector<nb::object> children;
  const Registered* how = nullptr;
  if (kind == Kind::kCustom) how = &registry().at(reinterpret_cast<PyObject*>(Py_TYPE(x.ptr())));
  if (how != nullptr && !how->with_keys.is_none()) {
    const nb::object both = how->with_keys(x);
    for (nb::handle pair : nb::object(both[0])) {
      if (children.size() < def.children.size()) {
        def.children[children.size()].key = nb::cast<std::string>(nb::str(nb::object(pair[0])));
      }
      children.push_back(nb::object(pair[1]));
    }
  } else {
    PyTree::flatten(x, children, nb::cpp_function([x](nb::handle y) { return !y.is(x); }, nb::arg().none()));
  }
  for (std::size_t i = 0; i < std::min(children.size(), def.children.size()); ++i) {
    name_children(children[i], def.children[i].tree);
  }
}

}  // namespace

TreeDef named_def(nb::handle x, const PyTree& tree) {
  TreeDef def = tree.to_def();
  name_children(x, def);
  return def;
}

AxisTree axis_tree(nb::handle x, std::string_view what) {
  const auto is_leaf = [](nb::handle leaf) { return leaf.is_none() || PyLong_Check(leaf.ptr()); };
  return prefix_of<std::optional<std::int64_t>>(
      x, is_leaf, [&](nb::handle leaf) -> std::optional<std::int64_t> { return maybe_integer(leaf, what); });
}

void bind_tree(nb::module_& m) {
  nb::class_<PyTree>(m, "PyTreeDef", "The structure of a tree: what is left when its leaves are taken out.")
      .def_prop_ro("num_leaves", &PyTree::num_leaves)
      .def_prop_ro("num_nodes", &PyTree::num_nodes)
      .def("children", &PyTree::children)
      .def("node_data", &PyTree::node_data)
      .def(
          "unflatten",
          [](const PyTree& tree, nb::handle leaves) {
            std::vector<nb::object> list;
            for (nb::handle leaf : leaves) list.push_back(nb::borrow(leaf));
            return tree.unflatten(list);
          },
          "leaves"_a, "The tree with these leaves.")
      .def(
          "flatten_up_to",
          [](const PyTree& tree, nb::handle x) {
            std::vector<nb::object> parts;
            tree.flatten_up_to(x, parts);
            return parts;
          },
          "tree"_a.none(), "The parts of a tree that stand at the leaves of this one.")
      .def(
          "__eq__",
          [](const PyTree& a, nb::handle b) { return nb::isinstance<PyTree>(b) && a == nb::cast<PyTree&>(b); },
          nb::is_operator())
      .def("__hash__", &PyTree::hash)
      .def("__repr__", [](const PyTree& tree) { return "PyTreeDef(" + tree.text() + ")"; });

  m.def(
      "tree_flatten",
      [](nb::handle tree, nb::handle is_leaf) {
        std::vector<nb::object> leaves;
        PyTree def = PyTree::flatten(tree, leaves, is_leaf);
        return nb::make_tuple(list_of(std::move(leaves)), std::move(def));
      },
      "tree"_a.none(), "is_leaf"_a = nb::none(), "The leaves of a tree, as a list, and its structure.");
  m.def(
      "tree_unflatten",
      [](const PyTree& def, nb::handle leaves) {
        std::vector<nb::object> list;
        for (nb::handle leaf : leaves) list.push_back(nb::borrow(leaf));
        return def.unflatten(list);
      },
      "treedef"_a, "leaves"_a, "The tree of this structure with these leaves.");
  m.def(
      "tree_leaves",
      [](nb::handle tree, nb::handle is_leaf) {
        std::vector<nb::object> leaves;
        PyTree::flatten(tree, leaves, is_leaf);
        return list_of(std::move(leaves));
      },
      "tree"_a.none(), "is_leaf"_a = nb::none(), "The leaves of a tree.");
  m.def(
      "tree_structure",
      [](nb::handle tree, nb::handle is_leaf) {
        std::vector<nb::object> leaves;
        return PyTree::flatten(tree, leaves, is_leaf);
      },
      "tree"_a.none(), "is_leaf"_a = nb::none(), "The structure of a tree.");
  m.def(
      "tree_map",
      [](nb::callable f, nb::handle tree, nb::args rest, nb::handle is_leaf) {
        std::vector<nb::object> leaves;
        const PyTree def = PyTree::flatten(tree, leaves, is_leaf);
        std::vector<std::vector<nb::object>> others;
        for (nb::handle other : rest) def.flatten_up_to(other, others.emplace_back());
        std::vector<nb::object> results;
        for (std::size_t i = 0; i < leaves.size(); ++i) {
          nb::list arguments;
          arguments.append(leaves[i]);
          for (const auto& other : others) arguments.append(other[i]);
          results.push_back(f(*nb::tuple(arguments)));
        }
        return def.unflatten(results);
      },
      "f"_a, "tree"_a.none(), "rest"_a, nb::kw_only(), "is_leaf"_a = nb::none(),
      "The tree with f applied to every leaf and, of further trees, to what stands in its place.");
  m.def(
      "_flatten_with_path",
      [](nb::handle tree, nb::handle is_leaf, Flag with_path) {
        nb::list list;
        paths_of(tree, nb::tuple(), is_leaf, with_path, list);
        return list;
      },
      "tree"_a.none(), "is_leaf"_a.none(), "with_path"_a);
  m.def(
      "treedef_tuple",
      [](nb::handle defs) {
        std::vector<PyTree> children;
        for (nb::handle def : defs) children.push_back(nb::cast<PyTree>(def));
        return PyTree::tuple(std::move(children));
      },
      "treedefs"_a, "The structure of a tuple of trees.");
  m.def(
      "treedef_is_leaf", [](const PyTree& def) { return def.num_nodes() == 1; }, "treedef"_a,
      "Whether the structure is that of a leaf.");
  m.def(
      "_register",
      [](nb::handle type, nb::object to_iterable, nb::object from_iterable, nb::object with_keys) {
        if (!PyType_Check(type.ptr()))
          type_error("register_pytree_node: nodetype must be a class, got " + repr_text(type));
        if (!registry().try_emplace(type.ptr(), Registered{to_iterable, from_iterable, with_keys}).second) {
          value_error("Duplicate custom PyTreeDef type registration for " + repr_text(type) + ".");
        }
        type.inc_ref();
      },
      "type"_a, "to_iterable"_a, "from_iterable"_a, "with_keys"_a = nb::none());
}

}  // namespace shoal::python
