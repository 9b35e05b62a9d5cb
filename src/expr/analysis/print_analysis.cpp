#include "expr/analysis/print_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace weft {
namespace {

class AnalysisPrinter {
 public:
  explicit AnalysisPrinter(double threshold) : threshold_(threshold) {}

  std::string run(const TensorProgram& program) {
    add_program(program, "");
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(const std::string& indent, fmt::format_string<Args...> format, Args&&... args) {
    text_ += indent;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void add_program(const TensorProgram& program, const std::string& indent) {
    const auto name = [&](TensorId t) { return program.tensors[static_cast<size_t>(t)].name; };
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const auto index = static_cast<size_t>(program.steps[s].index);
      if (program.steps[s].opaque) {
        add_opaque(program.opaques[index], s, indent);
      } else {
        add_expr(program, program.exprs[index], s, indent);
      }
    }
    for (const ReuseSet& set : reuse_sets(program)) {
      line(indent, "reuse {}: {} {}", name(set.tensor), fmt::join(set.readers, ", "),
           set.temporal ? "temporal" : "spatial");
    }
    const std::vector<LiveRange> live = live_ranges(program);
    for (size_t t = 0; t < live.size(); ++t) {
      if (program.tensors[t].kind == Tensor::Kind::kConstant) continue;
      line(indent, "live {}: {} to {}", program.tensors[t].name, live[t].first, live[t].last);
    }
  }

  void add_expr(const TensorProgram& program, const TensorExpr& e, size_t step,
                const std::string& indent) {
    std::vector<TensorId> reads;
    visit(e.body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && std::ranges::find(reads, s.symbol) == reads.end())
        reads.push_back(s.symbol);
    });
    std::vector<std::string> classes;
    for (TensorId t : reads) {
      const bool many = dependence_class(e, t) == DependenceClass::kOneToMany;
      const std::string& name = program.tensors[static_cast<size_t>(t)].name;
      classes.push_back(name + (many ? " many" : " one"));
    }
    const double intensity = expr_cost(program, e).intensity();
    line(indent, "{} {}: {}, {:.1f} an element; {}", step,
         program.tensors[static_cast<size_t>(e.output)].name,
         intensity < threshold_ ? "memory" : "compute", intensity, fmt::join(classes, ", "));
  }

  void add_opaque(const OpaqueExpr& o, size_t step, const std::string& indent) {
    line(indent, "{} {}: a step of its own", step, graph_op_name(o.node.op));
    for (const auto& region : o.regions) add_program(*region, indent + "    ");
  }

  double threshold_;
  std::string text_;
};

}  // namespace

std::string print_analysis(const TensorProgram& program, double threshold) {
  return AnalysisPrinter(threshold).run(program);
}

}  // namespace weft
