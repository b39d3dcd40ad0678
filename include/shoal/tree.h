// Trees of arrays: any mix of Array, std::vector, std::array, std::pair, std::tuple, std::map, std::optional and plain
// aggregates.
//
// The fields of an aggregate are found by Boost.PFR, which gives positions, not names. A type may name its fields, or
// say which of its members are in the tree, with a function that is found by argument-dependent look-up:
//   auto shoal_tree(Params& p) { return shoal::fields(shoal::field("w", p.w), shoal::field("b", p.b)); }
//
// @param tree A tree of arrays.
// @param def Where its structure is written, if it is given.
// @param leaves The arrays, in order.
// @param f The function of an array of each tree.
// @param a A second tree, of the structure of the first.
// @param b A third one.
// @param c A fourth one.
// @param d A fifth one.
// @param rest Further ones.
// @param name The name of the member.
// @param value The member.
// @param list The members.
// @param leaf What holds for a whole part of the tree.
// @param children What holds for each child.
// @param kind What the node is.
#pragma once

#include <array>
#include <boost/pfr.hpp>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "shoal/array.h"

namespace shoal {

template <class T>
struct Field {
  const char* name;
  T& value;
};
/// A named field of an aggregate, for shoal_tree.
template <class T>
Field<T> field(const char* name, T& value) {
  return {name, value};
}
template <class... T>
std::tuple<Field<T>...> fields(Field<T>... list) {
  return {list...};
}

/// A static argument of a jitted function; made by static_arg.
template <class T>
struct StaticArg {
  T value;
  operator const T&() const { return value; }
};

/// The structure of a tree: what is left when its arrays are taken out.
struct TreeDef {
  struct Child;
  std::string kind;  ///< "leaf", "vector", "tuple", "map", "optional" or "struct"; Python's.
  std::vector<Child> children;
  friend bool operator==(const TreeDef& a, const TreeDef& b);

  bool is_leaf() const { return kind == "leaf"; }
  std::size_t num_leaves() const;
  /// The path of every leaf, as "[0].w".
  std::vector<std::string> leaf_paths() const;
};
struct TreeDef::Child {
  std::string key;  ///< As it stands in paths: "[0]", ".w".
  TreeDef tree;
  friend bool operator==(const Child&, const Child&) = default;
};
inline bool operator==(const TreeDef& a, const TreeDef& b) { return a.kind == b.kind && a.children == b.children; }
/// "struct(.w: leaf, .b: vector([0]: leaf))"
std::string to_string(const TreeDef& tree);

namespace detail {

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsStdArray = false;
template <class T, std::size_t N>
inline constexpr bool kIsStdArray<std::array<T, N>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class K, class T>
inline constexpr bool kIsMap<std::map<K, T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool kIsStaticArg = false;
template <class T>
inline constexpr bool kIsStaticArg<StaticArg<T>> = true;
inline constexpr const char* kStaticKind = "static";
template <class T>
concept HasTreeHook = requires(T& t) {
  shoal_tree(t);
};

template <class I>
std::string index_text(I index) {
  return std::string("[").append(std::to_string(index)).append("]");
}

template <class K>
std::string key_text(const K& key) {
  if constexpr (std::is_convertible_v<K, std::string>) {
    return std::string("['").append(key).append("']");
  } else {
    return index_text(key);
  }
}

/// Calls child(key, value) for the children of a tree that is no leaf, in order, where key() makes the text of the key;
/// returns its kind.
template <class T, class F>
const char* for_each_child(T& tree, F&& child) {
  if constexpr (kIsStaticArg<T>) {
    return kStaticKind;  // Of the arguments of a call, which leave it out of their structure.
  } else if constexpr (HasTreeHook<T>) {
    std::apply([&](auto... member) { (child([&] { return std::string(".") + member.name; }, member.value), ...); },
               shoal_tree(tree));
    return "struct";
  } else if constexpr (kIsVector<T> || kIsStdArray<T>) {
    for (std::size_t i = 0; i < tree.size(); ++i) child([&] { return index_text(i); }, tree[i]);
    return "vector";
  } else if constexpr (kIsTuple<T>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (child([] { return index_text(I); }, std::get<I>(tree)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>{});
    return "tuple";
  } else if constexpr (kIsMap<T>) {
    for (auto& entry : tree) child([&] { return key_text(entry.first); }, entry.second);
    return "map";
  } else if constexpr (kIsOptional<T>) {
    if (tree) child([] { return std::string(); }, *tree);
    return "optional";
  } else {
    static_assert(!std::is_array_v<T>, "a tree cannot hold a C array: use std::array");
    static_assert(
        !std::is_arithmetic_v<T>,
        "a tree holds Arrays: make this number an Array, leave it out with a shoal_tree(T&) function, or pass "
        "it as an argument of its own, by static_arg(value)");
    static_assert(std::is_aggregate_v<T>,
                  "a tree cannot hold this type: use an aggregate without base classes, write shoal_tree(T&), or pass "
                  "it as an argument of its own, by static_arg(value)");
    boost::pfr::for_each_field(tree, [&](auto& member, std::size_t i) {
      child([i] { return std::string(".").append(std::to_string(i)); }, member);
    });
    return "struct";
  }
}

/// Calls visit(Array&) for every leaf of `tree` in order, and describes its structure in `def` if that is not null.
template <class T, class V>
void walk_tree(T& tree, TreeDef* def, V& visit) {
  if constexpr (std::is_same_v<T, Array>) {
    if (def != nullptr) def->kind = "leaf";
    visit(tree);
  } else {
    const char* kind = for_each_child(tree, [&](const auto& key, auto& value) {
      TreeDef* slot = nullptr;
      if (def != nullptr) slot = &def->children.emplace_back(key(), TreeDef{}).tree;
      walk_tree(value, slot, visit);
    });
    if (def != nullptr) def->kind = kind;
  }
}

/// Appends what the structure of a tree depends on besides its type: the lengths of vectors, whether optionals hold
/// anything, and the keys of maps and the names of hooks.
template <class T>
void append_structure(T& tree, std::string& structure) {
  if constexpr (!std::is_same_v<T, Array> && !kIsStaticArg<T>) {
    if constexpr (kIsVector<T>) structure.append(std::to_string(tree.size())).push_back(':');
    if constexpr (kIsOptional<T>) structure.push_back(tree ? '+' : '-');
    for_each_child(tree, [&](const auto& key, auto& value) {
      if constexpr (kIsMap<T> || HasTreeHook<T>) structure.append(key()).push_back('\0');
      append_structure(value, structure);
    });
    if constexpr (kIsMap<T>) structure.push_back('.');
  }
}

/// Whether append_structure appends nothing, whatever the value.
template <class T>
constexpr bool has_fixed_structure() {
  if constexpr (std::is_same_v<T, Array> || kIsStaticArg<T>) {
    return true;
  } else if constexpr (HasTreeHook<T> || kIsVector<T> || kIsMap<T> || kIsOptional<T>) {
    return false;
  } else if constexpr (kIsStdArray<T>) {
    return has_fixed_structure<typename T::value_type>();
  } else if constexpr (kIsTuple<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (has_fixed_structure<std::tuple_element_t<I, T>>() && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>{});
  } else {
    return false;  // It is looked at each time.
  }
}

}  // namespace detail

namespace tree {

/// The arrays of a tree, in order; its structure is written to `def` if that is not null.
template <class T>
std::vector<Array> flatten(const T& tree, TreeDef* def = nullptr) {
  std::vector<Array> leaves;
  T copy = tree;
  auto visit = [&](Array& leaf) { leaves.push_back(leaf); };
  detail::walk_tree(copy, def, visit);
  return leaves;
}

}  // namespace tree

namespace detail {

/// Throws TypeMismatch if the tree in this position of the arguments of tree::map has another structure than the first.
void check_same_structure(const TreeDef& first, const TreeDef& other, std::size_t position, SourceLocation where);

template <class T>
std::vector<Array> leaves_like(const TreeDef& first, const T& tree, std::size_t position, SourceLocation where) {
  TreeDef def;
  std::vector<Array> leaves = tree::flatten(tree, &def);
  check_same_structure(first, def, position, where);
  return leaves;
}

}  // namespace detail

namespace tree {

/// Replaces the arrays of a tree, in order, by `leaves`. Throws TypeMismatch if their number differs.
template <class T>
void assign(T& tree, std::span<const Array> leaves) {
  std::size_t next = 0;
  auto visit = [&](Array& leaf) {
    if (next < leaves.size()) leaf = leaves[next];
    ++next;
  };
  detail::walk_tree(tree, static_cast<TreeDef*>(nullptr), visit);
  if (next != leaves.size()) {
    throw TypeMismatch("tree::assign: the tree has " + std::to_string(next) + " arrays, but " +
                       std::to_string(leaves.size()) + " are given");
  }
}

template <class T>
void assign(T& tree, const std::vector<Array>& leaves) {
  assign(tree, std::span<const Array>(leaves));
}

}  // namespace tree

namespace detail {

template <class F, class T, class... Rest>
T map_together(SourceLocation where, F& f, T tree, const Rest&... rest) {
  TreeDef def;
  std::vector<Array> leaves = tree::flatten(tree, &def);
  std::size_t position = 1;
  const std::array<std::vector<Array>, sizeof...(Rest)> others = {leaves_like(def, rest, ++position, where)...};
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[i] = [&]<std::size_t... I>(std::index_sequence<I...>) { return f(leaves[i], others[I][i]...); }
    (std::index_sequence_for<Rest...>{});
  }
  tree::assign(tree, leaves);
  return tree;
}

}  // namespace detail

namespace tree {

/// The tree with f applied to every array.
template <class F, class T>
T map(F&& f, T tree) {
  auto visit = [&](Array& leaf) { leaf = f(leaf); };
  detail::walk_tree(tree, static_cast<TreeDef*>(nullptr), visit);
  return tree;
}
/// The same for the arrays that several trees have at the same place: `tree` with f(its array, theirs…). Throws
/// TypeMismatch if a tree is not of the structure of the first. The user's line can only come after a known number of
/// arguments: with five trees or more errors have none.
template <class F, class T, class A>
T map(F&& f, T tree, const A& a, SourceLocation where = SourceLocation::current()) {
  return detail::map_together(where, f, std::move(tree), a);
}
template <class F, class T, class A, class B>
T map(F&& f, T tree, const A& a, const B& b, SourceLocation where = SourceLocation::current()) {
  return detail::map_together(where, f, std::move(tree), a, b);
}
template <class F, class T, class A, class B, class C>
T map(F&& f, T tree, const A& a, const B& b, const C& c, SourceLocation where = SourceLocation::current()) {
  return detail::map_together(where, f, std::move(tree), a, b, c);
}
template <class F, class T, class A, class B, class C, class D, class... Rest>
T map(F&& f, T tree, const A& a, const B& b, const C& c, const D& d, const Rest&... rest) {
  return detail::map_together(SourceLocation(), f, std::move(tree), a, b, c, d, rest...);
}

}  // namespace tree

/// One value for a whole tree, or one for each child: P("x"), or {P("x"), {P(), P("y")}}. It must be a prefix of the
/// tree it is applied to.
template <class Leaf>
class Prefix {
 public:
  Prefix() : value_(Leaf{}) {}
  Prefix(None) : Prefix() {}
  template <class T>
  requires(std::is_convertible_v<T, Leaf> && !std::is_same_v<std::remove_cvref_t<T>, Prefix>) Prefix(T&& leaf)
      : value_(Leaf(std::forward<T>(leaf))) {}
  Prefix(std::initializer_list<Prefix> children) : value_(std::vector<Prefix>(children)) {}
  Prefix(std::vector<Prefix> children) : value_(std::move(children)) {}
  /// The same for a node of a kind, whose children have keys, as TreeDef has them: the tree's must be the same. Empty
  /// keys fit any.
  Prefix(std::string kind, std::vector<std::pair<std::string, Prefix>> children) : kind_(std::move(kind)) {
    std::vector<Prefix> values;
    for (auto& [key, child] : children) {
      keys_.push_back(std::move(key));
      values.push_back(std::move(child));
    }
    value_ = std::move(values);
  }

  const Leaf* leaf() const { return std::get_if<Leaf>(&value_); }
  const std::vector<Prefix>* children() const { return std::get_if<std::vector<Prefix>>(&value_); }
  /// Of a node with a kind; else empty.
  const std::string& kind() const { return kind_; }
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::variant<Leaf, std::vector<Prefix>> value_;
  std::string kind_;
  std::vector<std::string> keys_;
};

}  // namespace shoal
