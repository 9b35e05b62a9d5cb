#include "lower/lower.h"

#include "lower/lowering.h"

namespace weft::lowering {

namespace {

/// Bytes behind a scratch buffer that a whole vector may touch past its last element.
constexpr int64_t kScratchSlackBytes = 64;

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
      values_in_outputs_(find_values_in_outputs(program, scopes)) {
  kernel_vars_.push_back({kNoReg, {0, 0}});  // the lane
}

Result<KernelFunction> Lowering::run() {
  kernel_.name = program_.name;
  const auto value = [&](int id) { return program_.vars[static_cast<size_t>(id)].extent; };
  for (size_t v = 0; v < program_.vars.size(); ++v) {
    const TileVar& var = program_.vars[v];
    if (var.kind == TileVar::Kind::kSize && var.extent > 0) bound_[v] = IndexExpr(var.extent);
  }
  for (const TileSymbolId id : program_.parameters) {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
    Shape shape;
    for (const IndexExpr& e : symbol.shape) shape.push_back(weft::evaluate(e, value));
    KernelBuffer buffer;
    buffer.name = symbol.name;
    buffer.dtype = symbol.type;
    buffer.kind = symbol.kind == TileSymbol::Kind::kOutput ? KernelBuffer::Kind::kOutput
                                                           : KernelBuffer::Kind::kInput;
    buffer.elements = physical_size(symbol.layout, shape);
    buffer.alignment = static_cast<int32_t>(byte_size(symbol.type));
    buffer_of_[static_cast<size_t>(id)] = static_cast<int32_t>(kernel_.buffers.size());
    kernel_.buffers.push_back(buffer);
  }
  for (const bool workspace : {true, false}) {
    for (size_t id = 0; id < program_.symbols.size(); ++id) {
      const SymbolScope& scope = scopes_.symbols[id];
      const TileSymbol& symbol = program_.symbols[id];
      if (symbol.kind == TileSymbol::Kind::kInput || symbol.kind == TileSymbol::Kind::kOutput)
        continue;
      if (scope.scope == Scope::kRegister || (scope.scope == Scope::kGrid) != workspace) continue;
      if (const auto in = values_in_outputs_.find(static_cast<TileSymbolId>(id));
          in != values_in_outputs_.end()) {
        buffer_of_[id] = buffer_of_[static_cast<size_t>(in->second.output)];
        continue;
      }
      KernelBuffer buffer;
      buffer.name = symbol.name;
      buffer.dtype = symbol.type;
      buffer.kind = workspace ? KernelBuffer::Kind::kWorkspace : KernelBuffer::Kind::kScratch;
      buffer.elements = 1;
      for (const int64_t e : scope.extents) buffer.elements *= e;
      if (scope.copies > 1) {
        return Error{ErrorCode::kInternal,
                     "carry " + symbol.name + " of " + program_.name +
                         " needs two buffers, which a CPU nest here does not have"};
      }
      buffer.elements += kScratchSlackBytes / byte_size(symbol.type);
      buffer.alignment = 64;
      if (!workspace) {
        buffer.scratch_offset = kernel_.scratch_bytes;
        kernel_.scratch_bytes += (buffer.elements * byte_size(symbol.type) + 63) / 64 * 64;
      }
      buffer_of_[id] = static_cast<int32_t>(kernel_.buffers.size());
      kernel_.buffers.push_back(buffer);
    }
  }

  // Nests of a phase are those between two barriers.
  std::vector<const TileNode*> nests;
  const auto flush = [&] {
    if (!nests.empty()) emit_phase(nests);
    nests.clear();
  };
  for (size_t n = 0; n < program_.body.size(); ++n) {
    for (const BarrierPoint& barrier : scopes_.barriers) {
      if (barrier.scope == Scope::kGrid && barrier.before.size() == 1 &&
          barrier.before[0] == static_cast<int32_t>(n)) {
        flush();
      }
    }
    const TileNode& node = program_.body[n];
    if (node.kind == TileNode::Kind::kPack) {
      for (const TilePack::Member& m : node.pack->members) {
        for (const TileNode& inner : m.body) nests.push_back(&inner);
      }
    } else {
      nests.push_back(&node);
    }
  }
  flush();
  return std::move(kernel_);
}

}  // namespace weft::lowering

namespace weft {

Result<KernelFunction> lower_to_kernel(const TileProgram& program, const ScopeAnalysis& scopes,
                                       const Target& target) {
  return lowering::Lowering(program, scopes, target).run();
}

Result<KernelFunction> lower_to_kernel(const TileProgram& program, const Target& target) {
  WEFT_ASSIGN_OR_RETURN(const ScopeAnalysis scopes, derive_scopes(program));
  return lower_to_kernel(program, scopes, target);
}

}  // namespace weft
