#include "backend/cpu/interpreter.h"

#include <array>
#include <cstring>
#include <vector>

#include "core/dispatch.h"
#include "ops/reduction.h"
#include "ops/scalar/interpret.h"

namespace shoal::cpu {
namespace {

class PlainRunner final : public LoopRunner {
 public:
  explicit PlainRunner(const Loop& loop) : loop_(loop) {}

  void run(const LoopArguments& arguments) const override {
    for (std::int64_t row = 0; row < arguments.rows; ++row) run_row(arguments, row);
  }

 private:
  void run_row(const LoopArguments& a, std::int64_t row) const {
    std::vector<std::array<std::byte, 16>> scalars(loop_.scalars.size());
    std::vector<std::vector<std::byte>> temporaries(loop_.temporaries.size());
    for (const Phase& phase : loop_.phases) {
      const std::int64_t n = phase.once ? 1 : a.columns;
      std::vector<std::vector<std::byte>> copies(phase.inputs.size());
      std::vector<const void*> data;
      std::vector<std::int64_t> strides;
      const auto base = [&](int i) {
        const auto k = static_cast<std::size_t>(i);
        return a.bases[k] + row * a.row_strides[k];
      };
      for (std::size_t i = 0; i < phase.inputs.size(); ++i) {
        const LoopInput& in = phase.inputs[i];
        const auto k = static_cast<std::size_t>(in.index);
        if (in.kind == LoopInput::Kind::kScalar) {
          data.push_back(scalars[k].data());
          strides.push_back(0);
        } else if (in.kind == LoopInput::Kind::kTemporary) {
          data.push_back(temporaries[k].data());
          strides.push_back(1);
        } else if (loop_.arrays[k].access == Access::kStrided) {
          const std::size_t size = size_of(loop_.arrays[k].dtype);
          copies[i].resize(size * static_cast<std::size_t>(n));
          for (std::int64_t j = 0; j < n; ++j) {
            std::memcpy(copies[i].data() + static_cast<std::size_t>(j) * size, base(in.index) + j * a.column_strides[k],
                        size);
          }
          data.push_back(copies[i].data());
          strides.push_back(1);
        } else {
          data.push_back(base(in.index));
          strides.push_back(loop_.arrays[k].access == Access::kDense ? 1 : 0);
        }
      }
      struct Out {
        LoopResult result;
        std::vector<std::byte> values;
      };
      std::vector<Out> outs;
      for (const LoopResult& result : phase.results) {
        const scalar::Body body{
            .nodes = phase.nodes, .num_inputs = static_cast<int>(phase.inputs.size()), .result = result.node};
        Out out{result, std::vector<std::byte>(static_cast<std::size_t>(n) * size_of(body.dtype()))};
        scalar::interpret(body, data, strides, out.values.data(), n);
        outs.push_back(std::move(out));
      }
      for (Out& out : outs) {
        const auto k = static_cast<std::size_t>(out.result.index);
        const Dtype dtype = phase.nodes[static_cast<std::size_t>(out.result.node)].dtype;
        switch (out.result.kind) {
          case LoopResult::Kind::kArray:
            std::memcpy(base(out.result.index), out.values.data(), out.values.size());
            break;
          case LoopResult::Kind::kTemporary:
            temporaries[k] = std::move(out.values);
            break;
          case LoopResult::Kind::kScalar:
            std::memcpy(scalars[k].data(), out.values.data(), out.values.size());
            break;
          case LoopResult::Kind::kReduce:
            with_element_type(dtype, [&](auto tag) {
              using T = decltype(tag);
              if constexpr (!kIsComplexElement<T> && !kIsSmallFloat<T>) {
                std::array<T, kLanes> lanes;
                lanes.fill(neutral_element<T>(out.result.reduction));
                const auto* values = reinterpret_cast<const T*>(out.values.data());
                for (std::int64_t j = 0; j < n; ++j) {
                  T& lane = lanes[static_cast<std::size_t>(j % kLanes)];
                  lane = reduce_two(out.result.reduction, lane, values[j]);
                }
                for (std::size_t h = kLanes / 2; h > 0; h /= 2) {
                  for (std::size_t i = 0; i < h; ++i)
                    lanes[i] = reduce_two(out.result.reduction, lanes[i], lanes[i + h]);
                }
                std::memcpy(scalars[k].data(), lanes.data(), sizeof(T));
              }
            });
            break;
        }
      }
    }
  }

  Loop loop_;
};

}  // namespace

std::unique_ptr<LoopRunner> interpret_loop(const Loop& loop) { return std::make_unique<PlainRunner>(loop); }

}  // namespace shoal::cpu
