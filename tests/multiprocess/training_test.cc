// Batches that processes read together, and steps on them.
#include <gmock/gmock.h>

#include <stdexcept>
#include <tuple>

#include "support.h"

namespace shoal {
namespace {

using multiprocess::Outcome;
using multiprocess::print_bits;
using multiprocess::Registered;
using multiprocess::tell;
using multiprocess::told;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Array numbers_of(const std::vector<std::int64_t>& examples) {
  std::vector<float> values;
  for (const std::int64_t example : examples) values.push_back(static_cast<float>(example % 17) / 8);
  return array(values);
}

// Two epochs of 53 examples in batches of 16, shuffled, in different amounts ahead, which no result may show; the last
// batch is not full.
void trained() {
  const Mesh mesh = make_mesh({8}, {"data"});
  const auto optimizer = optimizers::chain({optimizers::clip_by_global_norm(1), optimizers::adamw(0.1)});
  Array weight = device_put(full({}, 0.5), NamedSharding(mesh, P()));
  optimizers::State state = device_put(optimizer.init(weight), NamedSharding(mesh, P()));
  const auto step = jit([&](const Array& w, const optimizers::State& s, const Array& x, const Array& mask) {
    const auto loss_of = [&](const Array& v) { return nn::masked_mean(nn::l2_loss(v * x, sin(x)), mask); };
    const auto [loss, gradient] = value_and_grad(loss_of)(w);
    const auto [update, next] = optimizer.update(gradient, s, w);
    return std::tuple(optimizers::apply_updates(w, update), next, loss);
  });
  for (const std::int64_t prefetch : {0, 3}) {
    data::DataLoader loader(53, 16, numbers_of, NamedSharding(mesh, P("data")), {.seed = 5, .prefetch = prefetch});
    for (int i = 0; i < 8; ++i) {
      const auto batch = loader.next();
      Array loss;
      std::tie(weight, state, loss) = step(weight, state, batch.data, batch.mask);
      print_bits("rows", multihost::to_host(batch.data));
      print_bits("counted", multihost::to_host(batch.mask).astype(int32));
      print_bits("loss", loss);
    }
  }
  for (const auto& [name, array] : state) print_bits(name, array);
}
const Registered kTrained("trained", trained);

TEST(Training, BitsDoNotDependOnProcesses) { multiprocess::expect_same("trained", {{4, 4}, {2, 2, 2, 2}, {3, 3, 2}}); }

// Processes that would read different batches are told before a step runs on them, and readers that fail are told of
// where they fail.
void disagreeing() {
  const Mesh mesh = make_mesh({device_count()}, {"data"});
  const NamedSharding rows(mesh, P("data"));
  const std::int64_t examples = 50 + process_index();
  data::DataLoader other(examples, 16, numbers_of, rows);
  tell("count", [&] { other.next(); });
  data::DataLoader seeded(50, 16, numbers_of, rows, {.seed = static_cast<std::uint64_t>(process_index())});
  tell("seed", [&] { seeded.next(); });
  const auto other_types = [](const std::vector<std::int64_t>& list) {
    return process_index() == 0 ? numbers_of(list) : numbers_of(list).astype(float64);
  };
  data::DataLoader typed(50, 16, other_types, rows);
  tell("types", [&] { typed.next(); });
  data::DataLoader loader(50, 16, numbers_of, rows);
  loader.next();
  if (process_index() == 1) loader.seek({2, 1});
  tell("position", [&] {
    if (process_index() == 0) loader.seek({1, 1});
    loader.next();
  });
}
const Registered kDisagreeing("disagreeing", disagreeing);

TEST(Training, ProcessesThatWouldReadDifferentBatchesAreTold) {
  for (const Outcome& outcome : multiprocess::run({"disagreeing", {4, 4}})) {
    for (const char* what : {"count", "seed", "types", "position"}) {
      EXPECT_THAT(told(outcome, what), AllOf(StartsWith("InvalidArgument"), HasSubstr("DataLoader"))) << outcome.output;
    }
  }
}

}  // namespace
}  // namespace shoal
