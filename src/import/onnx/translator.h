#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "import/builder/graph_builder.h"
#include "import/onnx/model.h"

namespace weft::onnx {

class GraphImporter;
struct Scope;

/// What the translator of one operator sees: the ONNX node, and the graph that it adds primitives
/// to. All failures are Refusals; the importer puts the node's name in front of the message.
///
///     void translate_softmax(OpContext& n) {
///       ValueId x = n.input(0);
///       int64_t axis = n.axis_attr("axis", -1, n.b.rank(x));
///       ValueId e = n.b.exp(n.b.sub(x, n.b.reduce(Combiner::kMax, x, {axis}, true)));
///       n.set_output(0, n.b.div(e, n.b.reduce(Combiner::kSum, e, {axis}, true)));
///     }
class OpContext {
 public:
  OpContext(GraphImporter& importer, Scope& scope, const NodeDef& node, int64_t opset,
            std::vector<ValueId> inputs, std::string origin);

  GraphBuilder& b;

  std::string_view op_type() const { return node_.op_type; }
  std::string_view domain() const { return node_.domain; }
  /// Version of the node's domain that the model imports.
  int64_t opset() const { return opset_; }

  // Inputs.
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const;
  /// Refuses when absent.
  ValueId input(int i) const;
  /// kNoValue when absent.
  ValueId optional_input(int i) const { return has_input(i) ? input(i) : kNoValue; }
  /// The values of an input that is a sequence (which exist only while importing); refuses others.
  std::vector<ValueId> sequence_input(int i) const;
  bool is_sequence_input(int i) const;
  /// A value, a sequence (to be handed on only) or kNoValue.
  ValueId any_input(int i) const;
  /// The value of an input that must be known while importing (a shape, axes, k); `what` names it
  /// in the refusal. An input of the model whose value the caller gave is specialised on it.
  HostTensor constant_input(int i, std::string_view what);
  /// constant_input as integers (any integer type, any shape, row-major).
  std::vector<int64_t> ints_input(int i, std::string_view what);
  /// One integer; refuses more or fewer elements.
  int64_t int_input(int i, std::string_view what);
  double double_input(int i, std::string_view what);
  /// The value if it is known without specialising, else nullptr.
  const HostTensor* known_input(int i);

  // Attributes: the wrong type is a refusal, as is the absence of one that has no default.
  bool has_attr(std::string_view name) const { return find_attr(name) != nullptr; }
  int64_t int_attr(std::string_view name) const;
  int64_t int_attr(std::string_view name, int64_t otherwise) const;
  bool bool_attr(std::string_view name, bool otherwise) const {
    return int_attr(name, otherwise ? 1 : 0) != 0;
  }
  float float_attr(std::string_view name) const;
  float float_attr(std::string_view name, float otherwise) const;
  std::string string_attr(std::string_view name) const;
  std::string string_attr(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> ints_attr(std::string_view name, std::vector<int64_t> otherwise) const;
  /// nullopt when absent.
  std::optional<std::vector<int64_t>> ints_attr(std::string_view name) const;
  std::optional<std::vector<float>> floats_attr(std::string_view name) const;
  std::optional<std::vector<std::string>> strings_attr(std::string_view name) const;
  /// nullopt when absent.
  std::optional<HostTensor> tensor_attr(std::string_view name) const;
  /// An ONNX TensorProto.DataType number as a DType; refuses those without one.
  DType dtype_attr(std::string_view name) const;
  DType dtype_attr(std::string_view name, DType otherwise) const;
  const GraphDef& graph_attr(std::string_view name) const;
  /// An axis brought into [0, rank).
  int64_t axis_attr(std::string_view name, int64_t otherwise, int64_t rank) const;
  const Attribute* find_attr(std::string_view name) const;

  // Outputs.
  int output_count() const { return static_cast<int>(node_.outputs.size()); }
  /// Whether the model names (and so may use) output i.
  bool wants_output(int i) const;
  /// Ignored when the model does not name output i.
  void set_output(int i, ValueId v);
  void set_sequence(int i, std::vector<ValueId> values);
  const std::vector<ValueId>& outputs() const { return outputs_; }

  [[noreturn]] void unsupported(std::string reason) const { refuse_unsupported(std::move(reason)); }
  [[noreturn]] void invalid(std::string reason) const { refuse_invalid(std::move(reason)); }
  /// Refuses (kInvalidInput) unless `condition`.
  void require(bool condition, std::string_view message) const {
    weft::onnx::require(condition, message);
  }

  GraphImporter& importer() { return importer_; }
  const NodeDef& node() const { return node_; }
  /// The names around the node, for the importer.
  Scope& scope() const { return scope_; }
  /// What the node is called in errors and explanations.
  const std::string& origin() const { return origin_; }

 private:
  const Attribute& need_attr(std::string_view name, AttributeType type) const;
  const Attribute* typed_attr(std::string_view name, AttributeType type) const;

  GraphImporter& importer_;
  Scope& scope_;
  const NodeDef& node_;
  int64_t opset_;
  std::string origin_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
};

/// One operator from one opset version on. Of several rows for an operator the highest that the
/// model's opset reaches counts. `domain` is "" for ai.onnx, "com.microsoft", ….
struct Translator {
  std::string_view domain;
  std::string_view op_type;
  int min_opset;
  void (*translate)(OpContext&);
};
using TranslatorTable = std::span<const Translator>;

/// One table per file of translators; translator_table.cpp assembles them. A file defines its own
/// with internal linkage functions:
///     const Translator kRows[] = {{"", "Softmax", 1, translate_softmax}, …};
///     TranslatorTable softmax_translators() { return kRows; }
TranslatorTable elementwise_translators();
TranslatorTable shape_translators();
TranslatorTable movement_translators();
TranslatorTable pad_translators();
TranslatorTable constant_translators();
TranslatorTable gather_scatter_translators();
TranslatorTable sequence_translators();
TranslatorTable control_flow_translators();

TranslatorTable activation_translators();
TranslatorTable reduction_translators();
TranslatorTable softmax_translators();
TranslatorTable matmul_translators();
TranslatorTable convolution_translators();
TranslatorTable pooling_translators();
TranslatorTable normalization_translators();
TranslatorTable recurrent_translators();
TranslatorTable quantization_translators();
TranslatorTable attention_translators();
TranslatorTable resize_translators();
TranslatorTable loss_translators();
TranslatorTable selection_translators();  ///< TopK, Unique, OneHot, Trilu, NonMaxSuppression, …
TranslatorTable signal_translators();     ///< DFT, STFT, windows, MelWeightMatrix
TranslatorTable random_translators();
// Operators that onnxruntime's optimiser and quantiser write (com.microsoft).
TranslatorTable fused_translators();
TranslatorTable fused_attention_translators();
TranslatorTable low_bit_translators();  ///< weights of 2, 4 or 8 bits
TranslatorTable gated_translators();
TranslatorTable mixture_translators();  ///< of experts
TranslatorTable quantized_operator_translators();

/// The row for an operator, or nullptr.
const Translator* translator_of(std::string_view domain, std::string_view op_type, int64_t opset);

}  // namespace weft::onnx
