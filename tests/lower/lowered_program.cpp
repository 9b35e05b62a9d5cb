#include "tests/lower/lowered_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

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

template <typename F>
void for_each_element(const Shape& shape, F&& f) {
  Coordinates at(shape.size(), 0);
  int64_t n = 1;
  for (const int64_t e : shape) n *= e;
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    for (size_t a = shape.size(); a-- > 0;) {
      at[a] = rest % shape[a];
      rest /= shape[a];
    }
    f(i, at);
  }
}

Shape shape_of(const TileProgram& program, const TileSymbol& symbol) {
  Shape shape;
  for (const IndexExpr& e : symbol.shape) {
    shape.push_back(
        evaluate(e, [&](int id) { return program.vars[static_cast<size_t>(id)].extent; }));
  }
  return shape;
}

/// The same phases, each as `parts` phases over uneven ranges of its items.
KernelFunction cut_phases(const KernelFunction& kernel, int parts) {
  KernelFunction cut = kernel;
  cut.phases.clear();
  for (const KernelPhase& phase : kernel.phases) {
    int64_t from = 0;
    for (int p = 0; p < parts; ++p) {
      const int64_t to =
          p + 1 == parts ? phase.work_items : phase.work_items * (p * p + 1) / (parts * parts);
      KernelPhase part;
      part.work_items = phase.work_items;
      part.body = phase.body;
      const int64_t bounds[2] = {from, to};
      for (size_t k = 0; k < 2; ++k) {
        KernelInstruction c{KernelOp::kConst, ConstPayload{int_value(DType::kI64, bounds[k])}};
        c.results = {phase.body.parameters[k]};
        part.body.body.insert(part.body.body.begin(), c);
        part.body.parameters[k] = static_cast<Reg>(cut.types.size());
        cut.types.push_back({DType::kI64, 1});
      }
      cut.phases.push_back(std::move(part));
      from = to;
    }
  }
  return cut;
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

std::vector<int64_t> positions(const Layout& layout, const Shape& shape) {
  std::vector<IndexExpr> indices;
  for (size_t a = 0; a < shape.size(); ++a) indices.push_back(IndexExpr::var(static_cast<int>(a)));
  const IndexExpr offset = element_offset(layout, shape, indices, [&](int id) {
    return Interval{0, shape[static_cast<size_t>(id)] - 1};
  });
  std::vector<int64_t> out;
  for_each_element(shape, [&](int64_t, const Coordinates& at) {
    out.push_back(evaluate(offset, [&](int id) { return at[static_cast<size_t>(id)]; }));
  });
  return out;
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
  std::vector<std::vector<std::byte>> storage;
  for (const KernelBuffer& b : kernel.buffers) {
    storage.emplace_back(static_cast<size_t>(b.elements * byte_size(b.dtype)), std::byte{0x7b});
  }
  const auto copy = [&](size_t number, bool out, HostTensor& tensor) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(program.parameters[number])];
    const auto size = static_cast<size_t>(byte_size(symbol.type));
    int64_t i = 0;
    for (const int64_t p : positions(symbol.layout, shape_of(program, symbol))) {
      std::byte* physical = storage[number].data() + static_cast<size_t>(p) * size;
      std::byte* logical = tensor.mutable_raw() + static_cast<size_t>(i++) * size;
      std::memcpy(out ? logical : physical, out ? physical : logical, size);
    }
  };
  for (size_t n = 0; n < program.parameters.size(); ++n) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(program.parameters[n])];
    if (symbol.kind != TileSymbol::Kind::kInput) continue;
    // What a layout rounds up holds zero.
    std::fill(storage[n].begin(), storage[n].end(), std::byte{0});
    HostTensor value = inputs.at(symbol.name);
    EXPECT_EQ(value.dtype(), symbol.type) << symbol.name;
    EXPECT_EQ(value.shape(), shape_of(program, symbol)) << symbol.name;
    copy(n, false, value);
  }
  std::vector<std::span<std::byte>> spans;
  for (size_t b = 0; b < storage.size(); ++b) {
    // Shared memory is the executor's own.
    if (kernel.buffers[b].kind != KernelBuffer::Kind::kShared) spans.emplace_back(storage[b]);
  }
  const Status status =
      execute_kernel(parts > 1 ? cut_phases(kernel, parts) : kernel, spans, arguments);
  EXPECT_TRUE(status.ok()) << status.error().message << "\n" << print(kernel);
  std::map<std::string, HostTensor> outputs;
  for (size_t n = 0; n < program.parameters.size(); ++n) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(program.parameters[n])];
    if (symbol.kind != TileSymbol::Kind::kOutput) continue;
    HostTensor value(symbol.type, shape_of(program, symbol));
    copy(n, true, value);
    outputs[symbol.name] = value;
  }
  return outputs;
}

void expect_lowered(std::string_view text, const Inputs& inputs, const std::string& output,
                    const std::function<double(const Coordinates&)>& expected, double tolerance) {
  const KernelFunction kernel = lower_text(text);
  if (kernel.phases.empty()) {
    ADD_FAILURE() << "no kernel";
    return;
  }
  const TileProgram program = *parse_tile_program(text);
  const std::vector<int> cuts = kernel.is_gpu() ? std::vector<int>{1} : std::vector<int>{1, 3};
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

}  // namespace weft::testing
