// Traced functions as bytes: stored by one program, and called by another as one of its own functions.
//
//   std::string bytes = export_function(f, {}, x).serialize();
//   auto f = deserialize_exported<Array(Array)>(bytes);
//   auto slope = grad(jit([&](Array x) { return f(x * 2); }));
//
// A compiled program (shoal/serialize.h) is for devices that are known, and runs as it is. An exported function is not
// compiled yet: it becomes part of whatever calls it, is differentiated there, and runs where its arguments lie.
//
// @param impl What the library holds.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/jit.h"
#include "shoal/serialize.h"

namespace shoal {

namespace detail {

struct ExportedImpl;

/// What is known of an exported function.
struct ExportedFacts {
  std::string name;
  TreeDef in_tree;
  TreeDef out_tree;
  std::vector<Array> in_types;   ///< Types alone, as arrays without elements.
  std::vector<Array> out_types;  ///< The same.
  /// Over abstract meshes; nullopt where no sharding was given.
  std::vector<std::optional<Sharding>> in_shardings;
  std::vector<std::optional<Sharding>> out_shardings;
  std::int64_t num_devices = 1;
  bool has_rules = false;  ///< Whether functions with derivatives or batching rules of their own are called in it.
  std::string note;        ///< A free-form note that was stored with the function.
};

/// Throws Unsupported for a function that calls functions of this process, and InvalidArgument for shardings over
/// meshes of different sizes.
std::shared_ptr<const ExportedImpl> export_lowered(const LoweredImpl& lowered, SourceLocation where);
/// Throws InvalidArgument for bytes that are not such a function, are damaged, or come from another version of Shoal.
std::shared_ptr<const ExportedImpl> load_exported(std::string_view bytes, SourceLocation where);
std::string serialize_exported(const ExportedImpl& exported, std::string_view note, SourceLocation where);
const ExportedFacts& facts_of(const ExportedImpl& exported);
std::string exported_text(const ExportedImpl& exported);
void set_exemplar(ExportedImpl& exported, std::any exemplar);
/// The results for these arguments: compiled and run, or, inside a trace, as part of it.
std::vector<Array> call_exported(const ExportedImpl& exported, const CallArguments& arguments, std::any& exemplar,
                                 MaybeLocation where);

}  // namespace detail

/// An exported function. It is called with arguments of the trees, shapes and dtypes that it was exported for,
/// anywhere: outside jit, in jit, and in functions that are differentiated or mapped. Captured arrays are part of it.
///
/// If it or its arguments were sharded over a mesh, calls need as many devices as the mesh has: those of their
/// arguments, or those on which the calling function runs. Functions of one device run on any number.
///
/// Calls throw InvalidArgument for other shapes and dtypes, and for another number of devices; TypeMismatch for other
/// trees.
template <class R, class P = detail::UnknownParameters>
class Exported : public detail::Callable<Exported<R, P>, P> {
 public:
  explicit Exported(std::shared_ptr<const detail::ExportedImpl> impl) : impl_(std::move(impl)) {}

  const std::string& name() const { return detail::facts_of(*impl_).name; }
  const TreeDef& in_tree() const { return detail::facts_of(*impl_).in_tree; }
  const TreeDef& out_tree() const { return detail::facts_of(*impl_).out_tree; }
  /// The types of the leaves of arguments and results, as arrays without elements.
  const std::vector<Array>& in_types() const { return detail::facts_of(*impl_).in_types; }
  const std::vector<Array>& out_types() const { return detail::facts_of(*impl_).out_types; }
  /// The number of devices that calls need; 1: any number.
  std::int64_t num_devices() const { return detail::facts_of(*impl_).num_devices; }
  /// The graph.
  std::string as_text() const { return detail::exported_text(*impl_); }
  /// The function as bytes, for deserialize_exported in this process or another. The rules of functions called in it
  /// that have their own derivatives or batching (custom_jvp and the like) are not stored: the loaded function is
  /// differentiated like the operations that they consist of. Throws InvalidArgument if a captured array is unreduced.
  std::string serialize(SourceLocation where = SourceLocation::current()) const {
    return detail::serialize_exported(*impl_, {}, where);
  }

 private:
  friend class detail::Callable<Exported<R, P>, P>;
  template <class Kept>
  R call(detail::MaybeLocation where, Kept arguments) const {
    std::any exemplar;
    const std::vector<Array> leaves =
        detail::call_exported(*impl_, detail::flatten_arguments(arguments), exemplar, where);
    return detail::unflatten<R>(exemplar, leaves);
  }

  std::shared_ptr<const detail::ExportedImpl> impl_;
};

/// f, traced for arguments like these; types can stand for arrays: see ShapeDtypeStruct. Of `options` only the name and
/// the shardings are used. Throws Unsupported if f calls functions of this process while it runs: callbacks, and ops of
/// users with kernels of their own.
/// @param f The function.
/// @param args What it will be called with: arrays, or types.
template <class F, class... Args>
auto export_function(const F& f, const JitOptions& options, const Args&... args) {
  const SourceLocation where;
  const std::tuple<detail::ArgumentOf<Args>...> kept(detail::keep(args)...);
  using R = detail::ResultOf<F, std::tuple<detail::ArgumentOf<Args>...>>;
  const std::shared_ptr<detail::LoweredImpl> lowered = detail::lower_cached(
      detail::make_jit_cache(options, where), detail::flatten_arguments(kept), detail::on_leaves<R>(f, kept), where);
  return Exported<R, typename detail::TracedParameters<detail::ParametersOf<F>>::type>(
      detail::export_lowered(*lowered, where));
}

/// The function that serialize() stored. `Function` is its type, as Array(Array, Params), in which static arguments are
/// ignored. Throws InvalidArgument for bytes that are not such a function, that are damaged or cut off, or that another
/// version of Shoal stored; TypeMismatch if the result type cannot hold the results.
/// @param bytes What serialize gave.
template <class Function>
auto deserialize_exported(std::string_view bytes, SourceLocation where = SourceLocation::current()) {
  using R = typename detail::Signature<Function>::Result;
  const auto impl = std::const_pointer_cast<detail::ExportedImpl>(detail::load_exported(bytes, where));
  R exemplar{};
  detail::take_structure(exemplar, detail::facts_of(*impl).out_tree, "", where);
  detail::set_exemplar(*impl, std::move(exemplar));
  return Exported<R, typename detail::Signature<Function>::CallParameters>(impl);
}

}  // namespace shoal
