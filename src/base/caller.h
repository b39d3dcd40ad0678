// The public function that the user called, and his line: what errors name, and what equations keep.
//
// A public function sets it by a Caller as its first statement. What it calls, public functions of the library too,
// leaves it as it is, so that a message names what stands in the user's program and not what that is composed of.
// Errors of his calls are thrown by misuse() (base/misuse.h).
#pragma once

#include <string_view>
#include <utility>

#include "shoal/error.h"

namespace shoal {

class Caller {
 public:
  /// Says, until it goes, that this thread is in `function`, which the user called at `where`; unless it is in a public
  /// function already. `function` must live as long.
  Caller(std::string_view function, const SourceLocation& where) noexcept : function_(function), where_(where) {
    if (outermost_ == nullptr) outermost_ = this;
    ++depth_;
  }
  ~Caller() {
    if (outermost_ == this) outermost_ = nullptr;
    --depth_;
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// The user's line where he called the outermost public function that this thread is in. Unknown in his own program,
  /// and where the function has no line.
  static SourceLocation line() noexcept { return outermost_ == nullptr ? SourceLocation() : outermost_->where_; }
  /// The name of that function; `otherwise` in the user's own program.
  static std::string_view function_or(std::string_view otherwise) noexcept {
    return outermost_ == nullptr ? otherwise : outermost_->function_;
  }

  /// Whether the innermost public function that this thread is in was called by another one, and not by the user.
  static bool is_nested() noexcept { return depth_ > 1; }

  /// While it lives, this thread is in no public function: for the user's own functions that the library calls, and for
  /// work on whole programs, whose equations have lines of their own.
  class Pause {
   public:
    Pause() noexcept : paused_(std::exchange(outermost_, nullptr)), depth_(std::exchange(Caller::depth_, 0)) {}
    ~Pause() {
      outermost_ = paused_;
      Caller::depth_ = depth_;
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    const Caller* paused_;
    int depth_;
  };

 private:
  // Known to be initialised as a constant, so that no function stands before each use.
  static constinit thread_local const Caller* outermost_;
  static constinit thread_local int depth_;

  std::string_view function_;
  SourceLocation where_;
};

}  // namespace shoal
