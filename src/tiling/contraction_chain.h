#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Contractions one behind another, each of which reduces what the one before made (MCFuser §III).
/// Loop 0 is the rows, m, that all share; contraction i reduces loop i+1 and makes loop i+2:
///     C[m,n] = sum[k] A[m,k] B[k,n];  E[m,h] = sum[n] C[m,n] D[n,h]
struct ContractionChain {
  /// Of m, k, n, h, …: two more than contractions.
  std::vector<int64_t> extents;
  int64_t batch = 1;  ///< independent chains
  int64_t element_bytes = 4;

  int loops() const { return static_cast<int>(extents.size()); }
  int contractions() const { return loops() - 2; }
  int reduced_by(int contraction) const { return contraction + 1; }
  int made_by(int contraction) const { return contraction + 2; }
  bool is_related(int contraction, int loop) const {
    return loop == 0 || loop == reduced_by(contraction) || loop == made_by(contraction);
  }
};

/// `m`, `k`, `n`, `h`, then `o`, `p`: how loops are called.
char loop_name(int loop);

}  // namespace weft
