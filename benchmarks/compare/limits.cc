// The limits of the machine: memory with all cores and huge pages, and matrix products of tuned libraries. Each
// thread keeps to its own part of the arrays.
#include <cblas.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>
#ifdef __SSE__
#include <immintrin.h>
#endif

#include "serve.h"

namespace shoal::compare {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// The numbers from `first` on, in huge pages.
class Block {
 public:
  explicit Block(std::size_t count, std::size_t first = 0) : count_(count) {
    bytes_ = (count * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage;
    elements_ = static_cast<float*>(std::aligned_alloc(kHugePage, bytes_));
    if (elements_ == nullptr) throw std::bad_alloc();
    madvise(elements_, bytes_, MADV_HUGEPAGE);
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < count; ++i) elements_[i] = number(static_cast<std::int64_t>(first + i));
  }
  ~Block() { std::free(elements_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  float* data() const { return elements_; }
  std::size_t size() const { return count_; }
  // Gives the pages back: they are made anew when they are touched.
  void drop() const { madvise(elements_, bytes_, MADV_DONTNEED); }

 private:
  std::size_t count_, bytes_;
  float* elements_;
};

// Pieces that threads take in turn.
constexpr std::size_t kPiece = std::size_t{1} << 16;  // Elements.

template <class F>
void for_each_piece(std::size_t count, F&& f) {
#pragma omp parallel for schedule(static)
  for (std::size_t begin = 0; begin < count; begin += kPiece) f(begin, std::min(kPiece, count - begin));
}

// Past the caches, asking for what is read 2 KiB ahead.
void stream(float* to, const float* from, std::size_t count) {
#ifdef __SSE__
  for (std::size_t i = 0; i + 4 <= count; i += 4) {
    if (i % 16 == 0) _mm_prefetch(reinterpret_cast<const char*>(from + i + 512), _MM_HINT_T0);
    _mm_stream_ps(to + i, _mm_load_ps(from + i));
  }
  _mm_sfence();
#else
  std::memcpy(to, from, count * sizeof(float));
#endif
}

double seconds_of(const Json& measured) { return measured.at("seconds"); }

// Reading one array and writing another: the better of memcpy and a loop of non-temporal stores.
Json copy(const Json& request) {
  const Block from(request.at("mib").get<std::size_t>() << 18), to(from.size());
  const auto with = [&](auto&& piece) {
    const Json result = measure(request, [&] {
      for_each_piece(from.size(),
                     [&](std::size_t begin, std::size_t n) { piece(to.data() + begin, from.data() + begin, n); });
    });
    if (std::memcmp(from.data(), to.data(), from.size() * sizeof(float)) != 0)
      throw std::runtime_error("copy is wrong");
    return result;
  };
  const Json plain = with([](float* t, const float* f, std::size_t n) { std::memcpy(t, f, n * sizeof(float)); });
  const Json streamed = with(stream);
  return seconds_of(plain) < seconds_of(streamed) ? plain : streamed;
}

// Reading one array and writing another whose pages do not exist yet.
Json copy_to_new(const Json& request) {
  const Block from(request.at("mib").get<std::size_t>() << 18), to(from.size());
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    to.drop();
    const double begin = seconds_now();
    for_each_piece(from.size(), [&](std::size_t at, std::size_t n) { stream(to.data() + at, from.data() + at, n); });
    times.push_back(seconds_now() - begin);
  }
  if (std::memcmp(from.data(), to.data(), from.size() * sizeof(float)) != 0) throw std::runtime_error("copy is wrong");
  return {{"seconds", median(times)}};
}

// Reading and writing the same array: a x + b.
Json in_place(const Json& request) {
  const Block block(request.at("mib").get<std::size_t>() << 18);
  return measure(request, [&] {
    for_each_piece(block.size(), [&](std::size_t begin, std::size_t n) {
      float* const x = block.data() + begin;
      for (std::size_t i = 0; i < n; ++i) x[i] = 0.5F * x[i] + 0.25F;
    });
  });
}

Json read_only(const Json& request) {
  const Block block(request.at("mib").get<std::size_t>() << 18);
  double total = 0;
  Json result = measure(request, [&] {
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (std::size_t begin = 0; begin < block.size(); begin += kPiece) {
      // Enough independent sums to hide the latency of an addition.
      float lanes[64] = {};
      const float* const x = block.data() + begin;
      for (std::size_t i = 0; i + 64 <= std::min(kPiece, block.size() - begin); i += 64) {
        for (std::size_t k = 0; k < 64; ++k) lanes[k] += x[i + k];
      }
      for (const float lane : lanes) sum += static_cast<double>(lane);
    }
    total = sum;
  });
  if (std::abs(total / static_cast<double>(block.size()) + 0.0005) > 1e-3) throw std::runtime_error("sum is wrong");
  return result;
}

// One pass over `sources` arrays of `mib` MiB that adds them into another: what an all-reduce must do at least.
Json add_arrays(const Json& request) {
  const auto count = request.at("bytes").get<std::size_t>() / sizeof(float);
  const auto sources = request.value("sources", std::size_t{8});
  std::vector<std::unique_ptr<Block>> from;
  for (std::size_t i = 0; i < sources; ++i) from.push_back(std::make_unique<Block>(count, i * count));
  const Block to(count);
  Json result = measure(request, [&] {
    for_each_piece(count, [&](std::size_t begin, std::size_t n) {
      // Blocks that stay in the cache while all sources are added.
      constexpr std::size_t kBlock = 2048;
      for (std::size_t at = begin; at < begin + n; at += kBlock) {
        const std::size_t m = std::min(kBlock, begin + n - at);
        float sums[kBlock] = {};
        for (const auto& source : from) {
          const float* const x = source->data() + at;
          for (std::size_t i = 0; i < m; ++i) sums[i] += x[i];
        }
        std::memcpy(to.data() + at, sums, m * sizeof(float));
      }
    });
  });
  result["sample"] = sample({to.data(), count});
  return result;
}

Json blas(std::int64_t n, const Json& request) {
  const auto count = static_cast<std::size_t>(n * n);
  const Block a(count), b(count), c(count);
  const int size = static_cast<int>(n);
  const auto multiply = [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, a.data(), size, b.data(), size, 0,
                c.data(), size);
  };
  multiply();
  Json result{{"sample", sample({c.data(), count})}};
  result.update(measure(request, multiply));
  return result;
}

Json onednn(std::int64_t n, const Json& request) {
  using Memory = dnnl::memory;
  const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  dnnl::stream queue(cpu);
  const auto on_cpu = [&](Memory::data_type type) {
    return Memory(Memory::desc({n, n}, type, Memory::format_tag::ab), cpu);
  };
  Memory wide = on_cpu(Memory::data_type::f32), a = on_cpu(Memory::data_type::bf16),
         b = on_cpu(Memory::data_type::bf16), c = on_cpu(Memory::data_type::bf16);
  float* const elements = static_cast<float*>(wide.get_data_handle());
  for (std::int64_t i = 0; i < n * n; ++i) elements[i] = number(i);
  const auto convert = [&](Memory& from, Memory& to) {
    dnnl::reorder(from, to).execute(queue, from, to);
    queue.wait();
  };
  try {
    convert(wide, a);
    convert(wide, b);
    const dnnl::matmul::desc desc(a.get_desc(), b.get_desc(), c.get_desc());
    const dnnl::matmul product(dnnl::matmul::primitive_desc(desc, cpu));
    const std::unordered_map<int, Memory> arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
    Json result = measure(request, [&] {
      product.execute(queue, arguments);
      queue.wait();
    });
    convert(c, wide);
    result["sample"] = sample({elements, static_cast<std::size_t>(n * n)});
    return result;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) throw Unsupported("oneDNN has no bf16 products for this processor");
    throw;
  }
}

Json matrix_product(const Json& request) {
  const std::int64_t n = request.at("n");
  return request.value("dtype", "f32") == "bf16" ? onednn(n, request) : blas(n, request);
}

}  // namespace
}  // namespace shoal::compare

int main(int argc, char** argv) {
  using namespace shoal::compare;
  return serve({{"copy", copy},
                {"copy_to_new", copy_to_new},
                {"in_place", in_place},
                {"read", read_only},
                {"add", add_arrays},
                {"matmul", matrix_product}},
               argc, argv);
}
