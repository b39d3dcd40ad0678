// Compiled programs as bytes: stored by one process, run by another.
//
//   std::string bytes = step.lower(params, batch).compile().serialize();
//   auto step = deserialize_and_load<Params(Params, Array)>(bytes);  // Perhaps much later, and elsewhere.
//   params = step(params, batch);
#pragma once

#include <algorithm>
#include <any>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/jit.h"
#include "shoal/tree.h"

namespace shoal {

namespace detail {

/// A key of a map, from its text in paths; any key if that is no such text.
template <class K>
K key_of_text(std::string_view text) {
  K key{};
  if constexpr (std::is_convertible_v<K, std::string>) {
    if (text.size() >= 4) key = K(std::string(text.substr(2, text.size() - 4)));
  } else {
    if (text.size() >= 2) std::from_chars(text.data() + 1, text.data() + text.size() - 1, key);
  }
  return key;
}

/// Gives an empty tree the vectors, maps and optional values of `def`. Throws TypeMismatch, naming the path, if a tree
/// of this type cannot have that structure.
template <class T>
void take_structure(T& tree, const TreeDef& def, const std::string& path, SourceLocation where) {
  bool fits = false;
  if constexpr (std::is_same_v<T, Array>) {
    fits = def.is_leaf();
  } else {
    if constexpr (kIsVector<T>) {
      tree.resize(def.children.size());
    } else if constexpr (kIsMap<T>) {
      for (const auto& [key, child] : def.children) tree.try_emplace(key_of_text<typename T::key_type>(key));
    } else if constexpr (kIsOptional<T>) {
      if (!def.children.empty()) tree.emplace();
    }
    std::size_t next = 0;
    const char* kind = for_each_child(tree, [&](const auto& key, auto& value) {
      if (next < def.children.size() && def.children[next].key == key()) {
        take_structure(value, def.children[next].tree, path + key(), where);
        ++next;
      }
    });
    fits = kind == def.kind && next == def.children.size();
  }
  if (fits) return;
  throw TypeMismatch("deserialize_and_load: the result" + path + " of the stored program is " + to_string(def) +
                         ", which the result type of the given function cannot hold",
                     where);
}

/// The signature R(P...).
template <class S>
struct Signature;
template <class R, class... P>
struct Signature<R(P...)> {
  using Result = std::decay_t<R>;
  using CallParameters = typename TracedParameters<Parameters<P...>>::type;
};

std::shared_ptr<CompiledImpl> load_compiled(std::string_view bytes, const std::vector<Device>& devices,
                                            SourceLocation where);
const TreeDef& result_tree(const CompiledImpl& compiled);
void set_exemplar(CompiledImpl& compiled, std::any exemplar);

}  // namespace detail

/// The compiled program that serialize() stored: it takes the arguments, lies on the devices and gives the results that
/// it did, bit by bit. `Function` is the type of the function, as Array(Array, Params); static arguments count for
/// nothing in it. Members of result types that are no arrays are default-constructed. explain() knows no source lines.
/// With `devices` it runs on these, in the order of those it was compiled for.
///
/// Throws InvalidArgument for bytes that are no program, that are damaged or cut off, or that another version of Shoal
/// stored, and if this process has not the devices; TypeMismatch if the result type cannot hold the results.
/// @param bytes What Compiled::serialize gave.
/// @param devices The devices to run on; those of the program if none are given.
template <class Function>
auto deserialize_and_load(std::string_view bytes, const std::vector<Device>& devices = {},
                          SourceLocation where = SourceLocation::current()) {
  using R = typename detail::Signature<Function>::Result;
  std::shared_ptr<detail::CompiledImpl> impl = detail::load_compiled(bytes, devices, where);
  R exemplar{};
  detail::take_structure(exemplar, detail::result_tree(*impl), "", where);
  detail::set_exemplar(*impl, std::move(exemplar));
  return Compiled<R, typename detail::Signature<Function>::CallParameters>(std::move(impl));
}

}  // namespace shoal
