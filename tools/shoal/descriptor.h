// Open descriptors that close themselves.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

namespace shoal::tool {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (is_open()) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

/// What the last system call failed with, as an exception.
inline std::system_error system_error(const std::string& what) { return {errno, std::generic_category(), what}; }

/// Throws if a system call returned -1; else returns what it returned.
inline int checked(int result, const char* what) {
  if (result < 0) throw system_error(what);
  return result;
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

/// A pipe that programs started later do not inherit.
inline Pipe make_pipe() {
  int ends[2];
  checked(pipe2(ends, O_CLOEXEC), "pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

inline void set_nonblocking(int descriptor) {
  checked(fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK), "fcntl");
}

}  // namespace shoal::tool
