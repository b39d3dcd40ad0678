#include "runtime/explain_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/rematerialize.h"

namespace shoal {
namespace {

using Kind = MemoryPlan::Kind;

// What lies in a storage at a step: the value that was made there last, and the step that uses any there next.
struct Content {
  ValueId value;
  const Eqn* next = nullptr;
};

Content content_of(const Schedule& schedule, const MemoryPlan::Storage& storage, std::int32_t at) {
  const auto number = static_cast<std::int32_t>(&storage - schedule.plan.storages.data());
  const auto lies_here = [&](ValueId id) {
    return std::ranges::any_of(schedule.plan.places[slot(id)],
                               [&](const MemoryPlan::Place& place) { return place.storage == number; });
  };
  Content content{.value = storage.owner};
  const std::vector<Eqn>& eqns = schedule.graph.eqns;
  for (std::int32_t step = storage.birth; step <= at; ++step) {
    for (const ValueId id : eqns[static_cast<std::size_t>(step)].outputs) {
      if (lies_here(id)) content.value = id;
    }
  }
  for (auto step = static_cast<std::size_t>(at) + 1; step < eqns.size() && content.next == nullptr; ++step) {
    if (std::ranges::any_of(eqns[step].inputs, lies_here)) content.next = &eqns[step];
  }
  return content;
}

class Explanation {
 public:
  explicit Explanation(const Executable& executable) : schedule_(executable.schedule()) {}

  std::string text() {
    add("'{}' takes {} bytes, and {} for its arguments\n", schedule_.graph.name, launch_bytes(schedule_),
        argument_bytes(schedule_));
    if (!schedule_.graph.eqns.empty()) tell_peak(schedule_, 0);
    tell_outputs();
    return std::move(text_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }

  void tell_peak(const Schedule& schedule, int depth) {
    const MemoryPlan& plan = schedule.plan;
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    const Eqn& eqn = schedule.graph.eqns[static_cast<std::size_t>(plan.peak)];
    const std::size_t arenas = std::accumulate(plan.arena_bytes.begin(), plan.arena_bytes.end(), std::size_t{0});
    add("{}{} bytes in one piece; most of it is used at {}, step {} of {}\n", indent, arenas, described(eqn), plan.peak,
        schedule.graph.eqns.size());
    std::size_t values = 0;
    std::map<std::int32_t, Repetition> again;  // By storage.
    for (Repetition& one : repetitions(schedule)) {
      const std::int32_t storage = plan.places[slot(one.value)][0].storage;
      again.emplace(storage, std::move(one));
    }
    for (const HeldStorage& held : held_storages(schedule, plan.peak)) {
      if (held.storage->kind != Kind::kArena) continue;
      values += held.bytes;
      tell(schedule, held, again, indent);
    }
    add("{}  {} scratch memory\n", indent, plan.peak_bytes - values);
    for (const Step& step : schedule.steps) {
      const auto* control = std::get_if<ControlStep>(&step.work);
      if (step.number != plan.peak || control == nullptr) continue;
      for (const ControlStep::Body& body : control->bodies) {
        if (!body.schedule->graph.eqns.empty()) tell_peak(*body.schedule, depth + 2);
      }
    }
    add("{}  {} that nothing lies in then\n", indent, arenas - plan.peak_bytes);
  }

  void tell(const Schedule& schedule, const HeldStorage& held, const std::map<std::int32_t, Repetition>& again,
            const std::string& indent) {
    const Content content = content_of(schedule, *held.storage, schedule.plan.peak);
    add("{}  {} {}", indent, held.bytes, described(schedule, content.value));
    if (content.next != nullptr) add(", next needed by {}", described(*content.next));
    const auto number = static_cast<std::int32_t>(held.storage - schedule.plan.storages.data());
    if (const auto found = again.find(number); found != again.end()) tell_price(found->second);
    text_ += '\n';
  }

  void tell_price(const Repetition& price) {
    if (!price.obstacle.empty()) {
      add("; it cannot be computed again: {}", price.obstacle);
      return;
    }
    add("; {} step{} compute{} it again, in the time of moving {:.0f} bytes", price.eqns, price.eqns == 1 ? "" : "s",
        price.eqns == 1 ? "s" : "", price.cost);
    if (price.kept_bytes != 0) add(" and with {} bytes kept for it", price.kept_bytes);
  }

  void tell_outputs() {
    const std::size_t outputs = output_bytes(schedule_);
    add("{} bytes of outputs\n", outputs);
    for (const HeldStorage& held : held_storages(schedule_, static_cast<std::int32_t>(schedule_.graph.eqns.size()))) {
      const bool is_donated = held.storage->donor >= 0;
      add("  {} {}{}\n", is_donated ? 0 : held.bytes, described(schedule_, held.storage->owner),
          is_donated ? ", in the memory of a donated argument" : "");
    }
    const std::size_t of_bodies = body_arena_bytes(schedule_);
    if (of_bodies != 0) add("{} bytes that bodies of loops and branches hold in the memory of the host\n", of_bodies);
    const std::size_t rest =
        launch_bytes(schedule_) - outputs - of_bodies -
        std::accumulate(schedule_.plan.arena_bytes.begin(), schedule_.plan.arena_bytes.end(), std::size_t{0});
    add("{} bytes at the end of the piece, as blocks have sizes of their own\n", rest);
  }

  const Schedule& schedule_;
  std::string text_;
};

}  // namespace

std::string explain_memory(const Executable& executable) { return Explanation(executable).text(); }

}  // namespace shoal
