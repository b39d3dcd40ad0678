#include "frontend/transforms/changes.h"

#include "base/misuse.h"
#include "base/shape_mismatch.h"
#include "frontend/array/array_impl.h"
#include "frontend/array/tape.h"
#include "frontend/array/trace.h"

namespace shoal::detail {

Array checked_change(const Array& given, const Type& type, std::string_view what, std::size_t i) {
  const Type& is = impl_of(given, what).type;
  if (is.dtype != type.dtype) {
    throw misuse<TypeMismatch>("{} {} is {}, and should have the type of its array, {}", what, i, user_string(is),
                               user_string(type));
  }
  if (is.shape != type.shape) {
    throw misuse<ShapeMismatch>("{} {} is {}, and should have the shape of its array, {}", what, i, user_string(is),
                                user_string(type));
  }
  Array made = given;
  if (is.weak != type.weak) made = bind_one("convert", {{"dtype", type.dtype}, {"weak", type.weak}}, {made});
  return summed_as(made, type);
}

Array zeros_like(const Array& array) { return zeros_of(impl_of(array).type); }

Array zero_cotangent_of(const Array& array) { return zeros_of(cotangent_type(impl_of(array).type)); }

}  // namespace shoal::detail
