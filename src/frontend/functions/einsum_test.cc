// einsum, against what JAX gave for the same expressions (testdata/einsum.inc), and the other products.
#include <complex>

#include "frontend/test_support.h"

namespace shoal::test {
namespace {

struct EinsumCase {
  std::string subscripts;
  std::vector<Shape> shapes;
  std::string result;
};

const EinsumCase kEinsumCases[] = {
#include "frontend/testdata/einsum.inc"
};

std::vector<Operand> einsum_operands(const EinsumCase& c) {
  std::vector<Operand> operands;
  for (const Shape& shape : c.shapes) {
    operands.emplace_back((arange(num_elements(shape), {.dtype = int32}) % 7).reshape(shape));
  }
  return operands;
}

TEST(Einsum, GivesTheRecordedValues) {
  for (const EinsumCase& c : kEinsumCases)
    EXPECT_EQ(repr(einsum(c.subscripts, einsum_operands(c))), c.result) << c.subscripts;
}

TEST(Einsum, OfManyOperands) {
  // More than are searched for the best order: a chain of matrices.
  std::vector<Operand> operands;
  Array expected = array({1, 0, 0, 1}).reshape(2, 2);
  std::string subscripts;
  for (char c = 'a'; c < 'k'; ++c) {
    const Array matrix = array({1, 1, 0, 1}).reshape(2, 2);
    operands.emplace_back(matrix);
    expected = matmul(expected, matrix);
    subscripts += std::string(c == 'a' ? "" : ",") + c + static_cast<char>(c + 1);
  }
  EXPECT_TRUE(same(einsum(subscripts + "->ak", operands), expected));
}

TEST(Einsum, ContractsInTheCheapestOrder) {
  // (a b) c would make a matrix of 64 x 64; a (b c) makes vectors.
  const auto product = jit([](Array a, Array b, Array c) { return einsum("ij,jk,k->i", a, b, c); });
  const std::string text = product.lower(ones({64, 2}), ones({2, 64}), ones({64})).compile().as_text("simplified");
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("f32[64,64]"))) << text;
}

TEST(Einsum, MovesNothingThatIsSplitByABatchDimension) {
  const Mesh mesh = mesh_8();
  const auto product = jit([](Array q, Array k) { return einsum("bqhd,bkhd->bhqk", q, k); });
  const Array q = put(ones({8, 3, 2, 4}), mesh, P("i"));
  const std::string text = product.lower(q, q).compile().as_text("partitioned");
  for (const char* collective : {"all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"}) {
    EXPECT_THAT(text, testing::Not(testing::HasSubstr(collective))) << text;
  }
}

TEST(Einsum, TakesListsOfOperands) {
  const Array x = iota({2, 3});
  EXPECT_TRUE(same(einsum("ij->ji", {x}), x.T()));
  EXPECT_TRUE(same(einsum("ij,kj->ik", {x, x}), einsum("ij,kj->ik", x, x)));
  EXPECT_EQ(x.reshape(1, 3, 1, 2).shape(), (Shape{1, 3, 1, 2}));
}

TEST(Einsum, ExtentsOfOneBroadcastWhereverTheyStand) {
  const Array x = iota({3, 4});
  const Array row = x[{range(1, 2), range()}];
  const Array column = x[{range(), range(1, 2)}];
  const Array sums = sum(x * row, {.axis = 0});
  EXPECT_TRUE(same(einsum("ab,ab->b", x, row), sums));
  EXPECT_TRUE(same(einsum("ab,ab->b", row, x), sums));
  EXPECT_TRUE(same(einsum("ab,ab", x, row), sums.sum()));
  EXPECT_TRUE(same(einsum("ab,cb->ac", x, column), sum(x, {.axis = 1, .keepdims = true}) * column.T()));
  EXPECT_TRUE(same(einsum("ab,cb->a", x, column), sum(x, {.axis = 1}) * column.sum()));
}

TEST(Einsum, PromotesAndAddsInThePreferredDtype) {
  EXPECT_EQ(einsum("i,i", array({1, 2}), array({0.5, 0.5})).dtype(), float32);
  const Array x = full({300}, 1, {.dtype = int8});
  EXPECT_EQ(repr(einsum("i,i", x, x, {.preferred_element_type = int32})), "Array(300, dtype=int32)");
  EXPECT_EQ(repr(einsum("i,i", x, x)), "Array(44, dtype=int8)");
  const Array y = full({2, 2}, 300.0, {.dtype = float16});
  EXPECT_EQ(repr(einsum("ij,ij->i", y, y, {.preferred_element_type = float32})),
            "Array([180000., 180000.], dtype=float32)");
  EXPECT_EQ(einsum("i,j,k->", x, x, x, {.preferred_element_type = int32}).dtype(), int32);
}

TEST(Products, PreferredElementType) {
  const Array x = full({4}, 100, {.dtype = int8});
  EXPECT_EQ(repr(lax::dot_general(x, x, {.lhs_contracting = {0}, .rhs_contracting = {0}}, int32)),
            "Array(40000, dtype=int32)");
  EXPECT_EQ(lax::dot_general(ones({2}), ones({2}), {.lhs_contracting = {0}, .rhs_contracting = {0}}, float64).dtype(),
            float64);
}

TEST(Products, OfComplexVectorsConjugateTheFirst) {
  using C = std::complex<float>;
  const Array z = array(std::vector<C>{C(1, 2), C(3, -1)});
  EXPECT_EQ(vdot(z, z).item<C>(), C(15, 0));
  EXPECT_EQ(vecdot(z, z).item<C>(), C(15, 0));
  EXPECT_EQ(inner(z, z).item<C>(), C(5, -2));
  EXPECT_EQ(vdot(iota({2, 3}), iota({6})).item<float>(), 55.0F);
  EXPECT_EQ(inner(2, iota({3})).shape(), Shape{3});
  EXPECT_EQ(kron(2, iota({3})).shape(), Shape{3});
}

}  // namespace
}  // namespace shoal::test
