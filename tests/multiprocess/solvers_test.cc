// Solvers of matrices that processes share have the same bits however eight devices are divided among them.
#include "shoal/solvers.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "support.h"

namespace shoal {
namespace {

using multiprocess::kLayouts;
using multiprocess::print_all_of;
using multiprocess::Registered;

constexpr int kTile = 24;

Array definite(std::int64_t n, Dtype dtype) {
  const Array root = random::normal(random::key(5), {n, n}, dtype);
  return matmul(root, conj(swapaxes(root, 0, 1))) / static_cast<double>(n) + eye(n, {.dtype = dtype});
}

void solvers() {
  const Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  const std::pair<PartitionSpec, PartitionSpec> placements[] = {
      {P("x", "y"), P("x")}, {P("y", "x"), P()}, {P(none, "y"), P()}, {P({"x", "y"}), P(none, "x")}};
  for (const Dtype dtype : {float32, complex128}) {
    for (const std::int64_t n : {16, 304}) {
      const Array a = definite(n, dtype);
      const Array b = random::normal(random::key(6), {n, 4}, dtype);
      for (const auto& [spec, side_spec] : placements) {
        const Array split = device_put(a, NamedSharding(mesh, spec));
        const Array sides = device_put(b, NamedSharding(mesh, side_spec));
        const Array l = linalg::potrf(split, {.T_A = kTile});
        print_all_of("factor", l);
        const auto [x, status, logdet] =
            linalg::potrs(split, sides, {.T_A = kTile, .return_status = true, .return_logdet = true});
        print_all_of("solution", x);
        std::cout << "status " << status.item<std::int32_t>() << std::endl;
        const double error =
            max(abs(multihost::process_allgather(matmul(split, x) - sides, true))).astype(float64).item<double>();
        std::cout << (error < 1e-4 ? "right" : "wrong") << std::endl;
      }
      // As many right sides as several jobs have.
      print_all_of("inverse", linalg::potri(device_put(a, NamedSharding(mesh, P("x", "y"))), {.T_A = kTile}));
      const Array bad = device_put(a.at({n / 2, n / 2}).set(-1.0), NamedSharding(mesh, P("x", "y")));
      std::cout << "status " << linalg::potrs(bad, b, {.T_A = kTile, .return_status = true}).status.item<std::int32_t>()
                << std::endl;
    }
  }
  // Columns of these are exchanged one by one.
  for (const Dtype dtype : {float32, complex128}) {
    const Array a = definite(80, dtype) - 2 * eye(80, {.dtype = dtype});
    for (const PartitionSpec& spec : {P("x", "y"), P({"x", "y"})}) {
      const auto [w, v, status] = linalg::syevd(device_put(a, NamedSharding(mesh, spec)), {.T_A = kTile});
      print_all_of("values", w);
      print_all_of("vectors", v);
    }
    const Array split = device_put(a, NamedSharding(mesh, P(none, "y")));
    print_all_of("values alone", linalg::syevd(split, {.T_A = kTile, .return_eigenvectors = false}).w);
  }
  // Blocks of columns go to processes in turn.
  for (const Dtype dtype : {float32, complex128}) {
    const Array a = random::normal(random::key(8), {120, 72}, dtype);
    for (const auto& [spec, side_spec] : placements) {
      const Array split = device_put(a, NamedSharding(mesh, spec));
      const auto [q, r] = linalg::geqrf(split, {.T_A = 5});
      print_all_of("orthogonal factor", q);
      print_all_of("triangle", r);
      print_all_of("inverse of a triangle", linalg::trtri(r, false, {.T_A = kTile}));
    }
    if (dtype == float32) continue;
    const Array split = device_put(a, NamedSharding(mesh, P("x", "y")));
    const auto [s, u, vh, status] = linalg::gesvd(split, {.T_A = kTile});
    print_all_of("singular values", s);
    print_all_of("singular vectors", u);
    std::cout << "condition "
              << repr(linalg::gesv(device_put(definite(80, dtype), NamedSharding(mesh, P("x", "y"))),
                                   random::normal(random::key(6), {80, 2}, dtype), {.T_A = kTile})
                          .rcond)
              << std::endl;
  }
  // The memory of what is given away is that of the result, however many processes there are.
  const auto given_away = [&](const std::string& name, const auto& solve) {
    const Array a = device_put(definite(96, float32), NamedSharding(mesh, P("y", "x")));
    const auto solved = jit(solve, {.donate_argnums = {0}});
    const MemoryAnalysis memory = solved.lower(a).compile().memory_analysis();
    std::cout << name << ' ' << (memory.alias_size * 8 >= 96 * 96 * 4 ? "in place" : "elsewhere") << std::endl;
    print_all_of(name, solved(a));
  };
  given_away("potrf in place", [](const Array& a) { return linalg::potrf(a, {.T_A = kTile}); });
  given_away("potri in place",
             [](const Array& a) -> Array { return linalg::potri(a, {.T_A = kTile, .return_status = true}); });
  given_away("syevd in place",
             [](const Array& a) { return linalg::syevd(a, {.T_A = kTile, .return_status = true}).v; });
  given_away("geqrf in place", [](const Array& a) { return linalg::geqrf(a, {.T_A = kTile}).Q; });
  given_away("trtri in place", [](const Array& a) { return linalg::trtri(a, true, {.T_A = kTile}); });
  const auto wide = device_put(definite(64, complex128), NamedSharding(mesh, P("x", "y")));
  const auto refined = linalg::gesv(wide, ones({64}, {.dtype = complex128}), {.T_A = kTile, .refine = true});
  print_all_of("refined", refined.x);
  std::cout << "refined " << repr(refined.steps) << std::endl;
  const linalg::BlockCyclic layout(64, 64, 5, 7, mesh, P("x", "y"));
  print_all_of("dealt out", linalg::to_block_cyclic(wide, layout));
  // A matrix for each row of devices, which may be those of one process.
  const Array one = definite(96, float32);
  const auto factors = shard_map(
      [](const Array& mine) {
        return expand_dims(linalg::potrf(reshape(mine, {96, 96}), {.T_A = 20}), 0);
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .axis_names = {{"x"}}});
  print_all_of("factors", jit(factors)(device_put(stack({one, 2 * one}), NamedSharding(mesh, P("x", "y")))));
  // The ordinary functions, of a matrix that is large enough.
  const Array large = device_put(definite(512, float32), NamedSharding(mesh, P("y", "x")));
  print_all_of("cholesky", jit([](const Array& a) { return linalg::cholesky(a); })(large));
  print_all_of("no factor", isnan(linalg::cholesky(-large)));
  const Array any = device_put(random::normal(random::key(7), {528, 528}, float32), NamedSharding(mesh, P("y", "x")));
  const auto [lu, pivots, permutation] = lax::linalg::lu(any);
  print_all_of("factors", lu);
  print_all_of("rows", permutation);
}
const Registered kSolvers("solvers", solvers);

TEST(Solvers, BitsDoNotDependOnProcesses) { multiprocess::expect_same("solvers", kLayouts); }

}  // namespace
}  // namespace shoal
