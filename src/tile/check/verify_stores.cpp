#include <algorithm>

#include "fmt/format.h"
#include "tile/analysis/point_set.h"
#include "tile/text/tile_printer.h"
#include "tile/tile_structure.h"

namespace weft {
namespace {

constexpr int64_t kLargestBitmap = int64_t{1} << 26;

struct Store {
  const Site* site = nullptr;
  const TileRef* target = nullptr;
  int64_t points = 0;
  std::vector<PointSet::Image> images;
};

/// Points and image of one store; nullopt where they cannot be enumerated.
std::optional<Store> enumerate_store(const TileProgram& program, const TileStructure& structure,
                                     const Site& site, const TileRef& target) {
  Store store{&site, &target, 0, {}};
  std::set<TileVarId> vars;
  for (const IndexExpr& e : target.indices) add_box_variables(program, e, &vars);
  for (const TileLoop* loop : site.loops) {
    for (const TileLoop::Dim& dim : loop->dims) vars.insert(dim.origin);
  }
  bool complete = true;
  constraints_of(site.guards, &complete);
  PointSet points(structure, vars);
  for (const Guard& guard : site.guards) points.add_guard(guard);
  if (!complete) {
    for (const Guard& guard : site.guards) {
      bool reads = false;
      visit(std::make_shared<const Scalar>(*guard.condition),
            [&](const Scalar& s) { reads = reads || s.kind == Scalar::Kind::kRead; });
      if (reads) return std::nullopt;  // known at run time only
    }
  }
  store.points = points.count(vars);
  if (store.points < 0 || !points.images(target.indices, &store.images)) return std::nullopt;
  return store;
}

}  // namespace

/// Each store reaches as many elements as it has points, and the stores of an output together cover
/// it without meeting.
Status verify_stores(const TileProgram& program, const TileStructure& structure) {
  for (const TileVar& var : program.vars) {
    if (var.kind == TileVar::Kind::kSize && var.extent == 0) {
      const TileVarId id = static_cast<TileVarId>(&var - program.vars.data());
      for (const TileSymbol& symbol : program.symbols) {
        for (const IndexExpr& e : symbol.shape) {
          if (uses_var(e, id)) return {};  // sizes are not bound: nothing to enumerate
        }
      }
      for (const auto& [loop, path] : structure.loop_path) {
        for (const TileLoop::Dim& dim : loop->dims) {
          if (uses_var(dim.begin, id) || uses_var(dim.end, id)) return {};
        }
      }
    }
  }
  const TilePrinter printer(program);
  const auto value = [&](int id) { return program.vars[static_cast<size_t>(id)].extent; };
  for (const TileSymbolId output : program.parameters) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(output)];
    if (symbol.kind != TileSymbol::Kind::kOutput) continue;
    Shape shape;
    for (const IndexExpr& e : symbol.shape) shape.push_back(evaluate(e, value));
    const auto total = element_count(shape);
    if (!total.has_value()) {
      return invalid_input(
          fmt::format("tile program {}: the shape of {} is impossible", program.name, symbol.name));
    }
    std::vector<Store> stores;
    bool known = true, scatter = false;
    for (const int32_t number : structure.updates[static_cast<size_t>(output)]) {
      const Site& site = structure.sites[static_cast<size_t>(number)];
      scatter = scatter || site.statement->assign != AssignOp::kAssign;
      for (const TileRef& target : site.statement->targets) {
        if (target.symbol != output) continue;
        auto store = enumerate_store(program, structure, site, target);
        known = known && store.has_value();
        if (store.has_value()) stores.push_back(std::move(*store));
      }
    }
    if (!known || scatter) continue;
    int64_t sum = 0;
    for (const Store& store : stores) {
      const int64_t reached = PointSet::size(store.images);
      if (reached != store.points) {
        return invalid_input(
            fmt::format("tile program {}: `{}` writes elements of {} more than once", program.name,
                        printer.statement(*store.site->statement), symbol.name));
      }
      for (const PointSet::Image& image : store.images) {
        for (const std::vector<int64_t>& tuple : image.tuples) {
          for (size_t k = 0; k < tuple.size(); ++k) {
            if (tuple[k] >= 0 && tuple[k] < shape[image.axes[k]]) continue;
            return invalid_input(
                fmt::format("tile program {}: `{}` writes outside of {}", program.name,
                            printer.statement(*store.site->statement), symbol.name));
          }
        }
      }
      sum += reached;
    }
    int64_t covered = sum;
    if (stores.size() > 1 && *total <= kLargestBitmap) {
      std::vector<bool> marked(static_cast<size_t>(*total), false);
      const std::vector<int64_t> base(shape.size(), 0);
      for (const Store& store : stores) {
        PointSet::for_each_offset(store.images, shape, base, [&](int64_t offset) {
          marked[static_cast<size_t>(offset)] = true;
        });
      }
      covered = std::count(marked.begin(), marked.end(), true);
    }
    if (sum > covered || sum > *total) {
      return invalid_input(
          fmt::format("tile program {}: two statements write the same elements of {}", program.name,
                      symbol.name));
    }
    if (covered < *total) {
      return invalid_input(fmt::format("tile program {}: {} of {} elements of {} are not written",
                                       program.name, *total - covered, *total, symbol.name));
    }
  }
  return {};
}

}  // namespace weft
