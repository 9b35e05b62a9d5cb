#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/builder/graph_builder.h"
#include "import/builder/imported_model.h"
#include "import/hlo/deferred.h"
#include "import/hlo/hlo_module.h"

namespace weft::hlo {

/// The arrays in an instruction's result, in order: one, or those of a tuple. Complex numbers are
/// two, their real parts and their imaginary ones. An id below kNoValue is a deferred value
/// (ModuleImporter::defer).
using Leaves = std::vector<ValueId>;

/// Where the instructions of a computation go.
struct Frame {
  GraphBuilder& builder;
  std::string prefix = {};  ///< of the origins' names
  int depth = 0;
  /// Set where a computation on scalars is applied to arrays of this shape, element by element.
  const Shape* lanes = nullptr;
};

/// A value was needed that only a refused instruction would have made.
struct DependsOnRefused {};

/// Turns a module into a graph: each instruction that the root needs is translated, called
/// computations in place. One object imports one module once.
class ModuleImporter {
 public:
  explicit ModuleImporter(const HloModule& module);

  /// The entry computation as a graph. Throws Refusal.
  ImportedModel run();

  /// The leaves of the computation's root. With `only`, those of that operand of a root tuple.
  /// Throws DependsOnRefused where the root needs what was refused.
  Leaves translate(const HloComputation& computation, const std::vector<Leaves>& arguments,
                   const Frame& frame, std::optional<size_t> only = {});

  /// The computation of this name, which must stand before `caller`.
  const HloComputation& find(std::string_view name, const HloInstruction& caller) const;
  const HloModule& module() const { return module_; }

  ValueId defer(const Deferred& value);
  /// Null for a value that is not deferred. Holds as long as the importer.
  const Deferred* deferred(ValueId v) const;
  /// A value of the graph: a deferred one as a whole.
  ValueId whole(ValueId v);

  /// Counts work; refuses where a module asks for more than its size can justify, since calls of
  /// calls are as many as 2 to the power of the module's size.
  void spend(int64_t nodes);

 private:
  void import_parameters(GraphBuilder& builder, ImportedModel& imported,
                         std::vector<Leaves>& arguments) const;
  void translate_instruction(const HloComputation& computation, const HloInstruction& instruction,
                             const Frame& frame, std::vector<std::optional<Leaves>>& values);
  void check_result(const HloInstruction& instruction, const Leaves& leaves,
                    const Frame& frame) const;
  std::string describe(const HloInstruction& instruction) const;
  void note_refused(const HloInstruction& instruction, const std::string& reason);

  const HloModule& module_;
  std::unordered_map<std::string_view, const HloComputation*> computations_;
  std::deque<Deferred> deferred_;
  std::vector<std::string> refused_;
  std::vector<size_t> refused_offsets_;
  int64_t nodes_left_;
};

}  // namespace weft::hlo
