// What shoal.data stands on: batches of trees of Python, and permutations.
#include "shoal/data.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/core/flag.h"
#include "bindings/core/kept_error.h"
#include "bindings/core/tree.h"
#include "bindings/training/training.h"

namespace shoal::python {
namespace {

// That this thread calls the reader of a loader, which is known by its structure.
struct Reading {
  explicit Reading(const void* loader) : before(std::exchange(now, loader)) {}
  ~Reading() { now = before; }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  const void* before;
  static inline thread_local const void* now = nullptr;
};

// A loader and the structure of the trees that its reader makes.
class Loader {
 public:
  Loader(std::int64_t num_examples, std::int64_t batch_size, nb::handle read, const Sharding& sharding,
         const data::DataLoaderOptions& options)
      : structure_(std::make_shared<std::optional<PyTree>>()) {
    const auto rows = [read = Held(read), structure = structure_](const std::vector<std::int64_t>& examples) {
      const Reading reading(structure.get());
      std::vector<Array> leaves;
      call_back([&] {
        const nb::object numbers = nb::module_::import_("numpy").attr("asarray")(list_of(examples), "int64");
        ArrayTree made = array_tree(read.get()(numbers), "DataLoader: what read returns");
        if (!*structure) {
          *structure = made.tree;
        } else if (!(made.tree == **structure)) {
          type_error(fmt::format("DataLoader: read returns {}, and returned {} before", to_string(made.def),
                                 to_string((*structure)->to_def())));
        }
        leaves = std::move(made.leaves);
      });
      return leaves;
    };
    const SourceLocation where = user_line();
    leaves_.emplace(num_examples, batch_size, rows, sharding, options, where);
  }
  // The reader may wait for the GIL, and the thread is waited for: by the main thread, if it is the reader that gives
  // up the last reference, as it may with any object that it gives up for others. It must not outlive the interpreter.
  ~Loader() {
    if (Reading::now != structure_.get()) {
      stop();
      return;
    }
    auto* const left = new detail::LeafLoader(std::move(*leaves_));
    leaves_.reset();
    const auto end = [](void* loader) {
      const nb::gil_scoped_release release;
      delete static_cast<detail::LeafLoader*>(loader);
      return 0;
    };
    while (Py_AddPendingCall(end, left) != 0) {  // There is room when the main thread has made some of them.
      const nb::gil_scoped_release release;
      std::this_thread::yield();
    }
  }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  nb::tuple next() {
    const SourceLocation where = user_line();
    // Ctrl-C ends the wait.
    while (!unlocked([&] { return leaves_->wait_for(std::chrono::milliseconds(100)); })) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    detail::LoadedBatch batch = unlocked([&] { return leaves_->next(where); });
    return nb::make_tuple(tree_object(**structure_, batch.leaves), batch.mask, position_object(batch.position));
  }
  nb::tuple position() const { return position_object(leaves_->position()); }
  void seek(std::int64_t epoch, std::int64_t batch) {
    const SourceLocation where = user_line();
    unlocked([&] { leaves_->seek({epoch, batch}, where); });
  }
  std::int64_t batches_per_epoch() const { return leaves_->batches_per_epoch(); }
  void stop() {
    nb::gil_scoped_release release;
    leaves_->stop();
  }

 private:
  static nb::tuple position_object(const data::Position& position) {
    return nb::make_tuple(position.epoch, position.batch);
  }

  std::shared_ptr<std::optional<PyTree>> structure_;
  std::optional<detail::LeafLoader> leaves_;
};

data::LastBatch last_batch(const std::string& name) {
  if (name == "pad") return data::LastBatch::kPad;
  if (name == "drop") return data::LastBatch::kDrop;
  value_error(fmt::format("DataLoader: last_batch is '{}', and should be 'pad' or 'drop'", name));
}

}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<Loader>(m, "Loader")
      .def(
          "__init__",
          [](Loader* self, std::int64_t num_examples, std::int64_t batch_size, nb::handle read, nb::handle placed,
             std::uint64_t seed, Flag shuffle, const std::string& last, std::int64_t prefetch, std::int64_t epoch,
             std::int64_t batch) {
            new (self) Loader(num_examples, batch_size, read, sharding(placed, "DataLoader: sharding"),
                              {.seed = seed,
                               .shuffle = shuffle,
                               .last_batch = last_batch(last),
                               .prefetch = prefetch,
                               .start = {epoch, batch}});
          },
          "num_examples"_a, "batch_size"_a, "read"_a, "sharding"_a, "seed"_a, "shuffle"_a, "last_batch"_a, "prefetch"_a,
          "epoch"_a, "batch"_a)
      .def("next", &Loader::next)
      .def("position", &Loader::position)
      .def("seek", &Loader::seek, "epoch"_a, "batch"_a)
      .def("batches_per_epoch", &Loader::batches_per_epoch)
      .def("stop", &Loader::stop);
  nb::class_<data::KeyedPermutation>(m, "KeyedPermutation",
                                     "A permutation of the integers below n that a seed and an epoch choose, without a "
                                     "table: the same on every machine.")
      .def(
          "__init__",
          [](data::KeyedPermutation* self, std::uint64_t seed, std::uint64_t epoch, std::int64_t n) {
            new (self) data::KeyedPermutation(seed, epoch, n, user_line());
          },
          "seed"_a, "epoch"_a, "n"_a)
      .def("__len__", &data::KeyedPermutation::size)
      .def(
          "__getitem__",
          [](const data::KeyedPermutation& self, std::int64_t i) {
            if (i < 0 || i >= self.size()) throw nb::index_error();
            return self(i);
          },
          "i"_a, "Where i goes.");
}

}  // namespace shoal::python
