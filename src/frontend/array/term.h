// Formulas of arrays that keep the line of the user's call, as python/bindings write them yet; those of the library are
// written with arrays alone, and the line is that of the Caller.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "frontend/array/promotion.h"
#include "shoal/numpy.h"

namespace shoal {

/// An array, and the user's line for what is computed from it.
class Term {
 public:
  Term(Array array, SourceLocation where) : array_(std::move(array)), where_(where) {}

  const Array& array() const { return array_; }
  const SourceLocation& where() const { return where_; }
  operator Operand() const { return {array_, where_}; }

  /// f(this, rest...), for any function of operands.
  template <class F, class... Rest>
  Term then(F&& f, const Rest&... rest) const {
    return {f(Operand(*this), rest...), where_};
  }
  Operand number(double value) const { return {value, where_}; }

 private:
  Array array_;
  SourceLocation where_;
};

inline Term operator-(const Term& x) { return {negative(x), x.where()}; }
inline Term operator+(const Term& x, const Term& y) { return {add(x, y), x.where()}; }
inline Term operator-(const Term& x, const Term& y) { return {subtract(x, y), x.where()}; }
inline Term operator*(const Term& x, const Term& y) { return {multiply(x, y), x.where()}; }
inline Term operator/(const Term& x, const Term& y) { return {divide(x, y), x.where()}; }
inline Term operator+(const Term& x, double y) { return {add(x, x.number(y)), x.where()}; }
inline Term operator+(double x, const Term& y) { return {add(y.number(x), y), y.where()}; }
inline Term operator-(const Term& x, double y) { return {subtract(x, x.number(y)), x.where()}; }
inline Term operator-(double x, const Term& y) { return {subtract(y.number(x), y), y.where()}; }
inline Term operator*(const Term& x, double y) { return {multiply(x, x.number(y)), x.where()}; }
inline Term operator*(double x, const Term& y) { return {multiply(y.number(x), y), y.where()}; }
inline Term operator/(const Term& x, double y) { return {divide(x, x.number(y)), x.where()}; }
inline Term operator/(double x, const Term& y) { return {divide(y.number(x), y), y.where()}; }
inline Term operator>(const Term& x, double y) { return {greater(x, x.number(y)), x.where()}; }

inline Term select(const Term& condition, const Term& x, const Term& y) {
  return {shoal::where(condition, x, y), condition.where()};
}
inline Term at_least(const Term& x, double y) { return {maximum(x, x.number(y)), x.where()}; }
inline Term at_most(const Term& x, double y) { return {minimum(x, x.number(y)), x.where()}; }

/// formula(x...), where operands are promoted as `function` asks for, and those of f16 and bf16 are taken as f32: the
/// result alone is rounded.
template <class F, class... Operands>
Array at_least_f32(std::string_view function, Kinds kinds, F&& formula, const Operands&... operands) {
  const std::array<const Operand*, sizeof...(Operands)> given = {&operands...};
  const SourceLocation where = given[0]->where();
  const std::vector<Array> arrays = promote(function, kinds, given);
  const Dtype dtype = arrays[0].dtype();
  const bool is_half = is_floating(dtype) && size_of(dtype) < size_of(float32);
  const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return formula(Term(is_half ? convert(arrays[I], float32, false, where) : arrays[I], where)...);
  };
  const Term result = call(std::index_sequence_for<Operands...>());
  return is_half ? convert(result.array(), dtype, false, where) : result.array();
}

}  // namespace shoal
