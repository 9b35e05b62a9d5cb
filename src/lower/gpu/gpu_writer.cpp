#include "lower/gpu/gpu_writer.h"

#include "lower/core/buffers.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/load_guards.h"
#include "lower/core/statements.h"
#include "lower/gpu/cluster_reads.h"
#include "lower/gpu/filled_rows.h"
#include "lower/gpu/grid.h"
#include "lower/gpu/matrix_units.h"
#include "lower/gpu/reduce_over_threads.h"
#include "lower/gpu/rolled_boxes.h"
#include "lower/gpu/staged_loops.h"
#include "lower/gpu/thread_boxes.h"
#include "tile/places.h"

namespace weft::lowering {

GpuWriter::GpuWriter(const TileProgram& p, const ScopeAnalysis& s) : KernelWriter(p, s) {
  std::vector<const TileStatement*> statements;
  for_each_statement(p.body, [&](const TileStatement& st) { statements.push_back(&st); });
  WEFT_CHECK(statements.size() == s.statement_places.size(),
             "a place for each statement of " + p.name);
  for (size_t i = 0; i < statements.size(); ++i) {
    statement_places[statements[i]] = s.statement_places[i];
    visit(statements[i]->value, [&](const Scalar& n) {
      if (n.kind == Scalar::Kind::kRead) ++read_counts[static_cast<TileSymbolId>(n.symbol)];
    });
  }
}

Box GpuWriter::make_box(const std::vector<TileVarId>& variables, const Place& place) {
  return make_thread_box(*this, variables, place);
}

/// A statement that is none of the program's says its own.
Place GpuWriter::place_of(const TileStatement& statement) const {
  const auto derived = statement_places.find(&statement);
  return derived == statement_places.end() ? statement.place : derived->second;
}

void GpuWriter::place_buffer(const SymbolScope& scope, bool workspace, KernelBuffer* buffer) {
  buffer->kind = workspace ? KernelBuffer::Kind::kWorkspace : KernelBuffer::Kind::kShared;
  buffer->alignment = kDeviceAlignment;
  buffer->scratch_offset = workspace ? 0 : scope.offset;
}

/// A product and the sum that adds it to a carry are one operation of the unit.
size_t GpuWriter::emit_together(const TileBody& body, size_t first) {
  const TileSymbolId carry =
      first + 1 < body.size() ? accumulates(*this, body[first], body[first + 1]) : -1;
  if (carry < 0) return 0;
  const TileStatement& product = body[first].statement;
  emit_matrix_product(*this, product, *unit_product(program, product), carry);
  return 2;
}

void GpuWriter::enter_node(int32_t child) {
  emit_grid_barrier_before(*this, child);
  path.push_back(child);
}

std::vector<Reg> GpuWriter::emit_loop(const TileLoop& loop, std::vector<Reg> carries) {
  return is_staged(*this, loop) ? emit_staged_loop(*this, loop, std::move(carries))
                                : KernelWriter::emit_loop(loop, std::move(carries));
}

bool GpuWriter::emit_by_unit(const TileStatement& statement) {
  const auto product = unit_product(program, statement);
  if (product) emit_matrix_product(*this, statement, *product, -1);
  return product.has_value();
}

bool GpuWriter::fill_rows(const TileStatement& statement, const Box& box,
                          const PreparedIndex& offset) {
  const TileRef& target = statement.targets[0];
  const bool rows = fills_matrix_rows(*this, target.symbol);
  if (!rows && !fills_block(statement, box, offset)) return false;
  if (!rows) filled.insert(target.symbol);
  for_each_point(box, [&](int64_t, const Point& point) {
    const FillMask mask = fill_mask(*this, box, point);
    if (mask.outside) return;
    store_element(*this, target, offset, box, point, filled_value(*this, statement, point, mask),
                  store_mask(*this, mask.tile, box));
  });
  return true;
}

std::vector<RolledDigit> GpuWriter::roll(const TileStatement& statement, bool reduced,
                                         Box* box) const {
  return lowering::roll(*this, statement, reduced, box);
}

void GpuWriter::hoist_loads(const TileStatement& statement, const Box& box,
                            const std::vector<RolledDigit>& rolled) {
  lowering::hoist_loads(*this, statement, box, rolled);
}

Reg GpuWriter::load_guard(const Scalar& read, const Point& point, Reg guard, uint64_t axes) {
  // What is staged lies in memory as a whole, with zeros beyond tails: all points share its loads.
  const bool staged = read.kind == Scalar::Kind::kRead && at_hand.fills_tile &&
                      scopes.symbols[static_cast<size_t>(read.symbol)].staged;
  const bool any = staged || (guard != kNoReg && lies_in_block(read, point, axes));
  return any ? kNoReg : own_guard(*this, read, point, guard, axes);
}

bool GpuWriter::fills_block(const TileStatement& statement, const Box& box,
                            const PreparedIndex& offset) {
  const TileSymbolId symbol = statement.targets[0].symbol;
  const int32_t buffer = memory.buffer_of[static_cast<size_t>(symbol)];
  const bool is_tile =
      statement.targets.size() == 1 && !statement.targets[0].next &&
      program.symbols[static_cast<size_t>(symbol)].kind == TileSymbol::Kind::kValue &&
      scopes.symbols[static_cast<size_t>(symbol)].scope == Scope::kBlock;
  if (!is_tile || reads_target(statement)) return false;
  begin_evaluation(*this, box);
  bool fits = at_hand.fills_tile;
  for_each_point(box, [&](int64_t, const Point& point) {
    fits = fits && lies_in_buffer(*this, buffer, offset, point);
  });
  return fits;
}

/// What a guard excludes is never used, and a tile that was stored as a whole can be read
/// anywhere: products of a tail's rows take their factors without a branch for each.
bool GpuWriter::lies_in_block(const Scalar& read, const Point& point, uint64_t axes) {
  if (read.kind != Scalar::Kind::kRead || read.fill || !read.operands.empty()) return false;
  const auto symbol = static_cast<TileSymbolId>(read.symbol);
  const int32_t buffer = memory.buffer_of[static_cast<size_t>(symbol)];
  if (buffer < 0 || filled.count(symbol) == 0) return false;
  const AtHand::Key key{&read, project(point, axes), kNoReg};
  const auto known = at_hand.lies_in_block.find(key);
  if (known != at_hand.lies_in_block.end()) return known->second;
  const PreparedIndex offset =
      prepare(*this, buffer_offset(*this, symbol, read.indices, read.next));
  return at_hand.lies_in_block[key] = lies_in_buffer(*this, buffer, offset, point);
}

std::optional<Reg> GpuWriter::read_elsewhere(const Scalar& read, const Point& point, Reg guard) {
  const auto symbol = static_cast<TileSymbolId>(read.symbol);
  if (scopes.symbols[static_cast<size_t>(symbol)].scope != Scope::kCluster) return std::nullopt;
  const ClusterAddress at = cluster_address(*this, symbol, read.indices, read.next);
  if (at.own) return std::nullopt;
  WEFT_CHECK(read.operands.empty(), "an element known at run time of another block's memory");
  return load_from_cluster(*this, read, at, point, guard);
}

Reg GpuWriter::reduce_over_lanes(const Box& box, const TileStatement& statement, Combiner combiner,
                                 Reg value) {
  return lowering::reduce_over_lanes(*this, box, statement, combiner, value);
}

void GpuWriter::reduce_over_warps(const Box& box, const TileStatement& statement, int sweep,
                                  Combiner combiner, std::vector<Reg>* values) {
  lowering::reduce_over_warps(*this, box, {&statement, sweep}, combiner, values);
}

}  // namespace weft::lowering
