#include "lower/core/kernel_writer.h"

#include "lower/core/loops.h"
#include "lower/core/shifted_exponentials.h"

namespace weft::lowering {

KernelWriter::KernelWriter(const TileProgram& p, const ScopeAnalysis& s)
    : program(p), scopes(s), shifted_exponentials(find_shifted_exponentials(p)), builder(kernel) {
  kernel.name = p.name;
  bindings.bound.resize(p.vars.size());
  bindings.valid.resize(p.vars.size());
  memory.buffer_of.assign(p.symbols.size(), -1);
  vars.all.push_back({});  // the lane
  for (size_t v = 0; v < p.vars.size(); ++v) {
    const TileVar& var = p.vars[v];
    if (var.kind == TileVar::Kind::kSize && var.extent > 0) {
      bindings.bound[v] = IndexExpr(var.extent);
    }
  }
}

std::vector<Reg> KernelWriter::emit_loop(const TileLoop& loop, std::vector<Reg> carries) {
  return emit_seq_dim(*this, loop, 0, std::move(carries));
}

void KernelWriter::emit_loop_body(const TileLoop& loop) { emit_body(*this, loop.body); }

}  // namespace weft::lowering
