#include "backend/cpu/products/onednn.h"

#include <omp.h>

#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/plugin.h"

namespace shoal::cpu {
namespace {

// oneDNN runs as many OpenMP threads as the calling thread may: one, while this object lives.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

using DataType = dnnl::memory::data_type;

DataType data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return DataType::f32;
    case Dtype::kBF16:
      return DataType::bf16;
    case Dtype::kI8:
      return DataType::s8;
    case Dtype::kU8:
      return DataType::u8;
    case Dtype::kI32:
      return DataType::s32;
    default:
      return DataType::undef;
  }
}

const dnnl::engine& cpu_engine() {
  static const auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

struct Code {
  dnnl::matmul primitive;
  dnnl::memory::desc lhs;
  dnnl::memory::desc rhs;
  dnnl::memory::desc out;
  dnnl::memory::desc scratch;
};

// nullptr where oneDNN has no code, or none that is fast.
std::unique_ptr<Code> make_code(const OnednnProduct& p) try {
  using Desc = dnnl::memory::desc;
  const OneThread one_thread;
  const Desc lhs({p.rows, p.inner}, data_type(p.operands), {p.lhs_row_stride, p.lhs_inner_stride});
  const Desc rhs({p.inner, p.columns}, data_type(p.operands), {p.rhs_inner_stride, p.rhs_column_stride});
  const Desc out({p.rows, p.columns}, data_type(p.out), {p.out_stride, 1});
  // Its own scratch memory belongs to the thread that made the code: others must bring theirs.
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(lhs, rhs, out), attributes, cpu_engine(),
                                          /*allow_empty=*/true);
  if (!desc) return nullptr;
  // The plain loops of oneDNN are far slower than Shoal's.
  if (std::string_view(desc.impl_info_str()).starts_with("ref")) return nullptr;
  return std::make_unique<Code>(Code{dnnl::matmul(desc), lhs, rhs, out, desc.scratchpad_desc()});
} catch (const dnnl::error&) {  // As for unsigned weights on processors without AMX.
  return nullptr;
}

struct Hash {
  std::size_t operator()(const OnednnProduct& p) const {
    std::uint64_t hash = static_cast<std::uint64_t>(p.operands) * 256 + static_cast<std::uint64_t>(p.out);
    for (std::int64_t part : {p.rows, p.columns, p.inner, p.lhs_row_stride, p.lhs_inner_stride, p.rhs_inner_stride,
                              p.rhs_column_stride, p.out_stride}) {
      hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 32U;
    }
    return hash;
  }
};

bool has_instructions(Dtype operands) {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  // Sets of instructions are sets of bits.
  const auto has = [isa](dnnl::cpu_isa wanted) {
    return (static_cast<unsigned>(isa) & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
#if !SHOAL_AVX512
  if (operands != Dtype::kF32) return false;
#endif
  switch (operands) {
    case Dtype::kF32:
      return has(dnnl::cpu_isa::avx2);
    case Dtype::kBF16:
      return has(dnnl::cpu_isa::avx512_core_bf16);
    case Dtype::kI8:
    case Dtype::kU8:
      return has(dnnl::cpu_isa::avx512_core_vnni);  // without it sums of two products saturate in i16
    default:
      return false;
  }
}

// Memory of this thread, aligned to 64, until it asks again.
void* thread_scratch(std::size_t bytes) {
  struct Free {
    void operator()(void* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<void, Free> memory;
  thread_local std::size_t size = 0;
  if (size < bytes) {
    memory.reset();
    size = 0;
    memory.reset(::operator new (bytes, std::align_val_t{64}));
    size = bytes;
  }
  return memory.get();
}

void run(const void* code, const void* lhs, const void* rhs, void* out) {
  const OneThread one_thread;
  const Code& c = *static_cast<const Code*>(code);
  const dnnl::engine& engine = cpu_engine();
  thread_local dnnl::stream stream(engine);
  const dnnl::memory lhs_memory(c.lhs, engine, const_cast<void*>(lhs));
  const dnnl::memory rhs_memory(c.rhs, engine, const_cast<void*>(rhs));
  const dnnl::memory out_memory(c.out, engine, out);
  const dnnl::memory scratch_memory(c.scratch, engine, thread_scratch(c.scratch.get_size()));
  c.primitive.execute(stream, {{DNNL_ARG_SRC, lhs_memory},
                               {DNNL_ARG_WEIGHTS, rhs_memory},
                               {DNNL_ARG_DST, out_memory},
                               {DNNL_ARG_SCRATCHPAD, scratch_memory}});
}

class Codes {
 public:
  const Code* find_or_make(const OnednnProduct& product) {
    {
      const std::shared_lock lock(mutex_);
      const auto found = codes_.find(product);
      if (found != codes_.end()) return found->second.get();
    }
    std::unique_ptr<Code> code = make_code(product);  // maybe twice, by two threads: the first is kept
    const std::lock_guard lock(mutex_);
    return codes_.try_emplace(product, std::move(code)).first->second.get();
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<OnednnProduct, std::unique_ptr<Code>, Hash> codes_;
};

// oneDNN makes static objects, code among them, at its first products of each kind, and exit() destroys what was made
// last first. A program may end during any product, on another thread; so all of them are made before the first one,
// and whoever waits for products when the program ends is registered after that. What makes new ones was found in
// oneDNN's sources, and a test counts them (onednn_test.cc): the dtype; whether the matrices lie densely, which one
// implementation asks for; a result of few elements; few rows times a transposed matrix; and vectors.
void make_static_objects(Dtype operands) {
  constexpr std::int64_t kMany = 64;
  constexpr std::int64_t kFew = 4;
  struct Kind {
    std::int64_t rows, columns;
    bool dense, transposed;
  };
  constexpr Kind kKinds[] = {{kMany, kMany, true, false}, {kMany, kMany, false, false}, {kFew, kMany, true, false},
                             {kFew, kMany, false, true},  {1, kMany, false, false},     {kMany, 1, false, false}};
  constexpr std::int64_t kWide = 2 * kMany;
  const bool is_float = operands == Dtype::kF32 || operands == Dtype::kBF16;
  const std::vector<float> lhs(kMany * kWide), rhs(kMany * kWide);  // Of any dtype: none is larger.
  std::vector<float> out(kMany * kWide);
  for (const Kind& kind : kKinds) {
    const std::int64_t inner_stride = kind.dense ? kMany : kWide;
    const std::int64_t out_stride = kind.dense ? kind.columns : kWide;
    const std::unique_ptr<const Code> code = make_code({.operands = operands,
                                                        .out = is_float ? Dtype::kF32 : Dtype::kI32,
                                                        .rows = kind.rows,
                                                        .columns = kind.columns,
                                                        .inner = kMany,
                                                        .lhs_row_stride = inner_stride,
                                                        .lhs_inner_stride = 1,
                                                        .rhs_inner_stride = kind.transposed ? 1 : out_stride,
                                                        .rhs_column_stride = kind.transposed ? inner_stride : 1,
                                                        .out_stride = out_stride});
    if (code != nullptr) run(code.get(), lhs.data(), rhs.data(), out.data());
  }
}

bool offers(Dtype operands, void (*made)()) {
  static std::array<std::once_flag, 32> ready;  // By dtype.
  if (!has_instructions(operands)) return false;
  std::call_once(ready.at(static_cast<std::size_t>(operands)), [&] {
    make_static_objects(operands);
    made();
  });
  return true;
}

const void* prepare(const OnednnProduct& product) {
  static Codes& codes = *new Codes;
  return codes.find_or_make(product);
}

}  // namespace

SHOAL_PLUGIN(onednn, OnednnApi) {
  static const OnednnApi api{.offers = offers, .prepare = prepare, .run = run};
  return &api;
}

}  // namespace shoal::cpu
