// Calls of Python functions on trees, as the library's caches take them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "convert.h"
#include "tree.h"

namespace shoal::python {

/// A Python function and which of its arguments are static. Copies share the function.
struct Callee {
  nb::object function;
  std::string name;
  std::vector<std::int64_t> static_argnums;  ///< Not negative, ascending.
  std::vector<std::string> static_argnames;

  bool is_static(std::size_t position) const;
  bool is_static(std::string_view keyword) const;
};

/// One call. Its arguments must outlive it. Made and destroyed with the GIL; the library may use it without.
class PythonCall final : public detail::FunctionCall {
 public:
  /// With `types_allowed` a ShapeDtypeStruct may stand for an array.
  PythonCall(const Callee& callee, nb::handle args, nb::handle kwargs, bool types_allowed = false);

  detail::CallArguments flatten() const override;
  detail::TracedFunction function() const override;

 private:
  const Array& array_at(nb::handle leaf, std::size_t number);
  void add_static(nb::handle value, std::string_view what);

  const Callee& callee_;
  nb::handle args_;
  nb::handle kwargs_;
  std::deque<Array> made_;        // Of numbers and arrays of NumPy.
  std::vector<nb::object> held_;  // What registered classes are made of.
};

/// What a traced function returned: its structure, which is what an exemplar holds.
detail::TracedResult traced_result(nb::handle result, const std::string& name);
/// The result of a call, of which an exemplar says the structure.
nb::object result_object(const std::any& exemplar, std::vector<Array> leaves);

/// One sharding for all, or a tree of them.
ShardingTree sharding_tree(nb::handle x, std::string_view what);
SpecTree spec_tree(nb::handle x, std::string_view what);

}  // namespace shoal::python
