#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::testing {

/// Artefacts for tests that see the public interface alone; false when the file cannot be written.

/// x f32[n], state f32[n] -> y = x sorted, order i64[n], next = state with y scatter-added by order
/// (that is, state + x).
bool write_sorting_artefact(const std::string& path, const std::vector<int64_t>& sizes);
/// A loop over y f32[1] that does not end by itself.
bool write_endless_artefact(const std::string& path);

}  // namespace weft::testing
