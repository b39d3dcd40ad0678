// Files of machine code: whatever bytes lie in one, only what was kept under the same key is found, and only what is an
// image would be run.
#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "backend/cpu/loops/code_cache.h"
#include "backend/cpu/loops/code_image.h"
#include "base/bytes.h"
#include "base/file_descriptor.h"

namespace {

using namespace shoal;
namespace fs = std::filesystem;

constexpr std::string_view kKey = "a loop";

void expect(bool condition) {
  if (!condition) std::abort();  // The fuzzer shows where, and keeps the input.
}

// A folder with the file of one key, which goes at the end.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("shoal_code_fuzz_" + std::to_string(getpid()))), cache_(path_, 4096) {
    cache_.keep(kKey, "");
    for (const auto& entry : fs::directory_iterator(path_)) file_ = entry.path();
    std::ifstream stream(file_, std::ios::binary);
    good_.assign(std::istreambuf_iterator<char>(stream), {});
    expect(!good_.empty());
  }
  ~Folder() { fs::remove_all(path_); }

  cpu::CodeCache& cache() { return cache_; }
  bool is_empty() const { return !fs::exists(file_); }
  // What a file of this content begins with.
  std::string start(std::string_view content) const {
    ByteWriter out;
    out.text(ByteReader(good_).text());
    out.number(checksum_of(content));
    return out.bytes();
  }
  void write(std::string_view bytes) const {
    const FileDescriptor file(open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    expect(::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }

 private:
  fs::path path_;
  cpu::CodeCache cache_;
  fs::path file_;
  std::string good_;
};

void check_image(std::string_view packed) {
  const std::optional<cpu::CodeImage> image = cpu::image_in(packed);
  if (!image) return;
  expect(image->entry < image->bytes.size());
  expect(image->bytes.data() >= packed.data() && image->bytes.data() + image->bytes.size() == packed.end());
  expect(cpu::pack(*image) == packed);
}

// What find() may give for a file: what follows from the way it is written.
std::optional<std::string> value_in(const Folder& folder, std::string_view file) {
  try {
    ByteReader in(file);
    in.text();
    in.number();
    const std::string_view key = in.text();
    const std::string_view value = in.text();
    ByteWriter content;
    content.text(key);
    content.text(value);
    const bool is_good = key == kKey && in.at_end() && file == folder.start(content.bytes()) + content.bytes();
    return is_good ? std::optional(std::string(value)) : std::nullopt;
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static Folder folder;
  FuzzedDataProvider data(bytes, size);
  const int kind = data.ConsumeIntegralInRange(0, 3);
  std::string file;
  if (kind == 0) {  // Anything.
    file = data.ConsumeRemainingBytesAsString();
  } else if (kind == 1) {  // What has the right checksum.
    const std::string content = data.ConsumeRemainingBytesAsString();
    file = folder.start(content) + content;
  } else {  // What has the right key, too; and then a file of that, a part of which is another one.
    const auto at = data.ConsumeIntegral<std::uint8_t>();
    const auto removed = data.ConsumeIntegral<std::uint8_t>();
    const std::string part = kind == 3 ? data.ConsumeRandomLengthString(64) : "";
    ByteWriter content;
    content.text(kKey);
    content.text(data.ConsumeRemainingBytesAsString());
    file = folder.start(content.bytes()) + content.bytes();
    if (kind == 3) file.replace(std::min<std::size_t>(at, file.size()), removed, part);
  }
  folder.write(file);
  const std::optional<std::string> found = folder.cache().find(kKey);
  expect(found == value_in(folder, file));
  expect(folder.is_empty() == !found);  // What is damaged goes.
  if (found) check_image(*found);
  check_image(file);
  return 0;
}
