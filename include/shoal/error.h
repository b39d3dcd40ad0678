// Every exception that Shoal throws.
//
// A message names the operation or argument, what was given and what is allowed; it ends with the user's
// source line where one is known. The library never aborts, never exits and prints nothing but warnings.
//
// @param message What it says.
#pragma once

#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>

namespace shoal {

/// A point in a user's program. Default arguments of this type capture the caller's line.
using SourceLocation = std::source_location;

/// "file.cc:12", without the folder; empty for a location without a file.
std::string to_string(const SourceLocation& where);

/// Base of all exceptions of this library. `what()` is the message, followed by "\n  at file:line" when the
/// user's line is known.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
  Error(const std::string& message, const SourceLocation& where);

  /// The user's line, if it is known.
  const std::optional<SourceLocation>& where() const { return where_; }

 private:
  std::optional<SourceLocation> where_;
};

/// A value that is not allowed (Python: ValueError).
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// A dimension is not divisible by the mesh axes it is to be split over.
class IndivisibleError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// A partition spec names one mesh axis twice.
class DuplicateSpecError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// Operands that Explicit axes split in ways that an op cannot combine by itself.
class ShardingTypeError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// A mesh axis name that no enclosing shard_map binds (Python: NameError).
class UnboundAxisError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// A dtype, tree or kind of argument that does not fit (Python: TypeError).
class TypeMismatch : public Error {
 public:
  using Error::Error;
};

/// A key of random numbers is used twice where debug::check_key_reuse looks for that (Python: TypeError).
class KeyReuseError : public TypeMismatch {
 public:
  using TypeMismatch::TypeMismatch;
};

/// An index outside its range (Python: IndexError).
class OutOfRange : public Error {
 public:
  using Error::Error;
};

/// A call that the state of an object does not permit: a deleted array, a finished trace (Python: RuntimeError).
class InvalidState : public Error {
 public:
  using Error::Error;
};

/// A combination that is meaningful but that no back end offers (Python: NotImplementedError).
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// Memory that an op needs is not there (Python: MemoryError).
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Something between the processes of a job: they cannot meet, or do not agree.
class DistributedError : public Error {
 public:
  using Error::Error;
};

/// Processes of one job do not run the same programs on the same arrays.
class Disagreement : public DistributedError {
 public:
  using DistributedError::DistributedError;
};

/// Another process died, or left while it was still needed.
class ProcessFailed : public DistributedError {
 public:
  using DistributedError::DistributedError;
};

/// What was waited for did not come in time (Python: TimeoutError).
class DeadlineExceeded : public DistributedError {
 public:
  using DistributedError::DistributedError;
};

/// A defect of Shoal itself. User input never leads here.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace shoal
