#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/scalar_op.h"
#include "support/tensor.h"
#include "tile/tile_program.h"

namespace weft {

/// An element of a tensor in memory.
inline ScalarValue element(const HostTensor& tensor, int64_t at) {
  return is_float(tensor.dtype()) ? float_value(tensor.dtype(), tensor.at_double(at))
                                  : int_value(tensor.dtype(), tensor.at_int(at));
}

inline void set_element(HostTensor& tensor, int64_t at, const ScalarValue& value) {
  const ScalarValue stored = convert_value(value, tensor.dtype());
  if (is_float(tensor.dtype())) {
    tensor.set_double(at, stored.f);
  } else {
    tensor.set_int(at, stored.i);
  }
}

/// The elements of a value that one iteration, or all blocks together, hold.
struct Tile {
  std::vector<int64_t> base, extents;
  std::vector<int64_t> bits;
  std::vector<uint8_t> made;

  /// -1 outside.
  int64_t offset(const std::vector<int64_t>& at) const {
    int64_t offset = 0;
    for (size_t a = 0; a < extents.size(); ++a) {
      const int64_t i = at[a] - base[a];
      if (i < 0 || i >= extents[a]) return -1;
      offset = offset * extents[a] + i;
    }
    return offset;
  }
};

inline int64_t to_bits(const ScalarValue& v) {
  return is_float(v.type) ? std::bit_cast<int64_t>(v.f) : v.i;
}
inline ScalarValue from_bits(DType type, int64_t bits) {
  return is_float(type) ? float_value(type, std::bit_cast<double>(bits)) : int_value(type, bits);
}

/// One iteration of the grid loops entered so far; what is made before an inner grid loop belongs
/// to the outer context.
struct Context {
  const Context* outer = nullptr;
  const TileLoop* loop = nullptr;  ///< whose iteration it is
  std::vector<int64_t> env;        ///< by variable
  std::map<TileSymbolId, Tile> tiles, next;
};
using Contexts = std::vector<Context*>;

/// A parameter, or a workspace.
struct EvaluatedParameter {
  HostTensor tensor;
  std::vector<uint8_t> touched;
  bool is_input = false, is_workspace = false;
  bool by_views = false;  ///< an output's is stored through them
};

}  // namespace weft
