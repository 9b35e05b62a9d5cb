#include <fmt/format.h>

#include <cmath>

#include "kernel/kernel_function.h"
#include "kernel/kernel_op.h"

namespace weft {
namespace {

std::string type_text(KernelType t) {
  return t.lanes == 1 ? std::string(dtype_name(t.dtype))
                      : fmt::format("{}x{}", dtype_name(t.dtype), t.lanes);
}

/// Shortest digits that read back as the same value.
std::string value_text(const ScalarValue& v) {
  if (!is_float(v.type)) return fmt::format("{}", v.i);
  if (std::isnan(v.f)) return "nan";
  if (std::isinf(v.f)) return v.f < 0 ? "-inf" : "inf";
  return v.type == DType::kF64 ? fmt::format("{}", v.f)
                               : fmt::format("{}", static_cast<float>(v.f));
}

std::string quoted(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class KernelPrinter {
 public:
  explicit KernelPrinter(const KernelFunction& kernel) : kernel_(kernel) {}

  std::string run() {
    out_ = "kernel " + quoted(kernel_.name) + " {\n";
    if (kernel_.argument_count != 0)
      out_ += fmt::format("  arguments {}\n", kernel_.argument_count);
    if (kernel_.is_gpu()) {
      out_ += fmt::format("  gpu blocks {} warps {} per_sm {} shared {}", kernel_.blocks,
                          kernel_.warps, kernel_.blocks_per_sm, kernel_.shared_bytes);
      if (kernel_.cluster > 1) out_ += fmt::format(" cluster {}", kernel_.cluster);
      out_ += '\n';
    }
    if (kernel_.library) out_ += "  library " + quoted(print(*kernel_.library)) + "\n";
    if (kernel_.scratch_bytes != 0) out_ += fmt::format("  scratch {}\n", kernel_.scratch_bytes);
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) add_buffer(i);
    for (const KernelPhase& phase : kernel_.phases) {
      out_ += fmt::format("  phase {} ({}) {{\n", phase.work_items, list(phase.body.parameters));
      add_block(phase.body, 2);
      out_ += "  }\n";
    }
    return out_ + "}\n";
  }

 private:
  void add_buffer(size_t i) {
    const KernelBuffer& b = kernel_.buffers[i];
    out_ += fmt::format("  buffer {} {} {} {}[{}] align {}", i, quoted(b.name),
                        buffer_kind_name(b.kind), dtype_name(b.dtype), b.elements, b.alignment);
    if (b.scratch_offset != 0) out_ += fmt::format(" offset {}", b.scratch_offset);
    out_ += '\n';
  }

  static std::string list(const std::vector<Reg>& regs) {
    std::string out;
    for (const Reg r : regs) out += fmt::format("{}%{}", out.empty() ? "" : ", ", r);
    return out;
  }

  std::string typed(Reg r) const { return fmt::format("%{}: {}", r, type_text(kernel_.type(r))); }

  void add_block(const KernelBlock& block, int depth) {
    for (const KernelInstruction& in : block.body) add_instruction(in, depth);
    if (!block.yields.empty()) {
      out_.append(static_cast<size_t>(depth) * 2, ' ');
      out_ += "yield " + list(block.yields) + "\n";
    }
  }

  void add_instruction(const KernelInstruction& in, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    out_ += indent;
    for (size_t i = 0; i < in.results.size(); ++i) {
      out_ += (i == 0 ? "" : ", ") + typed(in.results[i]);
    }
    if (!in.results.empty()) out_ += " = ";
    out_ += kernel_op_name(in.op);
    if (in.op == KernelOp::kFor) {
      add_for(in, depth);
    } else if (in.op == KernelOp::kIf) {
      out_ += fmt::format(" {} {{\n", list(in.operands));
      add_block(in.regions[0], depth + 1);
      if (!in.regions[1].body.empty() || !in.regions[1].yields.empty()) {
        out_ += indent + "} else {\n";
        add_block(in.regions[1], depth + 1);
      }
      out_ += indent + "}";
    } else {
      std::visit([&](const auto& payload) { add(in, payload); }, in.payload);
    }
    out_ += '\n';
  }

  void add_for(const KernelInstruction& in, int depth) {
    const KernelBlock& body = in.regions[0];
    out_ += fmt::format(" ({} = %{} to %{} step %{}", typed(body.parameters[0]), in.operands[0],
                        in.operands[1], in.operands[2]);
    for (size_t i = 3; i < in.operands.size(); ++i) {
      out_ += fmt::format(", {} = %{}", typed(body.parameters[i - 2]), in.operands[i]);
    }
    out_ += ") {\n";
    add_block(body, depth + 1);
    out_ += std::string(static_cast<size_t>(depth) * 2, ' ') + "}";
  }

  void add_operands(const KernelInstruction& in) {
    if (!in.operands.empty()) out_ += " " + list(in.operands);
  }
  void add_mask(const KernelInstruction& in) {
    if (const auto mask = mask_operand(in)) out_ += fmt::format(" mask %{}", in.operands[*mask]);
  }
  void add_filler(const KernelInstruction& in, const ScalarValue& filler) {
    if (mask_operand(in)) out_ += " else " + value_text(filler);
  }

  // What follows the name, by what the instruction holds; parse_kernel reads it in the same order.
  void add(const KernelInstruction& in, const NoPayload&) { add_operands(in); }
  void add(const KernelInstruction&, const ConstPayload& p) { out_ += " " + value_text(p.value); }
  void add(const KernelInstruction&, const ArgumentPayload& p) {
    out_ += fmt::format(" {}", p.number);
  }
  void add(const KernelInstruction& in, const ApplyPayload& p) {
    out_ +=
        fmt::format(" {}{}", scalar_op_name(p.op), p.exponent_nonpositive ? " nonpositive" : "");
    add_operands(in);
  }
  void add(const KernelInstruction& in, const ReduceLanesPayload& p) {
    out_ += fmt::format(" {}", combiner_name(p.combiner));
    add_operands(in);
  }
  void add(const KernelInstruction& in, const ExtractPayload& p) {
    add_operands(in);
    out_ += fmt::format(" [{}]", p.lane);
  }
  void add(const KernelInstruction& in, const ShufflePayload& p) {
    add_operands(in);
    out_ += fmt::format(" [{}]", fmt::join(p.lanes, ", "));
  }
  void add(const KernelInstruction& in, const LookUpPayload& p) {
    add_operands(in);
    out_ += fmt::format(" [{}]", fmt::join(p.entries, ", "));
  }
  void add(const KernelInstruction& in, const LoadPayload& p) {
    out_ += fmt::format(" {}[%{}]", p.buffer, in.operands[0]);
    add_mask(in);
    add_filler(in, p.filler);
  }
  void add(const KernelInstruction& in, const StorePayload& p) {
    out_ += fmt::format(" {}[%{}], %{}", p.buffer, in.operands[0], in.operands[1]);
    add_mask(in);
    if (p.non_temporal) out_ += " non_temporal";
  }
  void add(const KernelInstruction& in, const PrefetchPayload& p) {
    out_ += fmt::format(" {}[%{}]{}", p.buffer, in.operands[0], p.for_write ? " write" : "");
  }
  void add(const KernelInstruction&, const PositionPayload& p) {
    out_ += fmt::format(" {}", position_name(p.position));
  }
  void add(const KernelInstruction& in, const WarpXorPayload& p) {
    add_operands(in);
    out_ += fmt::format(" [{}]", p.lane_bits);
  }
  void add(const KernelInstruction&, const BarrierPayload& p) {
    out_ += fmt::format(" {}", barrier_name(p.scope));
  }
  void add(const KernelInstruction& in, const LoadClusterPayload& p) {
    out_ += fmt::format(" {}[%{}] of %{}", p.buffer, in.operands[1], in.operands[0]);
    add_mask(in);
    add_filler(in, p.filler);
  }
  void add(const KernelInstruction& in, const CopyAsyncPayload& p) {
    out_ += fmt::format(" {}[%{}], {}[%{}] x{}", p.to, in.operands[0], p.from, in.operands[1],
                        p.elements);
    add_mask(in);
  }
  void add(const KernelInstruction&, const WaitAsyncPayload& p) {
    out_ += fmt::format(" {}", p.groups_left);
  }
  void add(const KernelInstruction& in, const LoadMatrixPayload& p) {
    out_ += fmt::format(" {}[%{}] x{}{}", p.buffer, in.operands[0], p.matrices,
                        p.transposed ? " transposed" : "");
  }
  void add(const KernelInstruction& in, const MatrixMultiplyPayload& p) {
    out_ += fmt::format(" {}", unit_name(p.unit));
    add_operands(in);
  }

  void add(const KernelInstruction& in, const GroupMultiplyPayload& p) {
    const auto panels = [&](int32_t buffer, size_t operand, int32_t panel, bool across) {
      out_ += fmt::format(" {}[%{}] panels {}{}", buffer, in.operands[operand], panel,
                          across ? " across" : "");
    };
    out_ += fmt::format(" {} columns {} depth {}", unit_name(p.unit), p.columns, p.depth);
    panels(p.left, 0, p.left_panel, p.left_across);
    out_ += ',';
    panels(p.right, 1, p.right_panel, p.right_across);
    if (p.under_way) out_ += ", under_way";
    for (size_t i = 2; i < in.operands.size(); ++i) out_ += fmt::format(", %{}", in.operands[i]);
  }

  const KernelFunction& kernel_;
  std::string out_;
};

}  // namespace

std::string print(const KernelFunction& kernel) { return KernelPrinter(kernel).run(); }

}  // namespace weft
