#include "support/programs.h"

#include <map>
#include <utility>

#include "shoal/shoal.h"

namespace shoal::fuzz {
namespace {

// Calls f for each program.
template <class F>
void for_each_program(F&& f) {
  static const bool is_set_up = [] {
    set_num_cpu_devices(8);
    return true;
  }();
  static_cast<void>(is_set_up);
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"});
  const Mesh explicit_mesh = make_mesh({4, 2}, {"x", "y"}, {.axis_types = {AxisType::kExplicit, AxisType::kExplicit}});
  const auto put = [](const Array& array, const Mesh& on, const PartitionSpec& spec) {
    return device_put(array, NamedSharding(on, spec));
  };
  const Array numbers = arange(16.0).reshape({4, 4});
  const Array table = put(arange(16.0).reshape({8, 2}), mesh, P("x"));

  f(jit([&](const Array& x) { return table * x + 1; }).lower(Array(2)).compile());
  f(jit([](const Array& x, const Array& i) { return sort(x.at(i).add(1))[{range(1, 5)}]; })
        .lower(arange(8.0), arange(3))
        .compile());
  f(jit(
        [&](const Array& x) {
          const auto exchange = shard_map(
              [](const Array& shard) {
                const Array moved = lax::ppermute(shard, "x", {{0, 1}, {1, 0}});
                return lax::all_gather(lax::psum(moved, "y"), "x", {.tiled = true});
              },
              {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P(), .check_vma = false});
          return std::vector<Array>{exchange(x), x + 1};
        },
        {.donate_argnums = {0}})
        .lower(put(numbers, mesh, P("x", "y")))
        .compile());
  f(jit([&](const Array& x, const Array& y) {
      return with_sharding_constraint(matmul(x, y), NamedSharding(mesh, P(none, "y")));
    })
        .lower(put(numbers, mesh, P("x", "y")), numbers)
        .compile());
  f(jit([](const Array& x) { return exp(x.T() + 1); }).lower(put(numbers, explicit_mesh, P("x", "y"))).compile());
  f(jit([](const Array& x) {
      const auto step = [](const Array& carry, const Array& row) { return std::pair(carry + row, sum(carry)); };
      const auto [last, sums] = lax::scan(step, zeros({4}), x);
      const Array few =
          lax::while_loop([](const Array& v) { return sum(v) < 100; }, [](const Array& v) { return v * 2 + 1; }, last);
      const Array either = lax::cond(
          sums[{0}] > 1, [](const Array& v) { return -v; }, [](const Array& v) { return v * v; }, few);
      return std::map<std::string, Array>{{"one", either}, {"two", cumsum(sums)}};
    })
        .lower(put(numbers, mesh, P("x")))
        .compile());
  f(jit([](const Array& x) {
      const Array image = x.reshape({1, 1, 4, 4});
      const Array filtered = lax::conv(image, image, {1, 1}, "SAME");
      return std::pair(linalg::solve(x + 20 * eye(4), x), max(filtered.astype(float16), {.axis = -1}));
    })
        .lower(numbers)
        .compile());
}

}  // namespace

std::vector<std::string> stored_programs() {
  std::vector<std::string> stored;
  for_each_program([&](const auto& program) { stored.push_back(program.serialize()); });
  const Mesh mesh = make_mesh({8}, {"x"});
  const Array table = arange(16.0).reshape({8, 2});
  const auto looks_up = [&](const Array& x) {
    const auto step = [&](const Array& carry, const Array& row) { return std::pair(carry + row, carry * table); };
    return lax::scan(step, zeros({2}), x);
  };
  const auto sums = [&](const Array& x) {
    const auto inside = shard_map([](const Array& shard) { return lax::psum(shard, "x"); },
                                  {.mesh = mesh, .in_specs = P("x"), .out_specs = P()});
    return std::map<std::string, Array>{{"sum", inside(x)}, {"x", x}};
  };
  stored.push_back(export_function(looks_up, {}, table).serialize());
  stored.push_back(export_function(sums, {}, device_put(arange(8.0), NamedSharding(mesh, P("x")))).serialize());
  return stored;
}

std::vector<std::string> texts_of_programs() {
  std::vector<std::string> texts;
  for_each_program([&](const auto& program) {
    for (const char* stage : {"traced", "simplified", "placed", "propagated", "partitioned"}) {
      texts.push_back(program.as_text(stage));
    }
  });
  return texts;
}

}  // namespace shoal::fuzz
