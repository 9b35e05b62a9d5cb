#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "expr/layout.h"
#include "expr/scalar_expr.h"
#include "graph/graph.h"
#include "index/index_map.h"

namespace weft {

using TensorId = int32_t;
using ExprId = int32_t;

struct Tensor {
  enum class Kind : uint8_t { kInput, kConstant, kIntermediate };
  std::string name;
  TensorType type;
  Kind kind = Kind::kIntermediate;
  bool is_output = false;
  HostTensor value;  ///< of kConstant
  /// The shape that the model gives it, where `type` is a row-major view of it (see split_axes);
  /// outputs are known under it outside the program. Empty: the same.
  Shape declared;
  /// Physical order of the elements; inputs, outputs and constants of the model are row-major.
  Layout layout;
};

/// The tensor's type in the model.
TensorType declared_type(const Tensor& tensor);

/// out[d0, …, dn-1] = combiner over (dn, …, dn+m-1) of body, or body itself where there is no
/// reduction axis. Variables 0..n-1 run over `extents` (the output's shape), n..n+m-1 over
/// `reduce_extents`.
struct TensorExpr {
  TensorId output = -1;
  std::vector<int64_t> extents;
  std::vector<int64_t> reduce_extents;
  Combiner combiner = Combiner::kSum;
  /// Element type that the reduction accumulates in; the output's type rounds it once at the end.
  DType accumulator = DType::kF32;
  ScalarRef body;
  /// arg reductions: the output is the position along the one reduction axis.
  bool last_on_ties = false;
  /// Contraction of the model (dot_general or convolution): the kernel that holds it counts as
  /// compute.
  bool is_contraction = false;
  std::vector<int32_t> origins;  ///< Graph::origins, ascending
  /// By variable: whether its extent depends on a dimension that the model leaves open; empty where
  /// none is known to. Schedules choose tiles that do not depend on such an extent.
  std::vector<bool> open;

  bool is_open(int var) const { return !open.empty() && open[static_cast<size_t>(var)]; }
  int output_rank() const { return static_cast<int>(extents.size()); }
  int axis_count() const { return static_cast<int>(extents.size() + reduce_extents.size()); }
  Interval range(int var) const;
};

/// What no expression covers: sort, top_k, scatter, cumulative over long axes, if, while, scan. Its
/// own step, never fused. A region is a program of its own whose inputs are the region's.
struct OpaqueExpr {
  Node node;  ///< op and attributes; its ValueIds are not used
  std::vector<TensorId> operands;
  std::vector<TensorId> results;
  std::vector<std::shared_ptr<struct TensorProgram>> regions;
  std::vector<int32_t> origins;
};

/// One tensor expression per op, in topological order.
struct TensorProgram {
  std::vector<Tensor> tensors;
  struct Step {
    bool opaque = false;
    int32_t index = 0;  ///< into exprs or opaques
  };
  std::vector<TensorExpr> exprs;
  std::vector<OpaqueExpr> opaques;
  std::vector<Step> steps;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<std::string> output_names;
  std::vector<Origin> origins;
};

/// Producer and consumers of every tensor, as positions in `steps` (-1: an input or constant).
struct TensorUses {
  std::vector<int32_t> producer;
  std::vector<std::vector<int32_t>> consumers;
};
TensorUses tensor_uses(const TensorProgram& program);

Status verify_tensor_program(const TensorProgram& program);
std::string print(const TensorProgram& program);
/// Inverse of print; the result is verified. `constant_of_hash` supplies constants that were too
/// large to print. Errors (kInvalidInput) begin with "line:column: ".
Result<TensorProgram> parse_tensor_program(
    std::string_view text,
    const std::function<Result<HostTensor>(std::string_view hash, const TensorType&)>&
        constant_of_hash = {});
/// Reference meaning: direct evaluation of each expression. For tests; opaque steps go through the
/// interpreter.
Result<std::vector<HostTensor>> evaluate(const TensorProgram& program,
                                         const std::vector<HostTensor>& inputs);

}  // namespace weft
