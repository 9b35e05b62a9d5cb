#pragma once

#include <string>
#include <vector>

#include "rewrite/rewrite.h"

namespace weft {

/// Makes features of the phases of a transposed convolution that has few of its own. Its input
/// stands s apart between zeros, so that each residue of an output's position modulo s (a phase)
/// takes taps of its own, a part of them: a convolution of the input as it is has s features for
/// each that there was, which lie one behind the other in the result.
///
/// Requires: a verified graph.
///     y[f, i] = sum[t] (i + t - low) mod s == 0 ? x[(i + t - low) / s] * w[f, t] : 0
///       ->   z[f * s + p, q] = sum[j] x[q + j + first] * v[f * s + p, j];  y[f, q * s + p] = z
/// v are the taps of w in another order, with zeros where phases have fewer taps than others or
/// begin later: a value there that is not finite makes a NaN that was none.
/// Left as they are: convolutions of so many features that they fill vectors, and dilated or
/// strided ones.
/// Returns the names of results whose phases got zeros, in order.
struct ConvolvedPhases {
  bool changed = false;
  std::vector<std::string> filled;
};
ConvolvedPhases convolve_phases(Graph& graph);

}  // namespace weft
