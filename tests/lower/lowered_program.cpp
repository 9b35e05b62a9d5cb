#include "tests/lower/lowered_program.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lower/lower.h"
#include "tile/text/tile_text.h"

namespace weft::testing {

namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

int64_t count_block(const KernelBlock& block,
                    const std::function<bool(const KernelInstruction&)>& f) {
  int64_t n = 0;
  for (const KernelInstruction& in : block.body) {
    n += f(in) ? 1 : 0;
    for (const KernelBlock& region : in.regions) n += count_block(region, f);
  }
  return n;
}

int64_t count_if(const KernelFunction& kernel,
                 const std::function<bool(const KernelInstruction&)>& f) {
  int64_t n = 0;
  for (const KernelPhase& phase : kernel.phases) n += count_block(phase.body, f);
  return n;
}

}  // namespace

HostTensor sample(DType type, Shape shape, uint64_t seed, double lo, double hi) {
  HostTensor tensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double unit =
        static_cast<double>(mix(static_cast<uint64_t>(i) * 977 + seed) >> 11) * 0x1p-53;
    const double value = lo + (hi - lo) * unit;
    if (is_float(type)) {
      tensor.set_double(i, value);
    } else {
      tensor.set_int(i, type == DType::kBool ? static_cast<int64_t>(unit < 0.5)
                                             : static_cast<int64_t>(std::floor(value)));
    }
  }
  return tensor;
}

double at(const HostTensor& tensor, const Coordinates& coordinates) {
  int64_t i = 0;
  for (size_t a = 0; a < coordinates.size(); ++a) i = i * tensor.shape()[a] + coordinates[a];
  return tensor.at_double(i);
}

Target test_target(int vector_bytes) {
  Target target;
  target.name = "test";
  target.threads = 2;
  target.vector_bytes = vector_bytes;
  target.vector_registers = vector_bytes == 64 ? 32 : 16;
  return target;
}

KernelFunction lower_text(std::string_view text, const Target& target) {
  const Result<TileProgram> program = parse_tile_program(text);
  if (!program.ok()) {
    ADD_FAILURE() << "parse: " << program.error().message;
    return {};
  }
  const Result<KernelFunction> kernel = lower_to_kernel(*program, target);
  if (!kernel.ok()) {
    ADD_FAILURE() << "lower: " << kernel.error().message;
    return {};
  }
  const Status verified = verify_kernel(*kernel);
  EXPECT_TRUE(verified.ok()) << verified.error().message << "\n" << print(*kernel);
  return *kernel;
}

std::map<std::string, HostTensor> run_kernel(const TileProgram& program,
                                             const KernelFunction& kernel, const Inputs& inputs,
                                             int parts, const std::vector<int64_t>& arguments) {
  for (const TileSymbolId p : program.parameters) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(p)];
    if (symbol.kind != TileSymbol::Kind::kInput) continue;
    const HostTensor& value = inputs.at(symbol.name);
    EXPECT_EQ(value.dtype(), symbol.type) << symbol.name;
    EXPECT_EQ(value.shape(), shape_of(program, symbol)) << symbol.name;
  }
  const Result<Inputs> outputs = execute_parts(program, kernel, inputs, parts, arguments);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message << "\n" << print(kernel);
  return outputs.ok() ? *outputs : Inputs{};
}

void expect_lowered(std::string_view text, const Inputs& inputs, const std::string& output,
                    const std::function<double(const Coordinates&)>& expected, double tolerance) {
  const KernelFunction kernel = lower_text(text);
  if (kernel.phases.empty()) {
    ADD_FAILURE() << "no kernel";
    return;
  }
  const TileProgram program = *parse_tile_program(text);
  // Threads that wait for each other inside a phase do not run one after the other.
  const bool whole = kernel.is_gpu() || kernel.inner_barriers;
  const std::vector<int> cuts = whole ? std::vector<int>{1} : std::vector<int>{1, 3};
  for (const int parts : cuts) {
    const HostTensor got = run_kernel(program, kernel, inputs, parts).at(output);
    int wrong = 0;
    for_each_element(got.shape(), [&](int64_t i, const Coordinates& c) {
      const double e = expected(c), g = got.at_double(i);
      const bool same = std::isnan(e)   ? std::isnan(g)
                        : std::isinf(e) ? e == g
                                        : std::abs(e - g) <= tolerance * std::max(1.0, std::abs(e));
      if (same || wrong++ > 4) return;
      ADD_FAILURE() << output << " " << ::testing::PrintToString(c) << ": " << g << ", not " << e
                    << " (" << parts << " parts)";
    });
    if (wrong > 0) {
      ADD_FAILURE() << wrong << " of " << got.size() << " elements are wrong\n" << print(kernel);
      return;
    }
  }
}

int64_t count_instructions(const KernelFunction& kernel) {
  return count_if(kernel, [](const KernelInstruction&) { return true; });
}

int64_t count_instructions(const KernelFunction& kernel, KernelOp op) {
  return count_if(kernel, [op](const KernelInstruction& in) { return in.op == op; });
}

int64_t shared_loads(const KernelFunction& kernel, bool guarded) {
  return count_if(kernel, [&](const KernelInstruction& in) {
    if (in.op != KernelOp::kLoad) return false;
    const auto buffer = static_cast<size_t>(in.as<LoadPayload>().buffer);
    return kernel.buffers[buffer].kind == KernelBuffer::Kind::kShared &&
           (in.operands.size() > 1) == guarded;
  });
}

}  // namespace weft::testing
