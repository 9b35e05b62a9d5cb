#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "target/target.h"

/// Tangled graphs (tests/graph/tangled_graph.h) through the whole compiler, for any device.
namespace weft::testing {

/// All that a seed draws.
struct TangledCase {
  uint64_t seed = 0;
  Graph graph;
  bool runs = false;  ///< small enough for the reference executors
  std::string planner;
  std::string compositions;  ///< as CompileOptions::compositions
  bool fast_math = false;
  Target target;
};
TangledCase tangled_case(uint64_t seed);
/// Seeds from here on draw graphs with convolutions.
inline constexpr uint64_t kConvolutionsFrom = 3'000'000;

/// "auto for h100-sxm with 4 SMs", and how the command would be asked for it.
std::string describe(const TangledCase& c);

enum class TangledRun : uint8_t {
  kExecutor,  ///< each kernel on the reference executor, on the values that its expressions read
  kWhole      ///< that, and the whole program: machine code here, CUDA text on the emulator
};

/// "" where the graph is planned, scheduled and lowered, every level verifies, and what is run
/// computes what the interpreter does; else what is wrong. The first line names the kind.
std::string fault(const TangledCase& c, TangledRun how = TangledRun::kExecutor);

/// Fewer nodes, inputs and outputs with a fault of the same kind: values become inputs and outputs
/// disappear while it stays.
TangledCase reduced(const TangledCase& c, TangledRun how = TangledRun::kExecutor);

}  // namespace weft::testing
