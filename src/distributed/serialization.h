// How the fields of a message become bytes, and back.
//
// A message is a struct with `static void fields(auto& self, auto& archive) { archive(self.a, self.b, ...); }`, which
// serves both directions. Integers are little-endian; texts and lists begin with their length as 32 bits.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace shoal::distributed {

static_assert(std::endian::native == std::endian::little, "integers are sent as they lie in memory");

/// Bytes that are no message. They come from outside, so this is not for users: who reads closes the connection.
class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The last enumerator of an enumeration that is sent; others are malformed.
template <class E>
inline constexpr E kLastOf = E::kLast;

class Writer {
 public:
  template <class... Ts>
  void operator()(const Ts&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(out_); }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      put(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      put(static_cast<std::uint8_t>(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      char bytes[sizeof(T)];
      std::memcpy(bytes, &value, sizeof(T));
      out_.append(bytes, sizeof(T));
    } else {
      T::fields(value, *this);
    }
  }
  void put(std::chrono::milliseconds value) { put(std::int64_t{value.count()}); }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const T& element : list) put(element);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <std::size_t N>
  void put(const std::array<unsigned char, N>& bytes) {
    out_.append(reinterpret_cast<const char*>(bytes.data()), N);
  }

  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  template <class... Ts>
  void operator()(Ts&... values) {
    (get(values), ...);
  }
  void expect_end() const {
    if (!in_.empty()) throw Malformed("bytes after the last field");
  }

 private:
  std::string_view take(std::size_t count) {
    if (count > in_.size()) throw Malformed("a field ends early");
    const std::string_view taken = in_.substr(0, count);
    in_.remove_prefix(count);
    return taken;
  }
  template <class T>
  void get(T& value) {
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number;
      get(number);
      if (number < 0 || number > static_cast<std::underlying_type_t<T>>(kLastOf<T>)) throw Malformed("no such kind");
      value = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      get(byte);
      if (byte > 1) throw Malformed("a truth value is 0 or 1");
      value = byte == 1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    } else {
      T::fields(value, *this);
    }
  }
  void get(std::chrono::milliseconds& value) {
    std::int64_t count = 0;
    get(count);
    value = std::chrono::milliseconds(count);
  }
  void get(std::string& text) {
    std::uint32_t size = 0;
    get(size);
    text = take(size);
  }
  template <class T>
  void get(std::vector<T>& list) {
    std::uint32_t size = 0;
    get(size);
    // Each element takes a byte at least, so memory stays in proportion to what was sent.
    if (size > in_.size()) throw Malformed("a list is longer than its message");
    list.clear();
    for (std::uint32_t i = 0; i < size; ++i) get(list.emplace_back());
  }
  template <class A, class B>
  void get(std::pair<A, B>& pair) {
    get(pair.first);
    get(pair.second);
  }
  template <std::size_t N>
  void get(std::array<unsigned char, N>& bytes) {
    std::memcpy(bytes.data(), take(N).data(), N);
  }

  std::string_view in_;
};

template <class Message>
std::string encode(const Message& message) {
  Writer writer;
  writer(message);
  return writer.take();
}

/// Throws Malformed unless these bytes are such a message, from their first to their last.
template <class Message>
Message decode(std::string_view bytes) {
  Message message;
  Reader reader(bytes);
  reader(message);
  reader.expect_end();
  return message;
}

}  // namespace shoal::distributed
