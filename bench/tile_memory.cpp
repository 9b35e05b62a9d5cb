// How far the memory of a block that a chain's tiles are estimated to take (MCFuser, Eq. 1) is from
// what the built program takes, over tiles drawn at random: the chain; tiles; how many are within a
// tenth; of how many is said rightly whether they fit; the most that one is off; how many are
// within a tenth by the equation as it is written, which counts what lies in registers, and no
// stages.
//
// On a CPU the memory is a core's scratch.
//
//     bench/chains --graphs FOLDER                (for CPUs: --type f32)
//     build/release/tile_memory a100-40gb 64 FOLDER/G4.graph …    (target, tiles of each chain)

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "driver/compiler.h"
#include "driver/graph_file.h"
#include "fmt/format.h"
#include "schedule/stages/build_block.h"
#include "schedule/stages/chain_axes.h"
#include "schedule/stages/fragment_chain.h"
#include "schedule/stages/fragment_time.h"
#include "schedule/stages/scratch_bytes.h"
#include "target/target.h"
#include "tiling/tile_candidates.h"

namespace weft {
namespace {

/// A chain, and its program of steps.
struct Chain {
  const BlockSpace& steps;
  const SharedAxis& shared;
  const ChainAxes& axes;
  const Target& target;

  Result<DemandBoxes> demand(const BlockPartition& partition, int64_t step) const {
    return demand_boxes(steps.program(), steps.group(), partition,
                        steps.carrying(shared.carried, step));
  }
  BlockPartition of_rows(int64_t rows) const {
    BlockPartition out = axes.partition;
    if (axes.row_loop >= 0) out.loops[static_cast<size_t>(axes.row_loop)].step = rows;
    return out;
  }
};

/// Bytes of a block by what is estimated, what is built, and the equation of the paper.
struct Memory {
  double estimated = 0, built = 0, written = 0;
};

template <typename T>
T one_of(std::minstd_rand& random, std::initializer_list<T> values) {
  return *(values.begin() + random() % values.size());
}

/// Of tiles that a composer considers (schedule/stages/compose_fragments).
Result<Memory> of_fragments(const Chain& chain, const FragmentProblem& problem,
                            std::minstd_rand& random) {
  FragmentTiles tiles;
  tiles.choice.warps = one_of<int64_t>(random, {1, 2, 4, 8});
  tiles.choice.stages = one_of<int64_t>(random, {2, 3});
  tiles.choice.depth = one_of<int64_t>(random, {0, 32, 64, 128});
  tiles.choice.left_in_block = one_of(random, {false, true});
  // Each warp has rows of its own, or two or four beside each other have them.
  const auto fourths = one_of<int64_t>(random, {1, 2, 4, 8, 16});
  tiles.rows = std::max<int64_t>(tiles.choice.warps * fourths / 4, 1) * 16;
  tiles.step = one_of<int64_t>(random, {16, 32, 64, 128});
  tiles.made = std::min(chain.axes.made, one_of<int64_t>(random, {32, 64, 128, int64_t{1} << 20}));
  BlockPartition partition = chain.of_rows(tiles.rows);
  if (tiles.made < chain.axes.made) {
    BlockPartition::Loop loop;
    loop.step = tiles.made;
    loop.axes.assign(partition.roots.size(), -1);
    loop.axes[0] = chain.axes.made_axis;
    partition.loops.push_back(loop);
  }
  WEFT_ASSIGN_OR_RETURN(const DemandBoxes demand, chain.demand(partition, tiles.step));
  WEFT_ASSIGN_OR_RETURN(const ScheduledKernel kernel,
                        build_fragment_chain(chain.steps, partition, chain.axes.row_loop, demand,
                                             tiles.choice, chain.target, "chain"));
  ContractionChain loops = chain.axes.loops;
  loops.element_bytes = problem.bytes;
  const int64_t depth = tiles.choice.depth > 0 ? tiles.choice.depth : loops.extents[kDepthLoop];
  return Memory{
      static_cast<double>(fragment_bytes(problem, tiles, chain.target)),
      static_cast<double>(kernel.scopes.block_bytes),
      static_cast<double>(block_bytes(loops, {tiles.rows, depth, tiles.step, tiles.made}))};
}

/// Of rows and steps on a core.
Result<Memory> of_stages(const Chain& chain, std::minstd_rand& random) {
  const ContractionChain& loops = chain.axes.loops;
  const int64_t rows = std::min(
      chain.axes.rows, one_of<int64_t>(random, {8, 16, 24, 32, 48, 64, 96, 128, 192, 256}));
  const int64_t step =
      std::min(loops.extents[kSharedLoop],
               one_of<int64_t>(random, {16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024}));
  const BlockPartition partition = chain.of_rows(rows);
  WEFT_ASSIGN_OR_RETURN(const DemandBoxes demand, chain.demand(partition, step));
  WEFT_ASSIGN_OR_RETURN(const Stages stages, form_stages(chain.steps, demand, chain.target));
  WEFT_ASSIGN_OR_RETURN(
      const ScheduledKernel kernel,
      build_block(chain.steps, partition, demand, stages, nullptr, chain.target, "chain"));
  return Memory{static_cast<double>(scratch_bytes(chain.steps, demand, stages, chain.target)),
                static_cast<double>(kernel.scopes.block_bytes),
                static_cast<double>(block_bytes(
                    loops, {rows, loops.extents[kDepthLoop], step, loops.extents[kMadeLoop]}))};
}

Status measure(const std::string& path, const Target& target, int count) {
  WEFT_ASSIGN_OR_RETURN(const Graph graph, read_graph_file(path));
  CompileOptions options;
  options.planner = "none";
  options.device = target;
  options.stop_after = "plan";
  WEFT_ASSIGN_OR_RETURN(const auto compiled, compile_graph(graph, options));
  Group group{{}, compiled->tensors.outputs};
  for (size_t e = 0; e < compiled->tensors.exprs.size(); ++e)
    group.exprs.push_back(static_cast<ExprId>(e));
  const BlockSpace whole(compiled->tensors, group, target);
  WEFT_ASSIGN_OR_RETURN(const auto all, shared_axes(whole));
  const SharedAxis& shared = all.front();
  const BlockSpace steps(whole, shared.carried, target);
  WEFT_ASSIGN_OR_RETURN(const ChainAxes axes, chain_axes(whole, shared, steps));
  const Chain chain{steps, shared, axes, target};
  const FragmentProblem problem = fragment_problem(steps, shared.carried, axes, 0, target);
  const auto room =
      static_cast<double>(target.is_gpu() ? target.shared_bytes_per_block : target.l2_bytes / 2);
  std::minstd_rand random(1);
  int sampled = 0, near = 0, same = 0, written = 0;
  double most = 0;
  for (int draw = 0; draw < 20 * count && sampled < count; ++draw) {
    const auto memory =
        target.is_gpu() ? of_fragments(chain, problem, random) : of_stages(chain, random);
    if (!memory.ok()) continue;
    const double off = std::abs(memory->estimated - memory->built) / memory->built;
    ++sampled;
    near += off <= 0.1;
    same += (memory->estimated <= room) == (memory->built <= room);
    most = std::max(most, off);
    written += std::abs(memory->written - memory->built) <= 0.1 * memory->built;
  }
  const std::string name = path.substr(path.find_last_of('/') + 1);
  fmt::print("| {} | {} | {:.0f}% | {:.0f}% | {:.0f}% | {:.0f}% |\n",
             name.substr(0, name.find('.')), sampled, 100.0 * near / sampled,
             100.0 * same / sampled, 100 * most, 100.0 * written / sampled);
  return {};
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const auto target = argc > 3 ? weft::find_target(argv[1]) : weft::find_target("a100-40gb");
  if (argc < 4 || !target.ok()) {
    std::fprintf(stderr, "tile_memory TARGET TILES FILE.graph …\n");
    return 2;
  }
  for (int i = 3; i < argc; ++i) {
    const weft::Status status = weft::measure(argv[i], *target, std::atoi(argv[2]));
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}
