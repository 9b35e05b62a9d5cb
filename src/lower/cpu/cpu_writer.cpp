#include "lower/cpu/cpu_writer.h"

#include <algorithm>

#include "lower/core/box_variables.h"
#include "lower/core/index_emission.h"
#include "lower/core/load_guards.h"
#include "lower/core/loops.h"
#include "lower/core/open_size.h"
#include "lower/cpu/dot_products.h"
#include "lower/cpu/grid.h"
#include "lower/cpu/vector_loads.h"
#include "tile/register_limit.h"

namespace weft::lowering {

namespace {

/// Bytes behind a scratch buffer that a whole vector may touch past its last element.
constexpr int64_t kScratchSlackBytes = 64;
constexpr int32_t kScratchAlignment = 64;
/// What an open size may be: no element offset below a product of three of them overflows.
constexpr Interval kOpenSize{1, int64_t{1} << 31};

}  // namespace

CpuWriter::CpuWriter(const TileProgram& p, const ScopeAnalysis& s, const Target& target)
    : KernelWriter(p, s) {
  values_in_outputs = find_values_in_outputs(p, s, target);
  for (const SymbolScope& symbol : s.symbols) {
    if (symbol.scope == Scope::kBlock) arena_offsets_.insert(symbol.offset);
  }
  for (size_t v = 0; v < p.vars.size(); ++v) {
    if (!is_open_size(p, static_cast<TileVarId>(v))) continue;
    bindings.bound[v] = add_kernel_var(*this, kNoReg, kOpenSize);
    vars.all.back().argument = vars.arguments++;
  }
}

Box CpuWriter::make_box(const std::vector<TileVarId>& variables, const Place& place) {
  Box box;
  for (const TileVarId var : variables) {
    Box::Axis axis;
    axis.var = var;
    axis.regs = program.vars[static_cast<size_t>(var)].extent;
    for (const Place::Axis& p : place.axes) {
      if (p.var != var) continue;
      axis.regs = 1;
      for (const Place::Digit& d : p.digits) {
        (d.level == PlaceLevel::kVec ? axis.lanes : axis.regs) *= d.extent;
      }
    }
    if (axis.lanes > 1) {
      WEFT_CHECK(box.vec_axis < 0, "two vector axes in one box of " + program.name);
      box.vec_axis = static_cast<int>(box.axes.size());
      box.lanes = static_cast<int32_t>(axis.lanes);
    }
    axis.digits = {{axis.regs, axis.lanes}};
    WEFT_CHECK(axis.regs <= kMostRegisters,
               "an axis of " + std::to_string(axis.regs) +
                   " elements has no place in registers; make it a seq loop, in " + program.name);
    box.axes.push_back(axis);
  }
  return box;
}

Place CpuWriter::place_of(const TileStatement& statement) const {
  if (!statement.place.empty()) return statement.place;
  // That of the first read, reduced axes included: a reduction's place covers its domain.
  Place place;
  visit(statement.value, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead || !place.empty()) return;
    const auto& tiles = n.next ? registers.next : registers.tiles;
    const auto it = tiles.find(static_cast<TileSymbolId>(n.symbol));
    if (it == tiles.end()) return;
    for (size_t c = 0; c < n.indices.size(); ++c) {
      if (it->second.axis[c] < 0) continue;
      const Box::Axis& axis = it->second.box.axes[static_cast<size_t>(it->second.axis[c])];
      std::vector<TileVarId> along;
      add_box_variables(program, n.indices[c], &along);
      if (along.size() != 1) continue;
      Place::Axis a{along[0], {}};
      if (axis.regs > 1 || axis.lanes == 1) a.digits.push_back({PlaceLevel::kReg, axis.regs});
      if (axis.lanes > 1) a.digits.push_back({PlaceLevel::kVec, axis.lanes});
      place.axes.push_back(a);
    }
  });
  // Else that of the first value in memory which has one along what is read of it.
  visit(statement.value, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead || !place.empty()) return;
    const Place& made = scopes.symbols[static_cast<size_t>(n.symbol)].place;
    const bool along = std::ranges::all_of(made.axes, [&](const Place::Axis& a) {
      return std::ranges::any_of(n.indices, [&](const IndexExpr& e) { return uses_var(e, a.var); });
    });
    if (along) place = made;
  });
  return place;
}

/// Where the arena has it, farther by what may be touched behind each of those that begin before
/// it.
void CpuWriter::place_buffer(const SymbolScope& scope, bool workspace, KernelBuffer* buffer) {
  buffer->kind = workspace ? KernelBuffer::Kind::kWorkspace : KernelBuffer::Kind::kScratch;
  buffer->elements += kScratchSlackBytes / byte_size(buffer->dtype);
  buffer->alignment = kScratchAlignment;
  if (workspace) return;
  const auto before = arena_offsets_.lower_bound(scope.offset);
  buffer->scratch_offset =
      scope.offset + std::distance(arena_offsets_.begin(), before) * kScratchSlackBytes;
  const int64_t behind = buffer->scratch_offset + buffer->elements * byte_size(buffer->dtype);
  kernel.scratch_bytes = std::max(kernel.scratch_bytes, (behind + kScratchAlignment - 1) /
                                                            kScratchAlignment * kScratchAlignment);
}

size_t CpuWriter::emit_together(const TileBody& body, size_t first) {
  return emit_dot_product(*this, body, first) ? 2 : 0;
}

void CpuWriter::emit_loop_body(const TileLoop& loop) {
  const auto pieces = distributed.find(&loop);
  if (pieces == distributed.end()) return KernelWriter::emit_loop_body(loop);
  emit_pieces(*this, *pieces->second);
}

Reg CpuWriter::load_guard(const Scalar& read, const Point& point, Reg guard, uint64_t axes) {
  return own_guard(*this, read, point, guard, axes);
}

std::optional<Reg> CpuWriter::load_spread(int32_t buffer, const Scalar& read,
                                          const PreparedIndex& offset, bool affine,
                                          const Point& point, Reg guard) {
  if (!affine) return load_permuted(*this, buffer, read, offset, point, guard);
  const auto transposed = load_transposed(*this, buffer, read, offset, point, guard);
  return transposed ? transposed : load_strided(*this, buffer, offset, point, guard);
}

}  // namespace weft::lowering
