#include "quantize/quantize_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <protozero/exception.hpp>
#include <protozero/pbf_writer.hpp>
#include <span>

#include "import/builder/refusal.h"
#include "import/onnx/read_model.h"
#include "import/onnx/tensor_proto.h"
#include "quantize/model_text.h"
#include "quantize/quantize_weights.h"

namespace weft::onnx {
namespace {

constexpr const char* kContrib = "com.microsoft";
/// DequantizeLinear has an axis from this opset on; before, onnxruntime's own has it.
constexpr int64_t kAxisOpset = 13;
/// A protobuf message is smaller than this.
constexpr size_t kMostBytes = size_t{1} << 31;

int64_t int_attribute(const NodeDef& node, std::string_view name, int64_t otherwise) {
  for (const Attribute& a : node.attributes) {
    if (a.name == name) return a.i;
  }
  return otherwise;
}

float float_attribute(const NodeDef& node, std::string_view name, float otherwise) {
  for (const Attribute& a : node.attributes) {
    if (a.name == name) return a.f;
  }
  return otherwise;
}

/// A node with constant weights.
struct Layer {
  size_t node = 0;
  std::string_view weights;
  int64_t channels = 0;  ///< axis of the weights
  bool in_blocks = false;
};

class ModelQuantizer {
 public:
  ModelQuantizer(const ModelDef& model, const QuantizeOptions& options)
      : model_(model), options_(options), source_{model.owner, model.folder} {
    for (const TensorDef& t : model.graph.initializers) initializers_.emplace(t.name, &t);
    for (const NodeDef& node : model.graph.nodes) {
      if (node.op_type != "Constant" || !node.domain.empty() || node.outputs.empty()) continue;
      for (const Attribute& a : node.attributes) {
        if (a.name == "value" && a.t) initializers_.emplace(node.outputs[0], &*a.t);
      }
    }
  }

  QuantizedModel run(std::string_view model);

 private:
  void find_layers();
  std::optional<Layer> layer_of(size_t node) const;
  void quantize_weights();
  std::string node_in_blocks(const Layer& layer);
  std::string with_quantized_values(const Layer& layer, std::string_view node, std::string* before,
                                    std::string* after);
  std::string nodes_around(const std::string& from, const std::string& to, ValueRange range);
  std::string graph(std::string_view message);
  std::string fresh(std::string_view name, std::string_view suffix);
  bool uses_contrib() const;
  std::string domain() const { return opset() < kAxisOpset ? kContrib : ""; }
  int64_t opset() const {
    const auto found = model_.opsets.find("");
    return found == model_.opsets.end() ? 1 : found->second;
  }

  const ModelDef& model_;
  const QuantizeOptions& options_;
  TensorSource source_;
  std::map<std::string_view, const TensorDef*> initializers_;  ///< and constant nodes, by value
  std::map<size_t, Layer> layers_;                             ///< by node
  std::set<std::string> names_;                                ///< of values
  std::map<std::string_view, std::pair<std::string, std::string>> quantized_;  ///< by weights
  std::map<std::string, std::string> dequantized_;  ///< of the layers' inputs: their other names
  std::string tensors_, first_nodes_;
  QuantizedModel out_;
};

std::optional<Layer> ModelQuantizer::layer_of(size_t node) const {
  const NodeDef& n = model_.graph.nodes[node];
  if (!n.domain.empty() || n.inputs.size() < 2 || n.outputs.empty()) return std::nullopt;
  if (options_.exclude.contains(std::string(n.name))) return std::nullopt;
  const auto found = initializers_.find(n.inputs[1]);
  const bool given = std::ranges::any_of(model_.graph.inputs,
                                         [&](const ValueDef& v) { return v.name == n.inputs[1]; });
  if (given || found == initializers_.end() ||
      element_type(found->second->message) != static_cast<int64_t>(OnnxType::kFloat))
    return std::nullopt;
  Layer layer{node, n.inputs[1], 1, options_.bits == 4};
  const size_t rank = read_tensor(found->second->message, source_).shape().size();
  if (n.op_type == "MatMul" || n.op_type == "Gemm") {
    if (rank != 2) return std::nullopt;
    if (int_attribute(n, "transB", 0) != 0) layer.channels = 0;
    layer.in_blocks &= int_attribute(n, "transA", 0) == 0 && float_attribute(n, "alpha", 1) == 1 &&
                       float_attribute(n, "beta", 1) == 1;
    return layer;
  }
  if (n.op_type != "Conv" || rank < 3) return std::nullopt;
  layer.channels = 0;
  layer.in_blocks = false;
  return layer;
}

/// Layers whose weights nothing else reads, or reads in another way.
void ModelQuantizer::find_layers() {
  std::map<std::string_view, std::vector<size_t>> readers;
  std::set<std::string> unknown = options_.exclude;
  for (size_t i = 0; i < model_.graph.nodes.size(); ++i) {
    const NodeDef& node = model_.graph.nodes[i];
    unknown.erase(std::string(node.name));
    for (const std::string_view name : node.outputs) names_.emplace(name);
    for (const std::string_view name : node.inputs) readers[name].push_back(i);
  }
  for (const ValueDef& v : model_.graph.inputs) names_.emplace(v.name);
  for (const auto& [name, tensor] : initializers_) names_.emplace(name);
  if (!unknown.empty()) refuse_invalid(fmt::format("no node is called '{}'", *unknown.begin()));
  for (const auto& [weights, nodes] : readers) {
    std::vector<Layer> found;
    for (const size_t node : nodes) {
      const std::optional<Layer> layer = layer_of(node);
      if (layer && layer->weights == weights) found.push_back(*layer);
    }
    const bool alone =
        found.size() == nodes.size() && !found.empty() &&
        std::ranges::all_of(found, [&](const Layer& l) {
          return l.channels == found[0].channels && l.in_blocks == found[0].in_blocks;
        });
    const bool is_output = std::ranges::any_of(
        model_.graph.outputs, [&](const ValueDef& v) { return v.name == weights; });
    if (!alone || is_output) continue;
    for (const Layer& l : found) layers_.emplace(l.node, l);
  }
}

std::string ModelQuantizer::fresh(std::string_view name, std::string_view suffix) {
  std::string out = fmt::format("{}_{}", name, suffix);
  while (!names_.insert(out).second) out += "_";
  return out;
}

/// The weights of all layers; drops those that hold no finite numbers.
void ModelQuantizer::quantize_weights() {
  std::map<std::string_view, std::pair<QuantizedWeights, int64_t>> done;
  for (auto it = layers_.begin(); it != layers_.end();) {
    const Layer& layer = it->second;
    if (!done.contains(layer.weights)) {
      const HostTensor w = read_tensor(initializers_.at(layer.weights)->message, source_);
      const std::span values(w.data<float>(), static_cast<size_t>(w.size()));
      if (w.size() == 0 || !std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) {
        it = layers_.erase(it);
        continue;
      }
      QuantizedWeights made = layer.in_blocks ? quantize_in_blocks(w, layer.channels == 0)
                                              : quantize_per_channel(w, layer.channels);
      const std::string values_name = fresh(layer.weights, "quantized");
      const std::string scale_name = fresh(layer.weights, "scale");
      append_bytes(&tensors_, 5, tensor_message(values_name, made.values));
      append_bytes(&tensors_, 5, tensor_message(scale_name, made.scales));
      quantized_.emplace(layer.weights, std::pair(values_name, scale_name));
      if (!layer.in_blocks) {
        append_bytes(&first_nodes_, 1,
                     node_message(fresh(layer.weights, "dequantize"), domain(), "DequantizeLinear",
                                  {values_name, scale_name}, {std::string(layer.weights)},
                                  {{"axis", layer.channels}}));
      }
      done.emplace(layer.weights, std::pair(std::move(made), w.bytes()));
    }
    const auto& [made, before] = done.at(layer.weights);
    const NodeDef& node = model_.graph.nodes[layer.node];
    out_.layers.push_back({std::string(node.name), std::string(node.op_type),
                           std::string(node.inputs[0]), std::string(node.outputs[0]),
                           layer.in_blocks ? 4 : 8, made.error, before,
                           made.values.bytes() + made.scales.bytes()});
    ++it;
  }
}

/// MatMulNBits, and the bias of a Gemm.
std::string ModelQuantizer::node_in_blocks(const Layer& layer) {
  const NodeDef& node = model_.graph.nodes[layer.node];
  const HostTensor w = read_tensor(initializers_.at(layer.weights)->message, source_);
  const auto& [values, scales] = quantized_.at(layer.weights);
  const int64_t columns = w.shape()[static_cast<size_t>(layer.channels)];
  const std::string output(node.outputs[0]);
  const bool biased = node.inputs.size() > 2 && !node.inputs[2].empty();
  const std::string product = biased ? fresh(output, "product") : output;
  std::string out;
  append_bytes(
      &out, 1,
      node_message(
          node.name, kContrib, "MatMulNBits", {std::string(node.inputs[0]), values, scales},
          {product},
          {{"K", w.size() / columns}, {"N", columns}, {"bits", 4}, {"block_size", kBlock}}));
  if (biased) {
    append_bytes(&out, 1,
                 node_message(std::string(node.name) + "_bias", "", "Add",
                              {product, std::string(node.inputs[2])}, {output}));
  }
  return out;
}

/// QuantizeLinear and DequantizeLinear from one name to another.
std::string ModelQuantizer::nodes_around(const std::string& from, const std::string& to,
                                         ValueRange range) {
  constexpr float kSteps = 255;
  const float low = std::min(range.low, 0.0F), high = std::max(range.high, 0.0F);
  float scale = (high - low) / kSteps;
  if (!(scale >= std::numeric_limits<float>::min())) scale = 1;
  HostTensor scales(DType::kF32, {}), zeros(DType::kU8, {});
  scales.mutable_data<float>()[0] = scale;
  zeros.mutable_data<uint8_t>()[0] =
      static_cast<uint8_t>(std::clamp(std::nearbyint(-low / scale), 0.0F, kSteps));
  const std::string s = fresh(to, "scale"), z = fresh(to, "zero"), q = fresh(to, "quantized");
  append_bytes(&tensors_, 5, tensor_message(s, scales));
  append_bytes(&tensors_, 5, tensor_message(z, zeros));
  std::string out;
  append_bytes(&out, 1, node_message(q + "_node", domain(), "QuantizeLinear", {from, s, z}, {q}));
  append_bytes(&out, 1, node_message(to + "_node", domain(), "DequantizeLinear", {q, s, z}, {to}));
  return out;
}

/// The node with its input and its output quantised, where their ranges are known.
std::string ModelQuantizer::with_quantized_values(const Layer& layer, std::string_view node,
                                                  std::string* before, std::string* after) {
  const NodeDef& def = model_.graph.nodes[layer.node];
  const std::string input(def.inputs[0]), output(def.outputs[0]);
  std::string made;
  if (const auto range = options_.ranges.find(output); range != options_.ranges.end()) {
    made = fresh(output, "exact");
    *after = nodes_around(made, output, range->second);
    dequantized_[output] = output;
  }
  if (const auto range = options_.ranges.find(input); range != options_.ranges.end()) {
    auto& name = dequantized_[input];
    if (name.empty()) {
      name = fresh(input, "rounded");
      *before = nodes_around(input, name, range->second);
    }
  }
  const auto read = dequantized_.find(input);
  std::string out;
  bool is_first = true;
  copy_fields(node, &out, [&](uint32_t field, std::string_view bytes) {
    if (field == 1 && std::exchange(is_first, false) && read != dequantized_.end()) {
      append_bytes(&out, 1, read->second);
      return true;
    }
    if (field != 2 || made.empty() || bytes != output) return false;
    append_bytes(&out, 2, made);
    return true;
  });
  return out;
}

std::string ModelQuantizer::graph(std::string_view message) {
  std::string nodes, rest;
  size_t node = 0;
  copy_fields(message, &rest, [&](uint32_t field, std::string_view bytes) {
    if (field == 1) {
      const NodeDef& def = model_.graph.nodes[node];
      const auto layer = layers_.find(node++);
      if (def.op_type == "Constant" && quantized_.contains(def.outputs[0])) return true;
      std::string before, after, own(bytes);
      if (layer == layers_.end()) {
        append_bytes(&nodes, 1, own);
        return true;
      }
      if (layer->second.in_blocks) {
        nodes += node_in_blocks(layer->second);
        return true;
      }
      own = with_quantized_values(layer->second, bytes, &before, &after);
      nodes += before;
      append_bytes(&nodes, 1, own);
      nodes += after;
      return true;
    }
    if (field != 5) return false;
    if (quantized_.contains(read_tensor_def(bytes).name)) return true;
    append_bytes(&rest, 5, held_tensor(bytes, source_));
    return true;
  });
  return first_nodes_ + nodes + rest + tensors_;
}

bool ModelQuantizer::uses_contrib() const {
  return opset() < kAxisOpset ||
         std::ranges::any_of(layers_, [](const auto& l) { return l.second.in_blocks; });
}

QuantizedModel ModelQuantizer::run(std::string_view model) {
  find_layers();
  quantize_weights();
  if (layers_.empty())
    refuse_invalid("there is no MatMul, Gemm or Conv with constant weights of float32");
  copy_fields(model, &out_.bytes, [&](uint32_t field, std::string_view bytes) {
    if (field != 7) return false;
    append_bytes(&out_.bytes, 7, graph(bytes));
    return true;
  });
  if (uses_contrib() && !model_.opsets.contains(kContrib)) {
    std::string opset;
    append_bytes(&opset, 1, kContrib);
    protozero::pbf_writer(opset).add_int64(2, 1);
    append_bytes(&out_.bytes, 8, opset);
  }
  if (out_.bytes.size() >= kMostBytes)
    refuse_unsupported("the quantised model is larger than the 2 GiB of an ONNX file");
  return std::move(out_);
}

}  // namespace

Result<QuantizedModel> quantize_model(const MappedFile& model, const std::string& folder,
                                      const QuantizeOptions& options) {
  try {
    WEFT_ASSIGN_OR_RETURN(const ModelDef read, read_model(model, folder));
    const std::string_view bytes(reinterpret_cast<const char*>(model.bytes.data()),
                                 model.bytes.size());
    return ModelQuantizer(read, options).run(bytes);
  } catch (const Refusal& refusal) {
    return refusal.error();
  } catch (const protozero::exception&) {
    return invalid_input("not a model in protobuf form, or cut short");
  }
}

}  // namespace weft::onnx
