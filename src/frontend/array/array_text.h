// The texts of arrays under other options than those that str() and repr() have.
#pragma once

#include <string>

#include "core/format.h"
#include "shoal/array.h"

namespace shoal {

std::string str(const Array& array, const PrintOptions& options);
std::string repr(const Array& array, const PrintOptions& options);

}  // namespace shoal
