#include "schedule/gpu/templates.h"

#include "fmt/format.h"
#include "schedule/gpu/choose_thread_tile.h"
#include "schedule/gpu/choose_two_ways.h"
#include "schedule/gpu/matrix_contract.h"
#include "schedule/gpu/matrix_product.h"
#include "schedule/gpu/row_layout.h"
#include "schedule/gpu/rows.h"
#include "schedule/gpu/thread_contract.h"
#include "schedule/gpu/two_way_stitch.h"
#include "schedule/writer/common_rows.h"
#include "schedule/writer/one_reduction.h"
#include "tile/check/fits.h"

namespace weft {

namespace {

/// Tiles that are listed beside the quickest.
constexpr size_t kMostTiles = 8;

Fit tiles_apply(const GroupSpace& space, const Target& target) {
  // Which tile is left to the candidates where none is needed to hold what follows.
  if (space.reduces_behind_product()) return Fit::of(reductions_behind_product(space, target));
  return fits_result_tile(space);
}

std::vector<Candidate> tiles_candidates(const GroupSpace& space, const Target& target) {
  const auto product = find_product(space, target);
  if (!product.ok()) return {};
  const auto tiles = tiles_of(*product, target, kMostTiles);
  if (!tiles.ok()) return {};
  std::vector<Candidate> out;
  for (const PricedTile& t : *tiles) out.push_back({t.tile, t.microseconds});
  return out;
}

Result<ScheduledKernel> build_tiles(const GroupSpace& space, const Choice& choice,
                                    const Target& target, const std::string& name) {
  return build_matrix_contract(space, std::get<TilesChoice>(choice), target, name);
}

Fit thread_tiles_apply(const GroupSpace& space, const Target&) {
  if (space.reduces_behind_product()) {
    return Fit::other_kind("a thread's tile does not hold what is reduced behind a product");
  }
  return fits_result_tile(space);
}

std::vector<Candidate> thread_tiles_candidates(const GroupSpace& space, const Target& target) {
  return {{choose_thread_tile(space, target), std::nullopt}};
}

Result<ScheduledKernel> build_thread_tiles(const GroupSpace& space, const Choice& choice,
                                           const Target&, const std::string& name) {
  return build_thread_contract(space, std::get<ThreadTilesChoice>(choice), name);
}

Fit two_ways_apply(const GroupSpace& space, const Target& target) {
  if (space.axes().reductions.size() < 2) {
    return Fit::other_kind("the group does not reduce in two ways");
  }
  if (space.has_contraction()) return Fit::other_kind("a contraction is not stitched");
  if (holds_common_rows(space)) return Fit::other_kind("all is reduced along the same axes");
  const Decision holds = reduces_two_ways(space, target);
  return holds ? Fit::builds() : Fit::other_kind(holds.reason());
}

std::vector<Candidate> two_ways_candidates(const GroupSpace& space, const Target& target) {
  std::vector<Candidate> out;
  for (TwoWaysChoice& c : two_way_layouts(space, target)) out.push_back({std::move(c), {}});
  return out;
}

Result<ScheduledKernel> build_two_ways(const GroupSpace& space, const Choice& choice,
                                       const Target& target, const std::string& name) {
  return build_two_way_stitch(space, std::get<TwoWaysChoice>(choice), target, name);
}

Fit rows_apply(const GroupSpace& space, const Target&) { return fits_rows(space); }

std::vector<Candidate> rows_candidates(const GroupSpace& space, const Target& target) {
  const JoinedGroup joined = join_moments(space.program(), space.group(), space.axes());
  std::vector<Candidate> out;
  for (RankedRows& r : row_layouts(space, joined, target)) {
    const bool across = r.choice.cross >= 0;
    out.push_back({std::move(r.choice), r.microseconds, across});
  }
  return out;
}

Result<ScheduledKernel> build_rows_choice(const GroupSpace& space, const Choice& choice,
                                          const Target& target, const std::string& name) {
  return build_rows(space, std::get<RowsChoice>(choice), target, name);
}

Decision fits_device(const ScheduledKernel& kernel, const Target& target) {
  return fits(kernel.program, kernel.scopes, target);
}

/// Rows of a built tile are padded against conflicts of banks, after its price was known.
Decision tiles_fit(const ScheduledKernel& kernel, const Target& target) {
  const int64_t wanted = std::max<int64_t>(kernel.program.per_sm, 1);
  const int64_t held =
      resident_blocks_per_sm(target, kernel.program.warps * 32, 1, kernel.scopes.block_bytes);
  if (held >= wanted) return Decision::allow();
  return Decision::forbid(
      fmt::format("{} bytes of shared memory leave room for {} blocks on an SM; its barrier waits "
                  "for {}",
                  kernel.scopes.block_bytes, held, wanted));
}

constexpr Template kTemplates[] = {
    {"tiles", "a product through tiles in shared memory, on matrix units or plain cores",
     tiles_apply, tiles_candidates, build_tiles, tiles_fit, true},
    {"thread_tiles", "one reduction, a tile of its results in each thread's registers",
     thread_tiles_apply, thread_tiles_candidates, build_thread_tiles, nullptr, true},
    {"two_ways", "rows reduced along themselves and across each other, read once", two_ways_apply,
     two_ways_candidates, build_two_ways, fits_device},
    {"rows", "element-wise chains and reductions over common axes", rows_apply, rows_candidates,
     build_rows_choice, fits_device, true, nullptr, true},
};

}  // namespace

std::span<const Template> gpu_templates() { return kTemplates; }

}  // namespace weft
