#include "codegen/cuda/emit_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "codegen/cuda/approximations.h"
#include "codegen/cuda/group_unit.h"
#include "codegen/cuda/index_facts.h"
#include "codegen/cuda/scalar_text.h"
#include "codegen/cuda/share_parts.h"
#include "kernel/kernel_op.h"
#include "support/check.h"

namespace weft {
namespace {

constexpr int64_t kWidestAccess = 16;  ///< bytes of one thread's load or store
constexpr int64_t kNarrowestCopy = 4;  ///< bytes of an asynchronous copy

std::string identifier(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += fine ? c : '_';
  }
  return out.empty() || (out[0] >= '0' && out[0] <= '9') ? "k" + out : out;
}

class CudaEmitter {
 public:
  explicit CudaEmitter(const KernelFunction& kernel)
      : kernel_(kernel),
        facts_(derive_index_facts(kernel)),
        approximations_(kernel),
        names_(kernel.types.size()) {
    for (const KernelPhase& phase : kernel.phases) note_uses(phase.body);
  }

  CudaKernel run(bool shares) {
    CudaKernel out;
    out.name = identifier(kernel_.name);
    out.blocks = kernel_.blocks;
    out.threads = kernel_.threads();
    out.shared_bytes = kernel_.shared_bytes;
    const bool meets = has_grid_barrier(kernel_);
    out.grid_barrier = meets && meeting_of_grid(kernel_) == KernelBarrier::kGrid;
    out.cluster = kernel_.cluster;
    out.blocks_per_sm = std::max(kernel_.blocks_per_sm, 1);
    const std::vector<std::pair<std::string, std::string>> list =
        parameters(meets, out.grid_barrier);
    std::vector<std::string> declared;
    std::map<std::string, std::string> types;
    for (const auto& [type, parameter] : list) {
      declared.push_back(fmt::format("{} {}", type, parameter));
      types[parameter] = type;
    }
    const std::string signature =
        fmt::format("WF_KERNEL({}, {}, {})({}) {{\n", out.name, out.threads, out.blocks_per_sm,
                    fmt::join(declared, ", "));
    depth_ = 1;
    declare_shared();
    for (size_t p = 0; p < kernel_.phases.size(); ++p) {
      if (p > 0) line(barrier_call(KernelBarrier::kGrid));
      emit_phase(kernel_.phases[p]);
    }
    std::string units;
    for (size_t i = 0; i < group_units_.size(); ++i)
      units.append(group_unit_text(i, group_units_[i]));
    const SharedParts shared =
        shares ? share_parts(text_, out.name, types) : SharedParts{"", text_};
    out.shares = !shared.functions.empty();
    out.text = "#include \"weft_cuda.h\"\n" + cuda_scalar_functions(text_) + units +
               shared.functions + signature + shared.body +
               fmt::format("}}\nWF_EXPORT({})\n", out.name);
    return out;
  }

 private:
  void line(const std::string& text) {
    text_.append(static_cast<size_t>(depth_) * 2, ' ');
    text_ += text;
    text_ += '\n';
  }
  void open(const std::string& text) {
    line(text + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  void note_uses(const KernelBlock& block) {
    for (const KernelInstruction& in : block.body) {
      if (const auto* load = std::get_if<LoadPayload>(&in.payload)) loaded_.insert(load->buffer);
      if (const auto* copy = std::get_if<CopyAsyncPayload>(&in.payload)) loaded_.insert(copy->from);
      by_groups_ |= in.op == KernelOp::kGroupMultiply;
      for (const KernelBlock& inner : in.regions) note_uses(inner);
    }
  }

  const KernelBuffer& buffer(int32_t number) const {
    return kernel_.buffers[static_cast<size_t>(number)];
  }

  std::string barrier_call(KernelBarrier scope) const {
    constexpr std::string_view kCalls[] = {"wf_sync_warp(WF_FULL);", "wf_sync_block();",
                                           "wf_sync_cluster();", "wf_sync_grid(barrier);"};
    if (scope == KernelBarrier::kGrid) scope = meeting_of_grid(kernel_);
    return std::string(kCalls[static_cast<size_t>(scope)]);
  }

  /// Types and names. `meets`: all blocks do; `grid_barrier`: at the counter of one.
  std::vector<std::pair<std::string, std::string>> parameters(bool meets, bool grid_barrier) const {
    std::vector<std::pair<std::string, std::string>> list;
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      const KernelBuffer& info = kernel_.buffers[b];
      WEFT_CHECK(info.kind != KernelBuffer::Kind::kScratch,
                 "scratch of a thread in a GPU's kernel " + kernel_.name);
      if (info.kind == KernelBuffer::Kind::kShared) continue;
      const bool input = info.kind == KernelBuffer::Kind::kInput;
      // What crosses a barrier of the grid is read after others wrote it, and what is stored behind
      // one may lie where another output was in front of it.
      const bool crosses = info.kind == KernelBuffer::Kind::kWorkspace ||
                           (info.kind == KernelBuffer::Kind::kOutput &&
                            (meets || loaded_.contains(static_cast<int32_t>(b))));
      list.emplace_back(fmt::format("{}{}*{}", input ? "const " : "", cuda_storage_name(info.dtype),
                                    crosses ? "" : " __restrict__"),
                        fmt::format("b{}", b));
    }
    for (int32_t a = 0; a < kernel_.argument_count; ++a)
      list.emplace_back("s64", fmt::format("a{}", a));
    if (grid_barrier) list.emplace_back("u32*", "barrier");
    return list;
  }

  void declare_shared() {
    if (kernel_.shared_bytes > 0) line("WF_SHARED(shared);");
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      const KernelBuffer& info = kernel_.buffers[b];
      if (info.kind != KernelBuffer::Kind::kShared) continue;
      line(fmt::format("{0}* const b{1} = ({0}*)(shared + {2});  // {3}",
                       cuda_storage_name(info.dtype), b, info.scratch_offset,
                       identifier(info.name)));
    }
  }

  void emit_phase(const KernelPhase& phase) {
    line("{");
    ++depth_;
    const Reg begin = phase.body.parameters[0], end = phase.body.parameters[1];
    if (phase.work_items == kernel_.blocks) {
      define(begin, "(s32)wf_block_x()");
      define(end, fmt::format("{} + 1", name(begin)));
    } else {
      define(begin, fmt::format("({})((s64)wf_block_x() * {} / {})", type_name(begin),
                                phase.work_items, kernel_.blocks));
      define(end, fmt::format("({})(((s64)wf_block_x() + 1) * {} / {})", type_name(end),
                              phase.work_items, kernel_.blocks));
    }
    emit_block(phase.body);
    close();
  }

  // Names of registers: one for each lane.
  bool narrow(Reg r) const { return facts_[static_cast<size_t>(r)].narrow(); }
  std::string type_name(Reg r) const {
    const DType type = kernel_.type(r).dtype;
    return type == DType::kI64 && narrow(r) ? "s32" : std::string(cuda_type_name(type));
  }
  std::vector<std::string>& lanes(Reg r) {
    std::vector<std::string>& names = names_[static_cast<size_t>(r)];
    WEFT_CHECK(!names.empty(), "a register without a name in " + kernel_.name);
    return names;
  }
  const std::string& name(Reg r) { return lanes(r)[0]; }
  /// Fresh names for the lanes of a register.
  std::vector<std::string>& fresh(Reg r) {
    std::vector<std::string>& names = names_[static_cast<size_t>(r)];
    names.clear();
    const int32_t count = kernel_.type(r).lanes;
    for (int32_t l = 0; l < count; ++l) {
      names.push_back(count == 1 ? fmt::format("v{}", r) : fmt::format("v{}_{}", r, l));
    }
    return names;
  }
  void define(Reg r, const std::string& value, size_t lane = 0) {
    if (lane == 0) fresh(r);
    line(fmt::format("const {} {} = {};", type_name(r), lanes(r)[lane], value));
  }
  /// Variables that are assigned later.
  void declare(Reg r) {
    for (const std::string& n : fresh(r)) line(fmt::format("{} {};", type_name(r), n));
  }

  void emit_block(const KernelBlock& block) {
    for (const KernelInstruction& in : block.body) emit_instruction(in);
  }

  void emit_instruction(const KernelInstruction& in) {
    switch (in.op) {
      case KernelOp::kFor:
        return emit_for(in);
      case KernelOp::kIf:
        return emit_if(in);
      case KernelOp::kLoad:
      case KernelOp::kGather:
        return emit_load(in);
      case KernelOp::kStore:
      case KernelOp::kScatter:
        return emit_store(in);
      case KernelOp::kBarrier:
        if (by_groups_) line("wf_fence_shared();");
        return line(barrier_call(in.as<BarrierPayload>().scope));
      case KernelOp::kLoadCluster:
        return emit_load_cluster(in);
      case KernelOp::kPrefetch:
        return;  // warps in turn hide what a cache line takes
      case KernelOp::kCopyAsync:
        return emit_copy(in);
      case KernelOp::kCommitAsync:
        return line("wf_cp_commit();");
      case KernelOp::kWaitAsync:
        return line(fmt::format("wf_cp_wait<{}>();", in.as<WaitAsyncPayload>().groups_left));
      case KernelOp::kLoadMatrix:
        return emit_load_matrix(in);
      case KernelOp::kMatrixMultiply:
        return emit_multiply(in);
      case KernelOp::kGroupMultiply:
        return emit_group_multiply(in);
      case KernelOp::kGroupWait:
        return emit_group_wait(in);
      default:
        return emit_pure(in);
    }
  }

  void emit_pure(const KernelInstruction& in) {
    const Reg r = in.results[0];
    switch (in.op) {
      case KernelOp::kConst:
        // Written where it is used.
        names_[static_cast<size_t>(r)].assign(static_cast<size_t>(kernel_.type(r).lanes),
                                              constant(in));
        return;
      case KernelOp::kArgument:
        return define(r, fmt::format("a{}", in.as<ArgumentPayload>().number));
      case KernelOp::kPosition: {
        constexpr std::string_view kCalls[] = {"wf_lane()", "wf_warp()", "wf_block_x()"};
        const auto position = static_cast<size_t>(in.as<PositionPayload>().position);
        return define(r, fmt::format("(s32){}", kCalls[position]));
      }
      case KernelOp::kBroadcast:
        names_[static_cast<size_t>(r)].assign(static_cast<size_t>(kernel_.type(r).lanes),
                                              name(in.operands[0]));
        return;
      case KernelOp::kRamp: {
        auto& names = names_[static_cast<size_t>(r)];
        names.clear();
        for (int32_t l = 0; l < kernel_.type(r).lanes; ++l) names.push_back(fmt::format("{}", l));
        return;
      }
      case KernelOp::kExtract:
        names_[static_cast<size_t>(r)] = {
            lanes(in.operands[0])[static_cast<size_t>(in.as<ExtractPayload>().lane)]};
        return;
      case KernelOp::kShuffle: {
        std::vector<std::string> both = lanes(in.operands[0]), picked;
        both.insert(both.end(), lanes(in.operands[1]).begin(), lanes(in.operands[1]).end());
        for (const int32_t l : in.as<ShufflePayload>().lanes) {
          picked.push_back(both[static_cast<size_t>(l)]);
        }
        names_[static_cast<size_t>(r)] = std::move(picked);
        return;
      }
      case KernelOp::kLaneMask:
        for (int32_t l = 0; l < kernel_.type(r).lanes; ++l) {
          define(r, fmt::format("{} > {}", name(in.operands[0]), l), static_cast<size_t>(l));
        }
        return;
      case KernelOp::kWarpXor:
        return define(r, fmt::format("wf_shfl_xor(WF_FULL, {}, {})", name(in.operands[0]),
                                     in.as<WarpXorPayload>().lane_bits));
      case KernelOp::kWarpPick:
        return define(r, fmt::format("wf_shfl(WF_FULL, {}, (u32){})", name(in.operands[0]),
                                     name(in.operands[1])));
      case KernelOp::kFma:
        for (size_t l = 0; l < lanes(in.operands[0]).size(); ++l) {
          define(r, fused(in, l), l);
        }
        return;
      case KernelOp::kReduceLanes:
        return emit_reduce_lanes(in);
      default:
        for (size_t l = 0; l < lanes(in.operands[0]).size(); ++l) define(r, applied(in, l), l);
        return;
    }
  }

  std::string constant(const KernelInstruction& in) const {
    const Reg r = in.results[0];
    const ScalarValue& value = in.as<ConstPayload>().value;
    std::string text = kernel_.type(r).dtype == DType::kI64 && narrow(r)
                           ? fmt::format("{}", value.i)
                           : cuda_literal(value);
    return text.starts_with('-') ? "(" + text + ")" : text;
  }

  std::string fused(const KernelInstruction& in, size_t lane) {
    std::string x[3];
    const DType type = kernel_.type(in.results[0]).dtype;
    const bool half = type == DType::kF16 || type == DType::kBF16;
    for (size_t i = 0; i < 3; ++i) {
      const std::string& operand = lanes(in.operands[i])[lane];
      x[i] = half ? fmt::format("wf_to_float({})", operand) : operand;
    }
    std::string call =
        fmt::format("{}({}, {}, {})", type == DType::kF64 ? "fma" : "fmaf", x[0], x[1], x[2]);
    if (!half) return call;
    return fmt::format("wf_to_{}({})", dtype_name(type), call);
  }

  std::string applied(const KernelInstruction& in, size_t lane) {
    std::vector<std::string> operands;
    for (const Reg r : in.operands) operands.push_back(lanes(r)[lane]);
    const ScalarOp op = in.as<ApplyPayload>().op;
    const size_t values = op == ScalarOp::kSelect ? 1 : 0;
    const DType operand = kernel_.type(in.operands[values]).dtype;
    const DType result = kernel_.type(in.results[0]).dtype;
    if (operand == DType::kI64 && result == DType::kI64) return index_text(in, operands);
    if (operand == DType::kI64 && scalar_op_is_comparison(op)) {
      return cuda_scalar_text(op, operands, operand, result);
    }
    if (result == DType::kI64 && op == ScalarOp::kConvert && narrow(in.results[0])) {
      return fmt::format("(s32){}", operands[0]);  // of a narrower integer or a truth value
    }
    if (operand == DType::kI64 && op == ScalarOp::kBitcast) {
      operands[0] = fmt::format("(s64){}", operands[0]);
    }
    if (operand == DType::kF32 && approximations_.hold(in))
      return fmt::format("wf_{}_fast({})", scalar_op_name(op), operands[0]);
    return cuda_scalar_text(op, operands, operand, result);
  }

  /// i64 arithmetic in 32 bits where all that it touches fits there; nothing then overflows.
  std::string index_text(const KernelInstruction& in, std::vector<std::string> operands) {
    const ScalarOp op = in.as<ApplyPayload>().op;
    const size_t first = op == ScalarOp::kSelect ? 1 : 0;
    bool small = narrow(in.results[0]);
    bool negative = false;
    for (size_t i = first; i < operands.size(); ++i) {
      small &= narrow(in.operands[i]);
      negative |= facts_[static_cast<size_t>(in.operands[i])].range.lo < 0;
    }
    if (small) {
      switch (op) {
        case ScalarOp::kAdd:
          return fmt::format("{} + {}", operands[0], operands[1]);
        case ScalarOp::kSub:
          return fmt::format("{} - {}", operands[0], operands[1]);
        case ScalarOp::kMul:
          return fmt::format("{} * {}", operands[0], operands[1]);
        case ScalarOp::kDiv:
        case ScalarOp::kRem:
          if (!negative && facts_[static_cast<size_t>(in.operands[1])].range.lo > 0) {
            return fmt::format("(s32)((u32){} {} (u32){})", operands[0],
                               op == ScalarOp::kDiv ? "/" : "%", operands[1]);
          }
          break;
        default:
          break;
      }
      return cuda_scalar_text(op, operands, DType::kI32, DType::kI32);
    }
    for (size_t i = first; i < operands.size(); ++i) {
      if (narrow(in.operands[i])) operands[i] = fmt::format("(s64){}", operands[i]);
    }
    const std::string wide = cuda_scalar_text(op, operands, DType::kI64, DType::kI64);
    return narrow(in.results[0]) ? fmt::format("(s32)({})", wide) : wide;
  }

  /// Halves first, as the instruction says.
  void emit_reduce_lanes(const KernelInstruction& in) {
    const Reg r = in.results[0];
    const DType type = kernel_.type(r).dtype;
    const ScalarOp op = *combiner_op(in.as<ReduceLanesPayload>().combiner);
    std::vector<std::string> parts = lanes(in.operands[0]);
    fresh(r);
    const std::string base = name(r);
    for (size_t half = parts.size() / 2; half >= 1; half /= 2) {
      for (size_t l = 0; l < half; ++l) {
        const std::string value = cuda_scalar_text(op, {parts[l], parts[l + half]}, type, type);
        const std::string part = half == 1 ? base : fmt::format("{}_{}_{}", base, half, l);
        line(fmt::format("const {} {} = {};", type_name(r), part, value));
        parts[l] = part;
      }
    }
  }

  // Memory.
  std::string address(int32_t number, Reg offset, int64_t plus = 0) {
    return plus == 0 ? fmt::format("b{} + {}", number, name(offset))
                     : fmt::format("b{} + {} + {}", number, name(offset), plus);
  }
  /// Elements that one access of a run of `count` from the offset may have.
  int64_t access_width(int32_t number, Reg offset, int64_t count) const {
    const KernelBuffer& b = buffer(number);
    const int64_t size = byte_size(b.dtype);
    int64_t width = std::gcd(facts_[static_cast<size_t>(offset)].divisor, count);
    if (b.kind != KernelBuffer::Kind::kShared) {
      width = std::gcd(width, std::max<int64_t>(b.alignment / size, 1));
    }
    while (width * size > kWidestAccess) width /= 2;
    int64_t power = 1;
    while (width % (power * 2) == 0) power *= 2;
    return power;
  }

  void emit_load(const KernelInstruction& in) {
    const Reg r = in.results[0];
    const auto& [number, fill] = in.as<LoadPayload>();
    const DType type = buffer(number).dtype;
    const auto mask = mask_operand(in);
    const bool gathers = in.op == KernelOp::kGather;
    const auto count = static_cast<int64_t>(kernel_.type(r).lanes);
    const int64_t width = gathers ? 1 : access_width(number, in.operands[0], count);
    const bool whole =
        !mask || (width > 1 && is_plain_zero(fill) && in_groups_alike(in.operands[*mask], width));
    if (whole) {
      fresh(r);
      for (int64_t l = 0; l < count; l += width) load_part(in, l, width, true);
      return;
    }
    declare(r);
    const std::string filler = cuda_literal(fill);
    for (int64_t l = 0; l < count; l += width) {
      open(fmt::format("if ({})", all_of(in.operands[*mask], l, width)));
      load_part(in, l, width, false);
      --depth_;
      open("} else");
      for (int64_t i = l; i < l + width; ++i) {
        load_or_fill(in, *mask, i, filler, cuda_from_storage(type, element(in, i)));
      }
      close();
    }
  }

  /// Lane i where the accesses around it are not all on.
  void load_or_fill(const KernelInstruction& in, size_t mask, int64_t i, const std::string& filler,
                    const std::string& loaded) {
    const std::string& target = lanes(in.results[0])[static_cast<size_t>(i)];
    const std::vector<std::string>& conditions = lanes(in.operands[mask]);
    const bool same = std::equal(conditions.begin() + 1, conditions.end(), conditions.begin());
    if (same) return line(fmt::format("{} = {};", target, filler));
    open(fmt::format("if ({})", conditions[static_cast<size_t>(i)]));
    line(fmt::format("{} = {};", target, loaded));
    --depth_;
    open("} else");
    line(fmt::format("{} = {};", target, filler));
    close();
  }

  /// Whether the lanes of each `width` have one condition.
  bool in_groups_alike(Reg mask, int64_t width) {
    const std::vector<std::string>& all = lanes(mask);
    for (size_t l = 0; l < all.size(); ++l) {
      if (all[l] != all[l - l % static_cast<size_t>(width)]) return false;
    }
    return true;
  }

  std::string all_of(Reg mask, int64_t first, int64_t count) {
    std::vector<std::string> conditions(lanes(mask).begin() + first,
                                        lanes(mask).begin() + first + count);
    conditions.erase(std::unique(conditions.begin(), conditions.end()), conditions.end());
    return fmt::format("{}", fmt::join(conditions, " && "));
  }

  std::string element(const KernelInstruction& in, int64_t lane) {
    const bool indexed = in.op == KernelOp::kGather || in.op == KernelOp::kScatter;
    const int32_t number = *buffer_of(in);
    if (indexed) {
      return fmt::format("b{}[{}]", number, lanes(in.operands[0])[static_cast<size_t>(lane)]);
    }
    return lane == 0 ? fmt::format("b{}[{}]", number, name(in.operands[0]))
                     : fmt::format("b{}[{} + {}]", number, name(in.operands[0]), lane);
  }

  void load_part(const KernelInstruction& in, int64_t first, int64_t width, bool defines) {
    const Reg r = in.results[0];
    const int32_t number = in.as<LoadPayload>().buffer;
    const DType type = buffer(number).dtype;
    const auto assign = [&](int64_t lane, const std::string& value) {
      const std::string& target = lanes(r)[static_cast<size_t>(lane)];
      line(defines ? fmt::format("const {} {} = {};", type_name(r), target, value)
                   : fmt::format("{} = {};", target, value));
    };
    if (width == 1) return assign(first, cuda_from_storage(type, element(in, first)));
    const bool input = buffer(number).kind == KernelBuffer::Kind::kInput;
    const std::string loaded = fmt::format("t{}_{}", r, first);
    // As a whole zero where the mask says so: halves of a register are not put together then.
    const auto mask = defines ? mask_operand(in) : std::nullopt;
    const std::string condition =
        mask ? lanes(in.operands[*mask])[static_cast<size_t>(first)] + ", " : "";
    line(fmt::format("const vec<{}, {}> {} = {}{}<{}>({}{});", cuda_storage_name(type), width,
                     loaded, input ? "wf_load_ro" : "wf_load", mask ? "_if" : "", width, condition,
                     address(number, in.operands[0], first)));
    for (int64_t i = 0; i < width; ++i) {
      assign(first + i, cuda_from_storage(type, fmt::format("{}[{}]", loaded, i)));
    }
  }

  void emit_store(const KernelInstruction& in) {
    const Reg value = in.operands[1];
    const auto mask = mask_operand(in);
    const auto count = static_cast<int64_t>(kernel_.type(value).lanes);
    const bool scatters = in.op == KernelOp::kScatter;
    const int32_t number = in.as<StorePayload>().buffer;
    const int64_t width = scatters ? 1 : access_width(number, in.operands[0], count);
    for (int64_t l = 0; l < count; l += width) {
      if (!mask) {
        store_part(in, l, width);
        continue;
      }
      const std::string all = all_of(in.operands[*mask], l, width);
      open(fmt::format("if ({})", all));
      store_part(in, l, width);
      if (all.find(" && ") == std::string::npos) {
        close();
        continue;
      }
      --depth_;
      open("} else");
      for (int64_t i = l; i < l + width; ++i) {
        open(fmt::format("if ({})", lanes(in.operands[*mask])[static_cast<size_t>(i)]));
        store_part(in, i, 1);
        close();
      }
      close();
    }
  }

  void store_part(const KernelInstruction& in, int64_t first, int64_t width) {
    const auto& [number, non_temporal] = in.as<StorePayload>();
    const DType type = buffer(number).dtype;
    const std::vector<std::string>& values = lanes(in.operands[1]);
    if (width == 1) {
      return line(fmt::format("{} = {};", element(in, first),
                              cuda_to_storage(type, values[static_cast<size_t>(first)])));
    }
    const std::string stored = fmt::format("st{}", stores_++);
    line(fmt::format("vec<{}, {}> {};", cuda_storage_name(type), width, stored));
    for (int64_t i = 0; i < width; ++i) {
      line(fmt::format("{}[{}] = {};", stored, i,
                       cuda_to_storage(type, values[static_cast<size_t>(first + i)])));
    }
    line(fmt::format("{}({}, {});", non_temporal ? "wf_store_stream" : "wf_store",
                     address(number, in.operands[0], first), stored));
  }

  void emit_copy(const KernelInstruction& in) {
    const auto& [to_buffer, from_buffer, elements] = in.as<CopyAsyncPayload>();
    const int64_t size = byte_size(buffer(to_buffer).dtype), bytes = elements * size;
    // As many copies as alignment asks for.
    const int64_t width = std::gcd(access_width(to_buffer, in.operands[0], elements),
                                   access_width(from_buffer, in.operands[1], elements));
    const int64_t step = width * size;
    if (step < kNarrowestCopy) return copy_elements(in);
    for (int64_t at = 0; at < bytes; at += step) {
      const std::string to = address(to_buffer, in.operands[0], at / size);
      const std::string from = address(from_buffer, in.operands[1], at / size);
      line(mask_operand(in) ? fmt::format("wf_cp_async_{}_fill({}, {}, {} ? {} : 0);", step, to,
                                          from, name(in.operands[2]), step)
                            : fmt::format("wf_cp_async_{}({}, {});", step, to, from));
    }
  }

  /// Where no alignment is known, at once: whoever waits for it finds it there.
  void copy_elements(const KernelInstruction& in) {
    const auto& [to_buffer, from_buffer, elements] = in.as<CopyAsyncPayload>();
    const DType type = buffer(to_buffer).dtype;
    const std::string zero =
        cuda_literal(is_float(type) ? float_value(type, 0) : int_value(type, 0));
    for (int64_t i = 0; i < elements; ++i) {
      const std::string to = fmt::format("b{}[{} + {}]", to_buffer, name(in.operands[0]), i);
      const std::string from = fmt::format("b{}[{} + {}]", from_buffer, name(in.operands[1]), i);
      if (!mask_operand(in)) {
        line(fmt::format("{} = {};", to, from));
        continue;
      }
      open(fmt::format("if ({})", name(in.operands[2])));
      line(fmt::format("{} = {};", to, from));
      --depth_;
      open("} else");
      line(fmt::format("{} = {};", to, zero));
      close();
    }
  }

  void emit_load_cluster(const KernelInstruction& in) {
    const Reg r = in.results[0];
    const auto& [number, filler] = in.as<LoadClusterPayload>();
    const DType type = buffer(number).dtype;
    // Where it is masked off, the rank may be none.
    const std::string from = fmt::format("wf_cluster_map({}, (u32){})",
                                         address(number, in.operands[1]), name(in.operands[0]));
    const auto mask = mask_operand(in);
    mask ? declare(r) : static_cast<void>(fresh(r));
    const auto count = static_cast<int64_t>(lanes(r).size());
    int64_t width = access_width(number, in.operands[1], count);
    // Lanes that are masked apart are loaded apart.
    if (mask && all_of(in.operands[*mask], 0, width).find(" && ") != std::string::npos) width = 1;
    for (int64_t l = 0; l < count; l += width) {
      if (mask) open(fmt::format("if ({})", all_of(in.operands[*mask], l, width)));
      load_cluster_part(r, type, l == 0 ? from : fmt::format("({} + {})", from, l), l, width,
                        !mask.has_value());
      if (!mask) continue;
      --depth_;
      open("} else");
      for (int64_t i = l; i < l + width; ++i) {
        line(fmt::format("{} = {};", lanes(r)[static_cast<size_t>(i)], cuda_literal(filler)));
      }
      close();
    }
  }

  void load_cluster_part(Reg r, DType type, const std::string& from, int64_t first, int64_t width,
                         bool defines) {
    const std::string loaded = fmt::format("t{}_{}", r, first);
    if (width > 1) {
      line(fmt::format("const vec<{}, {}> {} = wf_load<{}>({});", cuda_storage_name(type), width,
                       loaded, width, from));
    }
    for (int64_t i = 0; i < width; ++i) {
      const std::string value = width > 1 ? fmt::format("{}[{}]", loaded, i) : from + "[0]";
      const std::string& target = lanes(r)[static_cast<size_t>(first + i)];
      line(fmt::format("{}{} = {};", defines ? fmt::format("const {} ", type_name(r)) : "", target,
                       cuda_from_storage(type, value)));
    }
  }

  /// The lanes of all registers are the elements of an array, one after another.
  void name_elements(const std::vector<Reg>& registers, const std::string& array) {
    size_t next = 0;
    for (const Reg r : registers) {
      auto& names = names_[static_cast<size_t>(r)];
      names.clear();
      for (int32_t l = 0; l < kernel_.type(r).lanes; ++l)
        names.push_back(fmt::format("{}[{}]", array, next++));
    }
  }

  void emit_load_matrix(const KernelInstruction& in) {
    const std::string fragment = fmt::format("m{}", in.results[0]);
    const auto& [number, matrices, transposed] = in.as<LoadMatrixPayload>();
    line(fmt::format("u32 {}[{}];", fragment, matrices));
    line(fmt::format("wf_ldmatrix{}({}, {});", transposed ? "_trans" : "", fragment,
                     address(number, in.operands[0])));
    name_elements(in.results, fragment);
  }

  void emit_multiply(const KernelInstruction& in) {
    constexpr std::string_view kCalls[] = {"wf_mma_f16", "wf_mma_bf16", "wf_mma_tf32"};
    const Reg first = in.results[0];
    const auto list = [&](size_t from, size_t to) {
      std::vector<std::string> names;
      for (size_t i = from; i < to; ++i) names.push_back(name(in.operands[i]));
      return fmt::format("{}", fmt::join(names, ", "));
    };
    line(fmt::format("const u32 ma{}[4] = {{{}}};", first, list(0, 4)));
    line(fmt::format("const u32 mb{}[2] = {{{}}};", first, list(4, 6)));
    line(fmt::format("float m{}[4] = {{{}}};", first, list(6, 10)));
    const auto unit = static_cast<size_t>(in.as<MatrixMultiplyPayload>().unit);
    line(fmt::format("{}(m{}, ma{}, mb{});", kCalls[unit], first, first, first));
    name_elements(in.results, fmt::format("m{}", first));
  }

  void emit_group_multiply(const KernelInstruction& in) {
    GroupMultiplyPayload p = in.as<GroupMultiplyPayload>();
    const std::string left = address(p.left, in.operands[0]);
    const std::string right = address(p.right, in.operands[1]);
    p.left = p.right = 0;  // one function for all buffers
    const auto known = std::ranges::find_if(
        group_units_, [&](const GroupMultiplyPayload& of) { return of.fields() == p.fields(); });
    const auto unit = static_cast<size_t>(known - group_units_.begin());
    if (unit == group_units_.size()) group_units_.push_back(p);
    const Reg first = in.results[0];
    std::vector<std::string> sums;
    for (size_t i = 2; i < in.operands.size(); ++i) sums.push_back(name(in.operands[i]));
    line(fmt::format("float m{}[{}] = {{{}}};", first, sums.size(), fmt::join(sums, ", ")));
    line(fmt::format("wf_group_multiply({}, {}, m{}, {}, {}, {}, {}, {}, {}, {}, {});",
                     group_unit_name(unit), p.unit == KernelUnit::kM64K16F16 ? "f16" : "bf16",
                     first, left, right, p.depth, p.left_panel, p.left_across, p.right_panel,
                     p.right_across, p.under_way));
    name_elements(in.results, fmt::format("m{}", first));
  }

  void emit_group_wait(const KernelInstruction& in) {
    if (in.operands.empty()) return;
    std::vector<std::string> sums;
    for (const Reg r : in.operands) sums.insert(sums.end(), lanes(r).begin(), lanes(r).end());
    const Reg first = in.results[0];
    line(fmt::format("float m{}[{}] = {{{}}};", first, sums.size(), fmt::join(sums, ", ")));
    line(fmt::format("wf_group_wait(m{});", first));
    name_elements(in.results, fmt::format("m{}", first));
  }

  // Control.
  void emit_for(const KernelInstruction& in) {
    const KernelBlock& body = in.regions[0];
    for (size_t i = 0; i < in.results.size(); ++i) {
      const Reg carry = body.parameters[i + 1], initial = in.operands[i + 3];
      fresh(carry);
      for (size_t l = 0; l < lanes(carry).size(); ++l) {
        line(fmt::format("{} {} = {};", type_name(carry), lanes(carry)[l], lanes(initial)[l]));
      }
    }
    const Reg iv = body.parameters[0];
    fresh(iv);
    line("#pragma unroll 1");
    open(fmt::format("for ({} {} = {}; {} < {}; {} += {})", type_name(iv), name(iv),
                     name(in.operands[0]), name(iv), name(in.operands[1]), name(iv),
                     name(in.operands[2])));
    emit_block(body);
    assign_all(body.yields, {body.parameters.begin() + 1, body.parameters.end()});
    close();
    for (size_t i = 0; i < in.results.size(); ++i) {
      names_[static_cast<size_t>(in.results[i])] = lanes(body.parameters[i + 1]);
    }
  }

  /// All at once: through copies where one carry becomes another.
  void assign_all(const std::vector<Reg>& from, const std::vector<Reg>& to) {
    std::vector<std::string> values, targets;
    for (size_t i = 0; i < to.size(); ++i) {
      values.insert(values.end(), lanes(from[i]).begin(), lanes(from[i]).end());
      targets.insert(targets.end(), lanes(to[i]).begin(), lanes(to[i]).end());
    }
    const std::map<std::string, size_t> place = [&] {
      std::map<std::string, size_t> out;
      for (size_t i = 0; i < targets.size(); ++i) out.emplace(targets[i], i);
      return out;
    }();
    for (size_t i = 0; i < values.size(); ++i) {
      const auto it = place.find(values[i]);
      if (it == place.end() || it->second >= i) continue;  // assigned already when it is read
      const std::string copy = fmt::format("c{}", copies_++);
      line(fmt::format("const auto {} = {};", copy, values[i]));
      values[i] = copy;
    }
    // The copies come before every assignment.
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != targets[i]) line(fmt::format("{} = {};", targets[i], values[i]));
    }
  }

  void emit_if(const KernelInstruction& in) {
    for (const Reg r : in.results) declare(r);
    open(fmt::format("if ({})", name(in.operands[0])));
    emit_block(in.regions[0]);
    assign_all(in.regions[0].yields, in.results);
    const KernelBlock& other = in.regions[1];
    if (!other.body.empty() || !other.yields.empty()) {
      --depth_;
      open("} else");
      emit_block(other);
      assign_all(other.yields, in.results);
    }
    close();
  }

  const KernelFunction& kernel_;
  std::vector<IndexFact> facts_;
  Approximations approximations_;
  std::vector<std::vector<std::string>> names_;    ///< by register: one a lane
  std::set<int32_t> loaded_;                       ///< buffers that something is loaded from
  bool by_groups_ = false;                         ///< warp groups multiply out of shared memory
  std::vector<GroupMultiplyPayload> group_units_;  ///< that are called so far
  std::string text_;
  int depth_ = 0;
  int stores_ = 0, copies_ = 0;
};

}  // namespace

CudaKernel emit_cuda(const KernelFunction& kernel, bool shares) {
  return CudaEmitter(kernel).run(shares);
}

}  // namespace weft
