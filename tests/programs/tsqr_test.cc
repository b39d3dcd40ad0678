// The QR factorisation of a tall matrix that is split by rows (Demmel, Grigori, Hoemmen and Langou, 2012): each device
// factors its rows, all factor the small triangles that come out, and only these travel.
#include "support.h"

namespace shoal::programs {
namespace {

struct Factors {
  Array q;
  Array r;
};

// Householder's factorisation, one column at a time.
Factors small_qr(const Array& a) {
  const std::int64_t rows = a.shape()[0];
  const std::int64_t cols = a.shape()[1];
  const Array row = arange(rows);
  Array r = a;
  Array q = (expand_dims(row, 1) == expand_dims(row, 0)).astype(float32);
  for (std::int64_t j = 0; j < cols; ++j) {
    const Array column = where(row >= j, r[{range(), j}], 0);
    const Array head = r[{j, j}];
    const Array norm = sqrt(dot(column, column));
    const Array v = column + where(row == j, where(head < 0, -norm, norm), 0);
    const Array scale = 2 / dot(v, v);
    r = r - scale * expand_dims(v, 1) * expand_dims(matmul(v, r), 0);
    q = q - scale * expand_dims(matmul(q, v), 1) * expand_dims(v, 0);
  }
  return {q[{range(), range(0, cols)}], r[{range(0, cols), range()}]};
}

TEST(Tsqr, OnlyTrianglesTravel) {
  constexpr std::int64_t kDevices = 8;
  constexpr std::int64_t kRows = 80;
  constexpr std::int64_t kCols = 4;
  const Mesh mesh = make_mesh({kDevices}, {"i"});

  const auto tsqr = jit(shard_map(
                            [](const Array& a) {
                              const Factors own = small_qr(a);
                              const Array triangles = lax::all_gather(own.r, "i", {.tiled = true});
                              const Factors all = small_qr(triangles);
                              const Array mine = lax::dynamic_slice_in_dim(all.q, lax::axis_index("i") * kCols, kCols);
                              // Every device has the same triangle; pmean says so.
                              return Factors{matmul(own.q, mine), lax::pmean(all.r, "i")};
                            },
                            {.mesh = mesh, .in_specs = P("i"), .out_specs = {P("i"), P()}}),
                        {.name = "tsqr"});

  const Matrix a = random_matrix(kRows, kCols, 5);
  const Array x = to_device(a, mesh, P("i"));
  const auto [q, r] = tsqr(x);

  Matrix plain_q(kRows, kCols);
  Matrix plain_r(kCols, kCols);
  const std::vector<float> q_elements = q.to_vector<float>();
  const std::vector<float> r_elements = r.to_vector<float>();
  plain_q.elements.assign(q_elements.begin(), q_elements.end());
  plain_r.elements.assign(r_elements.begin(), r_elements.end());
  for (std::int64_t i = 0; i < kCols; ++i) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < kRows; ++k) sum += plain_q.at(k, i) * plain_q.at(k, j);
      EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-5) << "columns " << i << " and " << j << " of q";
      if (i > j) {
        EXPECT_NEAR(plain_r.at(i, j), 0, 1e-5) << "r is upper triangular";
      }
    }
  }
  expect_near(x, product(plain_q, plain_r), 1e-5);

  const std::string text = tsqr.lower(x).compile().as_text();
  EXPECT_EQ(collectives_in(text), (Collectives{{"all_gather", 1}, {"all_reduce", 1}})) << text;
  EXPECT_EQ(largest_gathered(text), kDevices * kCols * kCols) << text;
}

}  // namespace
}  // namespace shoal::programs
