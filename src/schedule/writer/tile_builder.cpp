#include "schedule/writer/tile_builder.h"

#include <algorithm>

#include "index/index_units.h"
#include "schedule/writer/sum_in_pieces.h"

namespace weft {

TileBuilder::TileBuilder(const GroupSpace& space, const std::string& name)
    : space_(space), index_(space.axes().axes.size(), IndexExpr(0)) {
  program_.name = KernelNames::identifier(name);
  program_.cpu = true;
  const TileVarId p = program_.add_var("P", TileVar::Kind::kSize, 0);
  program_.blocks = IndexExpr::var(p);
  if (!space.frame()) return;
  for (size_t l = 0; l < space.frame()->loops.size(); ++l)
    frame_.push_back(program_.add_var(unique("o" + std::to_string(l)), TileVar::Kind::kSize, 0));
  for (size_t a = 0; a < index_.size(); ++a) index_[a] = begin_of(static_cast<int>(a));
}

IndexExpr TileBuilder::begin_of(int axis) const {
  if (!space_.frame()) return 0;
  return in_frame(space_.frame()->axes[static_cast<size_t>(axis)].begin);
}

IndexExpr TileBuilder::end_of(int axis) const {
  if (!space_.frame()) return space_.axes().axes[static_cast<size_t>(axis)].extent;
  return in_frame(space_.frame()->axes[static_cast<size_t>(axis)].end);
}

int64_t TileBuilder::unit_of(const IndexExpr& e) const {
  return weft::unit_of(e, [this](int var) -> int64_t {
    const auto at = std::ranges::find(frame_, var);
    if (at == frame_.end()) return 1;
    return space_.frame()->loops[static_cast<size_t>(at - frame_.begin())];
  });
}

IndexExpr TileBuilder::in_frame(const IndexExpr& e) const {
  return substitute(e,
                    [this](int loop) { return IndexExpr::var(frame_[static_cast<size_t>(loop)]); });
}

std::string TileBuilder::unique(const std::string& base) {
  if (!space_.is_of_key()) return names_.unique(base);
  asked_.push_back(base);
  return asked_name(asked_.size() - 1);
}

ScheduledKernel TileBuilder::take() {
  if (program_.cpu)
    sum_in_pieces(program_, open_, [this](const std::string& base) { return unique(base); });
  ScheduledKernel out;
  out.program = std::move(program_);
  out.parameters = std::move(parameters_);
  out.asked_names = std::move(asked_);
  return out;
}

TileSymbolId TileBuilder::parameter(TensorId t, TileSymbol::Kind kind) {
  if (const auto it = symbols_.find(t); it != symbols_.end()) return it->second;
  const Tensor& tensor = space_.program().tensors[static_cast<size_t>(t)];
  TileSymbol symbol;
  symbol.name = unique(tensor.name);
  symbol.kind = kind;
  symbol.type = tensor.type.dtype;
  for (const int64_t e : tensor.type.shape) symbol.shape.emplace_back(e);
  const auto layout = layouts_.find(t);
  symbol.layout = layout != layouts_.end() ? layout->second : tensor.layout;
  const TileSymbolId id = program_.add_symbol(std::move(symbol));
  program_.parameters.push_back(id);
  parameters_.push_back(t);
  symbols_[t] = id;
  return id;
}

TileSymbolId TileBuilder::input(TensorId t) { return parameter(t, TileSymbol::Kind::kInput); }
TileSymbolId TileBuilder::output(TensorId t) { return parameter(t, TileSymbol::Kind::kOutput); }
void TileBuilder::set_layout(TensorId t, Layout layout) { layouts_[t] = std::move(layout); }

TileLoop::Dim TileBuilder::loop_dim(int axis, int64_t step) {
  const std::string name = unique("a" + std::to_string(axis));
  TileLoop::Dim dim;
  dim.origin = program_.add_var(name, TileVar::Kind::kOrigin, 0);
  if (step > 1) dim.offset = program_.add_var(name, TileVar::Kind::kOffset, step);
  dim.begin = begin_of(axis);
  dim.end = end_of(axis);
  dim.step = step;
  index_[static_cast<size_t>(axis)] = program_.index_of(dim);
  if (space_.axes().axes[static_cast<size_t>(axis)].open) open_.insert(dim.origin);
  return dim;
}

TileLoop::Dim TileBuilder::plain_dim(const std::string& base, IndexExpr end, int64_t step) {
  const std::string name = unique(base);
  TileLoop::Dim dim;
  dim.origin = program_.add_var(name, TileVar::Kind::kOrigin, 0);
  if (step > 1) dim.offset = program_.add_var(name, TileVar::Kind::kOffset, step);
  dim.end = std::move(end);
  dim.step = step;
  return dim;
}

TileBody TileBuilder::one_nest(TileLoop grid) {
  if (grid.dims.empty() && grid.body.size() <= 1) return std::move(grid.body);
  return in_grid(std::move(grid));
}

TileLoop::Dim TileBuilder::once() {
  TileLoop::Dim dim;
  dim.origin = program_.add_var(unique("once"), TileVar::Kind::kOrigin, 0);
  dim.end = 1;
  return dim;
}

TileBody TileBuilder::in_grid(TileLoop grid) {
  if (grid.dims.empty()) grid.dims.push_back(once());
  TileBody body;
  body.push_back(TileNode::of(std::move(grid)));
  return body;
}

IndexExpr TileBuilder::offset(const TileLoop::Dim& dim) const {
  return dim.offset >= 0 ? IndexExpr::var(dim.offset) : IndexExpr(0);
}

TileSymbolId TileBuilder::add_value(const std::string& base, DType type, TileSymbol::Kind kind) {
  TileSymbol symbol;
  symbol.name = unique(base);
  symbol.kind = kind;
  symbol.type = type;
  return program_.add_symbol(std::move(symbol));
}

RangeOf ranges_of(const TileProgram& program) {
  return [&program](int id) -> Interval {
    if (id >= static_cast<int>(program.vars.size())) return kUnbounded;
    const TileVar& var = program.vars[static_cast<size_t>(id)];
    return var.kind == TileVar::Kind::kOrigin || var.extent == 0 ? kUnbounded
                                                                 : Interval{0, var.extent - 1};
  };
}

ScalarRef TileBuilder::translate(
    int position, const std::function<ScalarRef(int producer, const Scalar& read)>& local) const {
  auto* self = const_cast<TileBuilder*>(this);
  const std::vector<int>& own = space_.axes().axis_of[static_cast<size_t>(position)];
  return rewrite(
      expr(position).body,
      [&](int var) -> IndexExpr {
        return var < kRuntimeIndexBase ? index_[static_cast<size_t>(own[static_cast<size_t>(var)])]
                                       : IndexExpr::var(var);
      },
      [&](const ScalarRef& read) -> ScalarRef {
        const int producer = space_.axes().producer(read->symbol);
        if (producer >= 0) return local(producer, *read);
        auto copy = std::make_shared<Scalar>(*read);
        copy->symbol = self->input(read->symbol);
        return copy;
      });
}

std::vector<IndexExpr> TileBuilder::output_indices(int position) const {
  const TensorExpr& e = expr(position);
  std::vector<IndexExpr> out;
  for (int d = 0; d < e.output_rank(); ++d) {
    out.push_back(index_[static_cast<size_t>(
        space_.axes().axis_of[static_cast<size_t>(position)][static_cast<size_t>(d)])]);
  }
  return out;
}

TileStatement TileBuilder::store(int position, ScalarRef value, Place place) {
  TileStatement st;
  TileRef target;
  target.symbol = output(expr(position).output);
  target.indices = output_indices(position);
  st.targets.push_back(std::move(target));
  st.value = std::move(value);
  st.place = std::move(place);
  return st;
}

Place place_of(TileVarId var, int64_t regs, int64_t lanes) {
  Place place;
  Place::Axis axis{var, {}};
  if (regs > 1 || lanes == 1) axis.digits.push_back({PlaceLevel::kReg, regs});
  if (lanes > 1) axis.digits.push_back({PlaceLevel::kVec, lanes});
  place.axes.push_back(std::move(axis));
  return place;
}

TileCombiner tile_combiner(Combiner c) {
  switch (c) {
    case Combiner::kSum:
      return TileCombiner::kSum;
    case Combiner::kProd:
      return TileCombiner::kProd;
    case Combiner::kMin:
      return TileCombiner::kMin;
    case Combiner::kMax:
      return TileCombiner::kMax;
    case Combiner::kAnd:
      return TileCombiner::kAnd;
    case Combiner::kOr:
      return TileCombiner::kOr;
    default:
      return TileCombiner::kNone;
  }
}

ScalarRef combine_scalars(Combiner c, ScalarRef a, ScalarRef b) {
  const DType type = a->type;
  const std::optional<ScalarOp> op = combiner_op(c);
  WEFT_CHECK(op.has_value(), "a combiner of pairs has no scalar form");
  return scalar_apply(*op, {std::move(a), std::move(b)}, type);
}

}  // namespace weft
