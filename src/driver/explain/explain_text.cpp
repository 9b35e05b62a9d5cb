#include "driver/explain/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "driver/explain/kernel_summary.h"
#include "driver/explain/memory_reads.h"
#include "driver/explain/plan_totals.h"
#include "driver/explain/stitching.h"

namespace weft {

namespace {

/// Numbers become '#': layer.3 and layer.11 read alike.
std::string without_numbers(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) {
      out += c;
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

std::string bytes_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.0f} KB", value * 1e-3);
  return fmt::format("{:.1f} MB", value * 1e-6);
}

std::string join(const std::vector<std::string>& names, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) out += fmt::format(", … {} more", names.size() - most);
  return out;
}

/// What the names have in common up to a '/', once: "a/b/: c, d/e".
std::string join_paths(const std::vector<std::string>& names, size_t most) {
  if (names.size() < 2) return join(names, most);
  size_t common = names[0].size();
  for (const std::string& name : names) {
    size_t i = 0;
    while (i < std::min(common, name.size()) && name[i] == names[0][i]) ++i;
    common = i;
  }
  const size_t slash = names[0].rfind('/', common == 0 ? 0 : common - 1);
  if (slash == std::string::npos || slash == 0 || slash >= common) return join(names, most);
  std::vector<std::string> rest;
  for (const std::string& name : names) rest.push_back(name.substr(slash + 1));
  return names[0].substr(0, slash + 1) + ": " + join(rest, most);
}

/// One step of a plan as lines of text, and what makes it like another.
struct Entry {
  std::vector<std::string> lines;  ///< the first goes behind the number
  std::string likeness;
  double microseconds = 0;
};

/// A stretch of entries that repeats.
struct Repeat {
  size_t period = 1, count = 1;
};

/// The period, of at most 64 entries, with which most entries from `begin` on repeat.
Repeat repeat_at(const std::vector<Entry>& entries, size_t begin) {
  Repeat best;
  for (size_t period = 1; period <= 64 && begin + 2 * period <= entries.size(); ++period) {
    size_t end = begin + period;
    while (end < entries.size() && entries[end].likeness == entries[end - period].likeness) ++end;
    const size_t count = (end - begin) / period;
    if (count >= 2 && count * period > best.count * best.period) best = {period, count};
  }
  return best;
}

class PlanText {
 public:
  PlanText(const Target& target, std::string* out) : target_(target), out_(*out) {}

  void plan(const FusionPlan& plan, const TensorProgram& program, const std::string& indent) {
    std::vector<Entry> entries;
    for (const FusionPlan::Step& step : plan.order) {
      entries.push_back(step.opaque
                            ? opaque(plan, program, step.index)
                            : kernel(plan.kernels[static_cast<size_t>(step.index)], program));
    }
    for (size_t i = 0; i < entries.size();) {
      const Repeat repeat = repeat_at(entries, i);
      for (size_t k = i; k < i + repeat.period; ++k) lines(entries[k], k + 1, indent);
      i += repeat.period * repeat.count;
      if (repeat.count < 2) continue;
      double us = 0;
      for (size_t k = i - repeat.period * (repeat.count - 1); k < i; ++k)
        us += entries[k].microseconds;
      const size_t first = i - repeat.period * (repeat.count - 1);
      out_ += fmt::format("{}      … {} to {}: the same {} more times, {:.1f} us\n", indent,
                          first + 1, i, repeat.count - 1, us);
    }
  }

 private:
  void lines(const Entry& entry, size_t number, const std::string& indent) {
    out_ += fmt::format("{}{:>4}  {}\n", indent, number, entry.lines[0]);
    for (size_t l = 1; l < entry.lines.size(); ++l)
      out_ += indent + "      " + entry.lines[l] + "\n";
  }

  Entry kernel(const PlannedKernel& kernel, const TensorProgram& program) const {
    const Estimate& e = kernel.schedule.estimate;
    const std::string origins = join_paths(origin_names(program, kernel.group), 8);
    const std::string scopes = scope_summary(kernel);
    Entry entry;
    entry.lines.push_back(fmt::format("{:<8}{:<14}{:>9.1f} us  {:>8} in  {:>8} out   {}",
                                      kernel.is_call      ? "call"
                                      : kernel.is_compute ? "compute"
                                                          : "memory",
                                      kernel.schedule.schedule_template, e.microseconds,
                                      bytes_text(e.bytes_read), bytes_text(e.bytes_written),
                                      kernel.name));
    if (!origins.empty()) entry.lines.push_back(origins);
    if (!kernel.packed_because.empty())
      entry.lines.push_back((kernel.loop ? "all steps: " : "side by side: ") +
                            kernel.packed_because);
    if (const auto kept = reuse_summary(program, kernel)) entry.lines.push_back(reuse_text(*kept));
    if (const auto ahead = ahead_summary(program, kernel, target_))
      entry.lines.push_back(ahead_text(*ahead));
    if (!kernel.copies.empty())
      entry.lines.push_back("makes again: " + join_paths(copied_names(program, kernel), 8));
    if (!kernel.schedule.measured.empty())
      entry.lines.push_back("chosen by " + kernel.schedule.measured);
    if (!scopes.empty()) entry.lines.push_back("scopes: " + scopes);
    if (const auto arena = arena_summary(kernel); arena && arena->values > 1)
      entry.lines.push_back(arena_text(*arena, target_));
    if (const auto l = latency_of(program, kernel, target_))
      entry.lines.push_back(latency_text(*l));
    if (const auto written = emission_of(program, kernel))
      entry.lines.push_back(
          "stitched: " + join_paths(written->stitched, 8) +
          (written->inlined.empty() ? "" : "; inlined: " + join_paths(written->inlined, 8)));
    if (const std::string schemes = stitching_text(stitching_of(program, kernel)); !schemes.empty())
      entry.lines.push_back("stitching: " + schemes);
    if (const auto splits = split_summary(kernel); !splits.empty())
      entry.lines.push_back("blocks: " + (splits.size() == 1
                                              ? splits[0].substr(0, splits[0].find(')') + 1)
                                              : join(splits, 4)));
    const std::string rounding = rounding_text(rounded_tensors(program, kernel, target_));
    if (!rounding.empty()) entry.lines.push_back(rounding);
    if (const std::string tiling = tiling_text(program, kernel, target_); !tiling.empty())
      entry.lines.push_back("loops over tiles: " + tiling);
    if (const auto later = postponed_factors(program, kernel, target_); !later.empty())
      entry.lines.push_back("sums before they are scaled: " + join_paths(later, 8));
    if (const auto masked = assumed_masks(program, kernel, target_); !masked.empty())
      entry.lines.push_back("masked terms left out, whatever they are: " + join_paths(masked, 8));
    const std::string proof = residency_proof(kernel, target_);
    if (!proof.empty()) entry.lines.push_back(proof);
    if (const std::string bound = launch_bound(kernel, target_); !bound.empty())
      entry.lines.push_back(bound);
    if (kernel.schedule.library) entry.lines.push_back("call: " + print(*kernel.schedule.library));
    const std::string templates = form_summary(kernel);
    if (!templates.empty()) entry.lines.push_back("templates: " + templates);
    for (const LoopMember& loop : kernel.loops) loop_lines(kernel, loop, program, &entry);
    entry.microseconds = e.microseconds;
    entry.likeness =
        fmt::format("{} {} {} {} {} {}", kernel.schedule.schedule_template,
                    without_numbers(origins), e.flops, e.bytes_read, e.bytes_written, scopes);
    return entry;
  }

  /// A loop among the members, as it is alone.
  void loop_lines(const PlannedKernel& kernel, const LoopMember& loop, const TensorProgram& program,
                  Entry* entry) const {
    const OpaqueExpr& scan = program.opaques[static_cast<size_t>(loop.opaque)];
    entry->lines.push_back(fmt::format("member {} of {}: {} of {} steps", loop.member + 1,
                                       kernel.members.size(), graph_op_name(scan.node.op),
                                       trip_count(program, scan)));
    std::string inner;
    PlanText(target_, &inner).plan(*loop.body, *scan.regions.back(), "");
    add_lines(inner, entry);
  }

  static void add_lines(const std::string& text, Entry* entry) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      entry->lines.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  Entry opaque(const FusionPlan& plan, const TensorProgram& program, int32_t index) const {
    const OpaqueExpr& o = program.opaques[static_cast<size_t>(index)];
    Entry entry;
    std::string inner;
    const auto& regions = plan.regions[static_cast<size_t>(index)];
    for (size_t r = 0; r < regions.size(); ++r)
      PlanText(target_, &inner).plan(*regions[r], *o.regions[r], "");
    const int64_t trips = trip_count(program, o);
    entry.lines.push_back(std::string(graph_op_name(o.node.op)) +
                          (trips == 1 ? "" : fmt::format(" of {} steps", trips)));
    for (const auto& region : regions) {
      if (!region->steps_apart_because.empty())
        entry.lines.push_back("  each step launches: " + region->steps_apart_because);
      for (const PlannedKernel& kernel : region->kernels)
        entry.microseconds += static_cast<double>(region_runs(program, o, regions, 1)) *
                              kernel.schedule.estimate.microseconds;
    }
    add_lines(inner, &entry);
    for (const std::string& line : entry.lines) entry.likeness += without_numbers(line) + "\n";
    return entry;
  }

  /// Empty where the kernel makes nothing of 16 bits.
  static std::string reuse_text(const ReuseSummary& kept) {
    std::string out = fmt::format(
        "kept on chip: {} reads find it there, {} are given up, {} not read again, {} of a block",
        kept.reuse.hits, kept.reuse.evictions, bytes_text(kept.reuse.saved_bytes),
        bytes_text(kept.reuse.kept_bytes));
    if (!kept.never_stored.empty()) out += "; never stored: " + join_paths(kept.never_stored, 8);
    return out;
  }

  static std::string ahead_text(const AheadSummary& ahead) {
    return fmt::format("ahead of barriers: {} of a block, {}; hides {:.1f} us",
                       bytes_text(ahead.bytes), join_paths(ahead.tensors, 8), ahead.hidden_us);
  }

  static std::string arena_text(const ArenaUse& arena, const Target& target) {
    return fmt::format(
        "{}: {} for {} values of {} ({:.2f}){}", target.is_gpu() ? "shared memory" : "scratch",
        bytes_text(arena.allocated), arena.values, bytes_text(arena.requested),
        static_cast<double>(arena.allocated) / static_cast<double>(arena.requested),
        arena.allocated == arena.least ? ""
                                       : ", of which " + bytes_text(arena.least) + " live at once");
  }

  static std::string latency_text(const GpuLatency& l) {
    return fmt::format(
        "latency: {:.1f} us, {:.0f} {} of {:.0f} cycles, {} warps an SM, {}", l.microseconds,
        l.waves, l.waves == 1 ? "wave" : "waves", l.warp_cycles, l.warps_of_sm,
        l.bound == GpuLatency::Bound::kMemory ? "bound by memory" : "bound by instructions");
  }

  static std::string rounding_text(const RoundedTensors& rounded) {
    std::string out;
    const auto add = [&](const std::vector<std::string>& names, const char* what) {
      if (names.empty()) return;
      out += fmt::format("{}{} {}", out.empty() ? "rounding: " : "; ", what, join_paths(names, 4));
    };
    add(rounded.stored, "stored in 16 bits");
    add(rounded.multiplied, "16 bits for a product");
    add(rounded.kept, "float32 inside");
    return out;
  }

  /// The template forms of the kernel without the names.
  static std::string form_summary(const PlannedKernel& kernel) {
    std::vector<std::string> forms;
    for (const std::string& line : template_summary(kernel)) {
      forms.push_back(line.substr(0, line.find(' ')));
    }
    return join(forms, 3);
  }

  const Target& target_;
  std::string& out_;
};

std::string cuts_text(const Explained& c) {
  struct Cut {
    std::string reason;  ///< as it stands on the first edge
    std::vector<std::string> edges;
    std::set<std::string> reasons;
  };
  std::map<std::string, size_t> position;
  std::vector<Cut> cuts;
  for (const EdgeDecision& e : c.plan.edges) {
    if (e.verdict == EdgeDecision::Verdict::kFused) continue;
    const std::string reason = std::string(verdict_name(e.verdict)) + ": " + e.reason;
    const auto [it, fresh] = position.emplace(without_numbers(reason), cuts.size());
    if (fresh) cuts.push_back({reason, {}, {}});
    Cut& cut = cuts[it->second];
    cut.reasons.insert(reason);
    cut.edges.push_back(step_names(c.tensors, e.producer).back() + " -> " +
                        step_names(c.tensors, e.consumer).back());
  }
  std::string out;
  if (!cuts.empty()) out += "\nedges that were not fused, and why (--why A,B asks for one)\n";
  for (Cut& cut : cuts) {
    const size_t edges = cut.edges.size();
    std::sort(cut.edges.begin(), cut.edges.end());
    cut.edges.erase(std::unique(cut.edges.begin(), cut.edges.end()), cut.edges.end());
    out += "  " + cut.reason;
    if (cut.reasons.size() > 1) out += fmt::format(" (and {} alike)", cut.reasons.size() - 1);
    out += fmt::format("\n      {} edge{}: {}\n", edges, edges == 1 ? "" : "s", join(cut.edges, 2));
  }
  return out;
}

/// What the code of a GPU's kernels was found to need.
std::string device_text(const Explained& c) {
  int32_t registers = 0, spilling = 0;
  int64_t shared = 0;
  std::string out;
  for (const KernelImage& image : c.program.kernels) {
    const DeviceLaunch& launch = image.device;
    registers = std::max(registers, launch.registers);
    shared = std::max(shared, launch.shared_bytes);
    spilling += launch.spill_bytes > 0 ? 1 : 0;
    if (!launch.cooperative) continue;
    const int64_t resident =
        resident_blocks_per_sm(c.target, launch.threads, launch.registers, launch.shared_bytes);
    out += fmt::format(
        "  {}: its grid barrier needs {} blocks resident; {} SMs hold {} each ({} threads, {} "
        "registers, {} of shared memory)\n",
        image.name, launch.blocks, c.target.sm_count, resident, launch.threads, launch.registers,
        bytes_text(launch.shared_bytes));
  }
  for (const std::string& note : c.device_notes) out += "  " + note + "\n";
  return fmt::format(
             "\ncode for {}: {} distinct kernels, up to {} registers a thread and {} of shared "
             "memory a block, {} with spilled registers\n",
             c.program.arch, c.program.kernels.size(), registers, bytes_text(shared), spilling) +
         out;
}

/// What the kernels are, and how well their blocks share memory.
std::string kinds_text(const Explained& c) {
  const PatternTotals patterns = pattern_totals(c.plan, c.tensors);
  std::string out = fmt::format("patterns: {} gemm, {} reduction, {} elementwise\n", patterns.gemm,
                                patterns.reduction, patterns.elementwise);
  const ArenaTotals arena = arena_totals(c.plan, c.tensors);
  if (arena.kernels == 0) return out;
  return out +
         fmt::format("{}: {} kernels, {} on average, {} at most, {:.2f} of what is requested\n",
                     c.target.is_gpu() ? "shared memory" : "scratch", arena.kernels,
                     bytes_text(arena.bytes / arena.kernels), bytes_text(arena.most),
                     static_cast<double>(arena.bytes) / static_cast<double>(arena.requested));
}

}  // namespace

std::string explain_text(const Explained& c) {
  const PlanTotals totals = plan_totals(c.plan, c.tensors, c.ops);
  std::string out = fmt::format(
      "{}{} nodes in {} kernels ({} compute, {} memory){}, planner {}\n"
      "predicted on {}: {:.0f} us, {} read{}, {} written\n"
      "arena between kernels: {}, unfused {}{}\n",
      c.model.empty() ? "" : c.model + ": ", totals.ops,
      totals.compute_kernels + totals.memory_kernels, totals.compute_kernels, totals.memory_kernels,
      totals.library_calls == 0 ? "" : fmt::format(" and {} library calls", totals.library_calls),
      c.planner, c.target.name, totals.predicted_us, bytes_text(totals.bytes_read),
      c.target.is_gpu() ? fmt::format(" ({} of them from memory)",
                                      bytes_text(memory_reads(c.plan, c.tensors, c.target)))
                        : "",
      bytes_text(totals.bytes_written), bytes_text(c.planned_arena_bytes),
      bytes_text(c.unfused_arena_bytes),
      c.planned_arena_bytes > c.unfused_arena_bytes
          ? "; the plan raises it: what fused kernels read lives longer"
          : "");
  out += kinds_text(c);
  if (const Optimality& found = c.plan.optimality; found.bound_us > 0) {
    out += fmt::format(
        "patterns gain {:.1f} us by their own count, no others more than {:.1f} us: gap {:.2f}%\n",
        found.gain_us, found.bound_us, 100 * (found.bound_us - found.gain_us) / found.bound_us);
  }
  out += "\n";
  PlanText(c.target, &out).plan(c.plan, c.tensors, "");
  out += cuts_text(c);
  if (!c.substitutions.empty()) out += "\nsubstitutions\n";
  for (const std::string& line : c.substitutions) out += "  " + line + "\n";
  if (!c.program.arch.empty()) out += device_text(c);
  return out;
}

}  // namespace weft
