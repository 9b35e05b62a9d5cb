#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernel/kernel_function.h"
#include "schedule/writer/scheduled_kernel.h"
#include "support/tensor.h"
#include "tile/tile_program.h"

/// Kernels on the reference executors. Inline, so that every test binary can include them without a
/// library of tests.
namespace weft::testing {

using Coordinates = std::vector<int64_t>;
using Inputs = std::map<std::string, HostTensor>;

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

inline Shape shape_of(const TileProgram& program, const TileSymbol& symbol) {
  Shape shape;
  for (const IndexExpr& e : symbol.shape) {
    shape.push_back(
        evaluate(e, [&](int id) { return program.vars[static_cast<size_t>(id)].extent; }));
  }
  return shape;
}

/// The physical position of every logical element, in row-major order of the logical shape.
inline std::vector<int64_t> positions(const Layout& layout, const Shape& shape) {
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

/// The same phases, each as `parts` phases over uneven ranges of its items.
inline KernelFunction cut_phases(const KernelFunction& kernel, int parts) {
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

/// Runs a kernel of `program` on the reference executor, its phases cut into `parts` ranges of work
/// items. Parameters are put into and taken from their layouts; inputs are of the types that the
/// program declares.
inline Result<Inputs> execute_parts(const TileProgram& program, const KernelFunction& kernel,
                                    const Inputs& inputs, int parts,
                                    const std::vector<int64_t>& arguments = {}) {
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
    copy(n, false, value);
  }
  std::vector<std::span<std::byte>> spans;
  for (size_t b = 0; b < storage.size(); ++b) {
    // Shared memory is the executor's own.
    if (kernel.buffers[b].kind != KernelBuffer::Kind::kShared) spans.emplace_back(storage[b]);
  }
  WEFT_RETURN_IF_ERROR(
      execute_kernel(parts > 1 ? cut_phases(kernel, parts) : kernel, spans, arguments));
  Inputs outputs;
  for (size_t n = 0; n < program.parameters.size(); ++n) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(program.parameters[n])];
    if (symbol.kind != TileSymbol::Kind::kOutput) continue;
    HostTensor value(symbol.type, shape_of(program, symbol));
    copy(n, true, value);
    outputs[symbol.name] = value;
  }
  return outputs;
}

/// Values of all tensors, by TensorId, as the evaluation of expressions gives them.
inline Result<std::vector<HostTensor>> all_tensors(TensorProgram program,
                                                   const std::vector<HostTensor>& inputs) {
  program.outputs.clear();
  program.output_names.clear();
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    program.outputs.push_back(static_cast<TensorId>(t));
    program.output_names.push_back("t" + std::to_string(t));
  }
  return evaluate(program, inputs);
}

inline Shape known_shape(const TileSymbol& symbol) {
  Shape shape;
  for (const IndexExpr& e : symbol.shape) shape.push_back(e.constant());
  return shape;
}

/// A tensor's value as the kernel's parameter sees it: in physical order, under the parameter's
/// shape, and in its type, which of a constant may be a wider one.
inline HostTensor as_parameter(const Layout& layout, const HostTensor& value,
                               const TileSymbol& symbol) {
  HostTensor physical(symbol.type, {value.size()});
  const std::vector<int64_t> to = positions(layout, value.shape());
  if (symbol.type != value.dtype()) {
    for (int64_t i = 0; i < value.size(); ++i) {
      physical.set_double(to[static_cast<size_t>(i)], value.at_double(i));
    }
    return physical.reshaped(known_shape(symbol));
  }
  for (int64_t i = 0; i < value.size(); ++i) {
    const auto size = static_cast<size_t>(byte_size(value.dtype()));
    std::memcpy(physical.mutable_raw() + static_cast<size_t>(to[static_cast<size_t>(i)]) * size,
                value.raw() + static_cast<size_t>(i) * size, size);
  }
  return physical.reshaped(known_shape(symbol));
}

/// What a planned kernel makes, and what its expressions make of the same.
struct KernelValues {
  std::vector<TensorId> tensors;
  std::vector<HostTensor> expected, got;
};

/// A kernel of `program` as scheduled and lowered, on the values that the expressions before it
/// have (all_tensors).
inline Result<KernelValues> run_planned(const TensorProgram& program,
                                        const ScheduledKernel& schedule,
                                        const KernelFunction& kernel,
                                        const std::vector<HostTensor>& values, int parts) {
  const TileProgram& tile = schedule.program;
  Inputs inputs;
  std::vector<std::string> names;
  KernelValues out;
  for (size_t i = 0; i < tile.parameters.size(); ++i) {
    const TileSymbol& symbol = tile.symbols[static_cast<size_t>(tile.parameters[i])];
    const TensorId t = schedule.parameters[i];
    const auto order = schedule.orders.find(t);
    const Layout& layout = order == schedule.orders.end()
                               ? program.tensors[static_cast<size_t>(t)].layout
                               : order->second;
    const Tensor& tensor = program.tensors[static_cast<size_t>(t)];
    const HostTensor value =
        as_parameter(layout, values[static_cast<size_t>(t)].reshaped(tensor.type.shape), symbol);
    if (symbol.kind == TileSymbol::Kind::kInput) {
      inputs[symbol.name] = value;
    } else {
      names.push_back(symbol.name);
      out.tensors.push_back(t);
      out.expected.push_back(value);
    }
  }
  WEFT_ASSIGN_OR_RETURN(const Inputs outputs, execute_parts(tile, kernel, inputs, parts));
  for (const std::string& name : names) out.got.push_back(outputs.at(name));
  return out;
}

}  // namespace weft::testing
