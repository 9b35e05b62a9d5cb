#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/kernel_function.h"
#include "support/tensor.h"
#include "target/target.h"
#include "tests/lower/run_kernel.h"
#include "tile/tile_program.h"

namespace weft::testing {

/// Values in [lo, hi), different for every element and seed; integers and bools alike.
HostTensor sample(DType type, Shape shape, uint64_t seed, double lo = -1, double hi = 1);
/// An element by coordinates.
double at(const HostTensor& tensor, const Coordinates& coordinates);

/// A 512-bit machine whose figures are written here: tests do not depend on where they run.
Target test_target(int vector_bytes = 64);

/// Parses and lowers; a failure of any step, verify_kernel included, fails the test.
KernelFunction lower_text(std::string_view text, const Target& target = test_target());

/// execute_parts; a failure fails the test.
std::map<std::string, HostTensor> run_kernel(const TileProgram& program,
                                             const KernelFunction& kernel, const Inputs& inputs,
                                             int parts, const std::vector<int64_t>& arguments = {});

/// Lowers the text, runs it whole and cut in uneven parts, and compares every element of `output`
/// with `expected(coordinates)`.
void expect_lowered(std::string_view text, const Inputs& inputs, const std::string& output,
                    const std::function<double(const Coordinates&)>& expected,
                    double tolerance = 2e-6);

/// Instructions of an op in the whole kernel, regions included.
int64_t count_instructions(const KernelFunction& kernel);
int64_t count_instructions(const KernelFunction& kernel, KernelOp op);
/// Loads of shared memory that a mask guards, or those that none does.
int64_t shared_loads(const KernelFunction& kernel, bool guarded);

}  // namespace weft::testing
