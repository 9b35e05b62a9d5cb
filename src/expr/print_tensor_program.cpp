#include <algorithm>
#include <cstring>

#include "expr/tensor_program.h"
#include "fmt/format.h"
#include "graph/attribute_fields.h"
#include "graph/graph_text.h"
#include "support/hash.h"

namespace weft {
namespace {

/// Larger constants print as their hash.
constexpr int64_t kMaxInlineElements = 64;

class ProgramPrinter {
 public:
  std::string take() { return std::move(text_); }

  void program(const TensorProgram& p, const std::string& indent) {
    text_ += "program {\n";
    const std::string inner = indent + "  ";
    for (const Origin& o : p.origins) {
      text_ += inner + "origin " + print_name(o.name) + " " + print_name(o.op_type) + "\n";
    }
    for (const TensorId t : p.inputs) text_ += inner + "input " + declared(p, t) + "\n";
    for (size_t t = 0; t < p.tensors.size(); ++t) {
      if (p.tensors[t].kind != Tensor::Kind::kConstant) continue;
      text_ += inner + "constant " + declared(p, static_cast<TensorId>(t)) + " = " +
               constant(p.tensors[t].value) + "\n";
    }
    for (const TensorProgram::Step& step : p.steps) {
      const auto index = static_cast<size_t>(step.index);
      if (step.opaque) {
        opaque(p, p.opaques[index], inner);
      } else {
        expression(p, p.exprs[index], inner);
      }
    }
    for (size_t o = 0; o < p.outputs.size(); ++o) {
      text_ +=
          inner + "output " + name(p, p.outputs[o]) + " as " + print_name(p.output_names[o]) + "\n";
    }
    text_ += indent + "}\n";
  }

 private:
  static const Tensor& tensor(const TensorProgram& p, TensorId t) {
    return p.tensors[static_cast<size_t>(t)];
  }
  static std::string name(const TensorProgram& p, TensorId t) {
    return print_name(tensor(p, t).name);
  }
  static std::string declared(const TensorProgram& p, TensorId t) {
    const Tensor& x = tensor(p, t);
    return print_name(x.name) + ": " + print(x.type) +
           (x.declared.empty() ? "" : " declared " + print(declared_type(x))) +
           (x.layout.is_row_major() ? "" : " layout " + print(x.layout));
  }
  static std::string origins(const std::vector<int32_t>& list) {
    std::string text;
    for (const int32_t o : list) text += (text.empty() ? " from " : ", ") + std::to_string(o);
    return text;
  }

  static std::string open_axes(const TensorExpr& e) {
    std::string text;
    for (int v = 0; v < e.axis_count(); ++v) {
      if (e.is_open(v)) text += (text.empty() ? " open {" : ",") + std::to_string(v);
    }
    return text.empty() ? text : text + "}";
  }

  static std::string constant(const HostTensor& value) {
    const auto width = static_cast<size_t>(byte_size(value.dtype()));
    const auto bytes = static_cast<size_t>(value.bytes());
    const bool uniform = bytes > width && value.bytes() <= kMaxSplatBytes &&
                         std::memcmp(value.raw(), value.raw() + width, bytes - width) == 0;
    if (uniform) return "splat " + print_element(value, 0);
    if (value.size() > kMaxInlineElements) return "#" + to_hex(content_hash(value));
    std::string text = "{";
    for (int64_t i = 0; i < value.size(); ++i) {
      text += (i > 0 ? ", " : "") + print_element(value, i);
    }
    return text + "}";
  }

  static std::string scalar(const TensorProgram& p, const TensorExpr& e) {
    ScalarNames names;
    names.var = [&](int id) {
      return id < e.output_rank() ? fmt::format("d{}", id)
                                  : fmt::format("r{}", id - e.output_rank());
    };
    names.symbol = [&](int symbol) { return name(p, symbol); };
    return print(e.body, names);
  }

  void expression(const TensorProgram& p, const TensorExpr& e, const std::string& indent) {
    text_ += indent + declared(p, e.output) + " = ";
    if (e.is_contraction) text_ += "contraction ";
    if (!e.reduce_extents.empty()) {
      text_ += fmt::format("{}[", combiner_name(e.combiner));
      for (size_t r = 0; r < e.reduce_extents.size(); ++r) {
        text_ += (r > 0 ? ", " : "") + std::to_string(e.reduce_extents[r]);
      }
      text_ += fmt::format("]:{} ", dtype_name(e.accumulator));
      if (e.last_on_ties) text_ += "last_on_ties ";
    }
    text_ += scalar(p, e) + open_axes(e) + origins(e.origins) + "\n";
  }

  void opaque(const TensorProgram& p, const OpaqueExpr& o, const std::string& indent) {
    text_ += indent + "opaque ";
    for (size_t i = 0; i < o.results.size(); ++i) {
      text_ += (i > 0 ? ", " : "") + declared(p, o.results[i]);
    }
    text_ += " = " + std::string(graph_op_name(o.node.op)) + "(";
    for (size_t i = 0; i < o.operands.size(); ++i) {
      text_ += (i > 0 ? ", " : "") + name(p, o.operands[i]);
    }
    text_ += ")";
    for (const std::string& field : print_attributes(o.node.attrs)) text_ += " " + field;
    text_ += origins(o.origins) + "\n";
    for (const auto& region : o.regions) {
      text_ += indent + "  region ";
      program(*region, indent + "  ");
    }
  }

  std::string text_;
};

}  // namespace

std::string print(const TensorProgram& program) {
  ProgramPrinter printer;
  printer.program(program, "");
  return printer.take();
}

}  // namespace weft
