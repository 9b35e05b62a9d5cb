#include "lower/lower.h"

#include "lower/insert_block_barriers.h"
#include "lower/lowering.h"
#include "tile/analysis/derive_scopes.h"

namespace weft::lowering {

namespace {

/// Bytes behind a scratch buffer that a whole vector may touch past its last element.
constexpr int64_t kScratchSlackBytes = 64;
/// What an open size may be: no element offset below a product of three of them overflows.
constexpr Interval kOpenSize{1, int64_t{1} << 31};
/// Device memory and the block's arena start at least so aligned.
constexpr int32_t kDeviceAlignment = 16;

}  // namespace

Lowering::Lowering(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target)
    : program_(program),
      scopes_(scopes),
      target_(target),
      builder_(kernel_),
      bound_(program.vars.size()),
      valid_(program.vars.size()),
      buffer_of_(program.symbols.size(), -1),
      shifted_exponentials_(find_shifted_exponentials(program)),
      // Registers keep them on a GPU.
      values_in_outputs_(program.cpu ? find_values_in_outputs(program, scopes)
                                     : std::map<TileSymbolId, ValueInOutput>{}),
      gpu_(!program.cpu) {
  kernel_vars_.push_back({});  // the lane
  for (size_t v = 0; v < program.vars.size(); ++v) {
    const TileVar& var = program.vars[v];
    if (var.kind == TileVar::Kind::kSize && var.extent > 0) bound_[v] = IndexExpr(var.extent);
    if (!gpu_ && is_open_size(program, static_cast<TileVarId>(v))) {
      bound_[v] = add_kernel_var(kNoReg, kOpenSize);
      kernel_vars_.back().argument = arguments_++;
    }
  }
  if (!gpu_) return;
  std::vector<const TileStatement*> statements;
  for_each_statement(program.body, [&](const TileStatement& s) { statements.push_back(&s); });
  WEFT_CHECK(statements.size() == scopes.statement_places.size(),
             "a place for each statement of " + program.name);
  for (size_t s = 0; s < statements.size(); ++s) {
    statement_places_[statements[s]] = scopes.statement_places[s];
    visit(statements[s]->value, [&](const Scalar& n) {
      if (n.kind == Scalar::Kind::kRead) ++read_counts_[static_cast<TileSymbolId>(n.symbol)];
    });
  }
}

void Lowering::add_parameters() {
  for (const TileSymbolId id : program_.parameters) {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
    Shape shape;
    IndexExpr elements = 1;
    bool open = false;
    for (const IndexExpr& e : symbol.shape) {
      const IndexExpr extent = bind(e);
      open |= !extent.is_const();
      shape.push_back(extent.is_const() ? extent.constant() : 1);
      elements = elements * extent;
    }
    KernelBuffer buffer;
    buffer.name = symbol.name;
    buffer.dtype = symbol.type;
    buffer.kind = symbol.kind == TileSymbol::Kind::kOutput ? KernelBuffer::Kind::kOutput
                                                           : KernelBuffer::Kind::kInput;
    buffer.elements = open ? 0 : physical_size(symbol.layout, shape);
    buffer.alignment = gpu_ ? kDeviceAlignment : static_cast<int32_t>(byte_size(symbol.type));
    buffer_of_[static_cast<size_t>(id)] = static_cast<int32_t>(kernel_.buffers.size());
    buffer_elements_.push_back(open ? elements : IndexExpr(buffer.elements));
    kernel_.buffers.push_back(buffer);
  }
}

/// Memory of the values that live in it: workspaces of the grid, or scratch of a CPU's threads and
/// shared memory of a GPU's blocks.
Status Lowering::add_own_buffers(bool workspaces) {
  for (size_t id = 0; id < program_.symbols.size(); ++id) {
    const SymbolScope& scope = scopes_.symbols[id];
    const TileSymbol& symbol = program_.symbols[id];
    if (symbol.kind == TileSymbol::Kind::kInput || symbol.kind == TileSymbol::Kind::kOutput)
      continue;
    const bool in_registers =
        scope.scope == Scope::kRegister || (gpu_ && scope.scope == Scope::kWarp);
    if (in_registers || (scope.scope == Scope::kGrid) != workspaces) continue;
    if (const auto in = values_in_outputs_.find(static_cast<TileSymbolId>(id));
        in != values_in_outputs_.end()) {
      buffer_of_[id] = buffer_of_[static_cast<size_t>(in->second.output)];
      continue;
    }
    KernelBuffer buffer;
    buffer.name = symbol.name;
    buffer.dtype = symbol.type;
    buffer.kind = workspaces ? KernelBuffer::Kind::kWorkspace
                  : gpu_     ? KernelBuffer::Kind::kShared
                             : KernelBuffer::Kind::kScratch;
    buffer.elements = 1;
    for (const int64_t e : scope.extents) buffer.elements *= e;
    for (const SymbolScope::Part& part : scope.parts) buffer.elements *= part.trips;
    if (scope.pad > 0) buffer.elements += buffer.elements / scope.extents.back() * scope.pad;
    const bool carried = scope.copies == 2 && symbol.kind == TileSymbol::Kind::kCarry;
    if (carried || (gpu_ && scope.staged)) {
      buffer.elements *= scope.copies;
    } else if (scope.copies > 1 && !scope.staged) {  // a CPU runs no loads ahead
      return unsupported("value " + symbol.name + " of " + program_.name +
                         " needs several buffers, which cannot be lowered yet");
    }
    if (gpu_) {
      buffer.alignment = kDeviceAlignment;
      buffer.scratch_offset = workspaces ? 0 : scope.offset;
    } else {
      buffer.elements += kScratchSlackBytes / byte_size(symbol.type);
      buffer.alignment = 64;
    }
    if (!workspaces && !gpu_) {
      buffer.scratch_offset = kernel_.scratch_bytes;
      kernel_.scratch_bytes += (buffer.elements * byte_size(symbol.type) + 63) / 64 * 64;
    }
    buffer_of_[id] = static_cast<int32_t>(kernel_.buffers.size());
    buffer_elements_.emplace_back(buffer.elements);
    kernel_.buffers.push_back(buffer);
  }
  return {};
}

/// Nests of a phase are those between two barriers at the top.
std::vector<std::vector<Lowering::Nest>> Lowering::phases() const {
  std::vector<std::vector<Nest>> out(1);
  for (size_t n = 0; n < program_.body.size(); ++n) {
    const auto child = static_cast<int32_t>(n);
    for (const BarrierPoint& barrier : scopes_.barriers) {
      const bool here =
          barrier.scope == Scope::kGrid && barrier.before.size() == 1 && barrier.before[0] == child;
      if (here && !out.back().empty()) out.emplace_back();
    }
    const TileNode& node = program_.body[n];
    if (node.kind != TileNode::Kind::kPack) {
      out.back().push_back({&node, {child}});
      continue;
    }
    for (size_t m = 0; m < node.pack->members.size(); ++m) {
      const TileBody& body = node.pack->members[m].body;
      for (size_t i = 0; i < body.size(); ++i) {
        out.back().push_back({&body[i], {child, static_cast<int32_t>(m), static_cast<int32_t>(i)}});
      }
    }
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

Result<KernelFunction> Lowering::outline() {
  kernel_.name = program_.name;
  WEFT_CHECK(arguments_ == 0, "an outline of open sizes");
  add_parameters();
  WEFT_RETURN_IF_ERROR(add_own_buffers(true));
  WEFT_RETURN_IF_ERROR(add_own_buffers(false));
  kernel_.inner_barriers = !gpu_ && has_inner_barrier(program_, scopes_);
  for (const std::vector<Nest>& nests : phases()) {
    KernelPhase& phase = kernel_.phases.emplace_back();
    phase.work_items = 0;
    for (const Nest& nest : nests) phase.work_items += grid_items(*nest.node);
  }
  return std::move(kernel_);
}

Result<KernelFunction> Lowering::run() {
  kernel_.name = program_.name;
  kernel_.argument_count = arguments_;
  add_parameters();
  WEFT_RETURN_IF_ERROR(add_own_buffers(true));
  WEFT_RETURN_IF_ERROR(add_own_buffers(false));
  if (gpu_) {
    kernel_.warps = static_cast<int32_t>(program_.warps);
    kernel_.blocks = block_count();
    if (scopes_.cluster_blocks > kMostClusterBlocks) {
      return unsupported(program_.name + " has clusters of " +
                         std::to_string(scopes_.cluster_blocks) + " blocks");
    }
    kernel_.cluster = static_cast<int32_t>(scopes_.cluster_blocks);
    kernel_.blocks_per_sm = static_cast<int32_t>(program_.per_sm);
    WEFT_RETURN_IF_ERROR(check_one_iteration_a_block());
    kernel_.shared_bytes =
        (scopes_.block_bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
  }
  kernel_.inner_barriers = !gpu_ && has_inner_barrier(program_, scopes_);
  for (const std::vector<Nest>& nests : phases()) {
    if (gpu_) {
      emit_gpu_phase(nests);
    } else {
      WEFT_RETURN_IF_ERROR(emit_phase(nests));
    }
  }
  if (gpu_) {
    place_exchanges();
    insert_block_barriers(kernel_, rotating_);
  }
  return std::move(kernel_);
}

}  // namespace weft::lowering

namespace weft {

Result<KernelFunction> lower_to_kernel(const TileProgram& program, const ScopeAnalysis& scopes,
                                       const Target& target) {
  return lowering::Lowering(program, scopes, target).run();
}

bool is_open_size(const TileProgram& program, TileVarId var) {
  const TileVar& size = program.vars[static_cast<size_t>(var)];
  return size.kind == TileVar::Kind::kSize && size.extent == 0 && !uses_var(program.blocks, var);
}

Result<KernelFunction> kernel_outline(const TileProgram& program, const ScopeAnalysis& scopes,
                                      const Target& target) {
  return lowering::Lowering(program, scopes, target).outline();
}

Result<KernelFunction> lower_to_kernel(const TileProgram& program, const Target& target) {
  WEFT_ASSIGN_OR_RETURN(const ScopeAnalysis scopes, derive_scopes(program));
  return lower_to_kernel(program, scopes, target);
}

}  // namespace weft
