#pragma once

#include <cstddef>
#include <vector>

namespace weft {

/// Sets of numbers that depend on each other, in an order in which none depends on a later one: the
/// strongly connected components of a directed graph. `depends[n]`: what number n depends on.
/// Linear in numbers and dependences (Tarjan, "Depth-first search and linear graph algorithms",
/// SIAM Journal on Computing, 1972).
std::vector<std::vector<size_t>> strong_components(const std::vector<std::vector<size_t>>& depends);

}  // namespace weft
