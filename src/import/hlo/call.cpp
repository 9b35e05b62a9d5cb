#include <fmt/format.h>

#include <algorithm>

#include "import/hlo/linear_algebra.h"
#include "import/hlo/scalar_computation.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

/// Beyond it a chain of choices nests deeper than regions may.
constexpr size_t kMaxBranches = 32;

std::vector<Leaves> all_leaves(InstructionContext& n) {
  std::vector<Leaves> arguments;
  for (size_t i = 0; i < n.operand_count(); ++i) arguments.push_back(n.leaves(i));
  return arguments;
}

void call_in_place(InstructionContext& n, const HloComputation& computation) {
  n.set_results(
      n.importer().translate(computation, all_leaves(n), n.called_frame(n.b, n.frame().lanes)));
}

void translate_call(InstructionContext& n) { call_in_place(n, n.computation("to_apply")); }

void translate_fusion(InstructionContext& n) { call_in_place(n, n.computation("calls")); }

void translate_map(InstructionContext& n) {
  n.require(n.operand_count() >= 1, "takes an operand");
  const std::vector<ValueId> values = n.operands(0, n.operand_count());
  for (const ValueId v : values) {
    n.require(n.b.shape(v) == n.b.shape(values[0]), "the operands' shapes differ");
  }
  n.set_results(apply_to_lanes(n, n.b, n.computation("to_apply"), values, n.b.shape(values[0])));
}

struct Branch {
  const HloComputation& computation;
  Leaves arguments;  ///< of the graph around
};

/// The branch's instructions in a region of `around`, whose values the arguments are.
void import_branch(InstructionContext& n, const Branch& branch, GraphBuilder& region) {
  Leaves arguments;
  for (const ValueId v : branch.arguments) arguments.push_back(region.capture(v));
  for (const ValueId v :
       n.importer().translate(branch.computation, {arguments}, n.called_frame(region))) {
    region.result(n.importer().whole(v));
  }
}

/// The first branch where `index` is 0, …, the last where it is anything else.
std::vector<ValueId> choose(InstructionContext& n, GraphBuilder& b, ValueId index,
                            const std::vector<Branch>& branches, size_t first) {
  GraphBuilder then(&b), otherwise(&b);
  then.runs_once();
  otherwise.runs_once();
  import_branch(n, branches[first], then);
  if (first + 2 == branches.size()) {
    import_branch(n, branches[first + 1], otherwise);
  } else {
    std::vector<Branch> rest;
    for (const Branch& branch : branches) {
      rest.push_back({branch.computation, {}});
      for (const ValueId v : branch.arguments) {
        rest.back().arguments.push_back(otherwise.capture(v));
      }
    }
    for (const ValueId v : choose(n, otherwise, otherwise.capture(index), rest, first + 1)) {
      otherwise.result(v);
    }
  }
  const ValueId number = b.scalar_int(b.dtype(index), static_cast<int64_t>(first));
  const ValueId chosen = b.binary(ScalarOp::kEq, index, number);
  return b.make_if(chosen, then, otherwise);
}

std::vector<std::string_view> branch_names(InstructionContext& n, bool by_truth) {
  if (n.find("branch_computations")) return parse_names(n.attribute("branch_computations"));
  n.require(by_truth, "has no branch_computations");
  return {n.word("true_computation"), n.word("false_computation")};
}

void translate_conditional(InstructionContext& n) {
  ValueId index = n.operand(0);
  const bool by_truth = n.b.dtype(index) == DType::kBool;
  n.require(n.b.size(index) == 1 && (by_truth || n.b.dtype(index) == DType::kI32),
            "what chooses a branch is one pred or s32");
  const std::vector<std::string_view> names = branch_names(n, by_truth);
  n.require(!names.empty(), "has no branches");
  n.expect_operands(names.size() + 1);
  if (names.size() > kMaxBranches) {
    refuse_unsupported(
        fmt::format("{} branches (up to {} are supported)", names.size(), kMaxBranches));
  }
  std::vector<Branch> branches;
  for (size_t i = 0; i < names.size(); ++i) {
    branches.push_back({n.importer().find(names[i], n.instruction()), {}});
    for (const ValueId v : n.leaves(i + 1)) {
      branches.back().arguments.push_back(n.importer().whole(v));
    }
  }
  index = n.b.reshape(index, {});
  if (by_truth)
    index = n.b.select(index, n.b.scalar_int(DType::kI32, 0), n.b.scalar_int(DType::kI32, 1));
  const auto last = static_cast<int64_t>(branches.size()) - 1;
  const HostTensor* known = n.b.constant_value(index);
  if (known != nullptr || last == 0) {
    const int64_t at = last == 0 ? 0 : known->at_int(0);
    const Branch& taken = branches[static_cast<size_t>(at < 0 || at > last ? last : at)];
    return n.set_results(
        n.importer().translate(taken.computation, {taken.arguments}, n.called_frame(n.b)));
  }
  n.set_results(choose(n, n.b, index, branches, 0));
}

/// Marks for the partitioner and the scheduler, which say nothing of values.
constexpr std::string_view kMarks[] = {"Sharding",
                                       "SPMDFullToShardShape",
                                       "SPMDShardToFullShape",
                                       "annotate_device_placement",
                                       "LayoutConstraint",
                                       "xla.sdy.FuncResultSharding",
                                       "xla.sdy.Sharding"};

void translate_top_k(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  const HloShape& shape = n.shape();
  n.require(shape.kind == HloShape::Kind::kTuple && shape.elements.size() == 2 &&
                !shape.elements[0].dims.empty() && shape.elements[1].dtype &&
                is_integer(*shape.elements[1].dtype),
            "gives values and places");
  TopKAttrs attrs;
  attrs.axis = n.b.rank(x) - 1;
  attrs.k = shape.elements[0].dims.back();
  attrs.largest = n.flag("largest", true);
  const auto [values, places] = n.b.top_k(x, attrs);
  n.set_results({values, n.b.convert(places, *shape.elements[1].dtype)});
}

void translate_custom_call(InstructionContext& n) {
  const std::string_view target = n.word("custom_call_target");
  if (target == "TopK") return translate_top_k(n);
  if (std::ranges::find(kMarks, target) != std::end(kMarks) && n.operand_count() == 1) {
    return n.set_results(n.leaves(0));
  }
  if (translate_linear_algebra_call(n, target)) return;
  refuse_unsupported(fmt::format("it calls '{}', which is code outside of the module", target));
}

const Translator kRows[] = {
    {"call", translate_call, true},
    {"fusion", translate_fusion, true},
    {"map", translate_map},
    {"conditional", translate_conditional},
    {"custom-call", translate_custom_call},
    {"topk", translate_top_k},
};

}  // namespace

TranslatorTable call_translators() { return kRows; }

}  // namespace weft::hlo
