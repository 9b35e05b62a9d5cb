#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::testing {

/// Models and artefacts for tests that see the public interface alone; false when the file cannot
/// be written.

/// x f32[n], state f32[n] -> y = x sorted, order i64[n], next = state with y scatter-added by order
/// (that is, state + x).
bool write_sorting_artefact(const std::string& path, const std::vector<int64_t>& sizes);
/// A loop over y f32[1] that does not end by itself.
bool write_endless_artefact(const std::string& path);

/// ONNX: state f32[N], xs f32[5,N] -> last f32[N], z f32[5,N], N open:
/// state += xs[t] for every t in turn, z[t] = 2 * state * state, last = state.
bool write_recurrent_model(const std::string& path);

}  // namespace weft::testing
