#pragma once

#include <optional>

#include "rewrite/graph_rebuilder.h"
#include "rewrite/index_lines.h"

namespace weft {

/// A node of one result that may not come to be.
struct CandidateNode {
  GraphOp op;
  Attributes attrs;
  std::vector<ValueId> operands;
  TensorType type;
  int32_t origin = -1;
};

/// The state of simplify_graph: rules look at a candidate and at the nodes that make its operands,
/// which are simple already, and return a value that stands for it. Rules in simplify_movement.cpp,
/// simplify_scatter.cpp and simplify_elementwise.cpp.
class Simplifier {
 public:
  explicit Simplifier(Graph& graph);

  bool run();

 private:
  using Rewrite = std::optional<ValueId>;

  /// The value of a candidate: what a rule gives, else a new node.
  ValueId make(CandidateNode candidate);
  Rewrite simplify(const CandidateNode& c);

  Rewrite simplify_broadcast(const CandidateNode& c);
  Rewrite simplify_reshape(const CandidateNode& c);
  Rewrite simplify_transpose(const CandidateNode& c);
  Rewrite simplify_slice(const CandidateNode& c);
  Rewrite slice_of_concat(const CandidateNode& c, const Node& concat);
  Rewrite slice_of_scan(const CandidateNode& c, const Node& scan);
  Rewrite slice_of_pad(const CandidateNode& c, const Node& pad);
  Rewrite simplify_pad(const CandidateNode& c);
  Rewrite simplify_concat(const CandidateNode& c);
  /// Slices of one tensor that follow each other along `axis` become one.
  bool join_slices(std::vector<ValueId>& operands, size_t axis);
  Rewrite simplify_gather(const CandidateNode& c);
  Rewrite simplify_scatter(const CandidateNode& c);
  ValueId replace_box(ValueId data, ValueId update, const Shape& start, size_t axis,
                      const CandidateNode& c);
  ValueId updated_where(ValueId is_updated, ValueId update, ValueId data, const CandidateNode& c);
  Rewrite scatter_of_rows(const CandidateNode& c);
  Rewrite scatter_to_grid(const CandidateNode& c);
  ValueId updates_by_axis(const std::vector<IndexLine>& lines, const CandidateNode& c);
  bool varies_along_only(ValueId v, size_t axis) const;
  Rewrite simplify_reduce(const CandidateNode& c);

  Rewrite simplify_elementwise(const CandidateNode& c);
  Rewrite simplify_unary(ScalarOp op, const CandidateNode& c);
  Rewrite simplify_binary(ScalarOp op, const CandidateNode& c);
  Rewrite simplify_by_constant(ScalarOp op, ValueId x, const HostTensor& element,
                               const CandidateNode& c);
  Rewrite simplify_select(const CandidateNode& c);
  Rewrite simplify_convert(const CandidateNode& c);
  ValueId without_clamp(ValueId x, DType to);

  /// The scalar that `v` is a broadcast of.
  std::optional<ValueId> broadcast_scalar(ValueId v) const;
  bool is_read_once(ValueId v) const;

  const TensorType& type(ValueId v) const { return rebuild_.type(v); }
  const Shape& shape(ValueId v) const { return rebuild_.type(v).shape; }

  Graph& graph_;
  GraphRebuilder rebuild_;
  std::vector<int32_t> reads_;  ///< of the values of the graph as it was
};

}  // namespace weft
