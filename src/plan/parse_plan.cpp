#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "expr/movement/compose_arithmetic.h"
#include "expr/text_cursor.h"
#include "fmt/format.h"
#include "graph/graph_text.h"
#include "plan/fusion_plan.h"
#include "schedule/leaf/template_table.h"

namespace weft {

namespace {

Result<double> recompute_factor(TextCursor& cursor) {
  const std::string_view text = cursor.element();
  double factor = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), factor);
  const bool is_number = failed == std::errc() && end == text.data() + text.size();
  if (!is_number || !(factor >= 0 && factor <= kMostRecompute))
    return cursor.error(fmt::format("recompute is a number from 0 to {}", kMostRecompute));
  return factor;
}

Result<FusionPlan> plan_header(TextCursor& cursor) {
  FusionPlan plan;
  WEFT_RETURN_IF_ERROR(cursor.expect("plan"));
  WEFT_ASSIGN_OR_RETURN(plan.planner, cursor.name());
  plan.unmerged = cursor.take("unmerged");
  plan.rolled = cursor.take("rolled");
  plan.skewed = cursor.take("skewed");
  plan.united = cursor.take("united");
  if (cursor.take("filtered")) {
    WEFT_RETURN_IF_ERROR(cursor.expect("("));
    do {
      WEFT_ASSIGN_OR_RETURN(std::string tensor, cursor.name());
      plan.filtered.push_back(std::move(tensor));
    } while (cursor.take(","));
    WEFT_RETURN_IF_ERROR(cursor.expect(")"));
  }
  if (cursor.take("recompute")) {
    WEFT_ASSIGN_OR_RETURN(plan.recompute, recompute_factor(cursor));
  }
  WEFT_RETURN_IF_ERROR(cursor.expect("{"));
  return plan;
}

class PlanReader {
 public:
  PlanReader(std::string_view text, const Target& target) : cursor_(text), target_(target) {}

  Result<FusionPlan> run(const TensorProgram& program) {
    WEFT_ASSIGN_OR_RETURN(FusionPlan plan, this->plan(program));
    if (cursor_.peek() != '\0') return cursor_.error("the text should end here");
    if (Status status = verify_plan(program, plan); !status.ok())
      return cursor_.error(status.error().message);
    return plan;
  }

 private:
  /// What names mean in one program.
  struct Names {
    std::map<std::string, TensorId> tensors;
    std::map<TensorId, ExprId> expr_of;
  };

  static Names names_of(const TensorProgram& program) {
    Names names;
    for (size_t t = 0; t < program.tensors.size(); ++t)
      names.tensors[program.tensors[t].name] = static_cast<TensorId>(t);
    for (size_t e = 0; e < program.exprs.size(); ++e)
      names.expr_of[program.exprs[e].output] = static_cast<ExprId>(e);
    return names;
  }

  Result<FusionPlan> plan(const TensorProgram& program) {
    const Names names = names_of(program);
    WEFT_ASSIGN_OR_RETURN(FusionPlan plan, plan_header(cursor_));
    plan.regions.resize(program.opaques.size());
    while (!cursor_.take("}")) {
      if (cursor_.take("kernel")) {
        WEFT_RETURN_IF_ERROR(kernel(program, names, plan));
      } else if (cursor_.take("opaque")) {
        WEFT_RETURN_IF_ERROR(opaque(program, plan));
      } else {
        WEFT_RETURN_IF_ERROR(cursor_.expect("edge"));
        WEFT_RETURN_IF_ERROR(edge(program, names, plan));
      }
    }
    note_copies(program, plan);
    return plan;
  }

  Result<TensorId> tensor(const Names& names) {
    const size_t begin = cursor_.position();
    WEFT_ASSIGN_OR_RETURN(const std::string name, cursor_.name());
    const auto found = names.tensors.find(name);
    if (found != names.tensors.end()) return found->second;
    cursor_.move_to(begin);
    return cursor_.error("the program has no tensor '" + name + "'");
  }

  Status kernel(const TensorProgram& program, const Names& names, FusionPlan& plan) {
    PlannedKernel kernel;
    WEFT_ASSIGN_OR_RETURN(kernel.name, cursor_.name());
    kernel.is_compute = cursor_.take("compute");
    if (!kernel.is_compute) WEFT_RETURN_IF_ERROR(cursor_.expect("memory"));
    WEFT_ASSIGN_OR_RETURN(const std::string schedule_template, cursor_.name());
    std::optional<Composition> composition;
    if (cursor_.take("by")) {
      WEFT_ASSIGN_OR_RETURN(composition, parse_composition(cursor_));
    }
    std::string measured;
    if (cursor_.take("measured")) {
      if (cursor_.peek() != '"') return cursor_.error("expected what was measured in quotes");
      WEFT_ASSIGN_OR_RETURN(measured, cursor_.name());
    }
    kernel.rereads = cursor_.take("rereading");
    kernel.waits = cursor_.take("waiting");
    if (cursor_.take("because")) {
      if (cursor_.peek() != '"') return cursor_.error("expected the reason in quotes");
      WEFT_ASSIGN_OR_RETURN(kernel.packed_because, cursor_.name());
    }
    WEFT_RETURN_IF_ERROR(cursor_.expect(":"));
    do {
      WEFT_RETURN_IF_ERROR(member(program, names, kernel));
    } while (cursor_.take("|"));
    for (const Group& member : kernel.members) {
      kernel.group.exprs.insert(kernel.group.exprs.end(), member.exprs.begin(), member.exprs.end());
    }
    std::ranges::sort(kernel.group.exprs);
    // Members of one launch may each have a copy.
    const auto again = std::ranges::unique(kernel.group.exprs);
    kernel.group.exprs.erase(again.begin(), again.end());
    if (cursor_.take("copies")) WEFT_RETURN_IF_ERROR(copies(program, names, kernel));
    if (cursor_.take("->")) {
      do {
        WEFT_ASSIGN_OR_RETURN(const TensorId t, tensor(names));
        if (!makes(program, kernel.group, t) && !given_by_loop(kernel, t))
          return cursor_.error("this kernel does not make what it stores");
        kernel.group.outputs.push_back(t);
        for (Group& member : kernel.members) {
          if (makes(program, member, t)) member.outputs.push_back(t);
        }
      } while (cursor_.take(","));
    }
    if (cursor_.take("keeping")) WEFT_RETURN_IF_ERROR(kept(program, names, kernel));
    WEFT_RETURN_IF_ERROR(loop_bodies(program, kernel));
    const bool as_composed = composition && is_for(*composition, target_);
    // Building stages asks all there is to ask.
    const bool has_stages = as_composed && composition->has_stages();
    for (const Group& member : kernel.members) {
      if (has_stages) break;
      if (member.exprs.empty()) continue;  // a loop
      if (Decision legal = can_schedule(program, member, target_); !legal)
        return cursor_.error("no template holds this kernel: " + legal.reason());
    }
    WEFT_RETURN_IF_ERROR(place_in_loop(composition, kernel));
    if (!target_.is_gpu() && !kernel.members.empty() && !as_composed)
      return members_apart(program, kernel, plan);
    auto scheduled = as_composed ? build_kernel(program, kernel, *composition, target_)
                                 : schedule_kernel(program, kernel, target_);
    if (!scheduled.ok()) return cursor_.error(scheduled.error().message);
    kernel.schedule = std::move(*scheduled);
    if (as_composed) {
      estimate_traffic(kernel.schedule);
      kernel.schedule.measured = std::move(measured);
    }
    if ((as_composed || !composition) && kernel.schedule.schedule_template != schedule_template) {
      return cursor_.error("this kernel is made by the template '" +
                           kernel.schedule.schedule_template + "' on the target, not '" +
                           schedule_template + "'");
    }
    plan.order.push_back({false, static_cast<int32_t>(plan.kernels.size())});
    plan.kernels.push_back(std::move(kernel));
    return {};
  }

  /// The tensors of a member, or the opaque step that it is.
  Status member(const TensorProgram& program, const Names& names, PlannedKernel& kernel) {
    Group member;
    const size_t begin = cursor_.position();
    if (cursor_.take("opaque") && cursor_.peek() >= '0' && cursor_.peek() <= '9') {
      WEFT_ASSIGN_OR_RETURN(const int32_t index, opaque_index(program));
      member.outputs = program.opaques[static_cast<size_t>(index)].results;
      kernel.loops.push_back({kernel.members.size(), index, nullptr});
      kernel.members.push_back(std::move(member));
      return {};
    }
    cursor_.move_to(begin);
    do {
      WEFT_ASSIGN_OR_RETURN(const TensorId t, tensor(names));
      const auto expr = names.expr_of.find(t);
      if (expr == names.expr_of.end()) return cursor_.error("no expression makes this tensor");
      if (!member.exprs.empty() && expr->second <= member.exprs.back())
        return cursor_.error("a kernel's expressions stand in program order, each once");
      member.exprs.push_back(expr->second);
    } while (cursor_.take(","));
    kernel.members.push_back(std::move(member));
    return {};
  }

  static bool given_by_loop(const PlannedKernel& kernel, TensorId t) {
    return std::ranges::any_of(kernel.loops, [&](const LoopMember& loop) {
      const std::vector<TensorId>& given = kernel.members[loop.member].outputs;
      return std::ranges::find(given, t) != given.end();
    });
  }

  /// The plans of the bodies of its loops, which stand behind the kernel.
  Status loop_bodies(const TensorProgram& program, PlannedKernel& kernel) {
    if (kernel.loops.empty()) return {};
    if (kernel.members.size() == 1)
      return cursor_.error("a loop that shares its launch with nothing is a step of its own");
    for (LoopMember& loop : kernel.loops) {
      for (const TensorId t : kernel.members[loop.member].outputs) {
        if (std::ranges::find(kernel.group.outputs, t) == kernel.group.outputs.end())
          return cursor_.error("what a loop gives is stored, which this kernel does not do");
      }
      RegionPlans regions;
      WEFT_RETURN_IF_ERROR(this->regions(program, loop.opaque, regions));
      if (regions.size() != 1) return cursor_.error("only a loop shares a launch");
      loop.body = regions[0];
    }
    return {};
  }

  /// What runs a whole loop has members, also where it is one.
  Status place_in_loop(const std::optional<Composition>& composition, PlannedKernel& kernel) {
    const bool recurs = composition && composition->kind == Composition::Kind::kRecur;
    if (recurs && !loop_)
      return cursor_.error("only what stands in a scan runs in all its iterations");
    if (recurs && target_.is_gpu()) {
      kernel.loop = loop_;
    } else if (kernel.members.size() == 1) {
      kernel.members.clear();
    }
    return {};
  }

  /// Of a CPU, for which no such launch was composed: each member a kernel of its own.
  Status members_apart(const TensorProgram& program, const PlannedKernel& kernel,
                       FusionPlan& plan) {
    for (size_t m = 0; m < kernel.members.size(); ++m) {
      const auto loop = std::ranges::find(kernel.loops, m, &LoopMember::member);
      if (loop != kernel.loops.end()) {
        auto& regions = plan.regions[static_cast<size_t>(loop->opaque)];
        if (!regions.empty()) return cursor_.error("this opaque step is planned twice");
        regions.push_back(loop->body);
        plan.order.push_back({true, loop->opaque});
        continue;
      }
      PlannedKernel member;
      member.name = kernel.name + "_" + std::to_string(m);
      member.group = kernel.members[m];
      for (const ExprId e : member.group.exprs)
        member.is_compute |= program.exprs[static_cast<size_t>(e)].is_contraction;
      auto scheduled = schedule_kernel(program, member, target_);
      if (!scheduled.ok()) return cursor_.error(scheduled.error().message);
      member.schedule = std::move(*scheduled);
      plan.order.push_back({false, static_cast<int32_t>(plan.kernels.size())});
      plan.kernels.push_back(std::move(member));
    }
    return {};
  }

  /// What members hand each other on chip.
  Status kept(const TensorProgram& program, const Names& names, PlannedKernel& kernel) {
    do {
      WEFT_ASSIGN_OR_RETURN(const TensorId t, tensor(names));
      const auto maker = std::ranges::find_if(
          kernel.members, [&](const Group& member) { return makes(program, member, t); });
      if (kernel.members.size() < 2 || maker == kernel.members.end())
        return cursor_.error("no member of this kernel makes what it is said to keep");
      if (std::ranges::find(maker->outputs, t) != maker->outputs.end())
        return cursor_.error("this kernel stores what it is said to keep, or keeps it twice");
      maker->outputs.push_back(t);
    } while (cursor_.take(","));
    return {};
  }

  /// Which ones they are follows from all kernels.
  Status copies(const TensorProgram& program, const Names& names, const PlannedKernel& kernel) {
    do {
      WEFT_ASSIGN_OR_RETURN(const TensorId t, tensor(names));
      if (!makes(program, kernel.group, t))
        return cursor_.error("this kernel does not make what it is said to copy");
    } while (cursor_.take(","));
    return {};
  }

  /// Whether the target has the templates that chose.
  static bool is_for(const Composition& composition, const Target& target) {
    if (composition.kind != Composition::Kind::kLeaf) {
      return std::ranges::all_of(composition.members,
                                 [&](const Composition& m) { return is_for(m, target); });
    }
    if (std::holds_alternative<FragmentsChoice>(composition.choice)) return target.is_gpu();
    return std::ranges::any_of(templates_of(target), [&](const Template& t) {
      return t.name == choice_name(composition.choice);
    });
  }

  static bool makes(const TensorProgram& program, const Group& group, TensorId t) {
    for (const ExprId e : group.exprs) {
      if (program.exprs[static_cast<size_t>(e)].output == t) return true;
    }
    return false;
  }

  /// `0 scan`
  Result<int32_t> opaque_index(const TensorProgram& program) {
    WEFT_ASSIGN_OR_RETURN(const int64_t index, cursor_.integer());
    if (index < 0 || index >= static_cast<int64_t>(program.opaques.size()))
      return cursor_.error("the program has no such opaque step");
    const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(index)];
    WEFT_RETURN_IF_ERROR(cursor_.expect(graph_op_name(opaque.node.op)));
    return static_cast<int32_t>(index);
  }

  Status opaque(const TensorProgram& program, FusionPlan& plan) {
    WEFT_ASSIGN_OR_RETURN(const int32_t index, opaque_index(program));
    auto& regions = plan.regions[static_cast<size_t>(index)];
    if (!regions.empty()) return cursor_.error("this opaque step is planned twice");
    WEFT_RETURN_IF_ERROR(this->regions(program, index, regions));
    plan.order.push_back({true, index});
    return {};
  }

  Status regions(const TensorProgram& program, int32_t index, RegionPlans& out) {
    const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(index)];
    for (const auto& region : opaque.regions) {
      WEFT_RETURN_IF_ERROR(cursor_.expect("region"));
      PlanReader reader(cursor_, of_region(target_));
      reader.loop_ = loop_around(program, opaque);
      WEFT_ASSIGN_OR_RETURN(FusionPlan inner, reader.plan(*region));
      cursor_.move_to(reader.cursor_.position());
      out.push_back(std::make_shared<FusionPlan>(std::move(inner)));
    }
    return {};
  }

  Result<int32_t> step(const TensorProgram& program) {
    WEFT_ASSIGN_OR_RETURN(const int64_t index, cursor_.integer());
    if (index < 0 || index >= static_cast<int64_t>(program.steps.size()))
      return cursor_.error("the program has no such step");
    return static_cast<int32_t>(index);
  }

  Status edge(const TensorProgram& program, const Names& names, FusionPlan& plan) {
    EdgeDecision edge;
    WEFT_ASSIGN_OR_RETURN(edge.producer, step(program));
    WEFT_RETURN_IF_ERROR(cursor_.expect("->"));
    WEFT_ASSIGN_OR_RETURN(edge.consumer, step(program));
    WEFT_ASSIGN_OR_RETURN(edge.tensor, tensor(names));
    WEFT_RETURN_IF_ERROR(cursor_.expect(":"));
    using Verdict = EdgeDecision::Verdict;
    bool known = false;
    for (const Verdict v : {Verdict::kFused, Verdict::kIllegal, Verdict::kUnprofitable}) {
      if (known || !cursor_.take(verdict_name(v))) continue;
      edge.verdict = v;
      known = true;
    }
    if (!known) return cursor_.error("expected fused, illegal or unprofitable");
    if (cursor_.peek() != '"') return cursor_.error("expected the reason in quotes");
    WEFT_ASSIGN_OR_RETURN(edge.reason, cursor_.name());
    plan.edges.push_back(std::move(edge));
    return {};
  }

  PlanReader(const TextCursor& cursor, Target target)
      : cursor_(cursor), target_(std::move(target)) {}

  TextCursor cursor_;
  Target target_;
  std::optional<RegionLoop> loop_;  ///< around the program, where it is a region
};

}  // namespace

Result<FusionPlan> parse_plan_header(std::string_view text) {
  TextCursor cursor(text);
  return plan_header(cursor);
}

Result<FusionPlan> parse_plan(std::string_view text, const TensorProgram& program,
                              const Target& target) {
  return PlanReader(text, target).run(program);
}

}  // namespace weft
