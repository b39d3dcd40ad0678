#include "frontend/diagonal.h"

#include "frontend/term.h"
#include "frontend/trace.h"

namespace shoal {

Array diagonal_alone(const Array& array, std::int64_t first, std::int64_t second, std::int64_t offset,
                     SourceLocation where) {
  const auto position = [&](std::int64_t d) {
    return Term(bind_one("iota", {{"shape", array.shape()}, {"dtype", int32}, {"dim", d}}, {}, where), where);
  };
  const Term diagonal = offset == 0 ? position(first) : position(first).then(add, Operand(offset, where));
  const Term zero(full({}, {0, where}, {.dtype = array.dtype()}), where);
  return select(position(second).then(equal, diagonal), Term(array, where), zero).array();
}

}  // namespace shoal
