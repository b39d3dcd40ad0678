#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "base/misuse.h"
#include "base/safe_file.h"
#include "checkpoints/restoring.h"
#include "core/job_devices.h"
#include "core/this_process.h"
#include "distributed/rendezvous.h"
#include "distributed/session.h"
#include "elastic/agent.h"
#include "elastic/copies.h"
#include "frontend/array/array_impl.h"
#include "runtime/generations.h"
#include "runtime/process_data.h"
#include "shoal/checkpoints.h"
#include "shoal/elastic.h"

namespace shoal::elastic {
namespace {

using distributed::Fault;
using distributed::Session;
using distributed::SessionOptions;
using std::chrono::milliseconds;

constexpr const char* kSeats = "shoal/elastic/seats";
// How long processes may take to join a generation on which they have agreed.
constexpr milliseconds kJoining{15'000};
// How long it may take until it is known what made a program on several processes fail,
constexpr milliseconds kCause{2'500};
// and whether something else that was thrown may have come of a loss.
constexpr milliseconds kCauseOfOther{300};
constexpr int kMostStuck = 3;

// Of this program: how many jobs it has run, all processes in one order, and whether one went on with others.
std::atomic<int> jobs{0};
std::atomic<bool> has_gone_on{false};

// ---- The mesh.

struct MeshShape {
  Shape sizes;
  std::vector<std::string> names;
  std::vector<std::size_t> data_axes;
};

// Of a job with so many devices.
MeshShape mesh_shape(const Options& options, std::int64_t devices) {
  MeshShape shape{options.mesh_shape, options.axis_names, {}};
  if (shape.sizes.empty()) shape.sizes = {devices};
  if (shape.names.empty() && shape.sizes.size() == 1) shape.names = {"data"};
  if (shape.names.size() != shape.sizes.size()) {
    throw misuse<InvalidArgument>("mesh_shape has {} sizes, and axis_names {} names; each axis has both",
                                  shape.sizes.size(), shape.names.size());
  }
  for (const std::int64_t size : shape.sizes) {
    if (size < 1) throw misuse<InvalidArgument>("mesh_shape is {}; sizes must be positive", to_string(shape.sizes));
  }
  for (const std::string& axis : options.data_axes) {
    const auto found = std::ranges::find(shape.names, axis);
    if (found == shape.names.end()) {
      throw misuse<InvalidArgument>("data_axes has \"{}\"; axes are {}", axis, fmt::join(shape.names, ", "));
    }
    shape.data_axes.push_back(static_cast<std::size_t>(found - shape.names.begin()));
  }
  if (options.data_axes.empty()) shape.data_axes = {0};
  return shape;
}

// The sizes for so many devices, all of which need not be used.
Shape shrunk(const MeshShape& shape, std::int64_t devices) {
  Shape sizes = shape.sizes;
  for (const std::size_t axis : shape.data_axes) {
    const std::int64_t others = num_elements(sizes) / sizes[axis];
    std::int64_t size = std::min(sizes[axis], std::max<std::int64_t>(devices / others, 1));
    while (sizes[axis] % size != 0) --size;
    sizes[axis] = size;
  }
  if (num_elements(sizes) > devices) {
    throw misuse<InvalidArgument>(
        "{} devices are left, and a mesh of {} needs {} even if its data axes have the length 1", devices,
        to_string(shape.sizes), num_elements(sizes));
  }
  return sizes;
}

// ---- Where processes that are started again find the others.

std::optional<std::string> registry() { return env_text("SHOAL_ELASTIC_FILE"); }

void write_registry(const Plan& plan) {
  const auto path = registry();
  if (!path) return;
  std::string text = fmt::format("{}\n", plan.generation);
  for (const Seat& seat : plan.seats) {
    text += fmt::format("{} {} {} {}\n", seat.process, seat.incarnation, seat.host, seat.port);
  }
  try {
    write_file(*path + ".new", text, 0600);
    std::filesystem::rename(*path + ".new", *path);
  } catch (const std::system_error& error) {
    log_warning(fmt::format("elastic::run: processes that are started again will not find this job: {}", error.what()));
  }
}

// The last plan that was written; without seats if there is none.
Plan read_registry() {
  Plan plan;
  std::ifstream file(registry().value_or(""));
  file >> plan.generation;
  for (Seat seat; file >> seat.process >> seat.incarnation >> seat.host >> seat.port;) plan.seats.push_back(seat);
  return plan;
}

// ---- The job.

// Not an error: all processes end the generation together, to take in others, or because some are not needed.
struct Regroup {
  bool takes_in = false;
};

class Job {
 public:
  Job(const Options& options, const std::function<detail::LeafProgram(const World&)>& make)
      : options_(options), make_(make), admit_every_(options.admit_every.value_or(options.copy_every)) {
    check_options();
  }

  std::vector<Array> run() {
    begin();
    while (true) {
      std::exception_ptr error;
      std::optional<Regroup> together;
      try {
        return work();
      } catch (const Regroup& regroup) {
        together = regroup;
      } catch (const Fenced&) {
        leave(false);
        throw;
      } catch (...) {
        error = std::current_exception();
        if (agent_ == nullptr || (program_.ends_job && program_.ends_job(error)) || !is_of_loss(error)) throw;
      }
      if (!together) count_interruption(error);
      const bool stays = !together || together->takes_in || is_needed();
      leave(together.has_value());
      if (!stays) {
        throw misuse<Fenced>("the mesh of {} has no place for process {}, which ends", to_string(mesh_sizes_),
                             this_process());
      }
      go_on(together && together->takes_in);
    }
  }

 private:
  void check_options() const {
    const auto check = [](std::int64_t value, const char* name) {
      if (value < 0) throw misuse<InvalidArgument>("{} is {}; it must not be negative", name, value);
    };
    check(options_.steps, "steps");
    check(options_.copy_every, "copy_every");
    check(options_.checkpoint_every, "checkpoint_every");
    check(admit_every_, "admit_every");
    if (options_.min_processes < 1) {
      throw misuse<InvalidArgument>("min_processes is {}; allowed: 1 or more", options_.min_processes);
    }
    if (options_.checkpoint_every > 0 && options_.checkpoints.empty()) {
      throw misuse<InvalidArgument>("checkpoint_every is {}, and checkpoints names no folder",
                                    options_.checkpoint_every);
    }
  }

  // ---- Joining.

  void begin() {
    const int job = ++jobs;
    if (has_gone_on) {
      throw misuse<InvalidState>(
          "processes were lost or taken in during an earlier elastic::run of this program, which ends then: start "
          "another one for the next job");
    }
    if (!distributed::is_initialized() && rejoin()) return;
    if (!distributed::is_initialized()) {
      // A process that is alone need not say so before it uses devices.
      if (devices_in_use() && distributed::session_options(options_.initialize).first.num_processes == 1) return;
      distributed::initialize(options_.initialize, Caller::line());
    }
    const std::shared_ptr<Session> session = Session::current();
    base_ = session->options();
    on_one_host_ = session->is_on_one_host();
    if (session->num_processes() == 1) return;
    Plan plan;
    make_agent(session->secret(), session->me().incarnation);
    distributed::Client& client = session->client();
    const auto key = [job](int process) { return fmt::format("{}/{}/{}", kSeats, job, process); };
    client.key_value_set(key(this_process()), distributed::encode(agent_->me()));
    for (const int process : session->processes()) {
      plan.seats.push_back(
          distributed::decode<Seat>(client.blocking_key_value_get(key(process), options_.patience + kJoining)));
    }
    agent_->enter(plan);
    if (session->place() == 0) write_registry(plan);
  }

  void make_agent(const distributed::Key& secret, std::uint64_t incarnation) {
    key_ = distributed::derive_key(secret, {"shoal elastic", base_.job});
    Socket listener = distributed::listen_anywhere(on_one_host_);
    const Seat seat{
        .process = base_.process,
        .incarnation = incarnation,
        .host = distributed::own_hosts(on_one_host_),
        .port = distributed::local_address(listener.get()).port,
        .devices = base_.local_device_ids ? static_cast<int>(base_.local_device_ids->size()) : num_own_devices()};
    agent_ = std::make_unique<Agent>(key_, seat, std::move(listener));
  }

  // Whether this process was started again, and a job that runs has taken it in.
  bool rejoin() {
    const std::vector<Seat> seats = read_registry().seats;
    if (seats.empty()) return false;
    base_ = distributed::session_options(options_.initialize).first;
    if (base_.num_processes == 1) return false;
    if (devices_in_use()) {
      throw misuse<InvalidState>(
          "this process was started again, and has used devices before it was taken in: use none before");
    }
    on_one_host_ = std::ranges::all_of(seats, [](const Seat& seat) { return distributed::is_loopback(seat.host); });
    make_agent(base_.secret ? base_.secret->key : distributed::Key{}, distributed::random_number());
    std::optional<Agreement> agreement = agent_->knock(seats, base_.initialization_timeout);
    if (!agreement) {  // It is left of another run.
      agent_.reset();
      return false;
    }
    try {
      join(std::move(*agreement));
    } catch (const DistributedError&) {
      go_on(false);
    }
    return true;
  }

  void join(Agreement agreement) {
    const Plan& plan = agreement.plan;
    generation_ = static_cast<std::int64_t>(plan.generation);
    has_gone_on = true;
    SessionOptions options = base_;
    options.absent.clear();
    for (int process = 0; process < base_.num_processes; ++process) {
      if (std::ranges::count(plan.seats, process, &Seat::process) == 0) options.absent.push_back(process);
    }
    options.coordinator_process = plan.leader;
    options.coordinator = {plan.seat_of(plan.leader).host, plan.port};
    options.job = fmt::format("{} generation {}", base_.job, plan.generation);
    options.secret = distributed::Secret{
        .key = distributed::derive_key(
            key_, {"generation", std::to_string(plan.generation), distributed::as_text(plan.nonce)}),
        .source = "elastic::run"};
    options.initialization_timeout = std::min(base_.initialization_timeout, kJoining);
    begin_generation(std::move(options), std::move(agreement.listener), plan.generation);
    if (plan.leader == this_process()) write_registry(plan);
  }

  // ---- From one generation to the next.

  // Whether this was thrown because a process was lost; waits until that is known.
  static bool is_of_loss(const std::exception_ptr& error) {
    const std::shared_ptr<Session> session = Session::current();
    if (session == nullptr || session->num_processes() == 1) return false;
    milliseconds most = kCauseOfOther;
    try {
      std::rethrow_exception(error);
    } catch (const Disagreement&) {
      return false;
    } catch (const DistributedError&) {
      most = kCause;
    } catch (...) {
    }
    for (const auto deadline = std::chrono::steady_clock::now() + most;;) {
      if (loss(*session)) return true;
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  // That a process is gone, and not only that a launch failed.
  static std::optional<Fault> loss(const Session& session) {
    if (session.fault() == nullptr) return std::nullopt;
    for (const Fault& fault : session.faults()) {
      if (fault.processes.empty() && fault.process != session.process_index()) return fault;
    }
    return std::nullopt;
  }

  void count_interruption(const std::exception_ptr& error) {
    stuck_ = furthest_ > furthest_before_ ? 0 : stuck_ + 1;
    furthest_before_ = furthest_;
    if (stuck_ < kMostStuck) return;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& last) {
      throw misuse<ProcessFailed>(
          "the job was interrupted {} times and came no further than step {}; the last time: {}", stuck_, furthest_,
          last.what());
    }
  }

  void leave(bool together) {
    try {
      end_generation(together);
    } catch (const DistributedError&) {  // A process was lost meanwhile, as meet() will find.
    }
    manager_.reset();
    program_ = {};
  }

  void go_on(bool takes_in) {
    for (int attempt = 0;; ++attempt) {
      MeetOptions options{
          .takes_in = takes_in,
          .min_processes = options_.min_processes,
          .on_one_host = on_one_host_,
          .patience = options_.patience,
          .check_devices = [this](std::int64_t devices) { shrunk(mesh_shape(options_, devices), devices); }};
      // Those that have gone on without this process may have ended since.
      const Plan last = read_registry();
      if (last.generation > static_cast<std::uint64_t>(generation_) && !last.has(agent_->me())) {
        throw Fenced(fmt::format("elastic::run: the others have gone on without process {}", this_process()));
      }
      Agreement agreement = agent_->meet(options);
      try {
        return join(std::move(agreement));
      } catch (const DistributedError&) {  // One that had agreed was lost.
        if (attempt == kMostStuck) throw;
        end_generation(false);
      }
    }
  }

  // ---- One generation.

  // Those that have devices of the mesh, which are the first ones.
  std::vector<int> needed() const {
    std::vector<int> processes;
    const std::vector<Device> all = devices();
    for (std::int64_t i = 0; i < num_elements(mesh_sizes_); ++i) {
      const int process = all[static_cast<std::size_t>(i)].process_index;
      if (processes.empty() || processes.back() != process) processes.push_back(process);
    }
    return processes;
  }
  bool is_needed() const { return std::ranges::count(needed(), this_process()) > 0; }

  std::vector<Array> work() {
    const MeshShape shape = mesh_shape(options_, device_count());
    mesh_sizes_ = shrunk(shape, device_count());
    const World world{.mesh = make_mesh(mesh_sizes_, shape.names),
                      .processes = all_processes(),
                      .is_first = this_process() == all_processes().front(),
                      .generation = generation_};
    if (const std::vector<int> staying = needed(); staying != world.processes) {
      copies_.hand_over(staying);
      throw Regroup();
    }
    {
      const Caller::Pause pause;
      program_ = make_(world);
    }
    if (!options_.checkpoints.empty()) {
      manager_ = std::make_unique<checkpoints::Manager>(
          options_.checkpoints, checkpoints::ManagerOptions{.keep_last = options_.checkpoints_kept, .overwrite = true},
          Caller::line());
    }
    std::int64_t step = 0;
    std::vector<Array> state = restore(step);
    const bool is_alone = world.processes.size() == 1;
    copies_.keep_last();
    if (options_.copy_every > 0 && !is_alone) copy(step, state);
    while (step < options_.steps) {
      check_world();
      {
        const Caller::Pause pause;
        state = program_.step(std::move(state), step);
      }
      ++step;
      furthest_ = std::max(furthest_, step);
      if (is_due(step, options_.checkpoint_every)) {
        manager_->save_leaves(step, state, program_.tree, {}, Caller::line());
      }
      if (step == options_.steps) break;
      const bool copies_now = is_due(step, options_.copy_every) && !is_alone;
      if (copies_now) copies_.take(generation_, step, state);
      if (!copies_now && !is_due(step, admit_every_)) continue;
      const bool has_knocks = agree(step);
      if (copies_now) copies_.keep_last();
      if (!has_knocks || !is_due(step, admit_every_)) continue;
      if (!copies_now) copy(step, state);
      throw Regroup{.takes_in = true};
    }
    for (const Array& leaf : state) static_cast<void>(shoal::detail::concrete(leaf).wait());
    if (manager_) manager_->wait(Caller::line());
    agree(step);
    return state;
  }

  static bool is_due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

  // Whatever is known to be wrong is thrown here, before a step does anything.
  void check_world() {
    if (agent_ == nullptr) return;
    agent_->check_not_stopped();
    if (const auto session = Session::current()) {
      if (const auto lost = loss(*session)) throw ProcessFailed(describe(*lost));
    }
  }

  // Whether the mesh would be larger with so many more devices.
  bool would_grow(std::int64_t devices) const {
    const std::int64_t all = device_count() + devices;
    return devices > 0 && shrunk(mesh_shape(options_, all), all) != mesh_sizes_;
  }

  // All processes are at this step, and have its copy. Whether processes have knocked at one of them that are needed.
  bool agree(std::int64_t step) const {
    const bool mine = agent_ != nullptr && would_grow(agent_->knocking_devices());
    const Digest said{mine ? 1U : 0U, static_cast<std::uint64_t>(step)};
    const std::vector<Digest> all = gather_digests(all_processes(), said, "elastic::run", Caller::line());
    for (const Digest& other : all) {
      if (other[1] != said[1]) {
        throw misuse<Disagreement>("a process is at step {} where this one is at step {}", other[1], step);
      }
    }
    return std::ranges::any_of(all, [](const Digest& other) { return other[0] == 1; });
  }

  void copy(std::int64_t step, const std::vector<Array>& state) {
    copies_.take(generation_, step, state);
    agree(step);
    copies_.keep_last();
  }

  // The state with which this generation begins, and its step.
  std::vector<Array> restore(std::int64_t& step) {
    std::vector<Array> first = std::exchange(program_.leaves, {});
    std::optional<Copies::Restored> copy;
    if (generation_ > 0) copy = copies_.restore(first, checkpoints::paths_of(program_.tree));
    if (copy && all_processes().size() == 1) copies_.clear();
    const std::optional<std::int64_t> saved = manager_ ? manager_->latest_step(Caller::line()) : std::nullopt;
    if (saved && (!copy || *saved > copy->step)) {
      step = *saved;
      return manager_->restore_leaves(first, program_.tree, {}, Caller::line());
    }
    step = copy ? copy->step : 0;
    return copy ? std::move(copy->leaves) : std::move(first);
  }

  const Options& options_;
  const std::function<detail::LeafProgram(const World&)>& make_;
  const std::int64_t admit_every_;
  SessionOptions base_;  // Of the start.
  distributed::Key key_{};
  bool on_one_host_ = true;
  std::unique_ptr<Agent> agent_;  // None in a job of one process.
  std::int64_t generation_ = 0;
  Shape mesh_sizes_;  // In this generation.
  Copies copies_;
  std::unique_ptr<checkpoints::Manager> manager_;
  detail::LeafProgram program_;
  std::int64_t furthest_ = 0;
  std::int64_t furthest_before_ = -1;
  int stuck_ = 0;
};

}  // namespace

namespace detail {

std::vector<Array> run_leaves(const Options& options, const std::function<LeafProgram(const World& world)>& make,
                              SourceLocation where) {
  const Caller caller("elastic::run", where);
  return Job(options, make).run();
}

}  // namespace detail

}  // namespace shoal::elastic
