// Transformations of functions and arguments that do not fit, and rules that give what they must not.
#include <complex>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "misuse.h"

namespace shoal::test {
namespace {

using Function = std::function<Array(const Array&)>;
using One = std::tuple<Array>;
using List = std::vector<Array>;

constexpr auto as_it_is = [](const Array& x) { return x; };
constexpr auto all_summed = [](const Array& x) { return sum(x); };
constexpr auto doubled = [](const Array& x) { return 2 * x; };

TEST(DerivativeError, LossesThatAreNoScalars) {
  EXPECT_MISUSE(TypeMismatch, ("grad: the function returns float32[2], and only scalars have gradients; sum it, or"),
                grad(as_it_is)(ones({2})));
  EXPECT_MISUSE(TypeMismatch, ("value_and_grad: the function returns float32[2]"), value_and_grad(as_it_is)(ones({2})));
  const Function integer = [](const Array& x) { return sum(x).astype(int32); };
  EXPECT_MISUSE(TypeMismatch, ("grad: the function returns int32[]", "real"), grad(integer)(ones({2})));
  const Function complex = [](const Array& x) { return sum(x) * std::complex<float>(0, 1); };
  EXPECT_MISUSE(TypeMismatch, ("grad: the function returns complex64[]", "set holomorphic"), grad(complex)(ones({2})));
}

TEST(DerivativeError, ArgumentsThatCannotBeDifferentiatedBy) {
  const auto by_second = [](const Array& x, const Array& n) { return sum(x * n); };
  EXPECT_MISUSE(TypeMismatch,
                ("grad: argument [0] is int32[2], and only floats and complex numbers can be differentiated by; "
                 "convert it, or set allow_int"),
                grad(all_summed)(array({1, 2})));
  EXPECT_MISUSE(TypeMismatch, ("grad: argument [1] is bool[2]"), grad<1>(by_second)(ones({2}), array({true, false})));
  EXPECT_MISUSE(TypeMismatch,
                ("argument [0] is float32[2]: with holomorphic, what is differentiated by must be complex"),
                grad(all_summed, {.holomorphic = true})(ones({2})));
  EXPECT_MISUSE(TypeMismatch, ("jacfwd: argument [0] is complex64[]", "should be real; set holomorphic"),
                jacfwd(doubled)(Array(std::complex<float>(1, 2))));
  const Function positive = [](const Array& x) { return x > 0; };
  EXPECT_MISUSE(TypeMismatch, ("jacrev: result is bool[1], and should be real"), jacrev(positive)(ones({1})));
}

TEST(DerivativeError, TangentsAndCotangents) {
  const Array x = ones({3});
  EXPECT_MISUSE(InvalidArgument, ("jvp: tangent 0 is float32[2], and should have the shape of its array, float32[3]"),
                jvp(doubled, std::tuple(x), std::tuple(ones({2}))));
  EXPECT_MISUSE(TypeMismatch, ("jvp: tangent 0 is int32[3], and should have the type of its array, float32[3]"),
                jvp(doubled, std::tuple(x), std::tuple(array({1, 2, 3}))));
  const auto sum_of_all = [](const List& all) { return all[0] + all[1]; };
  EXPECT_MISUSE(TypeMismatch, ("jvp: there are 1 tangents for 2 arrays; their structures must be the same"),
                jvp(sum_of_all, std::tuple(List{x, x}), std::tuple(List{x})));
  const auto pull_back = vjp(doubled, x).second;
  EXPECT_MISUSE(InvalidArgument, ("vjp: cotangent 0 is float32[2], and should have the shape of its array, float32[3]"),
                pull_back(ones({2})));
  EXPECT_MISUSE(TypeMismatch, ("vjp: cotangent 0 is float64[3]"), pull_back(x.astype(float64)));
  const auto push_forward = linearize(doubled, x).second;
  EXPECT_MISUSE(InvalidArgument, ("linearize: tangent 0 is float32[2]"), push_forward(ones({2})));
}

// Functions of any number of arguments know the line, too.
TEST(DerivativeError, FunctionsOfAnyArguments) {
  const auto no_array = [](const auto&...) { return List(); };
  const Function nothing = [](const Array&) { return Array(); };
  const Array x = ones({2});
  EXPECT_MISUSE(InvalidState, ("vjp: result is an Array without a value"), vjp(nothing, x));
  EXPECT_MISUSE(InvalidState, ("linearize: result is an Array without a value"), linearize(nothing, x));
  EXPECT_MISUSE(TypeMismatch, ("linear_transpose: argument 0 is int32[2], and only functions of floats"),
                linear_transpose(as_it_is, array({1, 2})));
  EXPECT_MISUSE(TypeMismatch, ("linear_transpose: argument 1 is int32[2]"),
                linear_transpose([](const Array& a, const Array&) { return a; }, x, array({1, 2})));
  EXPECT_MISUSE(TypeMismatch, ("linear_transpose: the function returns bool[2]"),
                linear_transpose(
                    [](const Array&) {
                      return array({true, false});
                    },
                    x));
  EXPECT_NO_THROW(vjp(no_array, x, x, x, x, x, x));
}

// The line is that of the operation, not that of the call.
TEST(DerivativeError, WhatHasNone) {
  const Array x = ones({2});
  const Array wide = ones({2, 3});
  const unsigned line = __LINE__ + 1;
  const auto factors = [](const Array& a) { return sum(linalg::qr(a).Q); };
  EXPECT_MISUSE_AT(line, Unsupported, ("qr has a derivative for matrices with at least as many rows as columns"),
                   grad(factors)(wide));
  EXPECT_MISUSE_AT(line, Unsupported, ("qr has a derivative"), grad(jit(factors))(wide));
  const auto is_large = [](const Array& c) { return max(c) > 1; };
  const unsigned line_of_loop = __LINE__ + 1;
  const auto halved = [&](const Array& a) { return sum(lax::while_loop(is_large, doubled, a)); };
  EXPECT_MISUSE_AT(line_of_loop, InvalidArgument, ("a while_loop has no derivative in reverse", "max_checkpoints"),
                   grad(halved)(x));
  EXPECT_MISUSE(InvalidArgument, ("while_loop: max_checkpoints is 0; it must be at least 1"),
                lax::while_loop(is_large, doubled, x, {.max_checkpoints = 0}));
}

TEST(VmapError, AxesAndSizes) {
  const auto add = [](const Array& a, const Array& b) { return a + b; };
  EXPECT_MISUSE(InvalidArgument,
                ("vmap: all mapped dimensions must be of one size, but dimension 0 of argument [0] float32[3] has "
                 "extent 3, and dimension 0 of argument [1] float32[4] has extent 4"),
                vmap(add)(ones({3}), ones({4})));
  EXPECT_MISUSE(InvalidArgument, ("vmap: all mapped dimensions must be of one size", "axis_size"),
                vmap(as_it_is, {.axis_size = 4})(ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("vmap: no argument is mapped; map one by in_axes, or give axis_size"),
                vmap(as_it_is, {.in_axes = none})(ones({3})));
  EXPECT_MISUSE(OutOfRange, ("vmap: in_axes is 2 for argument [0] float32[3]; allowed is -1 to 0"),
                vmap(as_it_is, {.in_axes = 2})(ones({3})));
  EXPECT_MISUSE(OutOfRange, ("vmap: out_axes is 1 for the result float32[]"),
                vmap(as_it_is, {.out_axes = 1})(ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("vmap: in_axes must be a prefix of the tree it applies to", "tuple"),
                vmap(add, {.in_axes = {0, 0, 0}})(ones({3}), ones({3})));
  EXPECT_MISUSE(InvalidArgument, ("vmap: out_axes none for the result", "float32[] depends on what is mapped"),
                vmap(as_it_is, {.out_axes = none})(ones({3})));
}

TEST(VmapError, UnboundAxes) {
  const unsigned line = __LINE__ + 1;
  const auto summed = [](const Array& x) { return lax::psum(x, "j"); };
  EXPECT_MISUSE_AT(line, UnboundAxisError, ("psum: axis 'j' is not bound here: the axes bound here are (i)"),
                   vmap(summed, {.axis_name = "i"})(ones({3})));
  EXPECT_MISUSE_AT(line, UnboundAxisError, ("psum: axis 'j' is not bound here"), grad(summed)(Array(1.0f)));
}

TEST(VmapError, MappedValuesAreNotThere) {
  const unsigned line = __LINE__ + 1;
  const auto branches = [](const Array& x) { return x.item<float>() > 0 ? x : -x; };
  EXPECT_MISUSE_AT(line, InvalidState, ("the array f32[] of 'vmap' stands for those of all places"),
                   vmap(branches)(ones({3})));
}

TEST(VmapError, PlacesThatDevicesDoNotDivide) {
  const Mesh mesh = make_mesh({2}, {"d"});
  const unsigned line = __LINE__ + 1;
  const auto on_mesh = [&](auto f) { return shard_map(f, {.mesh = mesh, .in_specs = P(), .out_specs = P()}); };
  EXPECT_MISUSE_AT(line, IndivisibleError,
                   ("spmd_axis_name (d) has 2 devices, which do not divide the 3 places evenly"),
                   vmap(on_mesh(as_it_is), {.spmd_axis_name = {"d"}})(ones({3})));
}

TEST(CustomRuleError, Tangents) {
  const Array x = ones({3});
  const auto change = [&](auto rule) {
    const auto f = custom_jvp([](const Array& v) { return v * 1.0; }, rule);
    return jvp([&](const Array& v) { return f(v); }, std::tuple(x), std::tuple(x));
  };
  const unsigned line = __LINE__ - 3;
  EXPECT_MISUSE_AT(
      line, InvalidArgument,
      ("custom_jvp: the rule's tangent 0 is float32[], and should have the shape of its array, float32[3]"),
      change([](const One& p, const One& t) { return std::pair(std::get<0>(p), sum(std::get<0>(t))); }));
  EXPECT_MISUSE_AT(
      line, TypeMismatch, ("custom_jvp: the rule's tangent 0 is float16[3], and should have the type of its array, "),
      change([](const One& p, const One& t) { return std::pair(std::get<0>(p), std::get<0>(t).astype(float16)); }));
}

TEST(CustomRuleError, TreesOfTangents) {
  const Array x = ones({3});
  const auto change = [&](auto rule) {
    const auto f = custom_jvp([](const Array& v) { return List{v, v}; }, rule);
    return jvp([&](const Array& v) { return f(v); }, std::tuple(x), std::tuple(x));
  };
  const unsigned line = __LINE__ - 3;
  EXPECT_MISUSE_AT(line, TypeMismatch,
                   ("custom_jvp: the rule gives 1 tangents for 2 results; their structures must be the same"),
                   change([](const One& p, const One& t) {
                     return std::pair(List{std::get<0>(p), std::get<0>(p)}, List{std::get<0>(t)});
                   }));
  // A call that stands in a graph gives what was traced.
  const auto fewer = [](const One& p, const One& t) { return std::pair(List{std::get<0>(p)}, List{std::get<0>(t)}); };
  const auto f = custom_jvp([](const Array& v) { return List{v, v}; }, fewer);
  const auto in_jit = jit([&](const Array& v) { return f(v); });
  EXPECT_MISUSE(TypeMismatch, ("the rule gives 1 results, and its function 2"),
                jvp([&](const Array& v) { return in_jit(v); }, std::tuple(x), std::tuple(x)));
}

TEST(CustomRuleError, RulesThatAreNotLinear) {
  const auto squared = [](const One& p, const One& t) {
    return std::pair(std::get<0>(p), std::get<0>(t) * std::get<0>(t));
  };
  const unsigned line = __LINE__ - 2;
  const auto f = custom_jvp([](const Array& v) { return v * 1.0; }, squared);
  EXPECT_MISUSE_AT(
      line, Unsupported,
      ("multiply of a tangent is not linear; what a rule gives for the tangents of results must be linear"),
      jvp([&](const Array& v) { return f(v); }, std::tuple(ones({3})), std::tuple(ones({3}))));
}

TEST(CustomRuleError, Cotangents) {
  const Array x = ones({3});
  const auto forward = [](const Array& v) { return std::pair(sum(v), v); };
  const unsigned line = __LINE__ + 2;
  const auto slope = [&](auto backward) {
    const auto f = custom_vjp(all_summed, forward, backward);
    return grad([&](const Array& v) { return f(v); })(x);
  };
  EXPECT_MISUSE_AT(line, InvalidArgument,
                   ("custom_vjp: the rule's cotangent 0 is float32[2], and should have the shape of its array, "
                    "float32[3]"),
                   slope([](const Array&, const Array&) { return ones({2}); }));
  EXPECT_MISUSE_AT(line, TypeMismatch, ("custom_vjp: the rule's cotangent 0 is int32[3]"),
                   slope([](const Array&, const Array&) { return zeros({3}, {.dtype = int32}); }));
  const auto first = [](const List& v) { return sum(v[0]); };
  const auto first_forward = [](const List& v) { return std::pair(sum(v[0]), v); };
  const auto backward = [](const List& v, const Array&) { return List{v[0]}; };
  const unsigned line_of_list = __LINE__ + 1;
  const auto of_list = custom_vjp(first, first_forward, backward);
  EXPECT_MISUSE_AT(line_of_list, TypeMismatch,
                   ("custom_vjp: the rule gives 1 cotangents for 2 arrays; their structures must be the same"),
                   grad([&](const List& v) { return of_list(v); })(List{x, x}));
}

TEST(CustomRuleError, ForwardOfReverse) {
  const auto f = custom_vjp([](const Array& v) { return v; }, [](const Array& v) { return std::pair(v, v); },
                            [](const Array&, const Array& g) { return g; });
  EXPECT_MISUSE(TypeMismatch, ("jvp: a function with custom_vjp has a derivative in reverse alone"),
                jvp([&](const Array& v) { return f(v); }, std::tuple(ones({3})), std::tuple(ones({3}))));
}

TEST(CustomRuleError, Closures) {
  const Array x = ones({3});
  const unsigned line = __LINE__ + 4;
  const auto by_capture = [&](const Array& w) {
    const auto times_w = [&](const Array& v) { return v * w; };
    const auto rule = [&](const One& p, const One& t) { return std::pair(times_w(std::get<0>(p)), std::get<0>(t)); };
    return sum(custom_jvp(times_w, rule)(x));
  };
  EXPECT_MISUSE_AT(line, InvalidState, ("uses an array from outside that is differentiated; pass it as an argument"),
                   grad(by_capture)(Array(2.0f)));
}

TEST(CustomRuleError, PlacesOfVmap) {
  const Array x = ones({3});
  const auto mapped = [&](auto rule) { return vmap(custom_vmap([](const Array& v) { return v * 1.0; }, rule))(x); };
  const unsigned line = __LINE__ - 1;
  using Flags = std::vector<bool>;
  EXPECT_MISUSE_AT(line, InvalidArgument,
                   ("the rule gives float32[2] for result 0, which should have the 3 places first"),
                   mapped([](std::int64_t, const Flags&, const One&) { return std::pair(ones({2}), Flags{true}); }));
  EXPECT_MISUSE_AT(line, TypeMismatch, ("the rule says of 0 results whether they are mapped, and gives 1"),
                   mapped([](std::int64_t, const Flags&, const One& v) { return std::pair(std::get<0>(v), Flags{}); }));
}

TEST(KeyError, KeysAreNoNumbers) {
  const Array keys = random::split(random::key(0), 3);
  EXPECT_MISUSE(TypeMismatch, ("add: does not take arrays of dtype key<fry>"), keys + keys);
  EXPECT_MISUSE(TypeMismatch, ("sin: does not take arrays of dtype key<fry>"), sin(keys));
  EXPECT_MISUSE(TypeMismatch, ("grad: argument [0] is key<fry>[]", "can be differentiated by"),
                grad([](const Array& key) { return random::normal(key); })(random::key(0)));
  EXPECT_MISUSE(TypeMismatch, ("normal: the key is float32[2]; keys are made by key, split and fold_in"),
                random::normal(ones({2})));
  EXPECT_MISUSE(InvalidArgument, ("normal: takes one key, but key<fry>[3] holds 3; vmap takes each"),
                random::normal(keys));
}

TEST(TransformationError, TracersThatOutliveTheirTrace) {
  Array kept;
  const Function keeps = [&](const Array& x) {
    kept = x * 2;
    return sum(kept);
  };
  const auto expect_over = [&](const std::string& name) {
    EXPECT_MISUSE(InvalidState, ("'" + name + "'", "outside the call that made it"), kept + 1);
  };
  grad(keeps)(ones({2}));
  expect_over("grad");
  vmap(keeps)(ones({2, 2}));
  expect_over("vmap");
  jvp(keeps, std::tuple(ones({2})), std::tuple(ones({2})));
  expect_over("jvp");
  checkpoint(keeps)(ones({2}));
  expect_over("checkpoint");
}

// Of any number of trees.
TEST(TransformationError, TreesThatDiffer) {
  const List two{ones({2}), ones({2})};
  const List one{ones({2})};
  const auto add = [](const Array& a, const auto&... more) { return (a + ... + more); };
  EXPECT_MISUSE(TypeMismatch, ("tree::map: tree 3 is vector([0]: leaf), and the first is vector([0]: leaf, [1]: leaf)"),
                tree::map(add, two, two, one));
  EXPECT_MISUSE(TypeMismatch, ("tree::map: tree 4 is"), tree::map(add, two, two, two, one));
  EXPECT_MISUSE_ANYWHERE(TypeMismatch, ("tree::map: tree 5 is"), tree::map(add, two, two, two, two, one));
}

TEST(OdeintError, WhatDoesNotFit) {
  const Array t = array({0.0f, 1.0f});
  const Array y = ones({3});
  const auto decay = [](const Array& x, const Array&) { return -x; };
  EXPECT_MISUSE(TypeMismatch, ("odeint: y0 is int32[2], and should be of floats or complex numbers"),
                ode::odeint(decay, array({1, 2}), t));
  EXPECT_MISUSE(InvalidArgument, ("odeint: y0 has no arrays"),
                ode::odeint([](const List& x, const Array&) { return x; }, List(), t));
  EXPECT_MISUSE(TypeMismatch, ("odeint: t is int32[2], and should be of floats"), ode::odeint(decay, y, array({0, 1})));
  EXPECT_MISUSE(InvalidArgument, ("odeint: t is float32[1,2], and should be a vector of at least one time"),
                ode::odeint(decay, y, expand_dims(t, 0)));
  EXPECT_MISUSE(InvalidArgument, ("odeint: rtol is -1, and should be at least 0"),
                ode::odeint(decay, y, t, {.rtol = -1}));
  EXPECT_MISUSE(InvalidArgument, ("odeint: hmax is -0.5, and should be at least 0"),
                ode::odeint(decay, y, t, {.hmax = -0.5}));
  EXPECT_MISUSE(InvalidArgument, ("odeint: what func returns must have the shapes of y0, got float32[] for float32[3]"),
                ode::odeint([](const Array& x, const Array&) { return sum(x); }, y, t));
  EXPECT_MISUSE(TypeMismatch, ("odeint: what func returns must have the dtypes of y0, got float64[3] for float32[3]"),
                ode::odeint([](const Array& x, const Array&) { return x.astype(float64); }, y, t));
  EXPECT_MISUSE(TypeMismatch, ("odeint: what func returns must have the structure of y0, got 1 arrays for 2"),
                ode::odeint([](const List& x, const Array&) { return List{x[0]}; }, List{y, y}, t));
}

}  // namespace
}  // namespace shoal::test
