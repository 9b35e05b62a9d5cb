#include "plan/launch_order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace weft {

namespace {

/// What a step makes, and all that it touches.
struct StepUse {
  const std::vector<TensorId>& made;
  const std::vector<TensorId>& touched;
};
StepUse use_of(const TensorProgram& program, const FusionPlan& plan, size_t step) {
  const FusionPlan::Step& of = plan.order[step];
  const auto index = static_cast<size_t>(of.index);
  if (of.opaque) return {program.opaques[index].results, program.opaques[index].operands};
  const PlannedKernel& kernel = plan.kernels[index];
  return {kernel.group.outputs, kernel.schedule.parameters};
}

/// By step: those that make what it reads, each once.
std::vector<std::vector<size_t>> makers_of(const TensorProgram& program, const FusionPlan& plan) {
  std::vector<size_t> maker(program.tensors.size(), SIZE_MAX);
  for (size_t s = 0; s < plan.order.size(); ++s) {
    for (const TensorId t : use_of(program, plan, s).made) maker[static_cast<size_t>(t)] = s;
  }
  std::vector<std::vector<size_t>> out(plan.order.size());
  for (size_t s = 0; s < plan.order.size(); ++s) {
    std::set<size_t> before;
    for (const TensorId t : use_of(program, plan, s).touched) {
      const size_t made = maker[static_cast<size_t>(t)];
      if (made != SIZE_MAX && made != s) before.insert(made);
    }
    out[s].assign(before.begin(), before.end());
  }
  return out;
}

}  // namespace

std::vector<size_t> order_in_rounds(const TensorProgram& program, const FusionPlan& plan,
                                    const std::function<bool(size_t step)>& may_share) {
  const std::vector<std::vector<size_t>> makers = makers_of(program, plan);
  std::vector<std::vector<size_t>> readers(makers.size());
  std::vector<size_t> waits(makers.size());
  std::set<size_t> alone, sharing;  // those that are ready
  const auto note_ready = [&](size_t s) { (may_share(s) ? sharing : alone).insert(s); };
  for (size_t s = 0; s < makers.size(); ++s) {
    waits[s] = makers[s].size();
    for (const size_t m : makers[s]) readers[m].push_back(s);
    if (waits[s] == 0) note_ready(s);
  }
  std::vector<size_t> order;
  const auto run = [&](size_t s) {
    order.push_back(s);
    for (const size_t r : readers[s]) {
      if (--waits[r] == 0) note_ready(r);
    }
  };
  while (!alone.empty() || !sharing.empty()) {
    while (!alone.empty()) run(alone.extract(alone.begin()).value());
    for (const size_t s : std::exchange(sharing, {})) run(s);
  }
  return order;
}

Launches order_as_needed(const TensorProgram& program, const FusionPlan& plan, Launches launches,
                         const std::vector<size_t>& rank) {
  const std::vector<std::vector<size_t>> makers = makers_of(program, plan);
  std::vector<size_t> launch_of(makers.size());
  std::vector<size_t> asked(launches.size());
  for (size_t l = 0; l < launches.size(); ++l) {
    for (const size_t s : launches[l]) launch_of[s] = l;
    asked[l] = l;
  }
  std::ranges::sort(asked, {}, [&](size_t l) {
    const size_t first =
        *std::ranges::min_element(launches[l], {}, [&](size_t s) { return rank[s]; });
    return std::pair(launches[l].size() > 1, rank[first]);
  });
  Launches out;
  std::vector<bool> begun(launches.size(), false);
  std::vector<std::pair<size_t, bool>> stack;  // a launch, and whether what it reads is there
  for (const size_t wanted : asked) {
    stack.emplace_back(wanted, false);
    while (!stack.empty()) {
      const auto [l, is_ready] = stack.back();
      stack.pop_back();
      if (is_ready) {
        out.push_back(std::move(launches[l]));
        continue;
      }
      if (begun[l]) continue;
      begun[l] = true;
      stack.emplace_back(l, true);
      std::set<std::pair<size_t, size_t>> before;  // the earliest on top of the stack
      for (const size_t s : launches[l]) {
        for (const size_t m : makers[s]) before.emplace(rank[m], launch_of[m]);
      }
      for (auto at = before.rbegin(); at != before.rend(); ++at) {
        if (!begun[at->second]) stack.emplace_back(at->second, false);
      }
    }
  }
  return out;
}

int64_t most_alive(const TensorProgram& program, const FusionPlan& plan, const Launches& launches) {
  std::vector<int64_t> last(program.tensors.size(), -1), first(program.tensors.size(), -1);
  for (size_t l = 0; l < launches.size(); ++l) {
    for (const size_t s : launches[l]) {
      const StepUse use = use_of(program, plan, s);
      for (const TensorId t : use.made)
        first[static_cast<size_t>(t)] = last[static_cast<size_t>(t)] = static_cast<int64_t>(l);
    }
  }
  for (size_t l = 0; l < launches.size(); ++l) {
    for (const size_t s : launches[l]) {
      for (const TensorId t : use_of(program, plan, s).touched)
        last[static_cast<size_t>(t)] =
            std::max(last[static_cast<size_t>(t)], static_cast<int64_t>(l));
    }
  }
  std::vector<int64_t> change(launches.size() + 1, 0);  // of what is alive, at each launch
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (first[t] < 0 || tensor.is_output) continue;
    const int64_t bytes =
        element_count(tensor.type.shape).value_or(0) * byte_size(tensor.type.dtype);
    change[static_cast<size_t>(first[t])] += bytes;
    change[static_cast<size_t>(last[t]) + 1] -= bytes;
  }
  int64_t alive = 0, most = 0;
  for (const int64_t c : change) most = std::max(most, alive += c);
  return most;
}

}  // namespace weft
