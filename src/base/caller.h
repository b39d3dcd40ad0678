// The public function that the user called, and his line: what errors name, and what equations keep.
//
// A public function sets it by a Caller as its first statement. What it calls, public functions of the library too,
// leaves it as it is, so that a message names what stands in the user's program and not what that is composed of.
#pragma once

#include <string>
#include <string_view>

#include "shoal/error.h"

namespace shoal {

class Caller {
 public:
  /// Says, until it goes, that this thread is in `function`, which the user called at `where`; unless it is in a public
  /// function already. `function` must live as long.
  Caller(std::string_view function, const SourceLocation& where) noexcept;
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// The outermost public function that this thread is in; null in the user's own program.
  static const Caller* current() noexcept;

  std::string_view function() const { return function_; }
  const SourceLocation& where() const { return where_; }

  /// The user's line, if this thread is in a public function; else `otherwise`.
  static const SourceLocation& where_or(const SourceLocation& otherwise) noexcept {
    const Caller* caller = current();
    return caller == nullptr ? otherwise : caller->where_;
  }
  /// The public function's name, if this thread is in one; else `otherwise`.
  static std::string_view function_or(std::string_view otherwise) noexcept {
    const Caller* caller = current();
    return caller == nullptr ? otherwise : caller->function_;
  }

  /// While it lives, this thread is in the user's program again: for calls of his functions from inside the library.
  class UserProgram {
   public:
    UserProgram() noexcept;
    ~UserProgram();
    UserProgram(const UserProgram&) = delete;
    UserProgram& operator=(const UserProgram&) = delete;

   private:
    const Caller* left_;
  };

 private:
  std::string_view function_;
  SourceLocation where_;
};

}  // namespace shoal
