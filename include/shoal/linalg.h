// Linear algebra.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "shoal/array.h"

namespace shoal::linalg {

/// Which norm: a number p, or "fro". Without one, the root of the sum of squares.
class NormOrder {
 public:
  NormOrder() = default;
  NormOrder(int p) : value_(static_cast<double>(p)) {}
  NormOrder(double p) : value_(p) {}
  NormOrder(const char* name) : value_(std::string(name)) {}
  NormOrder(std::string name) : value_(std::move(name)) {}
  const std::variant<std::monostate, double, std::string>& get() const { return value_; }

 private:
  std::variant<std::monostate, double, std::string> value_;
};

struct NormOptions {
  NormOrder ord = {};
  Axes axis = {};         ///< One dimension for norms of vectors, two for norms of matrices; default: all.
  bool keepdims = false;  ///< Reduced dimensions stay, with extent 1.
};

/// The norm of vectors or matrices; real. Of vectors, p is any number: infinity gives the greatest magnitude, -infinity
/// the least, 0 the number of elements that are not 0, others the p-th root of the sum of p-th powers. Of matrices,
/// "fro" is the root of the sum of squares; 1 and -1 give the greatest and the least sum of magnitudes of a column,
/// infinity and -infinity of a row. Without `ord` any number of dimensions may be given. Throws InvalidArgument for
/// other orders and numbers of dimensions, and Unsupported for 2, -2 and "nuc" of matrices.
Array norm(const Operand& x, const NormOptions& options = {});

}  // namespace shoal::linalg
