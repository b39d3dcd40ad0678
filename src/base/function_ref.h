// A borrowed callable: what std::function is, without owning or allocating.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace shoal {

template <typename Signature>
class FunctionRef;

/// For parameters that are called before the function returns: the callable object must outlive the FunctionRef.
template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
           std::is_object_v<std::remove_reference_t<Callable>> && std::is_invocable_r_v<Result, Callable&, Args...>)
      FunctionRef(Callable&& callable)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          using Object = std::remove_reference_t<Callable>;
          return std::invoke(*static_cast<Object*>(object), std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace shoal
