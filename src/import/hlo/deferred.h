#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "import/builder/graph_builder.h"

namespace weft::hlo {

using onnx::GraphBuilder;

class LoopArrays;

/// A value in the body of a loop that has no node yet: an array of the loop as it came into this
/// iteration, or with one row replaced. Reading a row of it, or writing one, need not touch the
/// rest; whatever else reads it gets the whole array.
struct Deferred {
  LoopArrays* loop = nullptr;
  size_t leaf = 0;              ///< which of the values that the loop hands on
  ValueId written = kNoValue;   ///< the row that replaces one
  int64_t first = 0, step = 0;  ///< which: first + iteration * step
};

/// The deferred values of one loop.
class LoopArrays {
 public:
  virtual ~LoopArrays() = default;
  /// The array as a value of the body.
  virtual ValueId whole(const Deferred& array) = 0;
  /// The row [1, …] at `index`; nullopt where only the whole array has it.
  virtual std::optional<ValueId> read_row(const Deferred& array, ValueId index) = 0;
  /// The array with `row` [1, …] at `index`; nullopt where that needs the whole array.
  virtual std::optional<Deferred> write_row(const Deferred& array, ValueId row, ValueId index) = 0;
};

}  // namespace weft::hlo
