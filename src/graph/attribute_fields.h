#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "graph/graph.h"

namespace weft {

/// The attributes of each op as (name, member) pairs: visit("axis", attrs.axis) for every field, in
/// declaration order. The one list that printing, parsing, comparing and hashing attributes share.
/// Members are int64_t, bool, std::vector of either, or Combiner. A constant's value and an
/// elementwise node's operation are not here: they print in their own form.
template <typename Attrs, typename Visit>
void for_each_field(Attrs& attrs, Visit&& visit) {
  using A = std::remove_const_t<Attrs>;
  if constexpr (std::is_same_v<A, IotaAttrs> || std::is_same_v<A, ConcatAttrs> ||
                std::is_same_v<A, AxisAttrs>) {
    visit("axis", attrs.axis);
  } else if constexpr (std::is_same_v<A, BroadcastAttrs>) {
    visit("dims", attrs.dims);
  } else if constexpr (std::is_same_v<A, TransposeAttrs>) {
    visit("permutation", attrs.permutation);
  } else if constexpr (std::is_same_v<A, SliceAttrs>) {
    visit("start", attrs.start);
    visit("step", attrs.step);
  } else if constexpr (std::is_same_v<A, PadAttrs>) {
    visit("low", attrs.low);
    visit("high", attrs.high);
  } else if constexpr (std::is_same_v<A, GatherAttrs>) {
    visit("axis", attrs.axis);
    visit("batch_dims", attrs.batch_dims);
  } else if constexpr (std::is_same_v<A, GatherNdAttrs>) {
    visit("batch_dims", attrs.batch_dims);
  } else if constexpr (std::is_same_v<A, ScatterAttrs>) {
    visit("axis", attrs.axis);
    visit("combines", attrs.combines);
    visit("combiner", attrs.combiner);
  } else if constexpr (std::is_same_v<A, ReduceAttrs>) {
    visit("axes", attrs.axes);
    visit("combiner", attrs.combiner);
  } else if constexpr (std::is_same_v<A, ArgReduceAttrs>) {
    visit("axis", attrs.axis);
    visit("combiner", attrs.combiner);
    visit("last_on_ties", attrs.last_on_ties);
  } else if constexpr (std::is_same_v<A, WindowAttrs>) {
    visit("window", attrs.window);
    visit("strides", attrs.strides);
    visit("dilations", attrs.dilations);
    visit("low", attrs.low);
    visit("high", attrs.high);
    visit("combiner", attrs.combiner);
  } else if constexpr (std::is_same_v<A, CumulativeAttrs>) {
    visit("axis", attrs.axis);
    visit("combiner", attrs.combiner);
    visit("exclusive", attrs.exclusive);
    visit("reverse", attrs.reverse);
  } else if constexpr (std::is_same_v<A, DotAttrs>) {
    visit("lhs_batch", attrs.lhs_batch);
    visit("rhs_batch", attrs.rhs_batch);
    visit("lhs_contract", attrs.lhs_contract);
    visit("rhs_contract", attrs.rhs_contract);
  } else if constexpr (std::is_same_v<A, ConvolutionAttrs>) {
    visit("strides", attrs.strides);
    visit("low", attrs.low);
    visit("high", attrs.high);
    visit("lhs_dilations", attrs.lhs_dilations);
    visit("rhs_dilations", attrs.rhs_dilations);
    visit("groups", attrs.groups);
  } else if constexpr (std::is_same_v<A, SortAttrs>) {
    visit("axis", attrs.axis);
    visit("descending", attrs.descending);
  } else if constexpr (std::is_same_v<A, TopKAttrs>) {
    visit("axis", attrs.axis);
    visit("k", attrs.k);
    visit("largest", attrs.largest);
  } else if constexpr (std::is_same_v<A, WhileAttrs>) {
    visit("carry_count", attrs.carry_count);
  } else if constexpr (std::is_same_v<A, ScanAttrs>) {
    visit("carry_count", attrs.carry_count);
    visit("scanned_count", attrs.scanned_count);
    visit("x_reverse", attrs.x_reverse);
    visit("y_reverse", attrs.y_reverse);
  } else {
    static_assert(std::is_same_v<A, ConstantAttrs> || std::is_same_v<A, ElementwiseAttrs> ||
                      std::is_same_v<A, ReshapeAttrs> || std::is_same_v<A, IfAttrs>,
                  "attributes without a list of fields");
  }
}

/// Whether `attrs` holds the alternative that ops.def gives for `op`.
bool attributes_match(GraphOp op, const Attributes& attrs);
/// The alternative of `op`, default-constructed.
Attributes default_attributes(GraphOp op);
/// Same alternative, same fields; constants by type and bytes.
bool equal_attributes(const Attributes& a, const Attributes& b);
/// Equal attributes hash equally.
uint64_t hash_attributes(const Attributes& attrs);
/// Every field as `name=value`.
std::vector<std::string> print_attributes(const Attributes& attrs);

}  // namespace weft
