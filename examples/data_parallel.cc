// A line fitted to data that processes read apart from each other: every process has its part of each batch, and the
// gradient is the mean over all. The data does not divide into batches, nor the last batch into devices, and the loop
// still ends after the same number of steps in all processes: whoever stopped earlier would leave the others waiting.
//
//   shoal run -n 2 --devices-per-process 4 -- build/release/bin/data_parallel
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "processes.h"

namespace {

using namespace shoal;

constexpr std::int64_t kSamples = 107;  // Of all processes together.
constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kFeatures = 3;
constexpr int kEpochs = 5;
constexpr float kRate = 1;

// The samples [begin, end) of the data set, one per row, with the target in the last column: what a program would read
// from a file. There are no more than kSamples; the rows after them are zeros.
Array read_rows(std::int64_t begin, std::int64_t end) {
  std::vector<float> rows;
  for (std::int64_t row = begin; row < end; ++row) {
    float target = 0.5F;
    for (std::int64_t k = 0; k < kFeatures; ++k) {
      const float feature = static_cast<float>((row * (7 + 4 * k) + 3 * k) % 16) / 8 - 1;
      rows.push_back(row < kSamples ? feature : 0);
      target += feature * static_cast<float>(k + 1);
    }
    rows.push_back(row < kSamples ? target : 0);
  }
  return array(rows).reshape(end - begin, kFeatures + 1);
}

struct Model {
  Array weights;
  Array bias;
};

// One step down the gradient of the mean squared error of the samples that count.
std::tuple<Model, Array> step(const Model& model, const Array& batch, const Array& counts) {
  const Array features = batch[{range(), range(0, kFeatures)}];
  const Array targets = batch[{range(), kFeatures}];
  const Array errors = (matmul(features, model.weights) + model.bias - targets) * counts;
  const Array samples = counts.sum();
  const Array loss = (errors * errors).sum() / samples;
  const Array weights = model.weights - kRate * matmul(features.T(), errors) / samples;
  const Array bias = model.bias - kRate * errors.sum() / samples;
  return {Model{weights, bias}, loss};
}

void data_parallel() {
  const Mesh mesh = make_mesh({device_count()}, {"data"});
  const NamedSharding by_row(mesh, P("data"));
  const NamedSharding everywhere(mesh, P());
  Model model{device_put(zeros({kFeatures}), everywhere), device_put(zeros({}), everywhere)};
  const auto train = jit(step);
  // All know how many steps there are from what all know alike: not from what a process has read itself.
  const std::int64_t steps = (kSamples + kBatch - 1) / kBatch;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    Array loss;
    for (std::int64_t i = 0; i < steps; ++i) {
      // Each process reads the rows of its own devices. The last batch is filled up with rows that do not count.
      const std::int64_t begin = i * kBatch;
      const auto read = [&](const ShardIndex& index) {
        return read_rows(begin + index[0].start.value_or(0), begin + index[0].stop.value_or(kBatch));
      };
      const auto count = [&](const ShardIndex& index) {
        const Array row = arange(index[0].start.value_or(0), index[0].stop.value_or(kBatch)) + begin;
        return (row < kSamples).astype(float32);
      };
      const Array batch = make_array_from_callback({kBatch, kFeatures + 1}, by_row, read);
      const Array counts = make_array_from_callback({kBatch}, by_row, count);
      std::tie(model, loss) = train(model, batch, counts);
    }
    if (process_index() == 0) std::cout << "epoch " << epoch << ": loss " << loss << '\n';
  }
  multihost::assert_equal(model.weights, "the weights");  // Every process has the same bits.
  examples::print_whole("the weights", model.weights);
  if (process_index() == 0) std::cout << "bias " << model.bias << '\n';
}

}  // namespace

int main() { return examples::run_job(data_parallel); }
