#include <algorithm>
#include <cstring>
#include <map>

#include "expr/scalar_reader.h"
#include "expr/tensor_program.h"
#include "fmt/format.h"
#include "graph/attribute_fields.h"
#include "graph/graph_text.h"

namespace weft {
namespace {

using ConstantOfHash = std::function<Result<HostTensor>(std::string_view, const TensorType&)>;

/// Splats of one text together: a text must not cost gigabytes.
constexpr int64_t kMaxAllSplatBytes = int64_t{1} << 30;

class ProgramReader {
 public:
  ProgramReader(std::string_view text, const ConstantOfHash& constant_of_hash)
      : cursor_(text), constant_of_hash_(constant_of_hash) {}

  Result<TensorProgram> run() {
    WEFT_ASSIGN_OR_RETURN(TensorProgram program, this->program(0));
    if (cursor_.peek() != '\0') return cursor_.error("the text should end here");
    if (Status status = verify_tensor_program(program); !status.ok()) {
      return cursor_.error(status.error().message);
    }
    return program;
  }

 private:
  struct Scope {
    TensorProgram program;
    std::map<std::string, TensorId> ids;
  };

  Result<TensorProgram> program(int depth) {
    if (depth > kMaxRegionDepth) return cursor_.error("regions nest too deeply");
    Scope scope;
    WEFT_RETURN_IF_ERROR(cursor_.expect("program"));
    WEFT_RETURN_IF_ERROR(cursor_.expect("{"));
    while (!cursor_.take("}")) WEFT_RETURN_IF_ERROR(statement(scope, depth));
    for (const TensorId t : scope.program.outputs) {
      scope.program.tensors[static_cast<size_t>(t)].is_output = true;
    }
    return std::move(scope.program);
  }

  /// A keyword, unless it is the name of a tensor being made (`input: f32[2] = …`).
  bool take_keyword(std::string_view word) {
    const size_t begin = cursor_.position();
    if (cursor_.peek_bare_name() == word && cursor_.take(word) && cursor_.peek() != ':') {
      return true;
    }
    cursor_.move_to(begin);
    return false;
  }

  Status statement(Scope& scope, int depth) {
    if (take_keyword("origin")) return origin(scope);
    if (take_keyword("input")) {
      WEFT_ASSIGN_OR_RETURN(const TensorId t, declared(scope, Tensor::Kind::kInput));
      scope.program.inputs.push_back(t);
      return {};
    }
    if (take_keyword("constant")) return constant(scope);
    if (take_keyword("output")) return output(scope);
    if (take_keyword("opaque")) return opaque(scope, depth);
    return expression(scope);
  }

  Status origin(Scope& scope) {
    Origin o;
    WEFT_ASSIGN_OR_RETURN(o.name, cursor_.name());
    WEFT_ASSIGN_OR_RETURN(o.op_type, cursor_.name());
    scope.program.origins.push_back(std::move(o));
    return {};
  }

  Result<DType> dtype() {
    const std::string_view word = cursor_.peek_bare_name();
    const std::optional<DType> type = parse_dtype(word);
    if (!type) return cursor_.error(fmt::format("`{}` is no element type", word));
    cursor_.take(word);
    return *type;
  }

  Result<std::vector<int64_t>> integers(std::string_view open, std::string_view close) {
    std::vector<int64_t> values;
    WEFT_RETURN_IF_ERROR(cursor_.expect(open));
    if (cursor_.take(close)) return values;
    do {
      WEFT_ASSIGN_OR_RETURN(const int64_t value, cursor_.integer());
      values.push_back(value);
    } while (cursor_.take(","));
    WEFT_RETURN_IF_ERROR(cursor_.expect(close));
    return values;
  }

  Result<TensorType> type() {
    TensorType t;
    WEFT_ASSIGN_OR_RETURN(t.dtype, dtype());
    WEFT_ASSIGN_OR_RETURN(t.shape, integers("[", "]"));
    const std::optional<int64_t> bytes = checked_byte_size(t.dtype, t.shape);
    if (!bytes || *bytes > kMaxTensorBytes || t.shape.size() > kMaxRank) {
      return cursor_.error(print(t) + " is too large or has a negative extent");
    }
    return t;
  }

  Result<Layout> layout(const Shape& shape) {
    Layout l;
    do {
      WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> axis, integers("{", "}"));
      const bool valid = axis.size() == 3 && axis[0] >= 0 &&
                         axis[0] < static_cast<int64_t>(shape.size()) && axis[1] > 0 && axis[2] > 0;
      if (!valid) return cursor_.error("a layout axis is {axis,divisor,extent}");
      l.axes.push_back({static_cast<int32_t>(axis[0]), axis[1], axis[2]});
    } while (cursor_.peek() == '{');
    if (!element_count(physical_shape(l, shape))) return cursor_.error("the layout is too large");
    return l;
  }

  /// `name: type [declared type] [layout …]`
  Result<TensorId> declared(Scope& scope, Tensor::Kind kind) {
    Tensor t;
    t.kind = kind;
    WEFT_ASSIGN_OR_RETURN(t.name, cursor_.name());
    WEFT_RETURN_IF_ERROR(cursor_.expect(":"));
    WEFT_ASSIGN_OR_RETURN(t.type, type());
    if (cursor_.take("declared")) {
      WEFT_ASSIGN_OR_RETURN(const TensorType known, type());
      if (known.dtype != t.type.dtype) return cursor_.error("it is declared of another type");
      t.declared = known.shape;
    }
    if (cursor_.take("layout")) {
      WEFT_ASSIGN_OR_RETURN(t.layout, layout(t.type.shape));
    }
    const auto id = static_cast<TensorId>(scope.program.tensors.size());
    if (!scope.ids.emplace(t.name, id).second) {
      return cursor_.error("two tensors are named " + t.name);
    }
    scope.program.tensors.push_back(std::move(t));
    return id;
  }

  Result<TensorId> reference(const Scope& scope) {
    WEFT_ASSIGN_OR_RETURN(const std::string name, cursor_.name());
    const auto found = scope.ids.find(name);
    if (found == scope.ids.end()) return cursor_.error(fmt::format("`{}` is not defined", name));
    return found->second;
  }

  Status output(Scope& scope) {
    WEFT_ASSIGN_OR_RETURN(const TensorId t, reference(scope));
    WEFT_RETURN_IF_ERROR(cursor_.expect("as"));
    WEFT_ASSIGN_OR_RETURN(std::string name, cursor_.name());
    scope.program.outputs.push_back(t);
    scope.program.output_names.push_back(std::move(name));
    return {};
  }

  Status constant(Scope& scope) {
    WEFT_ASSIGN_OR_RETURN(const TensorId t, declared(scope, Tensor::Kind::kConstant));
    Tensor& tensor = scope.program.tensors[static_cast<size_t>(t)];
    WEFT_RETURN_IF_ERROR(cursor_.expect("="));
    WEFT_ASSIGN_OR_RETURN(tensor.value, constant_value(tensor.type));
    return {};
  }

  Result<HostTensor> constant_value(const TensorType& type) {
    if (cursor_.take("#")) {
      const std::string_view hash = cursor_.hex();
      if (!constant_of_hash_) {
        return cursor_.error(fmt::format("the value of constant #{} is not given", hash));
      }
      WEFT_ASSIGN_OR_RETURN(HostTensor value, constant_of_hash_(hash, type));
      if (value.dtype() != type.dtype || value.shape() != type.shape) {
        return cursor_.error(fmt::format("constant #{} has another type", hash));
      }
      return value;
    }
    const bool splat = cursor_.take("splat");
    const int64_t count = *element_count(type.shape);
    std::vector<std::string_view> elements;
    if (splat) {
      splat_bytes_ += count * byte_size(type.dtype);
      if (splat_bytes_ > kMaxAllSplatBytes || count * byte_size(type.dtype) > kMaxSplatBytes) {
        return cursor_.error("the splats are too large for text");
      }
      elements.push_back(cursor_.element());
    } else {
      WEFT_RETURN_IF_ERROR(cursor_.expect("{"));
      if (!cursor_.take("}")) {
        do {
          elements.push_back(cursor_.element());
        } while (cursor_.take(","));
        WEFT_RETURN_IF_ERROR(cursor_.expect("}"));
      }
      if (static_cast<int64_t>(elements.size()) != count) {
        return cursor_.error("the constant does not fill " + print(type));
      }
    }
    return filled(type, elements, count);
  }

  Result<HostTensor> filled(const TensorType& type, const std::vector<std::string_view>& elements,
                            int64_t count) {
    HostTensor value(type.dtype, type.shape);
    const int64_t written = std::min(count, static_cast<int64_t>(elements.size()));
    for (int64_t i = 0; i < written; ++i) {
      const std::string_view text = elements[static_cast<size_t>(i)];
      if (!parse_element(text, value, i)) {
        return cursor_.error(fmt::format("`{}` is no {}", text, dtype_name(type.dtype)));
      }
    }
    const auto width = static_cast<size_t>(byte_size(type.dtype));
    for (int64_t i = written; i < count; ++i) {
      std::memcpy(value.mutable_raw() + static_cast<size_t>(i) * width, value.raw(), width);
    }
    return value;
  }

  Result<std::vector<int32_t>> origins(const Scope& scope) {
    std::vector<int32_t> list;
    if (!cursor_.take("from")) return list;
    do {
      WEFT_ASSIGN_OR_RETURN(const int64_t o, cursor_.integer());
      if (o < 0 || o >= static_cast<int64_t>(scope.program.origins.size())) {
        return cursor_.error("there is no such origin");
      }
      list.push_back(static_cast<int32_t>(o));
    } while (cursor_.take(","));
    return list;
  }

  /// `sum[8, 3]:f32 [last_on_ties]`, unless a read of a tensor of that name stands there.
  Status reduction(TensorExpr& e) {
    const size_t begin = cursor_.position();
    const std::string_view word = cursor_.peek_bare_name();
    const std::optional<Combiner> combiner = parse_combiner(word);
    if (!combiner || !cursor_.take(word) || cursor_.peek() != '[') {
      cursor_.move_to(begin);
      return {};
    }
    Result<std::vector<int64_t>> extents = integers("[", "]");
    if (!extents.ok() || !cursor_.take(":")) {
      cursor_.move_to(begin);
      return {};
    }
    if (extents->empty()) return cursor_.error("a reduction has an axis");
    for (const int64_t extent : *extents) {
      if (extent < 1 || extent > (int64_t{1} << 40)) return cursor_.error("a reduction's extent");
    }
    if (e.extents.size() + extents->size() > 2 * kMaxRank) return cursor_.error("too many axes");
    e.combiner = *combiner;
    e.reduce_extents = std::move(*extents);
    WEFT_ASSIGN_OR_RETURN(e.accumulator, dtype());
    e.last_on_ties = cursor_.take("last_on_ties");
    return {};
  }

  Status expression(Scope& scope) {
    TensorExpr e;
    // The tensor comes into being behind its expression: it cannot read itself.
    const size_t begin = cursor_.position();
    Scope ahead;
    WEFT_RETURN_IF_ERROR(declared(ahead, Tensor::Kind::kIntermediate));
    const TensorType type = ahead.program.tensors[0].type;
    const size_t end = cursor_.position();
    WEFT_RETURN_IF_ERROR(cursor_.expect("="));
    e.extents = type.shape;
    e.accumulator = type.dtype;
    const size_t body = cursor_.position();
    e.is_contraction = cursor_.take("contraction") && cursor_.peek() != '[';
    if (!e.is_contraction) cursor_.move_to(body);
    WEFT_RETURN_IF_ERROR(reduction(e));
    WEFT_RETURN_IF_ERROR(read_body(scope, e));
    WEFT_RETURN_IF_ERROR(open_axes(e));
    WEFT_ASSIGN_OR_RETURN(e.origins, origins(scope));
    const size_t after = cursor_.position();
    cursor_.move_to(begin);
    WEFT_ASSIGN_OR_RETURN(e.output, declared(scope, Tensor::Kind::kIntermediate));
    WEFT_CHECK(cursor_.position() == end, "a declaration read twice");
    cursor_.move_to(after);
    scope.program.steps.push_back({false, static_cast<int32_t>(scope.program.exprs.size())});
    scope.program.exprs.push_back(std::move(e));
    return {};
  }

  /// `open {0,2}`: variables, unless a tensor of that name stands there.
  Status open_axes(TensorExpr& e) {
    const size_t begin = cursor_.position();
    if (!cursor_.take("open") || cursor_.peek() != '{') {
      cursor_.move_to(begin);
      return {};
    }
    WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, integers("{", "}"));
    e.open.assign(static_cast<size_t>(e.axis_count()), false);
    for (const int64_t a : axes) {
      if (a < 0 || a >= e.axis_count()) return cursor_.error("there is no such axis");
      e.open[static_cast<size_t>(a)] = true;
    }
    return {};
  }

  Status read_body(const Scope& scope, TensorExpr& e) {
    ScalarReader::Names names;
    names.var = [&e](std::string_view word) -> std::optional<int> {
      if (word.size() < 2 || word.size() > 4 || (word[0] != 'd' && word[0] != 'r')) return {};
      int number = 0;
      for (const char c : word.substr(1)) {
        if (c < '0' || c > '9') return {};
        number = number * 10 + (c - '0');
      }
      const int id = word[0] == 'd' ? number : number + e.output_rank();
      const int limit = word[0] == 'd' ? e.output_rank() : e.axis_count();
      return id < limit ? std::optional<int>(id) : std::nullopt;
    };
    names.symbol = [&scope](const std::string& name) -> std::optional<ScalarReader::Symbol> {
      const auto found = scope.ids.find(name);
      if (found == scope.ids.end()) return {};
      const TensorType& t = scope.program.tensors[static_cast<size_t>(found->second)].type;
      return ScalarReader::Symbol{found->second, t.dtype, t.shape.size()};
    };
    WEFT_ASSIGN_OR_RETURN(e.body, ScalarReader(cursor_, names).read());
    return {};
  }

  Status opaque(Scope& scope, int depth) {
    OpaqueExpr o;
    // Results are declared first in the text and come into being last.
    Scope results;
    do {
      WEFT_RETURN_IF_ERROR(declared(results, Tensor::Kind::kIntermediate));
    } while (cursor_.take(","));
    WEFT_RETURN_IF_ERROR(cursor_.expect("="));
    WEFT_ASSIGN_OR_RETURN(const std::string op_name, cursor_.name());
    const std::optional<GraphOp> op = parse_graph_op(op_name);
    if (!op) return cursor_.error(fmt::format("`{}` is no operation", op_name));
    o.node.op = *op;
    o.node.attrs = default_attributes(*op);
    WEFT_RETURN_IF_ERROR(cursor_.expect("("));
    if (!cursor_.take(")")) {
      do {
        WEFT_ASSIGN_OR_RETURN(const TensorId t, reference(scope));
        o.operands.push_back(t);
      } while (cursor_.take(","));
      WEFT_RETURN_IF_ERROR(cursor_.expect(")"));
    }
    WEFT_RETURN_IF_ERROR(attributes(o.node));
    WEFT_ASSIGN_OR_RETURN(o.origins, origins(scope));
    if (!o.origins.empty()) o.node.origin = o.origins[0];
    while (take_keyword("region")) {
      WEFT_ASSIGN_OR_RETURN(TensorProgram region, program(depth + 1));
      o.regions.push_back(std::make_shared<TensorProgram>(std::move(region)));
    }
    for (Tensor& t : results.program.tensors) {
      const auto id = static_cast<TensorId>(scope.program.tensors.size());
      if (!scope.ids.emplace(t.name, id).second) {
        return cursor_.error("two tensors are named " + t.name);
      }
      scope.program.tensors.push_back(std::move(t));
      o.results.push_back(id);
    }
    scope.program.steps.push_back({true, static_cast<int32_t>(scope.program.opaques.size())});
    scope.program.opaques.push_back(std::move(o));
    return {};
  }

  /// `axis=1 descending=true`, every field of the op in order.
  Status attributes(Node& node) {
    Status status;
    std::visit(
        [&](auto& attrs) {
          for_each_field(attrs, [&](const char* name, auto& value) {
            if (!status.ok()) return;
            status = cursor_.expect(name);
            if (status.ok()) status = cursor_.expect("=");
            if (status.ok()) status = field(value);
          });
        },
        node.attrs);
    return status;
  }
  Status field(int64_t& value) {
    WEFT_ASSIGN_OR_RETURN(value, cursor_.integer());
    return {};
  }
  Status field(bool& value) {
    value = cursor_.take("true");
    return value || cursor_.take("false") ? Status{} : cursor_.error("true or false is expected");
  }
  Status field(Combiner& value) {
    const std::string_view word = cursor_.peek_bare_name();
    const std::optional<Combiner> combiner = parse_combiner(word);
    if (!combiner) return cursor_.error("a combiner is expected");
    cursor_.take(word);
    value = *combiner;
    return {};
  }
  template <typename T>
  Status field(std::vector<T>& values) {
    values.clear();
    WEFT_RETURN_IF_ERROR(cursor_.expect("{"));
    if (cursor_.take("}")) return {};
    do {
      T value{};
      WEFT_RETURN_IF_ERROR(field(value));
      values.push_back(value);
    } while (cursor_.take(","));
    return cursor_.expect("}");
  }

  TextCursor cursor_;
  const ConstantOfHash& constant_of_hash_;
  int64_t splat_bytes_ = 0;
};

}  // namespace

Result<TensorProgram> parse_tensor_program(std::string_view text,
                                           const ConstantOfHash& constant_of_hash) {
  return ProgramReader(text, constant_of_hash).run();
}

}  // namespace weft
