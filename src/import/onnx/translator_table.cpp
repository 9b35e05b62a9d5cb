#include <map>
#include <utility>
#include <vector>

#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

constexpr TranslatorTable (*kTables[])() = {
    elementwise_translators,     shape_translators,
    movement_translators,        pad_translators,
    constant_translators,        gather_scatter_translators,
    sequence_translators,        control_flow_translators,
    activation_translators,      reduction_translators,
    softmax_translators,         matmul_translators,
    convolution_translators,     pooling_translators,
    normalization_translators,   recurrent_translators,
    quantization_translators,    attention_translators,
    resize_translators,          loss_translators,
    selection_translators,       signal_translators,
    random_translators,          fused_translators,
    fused_attention_translators, quantized_operator_translators,
    low_bit_translators,         mixture_translators,
    gated_translators,
};

using Rows =
    std::map<std::pair<std::string_view, std::string_view>, std::vector<const Translator*>>;

Rows all_rows() {
  Rows rows;
  for (const auto& table : kTables) {
    for (const Translator& row : table()) rows[{row.domain, row.op_type}].push_back(&row);
  }
  return rows;
}

}  // namespace

const Translator* translator_of(std::string_view domain, std::string_view op_type, int64_t opset) {
  static const Rows rows = all_rows();
  const auto found = rows.find({domain, op_type});
  if (found == rows.end()) return nullptr;
  const Translator* best = nullptr;
  for (const Translator* row : found->second) {
    if (row->min_opset <= opset && (best == nullptr || row->min_opset > best->min_opset)) {
      best = row;
    }
  }
  return best;
}

}  // namespace weft::onnx
