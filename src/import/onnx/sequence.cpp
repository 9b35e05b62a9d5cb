#include <fmt/format.h>

#include <algorithm>

#include "import/onnx/graph_importer.h"
#include "import/onnx/translator.h"

// Sequences of tensors as lists that exist only while importing: lengths and positions must be
// known, and no sequence may be an input or output of the model or the state of a loop that stays
// one.

namespace weft::onnx {
namespace {

/// A position in a list of `count`, negative ones from the end; `count` itself only for inserting.
size_t position_input(OpContext& n, int i, size_t count, bool may_be_end) {
  const int64_t position = n.int_input(i, "the position in a sequence");
  const auto size = static_cast<int64_t>(count);
  const int64_t wrapped = position < 0 ? position + size : position;
  n.require(wrapped >= 0 && (wrapped < size || (may_be_end && wrapped == size)),
            fmt::format("position {} is not in a sequence of {}", position, count));
  return static_cast<size_t>(wrapped);
}

void translate_construct(OpContext& n) {
  std::vector<ValueId> values;
  for (int i = 0; i < n.input_count(); ++i) values.push_back(n.input(i));
  n.set_sequence(0, std::move(values));
}

void translate_empty(OpContext& n) { n.set_sequence(0, {}); }

void translate_insert(OpContext& n) {
  std::vector<ValueId> values = n.sequence_input(0);
  const size_t at = n.has_input(2) ? position_input(n, 2, values.size(), true) : values.size();
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(at), n.input(1));
  n.set_sequence(0, std::move(values));
}

void translate_erase(OpContext& n) {
  std::vector<ValueId> values = n.sequence_input(0);
  n.require(!values.empty(), "an empty sequence has nothing to erase");
  const size_t at = n.has_input(1) ? position_input(n, 1, values.size(), false) : values.size() - 1;
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
  n.set_sequence(0, std::move(values));
}

void translate_at(OpContext& n) {
  const std::vector<ValueId> values = n.sequence_input(0);
  n.set_output(0, values[position_input(n, 1, values.size(), false)]);
}

void translate_length(OpContext& n) {
  n.set_output(0, n.b.scalar_int(DType::kI64, static_cast<int64_t>(n.sequence_input(0).size())));
}

/// Sizes of the pieces: given, or all of one size but the last.
std::vector<int64_t> piece_sizes(OpContext& n, int64_t extent) {
  if (n.has_input(1) && n.b.rank(n.input(1)) == 1) return n.ints_input(1, "the sizes of a split");
  const int64_t size = n.has_input(1) ? n.int_input(1, "the size of a split") : 1;
  n.require(size >= 1, "pieces must hold something");
  std::vector<int64_t> sizes;
  constexpr int64_t kMaxPieces = 1 << 16;
  if (extent / size > kMaxPieces) n.unsupported("a sequence of so many tensors");
  for (int64_t left = extent; left > 0; left -= size) sizes.push_back(std::min(left, size));
  return sizes;
}

void translate_split_to_sequence(OpContext& n) {
  const ValueId x = n.input(0);
  const int64_t axis = n.axis_attr("axis", 0, n.b.rank(x));
  const bool drops_axis = !n.has_input(1) && !n.bool_attr("keepdims", true);
  std::vector<ValueId> pieces;
  int64_t begin = 0;
  for (int64_t size : piece_sizes(n, n.b.extent(x, axis))) {
    n.require(size >= 0 && size <= n.b.extent(x, axis) - begin, "the sizes exceed the axis");
    const ValueId piece = n.b.slice_axis(x, axis, begin, begin + size);
    pieces.push_back(drops_axis ? n.b.squeeze(piece, {axis}) : piece);
    begin += size;
  }
  n.require(begin == n.b.extent(x, axis), "the sizes do not make up the axis");
  n.set_sequence(0, std::move(pieces));
}

void translate_concat_from_sequence(OpContext& n) {
  std::vector<ValueId> values = n.sequence_input(0);
  n.require(!values.empty(), "an empty sequence has nothing to concatenate");
  const int64_t axis = n.int_attr("axis");
  if (n.bool_attr("new_axis", false)) {
    for (ValueId& v : values) v = n.b.unsqueeze(v, {axis});
  }
  GraphBuilder::normal_axis(axis, n.b.rank(values[0]));
  n.set_output(0, n.b.concat(values, axis));
}

/// The body once for each element of the first sequence; the others give an element or the same
/// tensor each time.
void translate_map(OpContext& n) {
  const GraphDef& body = n.graph_attr("body");
  const size_t count = n.sequence_input(0).size();
  std::vector<std::vector<ValueId>> results(body.outputs.size());
  for (size_t k = 0; k < count; ++k) {
    std::vector<ValueId> arguments;
    for (int i = 0; i < n.input_count(); ++i) {
      if (!n.is_sequence_input(i)) {
        arguments.push_back(n.input(i));
        continue;
      }
      const std::vector<ValueId> values = n.sequence_input(i);
      n.require(values.size() == count, "the sequences differ in length");
      arguments.push_back(values[k]);
    }
    const std::vector<ValueId> outputs = n.importer().import_subgraph(body, n, n.b, arguments);
    for (size_t i = 0; i < outputs.size(); ++i) results[i].push_back(outputs[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    n.set_sequence(static_cast<int>(i), std::move(results[i]));
  }
}

const Translator kRows[] = {
    {"", "ConcatFromSequence", 11, translate_concat_from_sequence},
    {"", "SequenceAt", 11, translate_at},
    {"", "SequenceConstruct", 11, translate_construct},
    {"", "SequenceEmpty", 11, translate_empty},
    {"", "SequenceErase", 11, translate_erase},
    {"", "SequenceInsert", 11, translate_insert},
    {"", "SequenceLength", 11, translate_length},
    {"", "SequenceMap", 17, translate_map},
    {"", "SplitToSequence", 11, translate_split_to_sequence},
};

}  // namespace

TranslatorTable sequence_translators() { return kRows; }

}  // namespace weft::onnx
