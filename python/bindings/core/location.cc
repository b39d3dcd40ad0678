#include "bindings/core/location.h"

#include <Python.h>

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace shoal::python {
namespace {

// What a std::source_location points to, in GCC's and Clang's libraries: there is no other way to make one for a line
// of another language. location_test.py compares what comes out.
struct Line {
  const char* file;
  const char* function;
  unsigned line;
  unsigned column;
};
static_assert(sizeof(SourceLocation) == sizeof(const Line*));

// Lines are kept for good, because arrays and graphs refer to them.
const Line* line_of(PyCodeObject* code, int number) {
  static auto& files = *new std::map<std::string, int, std::less<>>;
  static auto& lines = *new std::map<std::pair<const char*, int>, Line>;
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (file == nullptr) {
    PyErr_Clear();
    file = "<unknown>";
  }
  const char* kept = files.try_emplace(file, 0).first->first.c_str();
  return &lines.try_emplace({kept, number}, Line{kept, "", static_cast<unsigned>(number), 0}).first->second;
}

bool is_own(PyCodeObject* code) {
  static auto& own = *new std::unordered_map<PyObject*, bool>;  // By file name; names of files are few and stay.
  const auto [entry, is_new] = own.try_emplace(code->co_filename, false);
  if (is_new) {
    Py_INCREF(code->co_filename);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (file == nullptr) {
      PyErr_Clear();
    } else {
      const std::string_view name = file;
      const auto is_in = [&](std::string_view folder) { return name.find(folder) != std::string_view::npos; };
      // Functions of functools and contextlib stand between the user and what they wrap.
      entry->second = is_in("/site-packages/shoal/") || is_in("/python/shoal/") || name.ends_with("/contextlib.py") ||
                      name.ends_with("/functools.py");
    }
  }
  return entry->second;
}

}  // namespace

SourceLocation user_line() {
  // Calls from one place come one after the other.
  struct Last {
    PyCodeObject* code = nullptr;  // Held.
    int instruction = -1;
    const Line* line = nullptr;
  };
  static constexpr std::size_t kRemembered = 256;
  static auto& remembered = *new std::array<Last, kRemembered>;

  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == nullptr) return {};
  Py_INCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!is_own(code)) {
      const int instruction = PyFrame_GetLasti(frame);
      const std::size_t slot =
          ((reinterpret_cast<std::uintptr_t>(code) >> 4U) ^ static_cast<std::size_t>(instruction)) % kRemembered;
      Last& last = remembered[slot];
      if (last.code != code || last.instruction != instruction) {
        const Line* line = line_of(code, PyFrame_GetLineNumber(frame));
        Py_INCREF(code);
        PyCodeObject* before = std::exchange(last.code, code);
        last.instruction = instruction;
        last.line = line;
        Py_XDECREF(before);
      }
      const Line* line = last.line;
      Py_DECREF(code);
      Py_DECREF(frame);
      return std::bit_cast<SourceLocation>(line);
    }
    Py_DECREF(code);
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  return {};
}

std::string with_user_line(const std::string& text) {
  const std::string line = to_string(user_line());
  const bool is_told = line.empty() || text.find("\n  at ") != std::string::npos;
  return is_told ? text : text + "\n  at " + line;
}

}  // namespace shoal::python
