#include "driver/run_passes.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "driver/print_level.h"

namespace weft {

namespace {

/// Times that the passes over the graph run at most. What one round uncovers, the next finds: a
/// condition that folds makes its branch part of the graph, where the captures fold in turn.
constexpr int kMaxRounds = 8;

Status verify_levels(const Compilation& c, const std::string& level) {
  if (level == "graph") return verify_graph(c.graph);
  if (level == "tensor-program") return verify_tensor_program(c.tensors);
  if (level == "plan") return verify_plan(c.tensors, c.plan);
  return {};
}

void add_time(Compilation& c, const char* pass, double milliseconds) {
  const auto timing = std::ranges::find(c.timings, pass, &PassTiming::name);
  if (timing != c.timings.end()) {
    timing->milliseconds += milliseconds;
  } else {
    c.timings.push_back({pass, milliseconds});
  }
}

/// One round of the passes: whether one of them changed anything. `dumped` counts the files.
Result<bool> run_round(Compilation& c, std::span<const Pass> passes, bool is_first, int* dumped) {
  bool any = false;
  for (const Pass& pass : passes) {
    WEFT_RETURN_IF_ERROR(check_cancelled(c.options));
    if (c.options.progress) c.options.progress({pass.name});
    const auto start = std::chrono::steady_clock::now();
    WEFT_ASSIGN_OR_RETURN(const bool changed, pass.run(c));
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    add_time(c, pass.name, spent.count());
    any = any || changed;
    if (changed && c.options.verify) {
      Status status = verify_levels(c, pass.level);
      if (!status.ok())
        return Error{ErrorCode::kInternal,
                     std::string("after pass ") + pass.name + ": " + status.error().message};
    }
    if (changed || is_first) WEFT_RETURN_IF_ERROR(dump_level(c, ++*dumped, pass.name, pass.level));
  }
  return any;
}

}  // namespace

Status dump_level(const Compilation& c, int number, const std::string& pass,
                  const std::string& level) {
  if (c.options.dump_dir.empty()) return {};
  const auto text = print_level(c, level);
  std::error_code failed;
  std::filesystem::create_directories(c.options.dump_dir, failed);
  std::ostringstream name;
  name << c.options.dump_dir << '/' << (number < 10 ? "0" : "") << number << '-' << pass << '.'
       << level;
  std::ofstream file(name.str());
  file << (text.ok() ? *text : text.error().message);
  if (!file.flush()) return invalid_input("cannot write '" + name.str() + "'");
  return {};
}

Status run_passes(Compilation& c, std::span<const Pass> passes) {
  const auto after = std::ranges::find_if(
      passes, [](const Pass& pass) { return std::string_view(pass.level) != "graph"; });
  const std::span<const Pass> rewrites(passes.begin(), after);
  int dumped = 0;
  bool changed = !rewrites.empty();
  for (int round = 0; changed && round < kMaxRounds; ++round) {
    WEFT_ASSIGN_OR_RETURN(changed, run_round(c, rewrites, round == 0, &dumped));
  }
  WEFT_ASSIGN_OR_RETURN(changed, run_round(c, {after, passes.end()}, true, &dumped));
  return {};
}

}  // namespace weft
