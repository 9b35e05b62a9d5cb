#include "driver/explain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "driver/plan_totals.h"
#include "tile/text/template_form.h"

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

/// What statements make, in the order of the text.
void list_targets(const TileBody& body, std::vector<TileSymbolId>* out) {
  for (const TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        out->push_back(node.statement.targets[0].symbol);
        break;
      case TileNode::Kind::kLoop:
        list_targets(node.loop->body, out);
        break;
      case TileNode::Kind::kCondition:
        list_targets(node.condition->body, out);
        break;
      case TileNode::Kind::kPack:
        for (const TilePack::Member& m : node.pack->members) list_targets(m.body, out);
        break;
    }
  }
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
    entry.lines.push_back(fmt::format(
        "{:<8}{:<14}{:>9.1f} us  {:>8} in  {:>8} out   {}",
        kernel.is_compute ? "compute" : "memory", kernel.schedule.schedule_template, e.microseconds,
        bytes_text(e.bytes_read), bytes_text(e.bytes_written), kernel.name));
    if (!origins.empty()) entry.lines.push_back(origins);
    if (!kernel.packed_because.empty())
      entry.lines.push_back("side by side: " + kernel.packed_because);
    if (!scopes.empty()) entry.lines.push_back("scopes: " + scopes);
    const std::string proof = residency_proof(kernel, target_);
    if (!proof.empty()) entry.lines.push_back(proof);
    if (kernel.schedule.library) entry.lines.push_back("call: " + print(*kernel.schedule.library));
    const std::string templates = form_summary(kernel);
    if (!templates.empty()) entry.lines.push_back("templates: " + templates);
    entry.microseconds = e.microseconds;
    entry.likeness =
        fmt::format("{} {} {} {} {} {}", kernel.schedule.schedule_template,
                    without_numbers(origins), e.flops, e.bytes_read, e.bytes_written, scopes);
    return entry;
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
      for (const PlannedKernel& kernel : region->kernels)
        entry.microseconds += static_cast<double>(trips) * kernel.schedule.estimate.microseconds;
    }
    for (size_t begin = 0; begin < inner.size();) {
      const size_t end = inner.find('\n', begin);
      entry.lines.push_back(inner.substr(begin, end - begin));
      begin = end + 1;
    }
    for (const std::string& line : entry.lines) entry.likeness += without_numbers(line) + "\n";
    return entry;
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

std::string cuts_text(const Compilation& c) {
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
std::string device_text(const Compilation& c) {
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

}  // namespace

std::vector<std::string> step_names(const TensorProgram& program, int32_t step) {
  const TensorProgram::Step& s = program.steps[static_cast<size_t>(step)];
  const auto& origins = s.opaque ? program.opaques[static_cast<size_t>(s.index)].origins
                                 : program.exprs[static_cast<size_t>(s.index)].origins;
  std::vector<std::string> out;
  for (const int32_t o : origins) {
    if (o >= 0 && static_cast<size_t>(o) < program.origins.size())
      out.push_back(program.origins[static_cast<size_t>(o)].name);
  }
  if (!out.empty()) return out;
  if (s.opaque) {
    const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(s.index)];
    return {std::string(graph_op_name(opaque.node.op))};
  }
  const TensorExpr& expr = program.exprs[static_cast<size_t>(s.index)];
  return {program.tensors[static_cast<size_t>(expr.output)].name};
}

std::vector<std::string> origin_names(const TensorProgram& program, const Group& group) {
  std::set<int32_t> ids;
  for (const ExprId e : group.exprs) {
    const auto& origins = program.exprs[static_cast<size_t>(e)].origins;
    ids.insert(origins.begin(), origins.end());
  }
  std::vector<std::string> out;
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < program.origins.size())
      out.push_back(program.origins[static_cast<size_t>(id)].name);
  }
  return out;
}

std::string scope_summary(const PlannedKernel& kernel) {
  std::map<std::string, int> count;
  const TileProgram& tile = kernel.schedule.program;
  for (size_t s = 0; s < tile.symbols.size(); ++s) {
    const TileSymbol& symbol = tile.symbols[s];
    if (symbol.kind != TileSymbol::Kind::kValue && symbol.kind != TileSymbol::Kind::kCarry)
      continue;
    ++count[std::string(scope_name(kernel.schedule.scopes.symbols[s].scope, tile.cpu))];
  }
  std::string out;
  for (const auto& [scope, n] : count)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", scope, n);
  return out;
}

std::vector<std::string> template_summary(const PlannedKernel& kernel) {
  const TileProgram& tile = kernel.schedule.program;
  if (tile.cpu) return {};
  std::vector<std::string> out;
  std::map<std::string, size_t> known;
  std::vector<TileSymbolId> symbols;
  list_targets(tile.body, &symbols);
  const std::vector<TemplateForm> forms = template_forms(tile, kernel.schedule.scopes);
  for (size_t s = 0; s < forms.size(); ++s) {
    std::string form = print(forms[s]);
    const std::string& name = tile.symbols[static_cast<size_t>(symbols[s])].name;
    const auto [it, fresh] = known.emplace(form, out.size());
    if (fresh) {
      out.push_back(std::move(form.append(" ").append(name)));
    } else {
      out[it->second].append(", ").append(name);
    }
  }
  return out;
}

std::string residency_proof(const PlannedKernel& kernel, const Target& target) {
  const TileProgram& tile = kernel.schedule.program;
  const ScopeAnalysis& scopes = kernel.schedule.scopes;
  const bool waits = std::any_of(scopes.barriers.begin(), scopes.barriers.end(),
                                 [](const BarrierPoint& b) { return b.scope == Scope::kGrid; });
  if (!waits && scopes.cluster_blocks > 1) {
    return fmt::format("clusters of {} blocks, {} has up to {}", scopes.cluster_blocks, target.name,
                       target.cluster_blocks);
  }
  if (tile.cpu || !waits || !tile.blocks.is_const()) return {};
  const int64_t blocks = tile.blocks.constant(), threads = tile.warps * 32;
  const int64_t per_sm = std::max<int64_t>(tile.per_sm, 1);
  const int64_t registers = registers_for_residency(target, threads, per_sm);
  const int64_t fit = resident_blocks_per_sm(target, threads, registers, scopes.block_bytes);
  return fmt::format(
      "grid barrier: {} blocks {} {} SMs x {} of {} threads, at most {} registers and {} B shared "
      "each, of which an SM holds {}",
      blocks, blocks <= per_sm * target.sm_count ? "<=" : ">", target.sm_count, per_sm, threads,
      registers, scopes.block_bytes, fit);
}

std::string explain_text(const Compilation& c) {
  const PlanTotals totals = plan_totals(c);
  std::string out = fmt::format(
      "{}: {} nodes in {} kernels ({} compute, {} memory){}, planner {}\n"
      "predicted on {}: {:.0f} us, {} read, {} written\n"
      "arena between kernels: {}, unfused {}{}\n\n",
      c.model, totals.ops, totals.compute_kernels + totals.memory_kernels, totals.compute_kernels,
      totals.memory_kernels,
      totals.library_calls == 0 ? "" : fmt::format(" and {} library calls", totals.library_calls),
      c.options.planner, c.target.name, totals.predicted_us, bytes_text(totals.bytes_read),
      bytes_text(totals.bytes_written), bytes_text(c.planned_arena_bytes),
      bytes_text(c.unfused_arena_bytes),
      c.planned_arena_bytes > c.unfused_arena_bytes
          ? "; the plan raises it: what fused kernels read lives longer"
          : "");
  PlanText(c.target, &out).plan(c.plan, c.tensors, "");
  out += cuts_text(c);
  if (!c.substitutions.empty()) out += "\nsubstitutions of --fast-math\n";
  for (const std::string& line : c.substitutions) out += "  " + line + "\n";
  if (!c.program.arch.empty()) out += device_text(c);
  return out;
}

}  // namespace weft
