#include "fmt/format.h"
#include "graph/graph_text.h"
#include "plan/fusion_plan.h"

namespace weft {

std::string_view verdict_name(EdgeDecision::Verdict v) {
  switch (v) {
    case EdgeDecision::Verdict::kFused:
      return "fused";
    case EdgeDecision::Verdict::kIllegal:
      return "illegal";
    case EdgeDecision::Verdict::kUnprofitable:
      return "unprofitable";
  }
  return "";
}

namespace {

class PlanPrinter {
 public:
  void plan(const FusionPlan& plan, const TensorProgram& program, int depth) {
    const std::string indent(static_cast<size_t>(2 * depth), ' ');
    out_ += "plan " + print_name(plan.planner) + (plan.unmerged ? " unmerged" : "") +
            (plan.rolled ? " rolled" : "") + (plan.skewed ? " skewed" : "") +
            (plan.united ? " united" : "");
    for (size_t i = 0; i < plan.filtered.size(); ++i)
      out_ += (i == 0 ? " filtered (" : ", ") + print_name(plan.filtered[i]);
    if (!plan.filtered.empty()) out_ += ')';
    if (plan.recompute) out_ += fmt::format(" recompute {}", *plan.recompute);
    out_ += " {\n";
    for (const FusionPlan::Step& step : plan.order) {
      out_ += indent + "  ";
      if (step.opaque) {
        opaque(plan, program, step.index, depth);
      } else {
        kernel(plan.kernels[static_cast<size_t>(step.index)], program, depth);
      }
    }
    for (const EdgeDecision& e : plan.edges) {
      out_ += indent + "  edge " + std::to_string(e.producer) + " -> " +
              std::to_string(e.consumer) + ' ' + name(program, e.tensor) + ": " +
              std::string(verdict_name(e.verdict)) + " \"" + escape(e.reason) + "\"\n";
    }
    out_ += indent + "}\n";
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string name(const TensorProgram& program, TensorId t) {
    return print_name(program.tensors[static_cast<size_t>(t)].name);
  }

  /// As a quoted name, also where the text is a bare one.
  static std::string escape(std::string_view text) {
    // A blank is no character of a bare name, so what print_name gives is quoted.
    const std::string quoted = print_name(std::string(text) + " ");
    return quoted.substr(1, quoted.size() - 3);
  }

  void kernel(const PlannedKernel& kernel, const TensorProgram& program, int depth) {
    out_ +=
        "kernel " + print_name(kernel.name) + ' ' + (kernel.is_compute ? "compute " : "memory ") +
        print_name(kernel.schedule.schedule_template) + " by " + print(kernel.schedule.composition);
    if (!kernel.schedule.measured.empty())
      out_ += " measured \"" + escape(kernel.schedule.measured) + '"';
    if (kernel.rereads) out_ += " rereading";
    if (kernel.waits) out_ += " waiting";
    if (!kernel.members.empty()) out_ += " because \"" + escape(kernel.packed_because) + '"';
    out_ += ":";
    const std::vector<Group> alone{kernel.group};
    const char* separator = " ";
    auto loop = kernel.loops.begin();
    size_t number = 0;
    for (const Group& member : kernel.members.empty() ? alone : kernel.members) {
      const bool is_loop = loop != kernel.loops.end() && loop->member == number++;
      if (is_loop) out_ += separator + opaque_name(program, (loop++)->opaque);
      for (const ExprId e : member.exprs) {
        out_ += separator + name(program, program.exprs[static_cast<size_t>(e)].output);
        separator = ", ";
      }
      separator = " | ";
    }
    separator = " copies ";
    for (const ExprId e : kernel.copies) {
      out_ += separator + name(program, program.exprs[static_cast<size_t>(e)].output);
      separator = ", ";
    }
    separator = " -> ";
    for (const TensorId t : kernel.group.outputs) {
      out_ += separator + name(program, t);
      separator = ", ";
    }
    separator = " keeping ";
    for (const TensorId t : kept_outputs(kernel)) {
      out_ += separator + name(program, t);
      separator = ", ";
    }
    for (const LoopMember& own : kernel.loops)
      region(*own.body, *program.opaques[static_cast<size_t>(own.opaque)].regions.back(), depth);
    out_ += '\n';
  }

  static std::string opaque_name(const TensorProgram& program, int32_t index) {
    return "opaque " + std::to_string(index) + ' ' +
           std::string(graph_op_name(program.opaques[static_cast<size_t>(index)].node.op));
  }

  void opaque(const FusionPlan& plan, const TensorProgram& program, int32_t index, int depth) {
    const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(index)];
    out_ += opaque_name(program, index);
    const auto& regions = plan.regions[static_cast<size_t>(index)];
    for (size_t r = 0; r < regions.size(); ++r) region(*regions[r], *opaque.regions[r], depth);
    out_ += '\n';
  }

  void region(const FusionPlan& plan, const TensorProgram& program, int depth) {
    out_ += "\n" + std::string(static_cast<size_t>(2 * depth + 4), ' ') + "region ";
    this->plan(plan, program, depth + 2);
    out_.pop_back();
  }

  std::string out_;
};

}  // namespace

std::string print(const FusionPlan& plan, const TensorProgram& program) {
  PlanPrinter printer;
  printer.plan(plan, program, 0);
  return printer.take();
}

}  // namespace weft
