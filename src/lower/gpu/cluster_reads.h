#pragma once

#include "lower/gpu/gpu_writer.h"

namespace weft::lowering {

/// Where an element lies that some block of the cluster has made.
struct ClusterAddress {
  IndexExpr rank, offset;
  bool own = false;  ///< this block has made it
};

/// Each block of a cluster has the box of its own iteration in its arena. Where boxes begin is
/// linear in the iteration, so that the element's coordinate tells which block has it:
///     p[i, j/64] made in `cluster j in 512 step 64`, p[i, t] read  ->  rank t, offset 0
ClusterAddress cluster_address(const GpuWriter& w, TileSymbolId id,
                               const std::vector<IndexExpr>& indices, bool next);

/// One load where the elements of a vector lie beside each other in one block, else lane by lane.
Reg load_from_cluster(GpuWriter& w, const Scalar& read, const ClusterAddress& address,
                      const Point& point, Reg guard);

}  // namespace weft::lowering
