#include "import/hlo/loop.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::hlo {
namespace {

/// Captures of a region are looked up one by one.
constexpr size_t kMaxLeaves = 4096;

const HloInstruction& root_of(const HloComputation& c) {
  return c.instructions[static_cast<size_t>(c.root)];
}

const HloInstruction& operand_of(const HloComputation& c, const HloInstruction& i, size_t operand) {
  return c.instructions[static_cast<size_t>(i.operands[operand])];
}

/// Whether an element of the root comes out of a computation that is called.
bool is_called(const HloComputation& body, const HloInstruction& made) {
  if (made.opcode != "get-tuple-element" || made.operands.size() != 1) return false;
  const std::string_view opcode = operand_of(body, made, 0).opcode;
  return opcode == "call" || opcode == "fusion";
}

/// By value: whether the body's root takes it straight from the parameter.
std::vector<bool> invariants_by_root(InstructionContext& n, const Loop& loop) {
  const HloComputation& body = loop.body;
  std::vector<bool> invariant(loop.inits.size(), false);
  const HloInstruction& root = root_of(body);
  if (root.shape.leaf_count != invariant.size()) return invariant;
  for (size_t i = 0; i < root.operands.size(); ++i) {
    const HloInstruction* at = &operand_of(body, root, i);
    while (at->opcode == "copy" && at->operands.size() == 1) at = &operand_of(body, *at, 0);
    if (at->opcode != "get-tuple-element" || at->operands != body.parameters) continue;
    for (const HloAttribute& attribute : at->attributes) {
      if (attribute.name != "index") continue;
      const TextScanner value(n.importer().module().text, attribute.value);
      const bool same = parse_ints(value) == std::vector<int64_t>{static_cast<int64_t>(i)};
      const HloShape& element = root.shape.elements[i];
      for (size_t k = 0; k < element.leaf_count; ++k) invariant[element.first_leaf + k] = same;
    }
  }
  return invariant;
}

/// By value: whether the body, imported, gives what it got.
std::vector<bool> invariants_by_import(InstructionContext& n, const Loop& loop) {
  GraphBuilder region(&n.b);
  Leaves arguments;
  for (const ValueId init : loop.inits) arguments.push_back(region.input(n.b.type(init)));
  const Leaves results = n.importer().translate(loop.body, {arguments}, n.called_frame(region));
  std::vector<bool> invariant(loop.inits.size(), false);
  for (size_t i = 0; i < std::min(results.size(), arguments.size()); ++i) {
    invariant[i] = results[i] == arguments[i];
  }
  return invariant;
}

Loop read_loop(InstructionContext& n) {
  n.expect_operands(1);
  Loop loop{n.computation("condition"), n.computation("body"), {}, {}};
  n.require(loop.condition.parameters.size() == 1 && loop.body.parameters.size() == 1,
            "condition and body take one parameter");
  for (const ValueId v : n.leaves(0)) loop.inits.push_back(n.importer().whole(v));
  if (loop.inits.size() > kMaxLeaves) {
    refuse_unsupported(fmt::format("a loop of more than {} values", kMaxLeaves));
  }
  loop.invariant =
      says_elements(loop.body) ? invariants_by_root(n, loop) : invariants_by_import(n, loop);
  return loop;
}

/// Any other loop: it runs while its condition holds.
Leaves make_open_loop(InstructionContext& n, const Loop& loop) {
  GraphBuilder condition(&n.b), body(&n.b);
  InvariantArrays of_condition(loop, condition), of_body(loop, body);
  const Leaves tested = n.importer().translate(loop.condition, {of_condition.arguments(n)},
                                               n.called_frame(condition));
  n.require(tested.size() == 1, "the condition is not one pred");
  condition.result(n.importer().whole(tested[0]));
  const Leaves next =
      n.importer().translate(loop.body, {of_body.arguments(n)}, n.called_frame(body));
  n.require(next.size() == loop.inits.size(), "the body's result is not its parameter's type");
  std::vector<ValueId> carries;
  for (size_t i = 0; i < next.size(); ++i) {
    if (loop.invariant[i]) continue;
    carries.push_back(loop.inits[i]);
    body.result(n.importer().whole(next[i]));
  }
  if (carries.empty()) refuse_unsupported("a loop that changes nothing never ends");
  const std::vector<ValueId> last = n.b.make_while(carries, condition, body);
  Leaves results;
  size_t carried = 0;
  for (size_t i = 0; i < next.size(); ++i) {
    results.push_back(loop.invariant[i] ? loop.inits[i] : last[carried++]);
  }
  return results;
}

void translate_while(InstructionContext& n) {
  const Loop loop = read_loop(n);
  const auto counter = find_counter(n, loop);
  n.set_results(counter ? make_counted_loop(n, loop, *counter) : make_open_loop(n, loop));
}

const Translator kRows[] = {
    {"while", translate_while},
};

}  // namespace

bool says_elements(const HloComputation& body) {
  const HloInstruction& root = root_of(body);
  if (root.opcode != "tuple" || root.operands.size() != root.shape.elements.size()) return false;
  for (size_t i = 0; i < root.operands.size(); ++i) {
    if (root.shape.elements[i].kind != HloShape::Kind::kArray) return false;
    if (is_called(body, operand_of(body, root, i))) return false;
  }
  return true;
}

Leaves InvariantArrays::arguments(InstructionContext& n) {
  Leaves leaves;
  for (size_t i = 0; i < loop_.inits.size(); ++i) {
    leaves.push_back(loop_.invariant[i] ? n.importer().defer({this, i})
                                        : region_.input(n.b.type(loop_.inits[i])));
  }
  return leaves;
}

TranslatorTable loop_translators() { return kRows; }

}  // namespace weft::hlo
