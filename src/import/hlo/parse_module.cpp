#include "import/hlo/parse_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "import/builder/refusal.h"

namespace weft::hlo {
namespace {

/// Tables that XLA prints before the computations; numbered lines follow each.
constexpr std::array<std::string_view, 4> kTables = {"FileNames", "FunctionNames", "FileLocations",
                                                     "StackFrames"};

/// Instructions whose parentheses hold no operands.
bool holds_literal(std::string_view opcode) {
  return opcode == "constant" || opcode == "parameter";
}

class ModuleParser {
 public:
  explicit ModuleParser(std::string_view text) : scanner_(text) { module_.text = text; }

  HloModule run() {
    scanner_.expect("HloModule");
    module_.name = scanner_.name("the module's name");
    parse_attributes();
    while (!scanner_.at_end()) parse_section();
    if (!has_entry_ && module_.computations.size() == 1) {
      has_entry_ = true;
    }
    if (!has_entry_) scanner_.fail("the module has no ENTRY computation");
    return std::move(module_);
  }

 private:
  void parse_section() {
    const size_t begin = scanner_.offset();
    std::string_view name = scanner_.name("a computation");
    if (std::ranges::find(kTables, name) != kTables.end() && scanner_.at_line_end()) {
      while (scanner_.peek() >= '0' && scanner_.peek() <= '9') scanner_.skip_line();
      return;
    }
    const bool is_entry = name == "ENTRY" && scanner_.peek() != '{' && scanner_.peek() != '(';
    if (is_entry) name = scanner_.name("the computation's name");
    if (is_entry && has_entry_) scanner_.fail_at(begin, "there are two ENTRY computations");
    if (!computations_.insert(name).second) {
      scanner_.fail_at(begin, fmt::format("there are two computations '{}'", name));
    }
    if (is_entry) {
      has_entry_ = true;
      module_.entry = module_.computations.size();
    }
    parse_computation(name, begin);
  }

  void parse_computation(std::string_view name, size_t begin) {
    HloComputation computation;
    computation.name = name;
    computation.offset = begin;
    if (scanner_.peek() == '(') {  // its signature, which the parameters and the root repeat
      scanner_.enclosed();
      scanner_.expect("->");
      parse_shape(scanner_);
    }
    scanner_.expect("{");
    instructions_.clear();
    bool has_root = false;
    while (!scanner_.take("}")) {
      if (parse_instruction(computation)) {
        if (has_root) scanner_.fail("there are two ROOT instructions");
        has_root = true;
        computation.root = static_cast<int32_t>(computation.instructions.size()) - 1;
      }
    }
    parse_attributes();
    if (computation.instructions.empty()) {
      scanner_.fail_at(begin, fmt::format("computation '{}' is empty", name));
    }
    if (!has_root) computation.root = static_cast<int32_t>(computation.instructions.size()) - 1;
    number_parameters(computation);
    module_.computations.push_back(std::move(computation));
  }

  /// Whether it is the ROOT.
  bool parse_instruction(HloComputation& computation) {
    HloInstruction instruction;
    scanner_.peek();
    instruction.offset = scanner_.offset();
    instruction.name = scanner_.name("an instruction");
    const bool is_root = instruction.name == "ROOT" && scanner_.peek() != '=';
    if (is_root) instruction.name = scanner_.name("the instruction's name");
    scanner_.expect("=");
    instruction.shape = parse_shape(scanner_);
    instruction.opcode = scanner_.name("an opcode");
    scanner_.peek();
    if (holds_literal(instruction.opcode)) {
      instruction.literal = scanner_.enclosed();
    } else {
      parse_operands(instruction);
    }
    parse_attributes(&instruction.attributes);
    const auto index = static_cast<int32_t>(computation.instructions.size());
    if (!instructions_.emplace(instruction.name, index).second) {
      scanner_.fail_at(instruction.offset,
                       fmt::format("there are two instructions '{}'", instruction.name));
    }
    computation.instructions.push_back(std::move(instruction));
    return is_root;
  }

  /// `name`, `%name` or `f32[2]{0} %name`.
  void parse_operands(HloInstruction& instruction) {
    scanner_.expect("(");
    while (!scanner_.take(")")) {
      if (!instruction.operands.empty()) scanner_.expect(",");
      if (scanner_.peek() == '(') parse_shape(scanner_);
      TextScanner shape = scanner_;
      size_t begin = scanner_.offset();
      std::string_view name = scanner_.name("an operand");
      if (scanner_.peek() == '[') {
        parse_shape(shape);
        scanner_ = shape;
        scanner_.peek();
        begin = scanner_.offset();
        name = scanner_.name("an operand");
      }
      const auto found = instructions_.find(name);
      if (found == instructions_.end()) {
        scanner_.fail_at(begin, fmt::format("no instruction above is called '{}'", name));
      }
      instruction.operands.push_back(found->second);
    }
  }

  void parse_attributes(std::vector<HloAttribute>* attributes = nullptr) {
    while (scanner_.take(",")) {
      const std::string_view name = scanner_.name("an attribute");
      scanner_.expect("=");
      const std::string_view value = scanner_.value();
      if (attributes != nullptr) attributes->push_back({name, value});
    }
  }

  void number_parameters(HloComputation& computation) const {
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      const HloInstruction& instruction = computation.instructions[i];
      if (instruction.opcode != "parameter") continue;
      TextScanner literal(module_.text, instruction.literal);
      const int64_t number = literal.integer("the parameter's number");
      literal.expect_end();
      const auto limit = static_cast<int64_t>(computation.instructions.size());
      if (number < 0 || number >= limit) scanner_.fail_at(instruction.offset, "no such parameter");
      std::vector<int32_t>& parameters = computation.parameters;
      const auto at = static_cast<size_t>(number);
      if (parameters.size() <= at) parameters.resize(at + 1, -1);
      if (parameters[at] >= 0) {
        scanner_.fail_at(instruction.offset, fmt::format("there are two parameters {}", number));
      }
      parameters[at] = static_cast<int32_t>(i);
    }
    const auto missing = std::ranges::find(computation.parameters, -1);
    if (missing == computation.parameters.end()) return;
    scanner_.fail_at(computation.offset,
                     fmt::format("computation '{}' has no parameter {}", computation.name,
                                 missing - computation.parameters.begin()));
  }

  TextScanner scanner_;
  HloModule module_;
  bool has_entry_ = false;
  std::unordered_map<std::string_view, int32_t> instructions_;  ///< of the computation being read
  std::set<std::string_view> computations_;
};

}  // namespace

bool is_hlo_text(std::string_view text) {
  try {
    TextScanner scanner(text);
    return scanner.take("HloModule");
  } catch (const onnx::Refusal&) {
    return false;  // a comment without end
  }
}

Result<HloModule> parse_module(std::string_view text) {
  try {
    return ModuleParser(text).run();
  } catch (const onnx::Refusal& refusal) {
    return refusal.error();
  }
}

}  // namespace weft::hlo
