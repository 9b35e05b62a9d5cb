#include "lower/core/buffers.h"

#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"

namespace weft::lowering {

void add_parameters(KernelWriter& w, int32_t alignment) {
  for (const TileSymbolId id : w.program.parameters) {
    const TileSymbol& symbol = w.program.symbols[static_cast<size_t>(id)];
    Shape shape;
    IndexExpr elements = 1;
    bool open = false;
    for (const IndexExpr& e : symbol.shape) {
      const IndexExpr extent = bind(w, e);
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
    buffer.alignment = alignment > 0 ? alignment : static_cast<int32_t>(byte_size(symbol.type));
    w.memory.buffer_of[static_cast<size_t>(id)] = static_cast<int32_t>(w.kernel.buffers.size());
    w.memory.elements.push_back(open ? elements : IndexExpr(buffer.elements));
    w.kernel.buffers.push_back(buffer);
  }
}

bool lies_in_buffer(KernelWriter& w, int32_t buffer, const PreparedIndex& offset,
                    const Point& point) {
  const IndexExpr& elements = w.memory.elements[static_cast<size_t>(buffer)];
  if (!elements.is_const()) return false;
  const auto range = [&](int id) { return range_of_var(w, id); };
  const auto is_inside = [&](const IndexExpr& at) {
    const Interval reach = range_of(at, range);
    return reach.lo >= 0 && reach.hi < elements.constant();
  };
  const IndexExpr at = at_point(w, offset, point);
  return is_inside(at) || is_inside(simplify(at, range));
}

void add_views(KernelWriter& w) {
  for (size_t id = 0; id < w.program.symbols.size(); ++id) {
    const TileSymbolId whole = w.program.symbols[id].view_of;
    if (whole >= 0) w.memory.buffer_of[id] = w.memory.buffer_of[static_cast<size_t>(whole)];
  }
}

Status add_own_buffers(KernelWriter& w, bool workspaces) {
  for (size_t id = 0; id < w.program.symbols.size(); ++id) {
    const SymbolScope& scope = w.scopes.symbols[id];
    const TileSymbol& symbol = w.program.symbols[id];
    if (symbol.is_workspace && workspaces) {
      KernelBuffer buffer;
      buffer.name = symbol.name;
      buffer.dtype = symbol.type;
      buffer.elements = 1;
      for (const IndexExpr& e : symbol.shape) buffer.elements *= e.constant();
      w.place_buffer(scope, true, &buffer);
      w.memory.buffer_of[id] = static_cast<int32_t>(w.kernel.buffers.size());
      w.memory.elements.emplace_back(buffer.elements);
      w.kernel.buffers.push_back(buffer);
    }
    if (symbol.kind == TileSymbol::Kind::kInput || symbol.kind == TileSymbol::Kind::kOutput)
      continue;
    if (scope.scope < Scope::kBlock || (scope.scope == Scope::kGrid) != workspaces) continue;
    if (const auto in = w.values_in_outputs.find(static_cast<TileSymbolId>(id));
        in != w.values_in_outputs.end()) {
      w.memory.buffer_of[id] = w.memory.buffer_of[static_cast<size_t>(in->second.output)];
      continue;
    }
    KernelBuffer buffer;
    buffer.name = symbol.name;
    buffer.dtype = symbol.type;
    buffer.elements = 1;
    for (const int64_t e : scope.extents) buffer.elements *= e;
    for (const SymbolScope::Part& part : scope.parts) buffer.elements *= part.trips;
    if (scope.pad > 0) buffer.elements += buffer.elements / scope.extents.back() * scope.pad;
    const bool carried = scope.copies == 2 && symbol.kind == TileSymbol::Kind::kCarry;
    if (carried || (w.is_gpu() && scope.staged)) {
      buffer.elements *= scope.copies;
    } else if (scope.copies > 1 && !scope.staged) {  // a CPU runs no loads ahead
      return unsupported("value " + symbol.name + " of " + w.program.name +
                         " needs several buffers, which cannot be lowered yet");
    }
    w.place_buffer(scope, workspaces, &buffer);
    w.memory.buffer_of[id] = static_cast<int32_t>(w.kernel.buffers.size());
    w.memory.elements.emplace_back(buffer.elements);
    w.kernel.buffers.push_back(buffer);
  }
  return {};
}

IndexExpr buffer_offset(const KernelWriter& w, TileSymbolId id,
                        const std::vector<IndexExpr>& indices, bool next) {
  const TileSymbol& symbol = w.program.symbols[static_cast<size_t>(id)];
  const auto range = [&](int v) { return range_of_var(w, v); };
  if (symbol.kind == TileSymbol::Kind::kInput || symbol.kind == TileSymbol::Kind::kOutput) {
    Shape shape;
    for (const IndexExpr& e : symbol.shape) {
      const IndexExpr extent = bind(w, e);
      if (extent.is_const()) shape.push_back(extent.constant());
    }
    if (shape.size() == symbol.shape.size())
      return element_offset(symbol.layout, shape, indices, range) + symbol.at;
    WEFT_CHECK(symbol.layout.is_row_major(), "an open size in the layout of " + symbol.name);
    IndexExpr offset = 0, stride = 1;
    for (size_t a = indices.size(); a-- > 0;) {
      offset = offset + indices[a] * stride;
      stride = stride * bind(w, symbol.shape[a]);
    }
    return simplify(offset, range);
  }
  if (const auto in = w.values_in_outputs.find(id); in != w.values_in_outputs.end())
    return buffer_offset(w, in->second.output, in->second.indices_of(indices));
  const SymbolScope& scope = w.scopes.symbols[static_cast<size_t>(id)];
  IndexExpr offset = 0;
  int64_t stride = 1;
  for (size_t a = indices.size(); a-- > 0;) {
    offset = offset + (indices[a] - scope.base[a]) * stride;
    stride *= scope.extents[a];
    if (a + 1 == indices.size()) stride += scope.pad;
  }
  if (const auto carried = w.memory.carried.find(id); carried != w.memory.carried.end()) {
    offset = offset + (next ? 1 - carried->second : carried->second) * stride;
    stride *= scope.copies;
  }
  if (const auto stage = w.memory.stages.find(id); stage != w.memory.stages.end()) {
    return offset + stage->second * stride;
  }
  for (size_t p = scope.parts.size(); p-- > 0;) {
    const SymbolScope::Part& part = scope.parts[p];
    const IndexExpr iteration = floor_div(IndexExpr::var(part.origin) - part.begin, part.step);
    offset = offset + iteration * stride;
    stride *= part.trips;
  }
  return offset;
}

namespace {

/// Rows and columns of a buffer whose columns lie in several panels.
struct Panels {
  int64_t rows, columns, of_panel;
};
std::optional<Panels> panels_of(const SymbolScope& scope) {
  if (!scope.swizzle || scope.swizzle->panel_columns == 0) return std::nullopt;
  const int64_t columns = scope.extents.back();
  if (columns == scope.swizzle->panel_columns) return std::nullopt;  // as rows lie anyway
  return Panels{scope.extents[scope.extents.size() - 2], columns, scope.swizzle->panel_columns};
}

Reg op_with(KernelWriter& w, ScalarOp op, Reg a, int64_t b) {
  const int32_t lanes = w.builder.type(a).lanes;
  return w.builder.apply(op, {a, to_lanes(w, w.builder.int_constant(b), lanes)}, DType::kI64);
}

/// Of a row-major offset in one plane, its place in the panels.
Reg in_panels(KernelWriter& w, const Panels& p, Reg offset) {
  const Reg row = op_with(w, ScalarOp::kDiv, offset, p.columns);
  const Reg column = op_with(w, ScalarOp::kRem, offset, p.columns);
  const Reg panel = op_with(w, ScalarOp::kDiv, column, p.of_panel);
  const Reg within = op_with(w, ScalarOp::kRem, column, p.of_panel);
  const auto sum = [&](Reg a, Reg b) {
    return w.builder.apply(ScalarOp::kAdd, {a, b}, DType::kI64);
  };
  return sum(sum(op_with(w, ScalarOp::kMul, panel, p.rows * p.of_panel),
                 op_with(w, ScalarOp::kMul, row, p.of_panel)),
             within);
}

Reg exchanged(KernelWriter& w, const Swizzle& swizzle, Reg offset) {
  const int64_t mask = ((int64_t{1} << swizzle.bits) - 1) << swizzle.base;
  const Reg row = op_with(w, ScalarOp::kDiv, offset, int64_t{1} << swizzle.shift);
  return w.builder.apply(ScalarOp::kXor, {offset, op_with(w, ScalarOp::kAnd, row, mask)},
                         DType::kI64);
}

/// Within one copy of a buffer.
Reg in_pattern(KernelWriter& w, const SymbolScope& scope, Reg offset) {
  const auto panels = panels_of(scope);
  return exchanged(w, *scope.swizzle, panels ? in_panels(w, *panels, offset) : offset);
}

}  // namespace

Reg swizzled(KernelWriter& w, TileSymbolId symbol, const PointOffset& at) {
  constexpr int64_t kPatternRows = 8;
  const SymbolScope& scope = w.scopes.symbols[static_cast<size_t>(symbol)];
  const auto& swizzle = scope.swizzle;
  if (!swizzle || swizzle->bits == 0) return emit_terms(w, at.terms, at.constant);
  const auto panels = panels_of(scope);
  const int64_t pattern = panels ? kPatternRows * panels->columns
                                 : int64_t{1} << (swizzle->bits + swizzle->base + swizzle->shift);
  // What moves by whole patterns keeps its place in them; rows of panels are shorter.
  const auto moved = [&](int64_t n) {
    if (!panels) return n;
    const int64_t plane = panels->rows * panels->columns;
    return n / plane * plane + n % plane / pattern * kPatternRows * panels->of_panel;
  };
  std::vector<std::pair<int, int64_t>> outside, inside;
  for (const auto& [id, step] : at.terms) {
    if (step % pattern == 0) {
      outside.emplace_back(id, moved(step));
    } else {
      inside.emplace_back(id, step);
    }
  }
  const int64_t rest = mod(IndexExpr(at.constant), pattern).constant();
  const Reg base = in_pattern(w, scope, emit_terms(w, inside, rest));
  return w.builder.apply(ScalarOp::kAdd, {base, emit_terms(w, outside, moved(at.constant - rest))},
                         DType::kI64);
}

Reg swizzled(KernelWriter& w, TileSymbolId symbol, Reg offset) {
  const SymbolScope& scope = w.scopes.symbols[static_cast<size_t>(symbol)];
  if (!scope.swizzle || scope.swizzle->bits == 0) return offset;
  const auto panels = panels_of(scope);
  if (!panels) return in_pattern(w, scope, offset);
  const Reg inside = op_with(w, ScalarOp::kRem, offset, panels->rows * panels->columns);
  const Reg copy = w.builder.apply(ScalarOp::kSub, {offset, inside}, DType::kI64);
  return w.builder.apply(ScalarOp::kAdd, {copy, in_pattern(w, scope, inside)}, DType::kI64);
}

bool fills_matrix_rows(const KernelWriter& w, TileSymbolId symbol) {
  return w.scopes.symbols[static_cast<size_t>(symbol)].swizzle.has_value();
}

}  // namespace weft::lowering
