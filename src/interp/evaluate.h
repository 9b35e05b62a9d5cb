#pragma once

#include <vector>

#include "graph/graph.h"

namespace weft {

/// One node on aligned operands of the declared types: the reference meaning of each kind of op.
/// `type` is the declared type of the (first) result. The nodes with regions are in
/// interpreter.cpp, since they need the graph walk.
using Operands = std::vector<HostTensor>;

// elementwise.cpp
HostTensor evaluate_elementwise(ScalarOp op, const Operands& operands, const TensorType& type);
HostTensor evaluate_iota(int64_t axis, const TensorType& type);

// movement.cpp
HostTensor evaluate_broadcast(const BroadcastAttrs& attrs, const HostTensor& x,
                              const TensorType& type);
HostTensor evaluate_transpose(const TransposeAttrs& attrs, const HostTensor& x,
                              const TensorType& type);
HostTensor evaluate_slice(const SliceAttrs& attrs, const HostTensor& x, const TensorType& type);
HostTensor evaluate_pad(const PadAttrs& attrs, const Operands& operands, const TensorType& type);
HostTensor evaluate_concat(const ConcatAttrs& attrs, const Operands& operands,
                           const TensorType& type);

// reductions.cpp, windows.cpp
HostTensor evaluate_reduce(const ReduceAttrs& attrs, const HostTensor& x, const TensorType& type);
HostTensor evaluate_arg_reduce(const ArgReduceAttrs& attrs, const HostTensor& x,
                               const TensorType& type);
HostTensor evaluate_cumulative(const CumulativeAttrs& attrs, const HostTensor& x,
                               const TensorType& type);
HostTensor evaluate_reduce_window(const WindowAttrs& attrs, const HostTensor& x,
                                  const TensorType& type);

// contractions.cpp
HostTensor evaluate_dot_general(const DotAttrs& attrs, const Operands& operands,
                                const TensorType& type);
HostTensor evaluate_convolution(const ConvolutionAttrs& attrs, const Operands& operands,
                                const TensorType& type);

// gather_scatter.cpp
HostTensor evaluate_gather(const GatherAttrs& attrs, const Operands& operands,
                           const TensorType& type);
HostTensor evaluate_gather_elements(const AxisAttrs& attrs, const Operands& operands,
                                    const TensorType& type);
HostTensor evaluate_gather_nd(const GatherNdAttrs& attrs, const Operands& operands,
                              const TensorType& type);
HostTensor evaluate_scatter_elements(const ScatterAttrs& attrs, const Operands& operands,
                                     const TensorType& type);
HostTensor evaluate_scatter_nd(const ScatterAttrs& attrs, const Operands& operands,
                               const TensorType& type);

// sort.cpp: values and indices
std::vector<HostTensor> evaluate_sort(const SortAttrs& attrs, const HostTensor& x,
                                      const TensorType& type);
std::vector<HostTensor> evaluate_top_k(const TopKAttrs& attrs, const HostTensor& x,
                                       const TensorType& type);

}  // namespace weft
