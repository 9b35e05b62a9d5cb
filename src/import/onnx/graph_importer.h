#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/builder/graph_builder.h"
#include "import/onnx/import_onnx.h"
#include "import/onnx/model.h"
#include "import/onnx/narrow_type.h"
#include "import/onnx/tensor_proto.h"
#include "import/onnx/translator.h"

namespace weft::onnx {

class OpContext;

/// The names that the nodes of one ONNX graph (or function body, or subgraph) see, and where its
/// nodes go.
struct Scope {
  GraphBuilder& builder;
  const std::map<std::string_view, int64_t>& opsets;
  const Scope* outer = nullptr;  ///< the graph around a subgraph; none around a function
  std::string prefix;            ///< of the origins' names
  int depth = 0;
  std::unordered_map<std::string_view, ValueId> values;
  std::unordered_map<std::string_view, NarrowType> narrow;  ///< values of at most 8 bits
};

/// In Scope::values: an output that a refused node would have made. What reads it is skipped
/// without another message.
inline constexpr ValueId kRefusedValue = -2;
/// An output that the node's translator does not produce.
inline constexpr ValueId kUnmadeValue = -3;

/// Sequences of tensors exist only while importing: an id at or below this one names a list of
/// values.
inline constexpr ValueId kFirstSequence = -16;
inline bool is_sequence(ValueId v) { return v <= kFirstSequence; }

/// Refuses opsets that do not exist or are not read.
void check_versions(const ModelDef& model);

/// The name in a SparseTensorProto.
std::string_view name_of_sparse(std::string_view message);

/// How messages call the nodes: by their names, "OpType#index" where one has none or it is
/// another's too.
std::vector<std::string> origin_names(const std::vector<NodeDef>& nodes);

/// A value was needed that only a refused node would have made.
struct DependsOnRefused {};

/// A node cannot be imported without the value of something that is computed.
class UnknownValue : public Refusal {
 public:
  using Refusal::Refusal;
};

/// The import must start again with these inputs as constants.
struct NeedsInputs {
  std::set<std::string> names;
};

// What a translator sees of integers of 2 and 4 bits and of floats of 4 and 8.

/// That of an input, if it has one.
std::optional<NarrowType> narrow_input(const OpContext& n, int i);
/// That of an attribute; nothing where it is another type, or absent.
std::optional<NarrowType> narrow_attr(const OpContext& n, std::string_view name);
/// An input, a float of at most 8 bits as float32.
ValueId as_number(OpContext& n, int index);
/// What the attributes `saturate` and `round_mode` say.
SmallFloatRounding small_float_rounding(OpContext& n);

/// Walks ONNX graphs and has each node translated. One object imports one model once.
class GraphImporter {
 public:
  GraphImporter(const ModelDef& model, const ImportOptions& options);

  /// Nodes of the main graph, whose inputs are in `scope` already. Throws Refusal for anything
  /// wrong, NeedsInputs.
  void import_main(Scope& scope);

  /// The nodes of a subgraph of `node` inside `scope.builder`, with `arguments` for its inputs;
  /// returns its outputs. `builder` is scope's own (the subgraph is pasted) or a region of it.
  std::vector<ValueId> import_subgraph(const GraphDef& graph, const OpContext& node,
                                       GraphBuilder& builder,
                                       const std::vector<ValueId>& arguments);

  /// One node of the main graph, called `origin`; what it reads is in `scope`. One that is
  /// unsupported, or reads of such a one, is noted as refused.
  void import_node(const NodeDef& node, Scope& scope, const std::string& origin);
  bool has_refused(const NodeDef& node, const Scope& scope) const;

  /// The values of initializers, by name, into the scope.
  void add_initializers(const GraphDef& graph, Scope& scope);
  void add_initializer(const TensorDef& def, Scope& scope);
  /// Of a SparseTensorProto.
  void add_sparse_initializer(std::string_view message, Scope& scope);

  /// Notes a value's type, if it is a narrow one.
  static void note_type(std::string_view name, int64_t onnx_type, Scope& scope);
  static std::optional<NarrowType> narrow_type(std::string_view name, const Scope& scope);
  /// Output `i` of the node that is being translated is such a value. Outputs of operators that
  /// only move the elements of their first input are so by themselves.
  void set_narrow_output(int i, NarrowType type) { narrow_outputs_.insert_or_assign(i, type); }

  /// A new sequence of values of one builder, and its values.
  ValueId add_sequence(std::vector<ValueId> values);
  const std::vector<ValueId>& sequence(ValueId v) const;

  HostTensor tensor(const TensorDef& def) const { return read_tensor(def.message, source_); }
  const TensorSource& source() const { return source_; }

  /// Why a value that must be constant is not: throws NeedsInputs when the caller knows the inputs
  /// it follows from, else a refusal that names them.
  [[noreturn]] void refuse_unknown(GraphBuilder& builder, ValueId v, std::string_view what) const;

  /// The inputs that a value follows from, if from nothing else and the caller knows them all; else
  /// none.
  std::set<std::string> known_inputs_behind(const GraphBuilder& builder, ValueId v) const;

  /// For a translator that can do without an attempt: forget() drops what was refused since mark().
  size_t mark() const { return refused_.size(); }
  void forget(size_t mark) { refused_.resize(mark); }

  /// "unsupported: …" with all the nodes refused so far, if any.
  void throw_refused_nodes() const;
  /// Whether values that are not known are all that nodes were refused for.
  bool lacks_only_values() const;

 private:
  template <typename Read>
  void add_constant(std::string_view name, Scope& scope, Read&& read);
  void import_nodes(const std::vector<NodeDef>& nodes, const std::vector<std::string_view>& outputs,
                    Scope& scope);
  void translate(const NodeDef& node, Scope& scope, std::vector<ValueId> inputs,
                 const std::string& origin);
  void inline_function(const FunctionDef& function, OpContext& call, Scope& scope,
                       const std::string& origin);
  void refuse_node(const NodeDef& node, Scope& scope, const std::string& origin,
                   const Refusal& refusal);
  void mark_refused(const NodeDef& node, Scope& scope) const;
  /// Lists the operators without translator in a node that is skipped, and in its subgraphs.
  void list_missing(const NodeDef& node, const Scope& scope, const std::string& origin);
  const FunctionDef* find_function(const NodeDef& node) const;
  int64_t opset_of(std::string_view domain, const Scope& scope) const;
  ValueId lookup(std::string_view name, const Scope& scope);
  std::optional<NarrowType> narrow_output(const NodeDef& node, int i, const Scope& scope) const;
  /// Floats of at most 8 bits are bytes: refuses operators that would take those for numbers.
  void refuse_small_floats(const NodeDef& node, const Scope& scope) const;

  const ModelDef& model_;
  const ImportOptions& options_;
  TensorSource source_;
  std::map<std::pair<std::string_view, std::string_view>, const FunctionDef*> functions_;
  struct Refused {
    std::string line;
    bool lacks_value = false;
  };
  std::vector<Refused> refused_;
  std::vector<std::vector<ValueId>> sequences_;
  size_t sequence_elements_ = 0;
  std::map<int, NarrowType> narrow_outputs_;  ///< of the node that is being translated
  int64_t nodes_left_;
};

}  // namespace weft::onnx
