#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/dtype.h"

namespace weft::hlo {

// An HLO module as its text says it. All views are of that text, which must outlive the module; an
// offset is a place in it.

/// The type of an instruction: an array, a tuple of types, or a token (which orders side effects
/// and holds nothing).
struct HloShape {
  enum class Kind : uint8_t { kArray, kTuple, kToken };
  Kind kind = Kind::kArray;
  std::string_view element;    ///< of an array, as written: "f32", "f8e4m3fn"
  std::optional<DType> dtype;  ///< none where weft has no such element type
  /// Complex elements are two arrays, the real parts and the imaginary ones; dtype is the parts'.
  bool is_complex = false;
  Shape dims;
  /// How the array lies in memory, the axis that varies fastest first; empty: row-major. Only a
  /// bitcast is read by it.
  std::vector<int64_t> minor_to_major;
  std::vector<HloShape> elements;  ///< of a tuple
  size_t leaf_count = 1;           ///< arrays inside, two where the elements are complex
  size_t first_leaf = 0;           ///< arrays before it in the tuple that it is an element of
};
std::string print(const HloShape& shape);  ///< "f32[4,16]", "(s32[], f32[4])"

struct HloAttribute {
  std::string_view name;
  std::string_view value;  ///< everything behind the '='
};

struct HloInstruction {
  std::string_view name;
  std::string_view opcode;
  HloShape shape;
  /// Instructions of the same computation, each before this one.
  std::vector<int32_t> operands;
  /// What stands between the parentheses of a constant or a parameter.
  std::string_view literal;
  std::vector<HloAttribute> attributes;
  size_t offset = 0;
};

struct HloComputation {
  std::string_view name;
  std::vector<HloInstruction> instructions;
  std::vector<int32_t> parameters;  ///< instructions, by parameter number
  int32_t root = 0;
  size_t offset = 0;
};

/// Computations in the order of the text. Each calls only such as stand before it.
struct HloModule {
  std::string_view text;
  std::string_view name;
  std::vector<HloComputation> computations;
  size_t entry = 0;
};

}  // namespace weft::hlo
