// How far the memory of a block that a chain's tiles are estimated to take (MCFuser, Eq. 1) is from
// what the built program takes, over tiles drawn at random: the chain; tiles; how many are within a
// tenth; of how many is said rightly whether they fit; the most that one is off; how many are
// within a tenth by the equation as it is written, which counts what lies in registers, and no
// stages.
//
//     bench/chains --graphs FOLDER
//     build/release/tile_memory a100-40gb 64 FOLDER/G4.graph …    (target, tiles of each chain)

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "driver/compiler.h"
#include "driver/graph_file.h"
#include "fmt/format.h"
#include "schedule/stages/chain_axes.h"
#include "schedule/stages/fragment_chain.h"
#include "schedule/stages/fragment_time.h"
#include "target/target.h"
#include "tiling/tile_candidates.h"

namespace weft {
namespace {

/// The tiles that a composer considers (schedule/stages/compose_fragments).
FragmentTiles drawn(const ChainAxes& axes, std::minstd_rand& random) {
  const auto one_of = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  FragmentTiles out;
  out.choice.warps = one_of({1, 2, 4, 8});
  out.choice.stages = one_of({2, 3});
  out.choice.depth = one_of({0, 32, 64, 128});
  out.choice.left_in_block = one_of({0, 1}) == 1;
  out.rows = out.choice.warps * 16 * one_of({1, 2, 4});
  out.step = one_of({16, 32, 64, 128});
  out.made = std::min(axes.made, one_of({32, 64, 128, int64_t{1} << 20}));
  return out;
}

Result<int64_t> built_bytes(const BlockSpace& steps, const SharedAxis& shared,
                            const ChainAxes& axes, const FragmentTiles& tiles,
                            const Target& target) {
  BlockPartition partition = axes.partition;
  partition.loops[static_cast<size_t>(axes.row_loop)].step = tiles.rows;
  if (tiles.made < axes.made) {
    BlockPartition::Loop loop;
    loop.step = tiles.made;
    loop.axes.assign(partition.roots.size(), -1);
    loop.axes[0] = axes.made_axis;
    partition.loops.push_back(loop);
  }
  WEFT_ASSIGN_OR_RETURN(const DemandBoxes demand,
                        demand_boxes(steps.program(), steps.group(), partition,
                                     steps.carrying(shared.carried, tiles.step)));
  WEFT_ASSIGN_OR_RETURN(
      const ScheduledKernel kernel,
      build_fragment_chain(steps, partition, axes.row_loop, demand, tiles.choice, target, "chain"));
  return kernel.scopes.block_bytes;
}

Status measure(const std::string& path, const Target& target, int count) {
  WEFT_ASSIGN_OR_RETURN(const Graph graph, read_graph_file(path));
  CompileOptions options;
  options.planner = "chain";
  options.device = target;
  options.stop_after = "plan";
  WEFT_ASSIGN_OR_RETURN(const auto compiled, compile_graph(graph, options));
  if (compiled->plan.kernels.size() != 1) return invalid_input(path + " is no single chain");
  const BlockSpace whole(compiled->tensors, compiled->plan.kernels[0].group, target);
  WEFT_ASSIGN_OR_RETURN(const auto all, shared_axes(whole));
  const SharedAxis& shared = all.front();
  const BlockSpace steps(whole, shared.carried, target);
  WEFT_ASSIGN_OR_RETURN(const ChainAxes axes, chain_axes(whole, shared, steps));
  const FragmentProblem problem = fragment_problem(steps, shared.carried, axes, 0, target);
  std::minstd_rand random(1);
  int sampled = 0, near = 0, same = 0, written = 0;
  double most = 0;
  for (int draw = 0; draw < 20 * count && sampled < count; ++draw) {
    const FragmentTiles tiles = drawn(axes, random);
    const auto built = built_bytes(steps, shared, axes, tiles, target);
    if (!built.ok()) continue;
    const auto estimated = static_cast<double>(fragment_bytes(problem, tiles, target)),
               real = static_cast<double>(*built);
    const double off = std::abs(estimated - real) / real;
    const auto room = static_cast<double>(target.shared_bytes_per_block);
    ++sampled;
    near += off <= 0.1;
    same += (estimated <= room) == (real <= room);
    most = std::max(most, off);
    ContractionChain chain = axes.loops;
    chain.element_bytes = problem.bytes;
    const int64_t depth = tiles.choice.depth > 0 ? tiles.choice.depth : chain.extents[kDepthLoop];
    const auto plain =
        static_cast<double>(block_bytes(chain, {tiles.rows, depth, tiles.step, tiles.made}));
    written += std::abs(plain - real) <= 0.1 * real;
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
