#include "shoal/callback.h"

#include <memory>
#include <string>

#include "base/caller.h"
#include "base/misuse.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/layer.h"
#include "frontend/array/trace.h"
#include "frontend/transforms/host_callback.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace shoal::detail {
namespace {

// What the user's function gave, if that is what was promised.
std::vector<Array> kept(std::vector<Array> given, const std::vector<Type>& promised) {
  if (given.size() != promised.size()) {
    throw misuse<TypeMismatch>("the function gives {} array{}, but {} are promised", given.size(),
                               given.size() == 1 ? "" : "s", promised.size());
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Type& type = impl_of(given[i], "a result of the function").type;
    if (type.dtype == promised[i].dtype && type.shape == promised[i].shape) continue;
    throw misuse<TypeMismatch>("the function gives {} for result {}, but {} is promised", user_string(type), i,
                               user_string(promised[i]));
  }
  return given;
}

}  // namespace

std::vector<Array> call_host(std::string_view name, HostFunction f, const std::vector<Array>& results,
                             const CallArguments& operands, const CallbackOptions& options, SourceLocation where) {
  const Caller caller(name, where);
  check_values(operands.leaves, operands.tree, "argument ");
  std::vector<Type> promised;
  std::vector<std::string> texts;
  for (const Array& result : results) {
    const Type& type = impl_of(result, "a promised result").type;
    promised.push_back({.dtype = type.dtype, .shape = type.shape});
    texts.push_back(promise_of(type));
  }
  const Trace* const trace = Trace::current();
  if (trace == nullptr && !of_layers(operands.leaves)) {
    for (const Array& operand : operands.leaves) static_cast<void>(concrete(operand));
    std::vector<Array> given = [&] {
      const Caller::Pause pause;
      return f(operands.leaves);
    }();
    return kept(std::move(given), promised);
  }
  Attrs attrs{{"results", std::move(texts)}};
  if (options.device) {
    if (trace != nullptr && !trace->mesh().empty()) {
      throw misuse<InvalidArgument>(
          "inside shard_map each device makes a call, so that none can be chosen; leave {} out",
          to_string(*options.device));
    }
    attrs.set("device", std::int64_t{options.device->id});
  }
  const auto on_values = [f = std::move(f), promised, name, where](std::span<const Buffer> buffers) {
    const std::vector<Array> given = on_buffers(f, buffers);
    const Caller::Pause pause;  // Of the call of the program that runs.
    const Caller promise(name, where);
    std::vector<Buffer> values;
    for (const Array& array : kept(given, promised)) values.push_back(to_host(concrete(array), name, where));
    return values;
  };
  attrs.set("callback", CallbackAttr::of({.on_values = on_values}));
  return shoal::bind(op_named(name), std::move(attrs), operands.leaves);
}

}  // namespace shoal::detail
