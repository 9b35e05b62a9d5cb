#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "expr/products/filtered_weights.h"
#include "expr/tensor_program.h"

namespace weft {

/// A sum over windows of three places that can be made of fewer products.
struct WindowSum {
  std::string_view name;  ///< of what it makes
  int64_t tiles = 1;      ///< of 2 results along each of the windows' axes
  int64_t results = 1;    ///< of each output, four of two axes to a tile that is whole
  int64_t groups = 1;     ///< sums side by side, each of inputs and with weights of its own
  int64_t inputs = 1;     ///< steps of a group's sum besides the windows', as channels are
  int64_t outputs = 1;    ///< columns of a group's weights
  int64_t places = 1;     ///< of a window: 3, or 9 of two axes
  /// Products that a tile takes for each input and output: 4, or 16 in the place of 2 * 2 * 9.
  int64_t products = 1;
  bool varies = false;  ///< the weights are no constant
  /// Whether neighbours in what is read are inputs.
  bool along_vectors = false;
  /// Whether the factors are bfloat16, of which a processor may multiply pairs.
  bool of_pairs = false;
};

/// Makes sums over windows of three neighbours by minimal filtering:
/// Winograd's F(2, 3), along one or two axes (Winograd 1980; Lavin and Gray, "Fast Algorithms for
/// Convolutional Neural Networks", 2015, section 4). Two neighbouring results take four products in
/// the place of six, and four results 16 in the place of 36:
///     y[d] = sum[c, r] x[c, d + r] * w[c, r]   ->
///     x_windows[t, i, c] = x[c, 2i + t] -+ x[c, 2i + 2 - t / 2]                     t < 4
///     y_products[t, i]   = sum[c] x_windows[t, i, c] * w_windows[t, c]
///     y[d]               = p[d % 2] +- p[d % 2 + 1] + p[d % 2 + 2], p[t] = y_products[t, d / 2]
/// Constant weights are transformed here, into `filtered`, others by an expression. The sums in the
/// middle are a product of matrices for each t, and what stands before and behind is element by
/// element, so that planners fuse it as they fuse anything. Results differ from the sum's by
/// float32 roundings of sums of four elements; where x is not finite, so are all results of its
/// tile.
///
/// `pays` says which sums are made so, of those whose windows' axes are not open. Requires: a
/// verified program whose tensors have their layouts. Returns what these sums make.
std::vector<TensorId> filter_minimally(TensorProgram& program,
                                       const std::function<bool(const WindowSum&)>& pays,
                                       FilteredWeights& filtered);

}  // namespace weft
