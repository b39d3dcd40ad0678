// Conjugate gradients for a positive definite matrix that is split by rows. Each step is compiled; how many are taken
// is decided by reading the residual.
#include "support.h"

namespace shoal::programs {
namespace {

// Gaussian elimination, in double.
std::vector<double> solved(Matrix a, std::vector<double> b) {
  const std::int64_t n = a.rows;
  const auto rhs = [&](std::int64_t i) -> double& { return b[static_cast<std::size_t>(i)]; };
  for (std::int64_t k = 0; k < n; ++k) {
    for (std::int64_t i = k + 1; i < n; ++i) {
      const double factor = a.at(i, k) / a.at(k, k);
      for (std::int64_t j = k; j < n; ++j) a.at(i, j) -= factor * a.at(k, j);
      rhs(i) -= factor * rhs(k);
    }
  }
  for (std::int64_t i = n; i-- > 0;) {
    for (std::int64_t j = i + 1; j < n; ++j) rhs(i) -= a.at(i, j) * rhs(j);
    rhs(i) /= a.at(i, i);
  }
  return b;
}

struct State {
  Array x;
  Array residual;
  Array direction;
  Array residual_norm;  // Squared.
};

TEST(ConjugateGradients, SolvesWithAMatrixThatStaysSplit) {
  constexpr std::int64_t kSize = 40;
  const Mesh mesh = make_mesh({8}, {"i"});
  Matrix a(kSize, kSize);  // M transposed times M, and a diagonal that keeps it well away from singular.
  const Matrix m = random_matrix(kSize, kSize, 7);
  for (std::int64_t i = 0; i < kSize; ++i) {
    for (std::int64_t j = 0; j < kSize; ++j) {
      for (std::int64_t k = 0; k < kSize; ++k) a.at(i, j) += m.at(k, i) * m.at(k, j) / kSize;
    }
    a.at(i, i) += 1;
  }
  const Matrix b = random_matrix(kSize, 1, 8);

  const auto step = jit(
      [](const Array& matrix, const State& state) {
        const Array image = matmul(matrix, state.direction);
        const Array length = state.residual_norm / dot(state.direction, image);
        State next;
        next.x = state.x + length * state.direction;
        next.residual = state.residual - length * image;
        next.residual_norm = dot(next.residual, next.residual);
        next.direction = next.residual + next.residual_norm / state.residual_norm * state.direction;
        return next;
      },
      {.name = "step"});

  const Array matrix = to_device(a, mesh, P("i"));
  const Array rhs = device_put(to_device(b).reshape(kSize), NamedSharding(mesh, P("i")));
  State state{.x = 0 * rhs, .residual = rhs, .direction = rhs, .residual_norm = dot(rhs, rhs)};
  const std::string text = step.lower(matrix, state).compile().as_text();
  int steps = 0;
  while (state.residual_norm.item<float>() > 1e-12F && steps < 100) {
    state = step(matrix, state);
    ++steps;
  }
  EXPECT_LT(steps, kSize + 5) << "it converges";
  expect_near(state.x, solved(a, b.elements));
  EXPECT_EQ(state.x.sharding().named()->spec(), P("i"));

  // The direction is gathered for the product, and two scalars are summed. The matrix stays where it is.
  EXPECT_EQ(collectives_in(text), (Collectives{{"all_gather", 1}, {"all_reduce", 2}})) << text;
  EXPECT_EQ(largest_gathered(text), kSize) << text;
  EXPECT_EQ(largest_on_a_device(text), kSize * kSize / 8) << text;
}

}  // namespace
}  // namespace shoal::programs
