// Gradients have the same bits however eight devices are divided among processes, with and without checkpoints.
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support.h"

namespace shoal {
namespace {

using multiprocess::kEvenLayouts;
using multiprocess::kLayouts;
using multiprocess::numbers;
using multiprocess::print_all_of;
using multiprocess::print_bits;
using multiprocess::Registered;

Array split(const Array& array, const Mesh& mesh, const PartitionSpec& spec) {
  return device_put(array, NamedSharding(mesh, spec));
}

// ---- Steps of training whose batch and weights are split, by the compiler.

struct Model {
  Array first;
  Array second;
  Array bias;
};

Array loss_with(bool checkpoints, const Model& model, const Array& x, const Array& y) {
  const auto layer = [&](const Array& h) { return tanh(matmul(h, model.first)); };
  const auto step = [&](const Array& h) { return checkpoints ? checkpoint(layer)(h) : layer(h); };
  const Array hidden = lax::fori_loop(
      0, 3, [&](const Array&, const Array& h) { return step(h) + 0.5F * h; }, x);
  const Array scores = matmul(hidden, model.second) + model.bias;
  return mean(square(nn::softmax(scores) - y));
}

Array loss_of(const Model& model, const Array& x, const Array& y) { return loss_with(true, model, x, y); }
Array loss_without(const Model& model, const Array& x, const Array& y) { return loss_with(false, model, x, y); }

// Throws if what is computed again changes a bit.
void compare_with_and_without_checkpoints(const Model& model, const Array& x, const Array& y) {
  const Model with = jit(grad(loss_of))(model, x, y);
  const Model without = jit(grad(loss_without))(model, x, y);
  const auto check = [](const char* name, const Array& a, const Array& b) {
    print_all_of(name, a);
    const auto bits = [](const Array& one) {
      return lax::bitcast_convert_type(multihost::process_allgather(one, true), int32).to_vector<std::int32_t>();
    };
    if (bits(a) != bits(b)) throw std::runtime_error(std::string("checkpoint changes the gradient of ") + name);
  };
  check("first, in one program", with.first, without.first);
  check("second, in one program", with.second, without.second);
  check("bias, in one program", with.bias, without.bias);
}

void training() {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  Model model{.first = split(numbers({24, 24}) * 0.2, mesh, P(none, "y")),
              .second = split(numbers({24, 8}) * 0.3, mesh, P("y", none)),
              .bias = split(numbers({8}), mesh, P())};
  const Array x = split(numbers({32, 24}), mesh, P("x"));
  const Array y = split(cos(numbers({32, 8})), mesh, P("x"));
  const auto step = jit([](const Model& now, const Array& in, const Array& out) {
    const auto [loss, slope] = value_and_grad(loss_of)(now, in, out);
    const Model next{.first = now.first - 0.5F * slope.first,
                     .second = now.second - 0.5F * slope.second,
                     .bias = now.bias - 0.5F * slope.bias};
    return std::tuple(loss, next);
  });
  for (int i = 0; i < 3; ++i) {
    const auto [loss, next] = step(model, x, y);
    print_all_of("loss", loss.reshape({1}));
    model = next;
  }
  print_all_of("first", model.first);
  print_all_of("second", model.second);
  print_all_of("bias", model.bias);
  compare_with_and_without_checkpoints(model, x, y);
  // Outside of jit, where each operation is a program.
  const Model slope = grad(loss_of)(model, x, y);
  print_all_of("slope of first", slope.first);
  print_all_of("slope of bias", slope.bias);
  const auto second = jit([](const Array& v, const Array& by) {
    const auto first = [&](const Array& u) {
      return sum(grad([](const Array& w) { return sum(sin(w) * w); })(u) * by);
    };
    return grad(first)(v);
  });
  print_all_of("second derivative", second(x, y[{range(0, 32), range(0, 1)}]));
}

// ---- Regions with collectives, differentiated from outside and from inside.

void regions() {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const Array w = split(numbers({24, 16}), mesh, P(none, "y"));
  const Array v = split(numbers({32, 24}), mesh, P("x", none));
  const auto body = [](const Array& weights, const Array& rows) {
    const Array scores = matmul(rows, weights);
    const Array total = lax::psum(exp(scores * 0.1F).sum({.axis = 1, .keepdims = true}), "y");
    const Array shares = exp(scores * 0.1F) / total;
    const Array ring = lax::ppermute(shares, "y", {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
    return lax::psum(sum(shares * ring + square(scores)), {"x", "y"});
  };
  const auto outside = shard_map(body, {.mesh = mesh, .in_specs = {P(none, "y"), P("x", none)}, .out_specs = P()});
  const auto loss = [&](const Array& weights, const Array& rows) { return outside(weights, rows); };
  for (const bool jitted : {true, false}) {
    const auto both = grad<0, 1>(loss);
    const auto [of_w, of_v] = jitted ? jit(both)(w, v) : both(w, v);
    print_all_of("from outside: weights", of_w);
    print_all_of("from outside: rows", of_v);
  }
  for (const bool checked : {true, false}) {
    const auto inside = [&](const Array& weights, const Array& rows) {
      const auto own = [&](const Array& one) { return sum(square(tanh(matmul(rows, one)))); };
      const Array slope = grad(own)(weights);
      // Where types say what varies, the slope is summed over the rows of all already.
      return checked ? slope : lax::psum(slope, "x");
    };
    const auto mapped = shard_map(
        inside,
        {.mesh = mesh, .in_specs = {P(none, "y"), P("x", none)}, .out_specs = P(none, "y"), .check_vma = checked});
    print_all_of(checked ? "from inside" : "from inside, unchecked", jit(mapped)(w, v));
  }
}

const Registered kTraining("training", training);
const Registered kRegions("regions", regions);

TEST(ProcessDerivatives, StepsOfTraining) { multiprocess::expect_same("training", kLayouts); }

TEST(ProcessDerivatives, OfRegionsFromOutsideAndInside) { multiprocess::expect_same("regions", kLayouts); }

// ---- Nested pmap: each process has the slices of its own devices.

// Of rows of two devices, which belong to one process, those of this one.
Array rows_here(const Array& whole) {
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < devices().size(); i += 2) {
    if (devices()[i].process_index == process_index()) rows.push_back(static_cast<std::int32_t>(i / 2));
  }
  return take(whole, array(rows), {.axis = 0});
}

void nested_pmap() {
  const auto normalise = [](Array v) {
    return sin(v) / (2 + lax::psum(square(v), {"rows", "cols"})) * lax::psum(v, "cols") + lax::pmean(v, "rows");
  };
  const auto f = pmap(pmap(normalise, {.axis_name = "cols"}), {.axis_name = "rows"});
  const Array x = rows_here(numbers({4, 2, 6}));
  // What all processes add up is differentiated, though each has its own part of it.
  const auto total = [&](const Array& v) { return sum(square(f(v))); };
  for (const Array& slope : {grad(total)(x), vjp([&](const Array& v) { return f(v); }, x).second(x)}) {
    print_bits("nested pmap under grad", multihost::process_allgather(slope, true));
  }
  // A step of training whose devices have their own rows, and the mean of their gradients.
  const auto step = [](Array weights, Array rows) {
    const auto loss = [&](const Array& w) { return mean(square(tanh(matmul(rows, w)) - 0.25F)); };
    return weights - 0.1F * lax::pmean(grad(loss)(weights), {"rows", "cols"});
  };
  const auto steps =
      pmap(pmap(step, {.axis_name = "cols", .in_axes = {none, 0}}), {.axis_name = "rows", .in_axes = {none, 0}});
  const Array rows = rows_here(numbers({4, 2, 5, 6}));
  const Array trained = steps(numbers({6, 3}), rows);
  print_bits("grad inside", multihost::process_allgather(trained, true));
}

const Registered kNestedPmap("nested_pmap_derivatives", nested_pmap);

TEST(ProcessDerivatives, OfNestedPmap) { multiprocess::expect_same("nested_pmap_derivatives", kEvenLayouts); }

}  // namespace
}  // namespace shoal
