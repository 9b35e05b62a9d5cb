#include "import/hlo/module_importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "import/builder/finish_import.h"
#include "import/hlo/text_scanner.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

constexpr int64_t kSpareNodes = 200'000;
constexpr int kMaxCallDepth = 100;
constexpr ValueId kFirstDeferred = -16;

/// A refusal that names its instruction already, the innermost one.
class PlacedRefusal : public Refusal {
 public:
  using Refusal::Refusal;
};

/// By instruction: whether the root, or one operand of it, depends on it.
std::vector<bool> find_live(const HloComputation& computation, std::optional<size_t> only) {
  std::vector<bool> live(computation.instructions.size(), false);
  const HloInstruction& root = computation.instructions[static_cast<size_t>(computation.root)];
  live[static_cast<size_t>(only ? root.operands.at(*only) : computation.root)] = true;
  for (size_t i = computation.instructions.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (const int32_t operand : computation.instructions[i].operands) {
      live[static_cast<size_t>(operand)] = true;
    }
  }
  return live;
}

void append_arrays(const HloShape& shape, std::vector<const HloShape*>& arrays) {
  if (shape.kind == HloShape::Kind::kArray) arrays.push_back(&shape);
  for (const HloShape& element : shape.elements) append_arrays(element, arrays);
}

/// By leaf, of which complex elements make two.
std::vector<const HloShape*> leaf_types(const HloShape& shape) {
  std::vector<const HloShape*> arrays, leaves;
  append_arrays(shape, arrays);
  for (const HloShape* array : arrays) leaves.insert(leaves.end(), array->leaf_count, array);
  return leaves;
}

bool is_plumbing(std::string_view opcode) {
  return opcode == "parameter" || opcode == "constant" || opcode == "tuple" ||
         opcode == "get-tuple-element";
}

}  // namespace

ModuleImporter::ModuleImporter(const HloModule& module)
    : module_(module), nodes_left_(kSpareNodes) {
  for (const HloComputation& computation : module.computations) {
    computations_.emplace(computation.name, &computation);
    nodes_left_ += 4 * static_cast<int64_t>(computation.instructions.size());
  }
}

void ModuleImporter::spend(int64_t nodes) {
  nodes_left_ -= nodes;
  if (nodes_left_ < 0) {
    refuse_invalid("the module has too many instructions once its calls are in place");
  }
}

const HloComputation& ModuleImporter::find(std::string_view name,
                                           const HloInstruction& caller) const {
  const auto found = computations_.find(name);
  if (found == computations_.end()) {
    refuse_invalid(fmt::format("there is no computation '{}'", name));
  }
  // So no computation calls itself: the one around the caller begins before it, and is the last.
  const auto next = found->second + 1;
  const bool before = next != module_.computations.data() + module_.computations.size() &&
                      next->offset <= caller.offset;
  if (!before) {
    refuse_invalid(fmt::format("computation '{}' does not stand before its use", name));
  }
  return *found->second;
}

ValueId ModuleImporter::defer(const Deferred& value) {
  deferred_.push_back(value);
  return kFirstDeferred - static_cast<ValueId>(deferred_.size() - 1);
}

const Deferred* ModuleImporter::deferred(ValueId v) const {
  return v <= kFirstDeferred ? &deferred_[static_cast<size_t>(kFirstDeferred - v)] : nullptr;
}

ValueId ModuleImporter::whole(ValueId v) {
  const Deferred* held = deferred(v);
  return held != nullptr ? held->loop->whole(*held) : v;
}

std::string ModuleImporter::describe(const HloInstruction& instruction) const {
  return fmt::format("{}: {} '{}'", describe_position(module_.text, instruction.offset),
                     instruction.opcode, instruction.name);
}

void ModuleImporter::note_refused(const HloInstruction& instruction, const std::string& reason) {
  if (std::ranges::find(refused_offsets_, instruction.offset) != refused_offsets_.end()) return;
  constexpr size_t kMaxListed = 1000;
  if (refused_.size() >= kMaxListed) return;
  refused_offsets_.push_back(instruction.offset);
  refused_.push_back(fmt::format("{}: {}", describe(instruction), reason));
}

Leaves ModuleImporter::translate(const HloComputation& computation,
                                 const std::vector<Leaves>& arguments, const Frame& frame,
                                 std::optional<size_t> only) {
  if (frame.depth > kMaxCallDepth) refuse_invalid("calls are nested too deeply");
  if (arguments.size() != computation.parameters.size()) {
    refuse_invalid(fmt::format("computation '{}' takes {} parameters and is given {}",
                               computation.name, computation.parameters.size(), arguments.size()));
  }
  size_t given = 0;
  for (const Leaves& leaves : arguments) given += leaves.size();
  spend(static_cast<int64_t>((computation.instructions.size() + given) / 64));
  std::vector<std::optional<Leaves>> values(computation.instructions.size());
  const std::vector<bool> live = find_live(computation, only);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto at = static_cast<size_t>(computation.parameters[i]);
    check_result(computation.instructions[at], arguments[i], frame);
    values[at] = arguments[i];
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const HloInstruction& instruction = computation.instructions[i];
    if (!live[i] || instruction.opcode == "parameter") continue;
    translate_instruction(computation, instruction, frame, values);
  }
  const auto root = static_cast<size_t>(computation.root);
  const auto& result =
      only ? values[static_cast<size_t>(computation.instructions[root].operands.at(*only))]
           : values[root];
  if (!result) throw DependsOnRefused{};
  return *result;
}

void ModuleImporter::translate_instruction(const HloComputation& computation,
                                           const HloInstruction& instruction, const Frame& frame,
                                           std::vector<std::optional<Leaves>>& values) {
  try {
    spend(1);
    const Translator* translator = find_translator(instruction.opcode);
    if (translator == nullptr) refuse_unsupported("there is no such instruction in weft");
    if (frame.lanes != nullptr && !translator->elementwise) {
      refuse_unsupported("it stands in a computation that is applied element by element");
    }
    frame.builder.start_origin(
        {frame.prefix + std::string(instruction.name), std::string(instruction.opcode)});
    InstructionContext context(*this, frame, computation, instruction, values);
    if (context.has_complex()) {
      translate_complex(context, *translator);
    } else {
      translator->translate(context);
    }
    check_result(instruction, context.results(), frame);
    if (context.results().size() == 1 && context.results()[0] >= 0) {
      frame.builder.name_value(context.results()[0], instruction.name);
    }
    values[static_cast<size_t>(&instruction - computation.instructions.data())] = context.results();
  } catch (const DependsOnRefused&) {
    const Translator* translator = find_translator(instruction.opcode);
    if (translator == nullptr) note_refused(instruction, "there is no such instruction in weft");
  } catch (const PlacedRefusal&) {
    throw;
  } catch (const Refusal& refusal) {
    if (refusal.error().code != ErrorCode::kUnsupported) {
      throw PlacedRefusal({refusal.error().code,
                           fmt::format("{}: {}", describe(instruction), refusal.error().message)});
    }
    note_refused(instruction, refusal.error().message);
  }
}

void ModuleImporter::check_result(const HloInstruction& instruction, const Leaves& leaves,
                                  const Frame& frame) const {
  const std::vector<const HloShape*> declared = leaf_types(instruction.shape);
  if (declared.size() != leaves.size()) {
    refuse_invalid(fmt::format("'{}' is declared {} and has {} arrays", instruction.name,
                               print(instruction.shape), leaves.size()));
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (deferred(leaves[i]) != nullptr) continue;
    const TensorType& type = frame.builder.type(leaves[i]);
    const bool same_shape = frame.lanes != nullptr || type.shape == declared[i]->dims;
    if (same_shape && declared[i]->dtype == type.dtype) continue;
    refuse_invalid(fmt::format("'{}' is declared {} where it is {}", instruction.name,
                               print(*declared[i]), weft::print(type)));
  }
}

void ModuleImporter::import_parameters(GraphBuilder& builder, ImportedModel& imported,
                                       std::vector<Leaves>& arguments) const {
  const HloComputation& entry = module_.computations[module_.entry];
  for (size_t number = 0; number < entry.parameters.size(); ++number) {
    const HloShape& shape = entry.instructions[static_cast<size_t>(entry.parameters[number])].shape;
    std::vector<const HloShape*> arrays;
    append_arrays(shape, arrays);
    arguments.emplace_back();
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (!arrays[i]->dtype) {
        refuse_unsupported(
            fmt::format("parameter {}: the element type of {}", number, print(*arrays[i])));
      }
      ImportedInput input;
      input.name = shape.kind == HloShape::Kind::kTuple ? fmt::format("arg{}.{}", number, i)
                                                        : fmt::format("arg{}", number);
      input.type = {*arrays[i]->dtype, arrays[i]->dims};
      if (arrays[i]->is_complex) input.type.shape.push_back(2);
      input.symbols.resize(input.type.shape.size());
      input.open.resize(input.type.shape.size());
      input.graph_input = static_cast<int64_t>(builder.graph().inputs.size());
      const ValueId array = builder.input(input.type, input.name);
      if (arrays[i]->is_complex) {
        for (const int64_t part : {0, 1}) {
          arguments.back().push_back(builder.pick(array, -1, part));
        }
      } else {
        arguments.back().push_back(array);
      }
      imported.inputs.push_back(std::move(input));
    }
  }
}

ImportedModel ModuleImporter::run() {
  const HloComputation& entry = module_.computations[module_.entry];
  ImportedModel imported;
  imported.node_count = std::ranges::count_if(
      entry.instructions, [](const HloInstruction& i) { return !is_plumbing(i.opcode); });
  GraphBuilder builder;
  std::vector<Leaves> arguments;
  import_parameters(builder, imported, arguments);
  Leaves outputs;
  try {
    outputs = translate(entry, arguments, Frame{builder});
  } catch (const DependsOnRefused&) {
    WEFT_CHECK(!refused_.empty(), "a refused value without a refusal");
  }
  if (!refused_.empty()) {
    std::string message = "the module uses what weft does not support:";
    for (const std::string& line : refused_) message += "\n  " + line;
    refuse_unsupported(std::move(message));
  }
  if (outputs.empty()) refuse_invalid("the module has no results");
  std::vector<const HloShape*> arrays;
  append_arrays(entry.instructions[static_cast<size_t>(entry.root)].shape, arrays);
  auto leaf = outputs.begin();
  for (size_t i = 0; i < arrays.size(); ++i) {
    ValueId output = *leaf++;
    if (arrays[i]->is_complex) {
      output =
          builder.concat({builder.unsqueeze(output, {-1}), builder.unsqueeze(*leaf++, {-1})}, -1);
    }
    builder.graph().add_output(output, fmt::format("out{}", i));
  }
  onnx::finish_import(builder, imported);
  return imported;
}

}  // namespace weft::hlo
