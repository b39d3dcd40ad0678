#include "base/caller.h"

#include <utility>

namespace shoal {
namespace {

constinit thread_local const Caller* outermost = nullptr;

}  // namespace

Caller::Caller(std::string_view function, const SourceLocation& where) noexcept : function_(function), where_(where) {
  if (outermost == nullptr) outermost = this;
}

Caller::~Caller() {
  if (outermost == this) outermost = nullptr;
}

const Caller* Caller::current() noexcept { return outermost; }

Caller::UserProgram::UserProgram() noexcept : left_(std::exchange(outermost, nullptr)) {}
Caller::UserProgram::~UserProgram() { outermost = left_; }

}  // namespace shoal
