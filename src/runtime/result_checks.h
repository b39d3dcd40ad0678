// A look at the results of programs for NaN and infinities, as debug::check_results asks for it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "runtime/device_array.h"
#include "shoal/error.h"

namespace shoal {

/// A result that is NaN, or infinite, while these are looked for (Python: FloatingPointError).
class NotFinite : public InvalidState {
 public:
  using InvalidState::InvalidState;
};

/// What is looked for in the results of all programs of this process.
void set_result_checks(bool nans, bool infinities);
bool are_results_checked();

/// What is looked for and is among the elements that this process has, for which it waits: "NaN", "an infinity"; else
/// nothing.
std::string_view what_is_wrong(const DeviceArray& array);

/// The same of shards of this dtype.
std::string_view what_is_wrong(Dtype dtype, std::span<const Buffer> shards);

/// Throws NotFinite, naming the program and what origin() says, if something is wrong with a result.
void check_results(const DeviceArrays& results, std::string_view program, SourceLocation where,
                   FunctionRef<std::string()> origin);
/// The same of a result that is such shards, each of this type.
void check_result(const Type& type, std::span<const Buffer> shards, std::size_t number, std::string_view program,
                  SourceLocation where);

}  // namespace shoal
