// How functions of arrays are called: arguments are trees of arrays, C++ numbers that stand for arrays, and static
// values, which the function sees as they are.
//
// A function whose parameter types are known (a function, a lambda without auto, a functor with one operator()) is
// called with those types: numbers become arrays by themselves, and errors name the line of the call. A parameter whose
// type holds no arrays, such as int, bool, an enum or std::string, is static. Of other functions (lambdas with auto)
// the types of the arguments decide; static ones are wrapped in static_arg.
#pragma once

#include <any>
#include <boost/container/small_vector.hpp>
#include <boost/pfr.hpp>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/array.h"
#include "shoal/tree.h"

namespace shoal {

/// A static argument: a value that is known when the function is traced. The function is traced again for each value.
/// Its type needs operator== and a hash: std::hash, a member hash(), or elements that have one (vectors, sets).
/// @param value The value.
/// @param text A text.
template <class T>
StaticArg<T> static_arg(T value) {
  return {std::move(value)};
}
inline StaticArg<std::string> static_arg(const char* text) { return {text}; }

namespace detail {

// ---- Static values.

template <class T>
concept HasStdHash = requires(const T& value) {
  { std::hash<T>{}(value) } -> std::convertible_to<std::size_t>;
};
template <class T>
concept HasHashMember = requires(const T& value) {
  { value.hash() } -> std::convertible_to<std::size_t>;
};
template <class T>
concept HasElements = requires(const T& value) {
  typename T::value_type;
  value.begin();
  value.end();
  value.size();
};
template <class T>
constexpr bool is_hashable() {
  if constexpr (HasStdHash<T> || HasHashMember<T>) {
    return true;
  } else if constexpr (HasElements<T>) {
    return is_hashable<typename T::value_type>();
  } else {
    return false;
  }
}

template <class T>
std::size_t hash_of(const T& value) {
  if constexpr (HasStdHash<T>) {
    return std::hash<T>{}(value);
  } else if constexpr (HasHashMember<T>) {
    return value.hash();
  } else {
    std::size_t hash = value.size();
    for (const auto& element : value) hash = 31 * hash + hash_of(element);
    return hash;
  }
}

/// A static argument of any type, as part of the key of a cache.
class StaticValue {
 public:
  template <class T>
  explicit StaticValue(T value) : rep_(std::make_shared<const Model<T>>(std::move(value))) {
    static_assert(
        std::equality_comparable<T>,
        "a static argument is compared with those of other calls: give its type operator==, or pass an Array");
    static_assert(is_hashable<T>(),
                  "a static argument is looked up by its hash: specialise std::hash for its type, give it a member "
                  "hash(), or pass an Array");
  }
  std::size_t hash() const { return rep_->hash(); }
  friend bool operator==(const StaticValue& a, const StaticValue& b) { return a.rep_->equals(*b.rep_); }

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual std::size_t hash() const = 0;
    virtual bool equals(const Concept& other) const = 0;
  };
  template <class T>
  struct Model final : Concept {
    explicit Model(T v) : value(std::move(v)) {}
    std::size_t hash() const override { return hash_of(value); }
    bool equals(const Concept& other) const override {
      const auto* same_type = dynamic_cast<const Model*>(&other);
      return same_type != nullptr && same_type->value == value;
    }
    T value;
  };
  std::shared_ptr<const Concept> rep_;
};

// ---- The types of arguments.

/// Whether values of a type are trees of arrays; all others can only be static arguments.
template <class T>
constexpr bool holds_arrays() {
  if constexpr (std::is_same_v<T, Array> || HasTreeHook<T>) {
    return true;
  } else if constexpr (kIsVector<T> || kIsStdArray<T> || kIsOptional<T>) {
    return holds_arrays<typename T::value_type>();
  } else if constexpr (kIsMap<T>) {
    return holds_arrays<typename T::mapped_type>();
  } else if constexpr (kIsTuple<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return sizeof...(I) == 0 || (holds_arrays<std::tuple_element_t<I, T>>() || ...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && !kIsStaticArg<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return sizeof...(I) == 0 || (holds_arrays<boost::pfr::tuple_element_t<I, T>>() || ...);
    }
    (std::make_index_sequence<boost::pfr::tuple_size_v<T>>{});
  } else {
    return false;
  }
}

/// What stands for an argument of this type in a call of a function whose parameter types are not known.
template <class T>
using ArgumentOf = std::conditional_t<ScalarLike<std::decay_t<T>> || std::is_same_v<std::decay_t<T>, ShapeDtypeStruct>,
                                      Array, std::decay_t<T>>;

/// What the caller gives for a parameter of this type: an array for an operand, and text that can be kept.
template <class T>
struct GivenForDecayed {
  using type = T;
};
template <>
struct GivenForDecayed<Operand> {
  using type = Array;
};
template <>
struct GivenForDecayed<std::string_view> {
  using type = std::string;
};
template <class P>
using GivenFor = typename GivenForDecayed<std::decay_t<P>>::type;
/// What stands for it in the call.
template <class P>
using KeptFor = std::conditional_t<holds_arrays<GivenFor<P>>(), GivenFor<P>, StaticArg<GivenFor<P>>>;

/// The parameter types of a function.
template <class... P>
struct Parameters {
  using Kept = std::tuple<KeptFor<P>...>;
};
struct UnknownParameters {};

template <class M>
struct SignatureOf;
template <class R, class... P>
struct SignatureOf<R(P...)> {
  using type = Parameters<P...>;
};
template <class R, class... P>
struct SignatureOf<R(P...) noexcept> : SignatureOf<R(P...)> {};
template <class R, class C, class... P>
struct SignatureOf<R (C::*)(P...)> : SignatureOf<R(P...)> {};
template <class R, class C, class... P>
struct SignatureOf<R (C::*)(P...) const> : SignatureOf<R(P...)> {};
template <class R, class C, class... P>
struct SignatureOf<R (C::*)(P...) noexcept> : SignatureOf<R(P...)> {};
template <class R, class C, class... P>
struct SignatureOf<R (C::*)(P...) const noexcept> : SignatureOf<R(P...)> {};

template <class F>
auto parameters_of() {
  if constexpr (requires { typename F::CallParameters; }) {
    return typename F::CallParameters{};  // A jitted or mapped function.
  } else if constexpr (std::is_function_v<std::remove_pointer_t<F>>) {
    return typename SignatureOf<std::remove_pointer_t<F>>::type{};
  } else if constexpr (requires { &F::operator(); }) {
    return typename SignatureOf<decltype(&F::operator())>::type{};
  } else {
    return UnknownParameters{};
  }
}
template <class F>
using ParametersOf = decltype(parameters_of<F>());
/// Whether F is a jitted or mapped function that is called with a line: one whose parameters are known.
template <class F>
inline constexpr bool kTakesLine = [] {
  if constexpr (requires { typename F::CallParameters; }) {
    return !std::is_same_v<typename F::CallParameters, UnknownParameters>;
  } else {
    return false;
  }
}();

/// The parameters without the static ones.
template <class Known, class... P>
struct WithoutStatic {
  using type = Known;
};
template <class... Known, class First, class... Rest>
struct WithoutStatic<Parameters<Known...>, First, Rest...>
    : WithoutStatic<
          std::conditional_t<holds_arrays<GivenFor<First>>(), Parameters<Known..., First>, Parameters<Known...>>,
          Rest...> {};
template <class P>
struct TracedParameters {
  using type = UnknownParameters;
};
template <class... P>
struct TracedParameters<Parameters<P...>> : WithoutStatic<Parameters<>, P...> {};

// ---- Calls.

/// The flattened arguments of a call.
struct CallArguments {
  std::vector<Array> leaves;
  TreeDef tree;  ///< A tuple of the arguments that are not static, under their positions in the call.
  std::vector<StaticValue> statics;
};

/// What the traced function returned.
struct TracedResult {
  std::vector<Array> leaves;
  TreeDef tree;
  std::any exemplar;  ///< The user's result type with empty arrays, to be filled in after each call.
};

using TracedFunction = std::function<TracedResult(const std::vector<Array>& leaves)>;

template <class... Kept>
void append_statics(const std::tuple<Kept...>& arguments, std::vector<StaticValue>& statics) {
  [[maybe_unused]] const auto note = [&](const auto& one) {
    if constexpr (kIsStaticArg<std::decay_t<decltype(one)>>) statics.emplace_back(one.value);
  };
  std::apply([&](const Kept&... argument) { (note(argument), ...); }, arguments);
}

template <class... Kept>
CallArguments flatten_arguments(const std::tuple<Kept...>& arguments) {
  CallArguments flat;
  flat.leaves = tree::flatten(arguments, &flat.tree);
  std::erase_if(flat.tree.children, [](const auto& child) { return child.tree.kind == kStaticKind; });
  append_statics(arguments, flat.statics);
  return flat;
}

/// One address for each type.
template <class T>
inline constexpr char kTypeTag = 0;

/// A call as a cache looks it up: the arrays, where they are, and all that the structure of the arguments depends on.
struct CallKey {
  const void* type = nullptr;  ///< The tag of the type of the arguments.
  boost::container::small_vector<const Array*, 8> leaves = {};
  std::string structure = {};  ///< See append_structure.
  std::vector<StaticValue> statics = {};
};

/// One call of a function. What is found in a cache by its key needs neither of the others.
class FunctionCall {
 public:
  virtual ~FunctionCall() = default;
  const CallKey& key() const { return key_; }
  virtual CallArguments flatten() const = 0;
  /// What is to be traced; nothing for a function that is compiled already.
  virtual TracedFunction function() const { return {}; }

 protected:
  CallKey key_;
};

using CallResults = boost::container::small_vector<Array, 2>;
/// What a traced function returns, with empty arrays: see TracedResult.
using Exemplar = std::shared_ptr<const std::any>;

/// What the function sees of an argument.
template <class T>
T pass(T argument) {
  return argument;
}
template <class T>
T pass(StaticArg<T> argument) {
  return std::move(argument.value);
}

template <class F, class Kept>
struct ResultOfCall;
template <class F, class... Kept>
struct ResultOfCall<F, std::tuple<Kept...>> {
  using type = std::decay_t<std::invoke_result_t<F&, decltype(pass(std::declval<Kept>()))...>>;
};
template <class F, class Kept>
using ResultOf = typename ResultOfCall<F, Kept>::type;

/// What a traced function returned, without its structure.
template <class R>
TracedResult flat_result(R result) {
  TracedResult flat;
  flat.leaves = tree::flatten(result, &flat.tree);
  flat.exemplar = tree::map([](const Array&) { return Array(); }, std::move(result));
  return flat;
}

/// A function on leaves, for a function on trees.
template <class R, class F, class Tuple>
TracedFunction on_leaves(F& f, const Tuple& arguments) {
  return [&f, arguments](const std::vector<Array>& leaves) {
    Tuple traced = arguments;
    tree::assign(traced, leaves);
    R result = std::apply(
        [&](auto&... argument) -> R {
          // A jitted or mapped function that is called from here has no line of its own but that where it was made.
          if constexpr (kTakesLine<F>) {
            return f(pass(std::move(argument))..., SourceLocation());
          } else {
            return std::invoke(f, pass(std::move(argument))...);
          }
        },
        traced);
    return flat_result<R>(std::move(result));
  };
}

/// A call with these arguments, which must outlive it.
template <class Kept>
class CallWith : public FunctionCall {
 public:
  explicit CallWith(Kept& arguments) : arguments_(arguments) {
    key_.type = &kTypeTag<Kept>;
    const auto visit = [&](const Array& leaf) { key_.leaves.push_back(&leaf); };
    walk_tree(arguments, static_cast<TreeDef*>(nullptr), visit);
    if constexpr (!has_fixed_structure<Kept>()) append_structure(arguments, key_.structure);
    append_statics(arguments, key_.statics);
  }
  CallArguments flatten() const final { return flatten_arguments(arguments_); }

 protected:
  const Kept& arguments_;
};

/// The same of a function that may have to be traced.
template <class R, class F, class Kept>
class CallOf final : public CallWith<Kept> {
 public:
  CallOf(F& f, Kept& arguments) : CallWith<Kept>(arguments), f_(f) {}
  TracedFunction function() const override { return on_leaves<R>(f_, this->arguments_); }

 private:
  F& f_;
};

template <class R>
R unflatten(const std::any& exemplar, const std::vector<Array>& leaves) {
  R result = std::any_cast<const R&>(exemplar);
  tree::assign(result, leaves);
  return result;
}
template <class R>
R unflatten(const Exemplar& exemplar, CallResults leaves) {
  if constexpr (std::is_same_v<R, Array>) {
    return std::move(leaves[0]);
  } else {
    R result = std::any_cast<const R&>(*exemplar);
    tree::assign(result, leaves);
    return result;
  }
}

/// What is kept of an argument. A ShapeDtypeStruct has no line of its own here.
template <class T>
ArgumentOf<T> keep(const T& argument) {
  if constexpr (std::is_same_v<T, ShapeDtypeStruct>) {
    return Array(argument, SourceLocation());
  } else {
    return argument;
  }
}
template <class P>
KeptFor<P> keep_for(const GivenFor<P>& argument) {
  if constexpr (kIsStaticArg<KeptFor<P>>) {
    return {argument};
  } else {
    return argument;
  }
}

/// Gives Derived an operator() for the parameters: it calls Derived::call(where, arguments) with a tuple of what is
/// kept of them, and the user's line if it is known.
template <class Derived, class P>
class Callable {
 public:
  template <class... Args>
  auto operator()(const Args&... args) const {
    return static_cast<const Derived&>(*this).call(std::nullopt, std::tuple<ArgumentOf<Args>...>(keep(args)...));
  }
};
template <class Derived, class... P>
class Callable<Derived, Parameters<P...>> {
 public:
  auto operator()(const GivenFor<P>&... args, SourceLocation where = SourceLocation::current()) const {
    const bool is_known = where.line() != 0;
    return static_cast<const Derived&>(*this).call(is_known ? std::optional(where) : std::nullopt,
                                                   std::tuple<KeptFor<P>...>(keep_for<P>(args)...));
  }
};

}  // namespace detail
}  // namespace shoal
