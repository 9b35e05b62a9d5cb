#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/builder/refusal.h"
#include "import/hlo/attribute_values.h"
#include "import/hlo/module_importer.h"

namespace weft::hlo {

using onnx::Refusal;
using onnx::refuse_invalid;
using onnx::refuse_unsupported;
using onnx::take;

/// What the translator of one opcode sees: the instruction, and the graph that it adds primitives
/// to. All failures are Refusals; the importer puts the instruction's place and name in front.
///
///     void translate_reverse(InstructionContext& n) {
///       ValueId x = n.operand(0);
///       for (int64_t axis : n.ints("dimensions")) x = n.b.reverse(x, axis);
///       n.set_result(x);
///     }
class InstructionContext {
 public:
  InstructionContext(ModuleImporter& importer, const Frame& frame,
                     const HloComputation& computation, const HloInstruction& instruction,
                     const std::vector<std::optional<Leaves>>& values);

  GraphBuilder& b;

  const HloInstruction& instruction() const { return instruction_; }
  std::string_view opcode() const { return instruction_.opcode; }
  ModuleImporter& importer() { return importer_; }
  const Frame& frame() const { return frame_; }
  /// A frame for computations that this instruction calls.
  Frame called_frame(GraphBuilder& builder, const Shape* lanes = nullptr) const;

  // Operands.
  size_t operand_count() const { return instruction_.operands.size(); }
  void expect_operands(size_t count) const;
  /// One array. Of complex numbers the parts that read_parts chose.
  ValueId operand(size_t i);
  /// The same, which may be deferred.
  ValueId leaf(size_t i) const;
  std::vector<ValueId> operands(size_t begin, size_t end);
  /// All arrays of the operand, of which some may be deferred.
  const Leaves& leaves(size_t i) const;
  const HloShape& operand_shape(size_t i) const;

  // Complex numbers.
  /// Whether an operand or the result is an array of them.
  bool has_complex() const;
  /// Lets `operand(i)` give the real (0) or imaginary (1) parts of a complex operand. By operand;
  /// the last one holds for all behind it.
  void read_parts(std::vector<size_t> of_operands) { parts_ = std::move(of_operands); }
  /// The parts of operand i; none where complex numbers are read as a whole.
  std::optional<size_t> part(size_t i) const;

  // The declared result.
  const HloShape& shape() const { return instruction_.shape; }
  const Shape& dims() const { return instruction_.shape.dims; }
  DType dtype() const;

  // Attributes: a missing one without default is a refusal.
  std::optional<TextScanner> find(std::string_view name) const;
  TextScanner attribute(std::string_view name) const;
  std::vector<int64_t> ints(std::string_view name) const { return parse_ints(attribute(name)); }
  std::vector<int64_t> ints_or_none(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  std::string_view word(std::string_view name) const;
  std::string_view word(std::string_view name, std::string_view otherwise) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name, bool otherwise) const;
  /// The computation that an attribute names.
  const HloComputation& computation(std::string_view name) const;

  void set_result(ValueId v) { results_ = {v}; }
  void set_results(Leaves leaves) { results_ = std::move(leaves); }
  const Leaves& results() const { return results_; }

  /// Refuses (kInvalidInput) unless `condition`.
  static void require(bool condition, std::string_view message) {
    onnx::require(condition, message);
  }

 private:
  ModuleImporter& importer_;
  const Frame& frame_;
  const HloComputation& computation_;
  const HloInstruction& instruction_;
  const std::vector<std::optional<Leaves>>& values_;
  std::vector<size_t> parts_;
  Leaves results_;
};

/// How an opcode is translated. Those that work element by element also stand in computations that
/// are applied to whole arrays (`map`, reducers, comparators).
struct Translator {
  std::string_view opcode;
  void (*translate)(InstructionContext&);
  bool elementwise = false;
};
using TranslatorTable = std::span<const Translator>;

/// Translates an instruction on complex numbers by what its opcode does to their parts, for which
/// `real` is how it is translated otherwise.
void translate_complex(InstructionContext& n, const Translator& real);

/// One table per file of translators; translator_table.cpp assembles them.
TranslatorTable elementwise_translators();
TranslatorTable bit_translators();
TranslatorTable constant_translators();
TranslatorTable movement_translators();
TranslatorTable dynamic_slice_translators();
TranslatorTable gather_translators();
TranslatorTable scatter_translators();
TranslatorTable contraction_translators();
TranslatorTable reduction_translators();
TranslatorTable window_translators();
TranslatorTable sort_translators();
TranslatorTable call_translators();
TranslatorTable loop_translators();
TranslatorTable random_translators();
TranslatorTable fourier_translators();
TranslatorTable normalization_translators();
TranslatorTable linear_algebra_translators();

/// The row for an opcode, or nullptr.
const Translator* find_translator(std::string_view opcode);

}  // namespace weft::hlo
