#include <algorithm>

#include "fmt/format.h"
#include "tile/analysis/point_set.h"
#include "tile/analysis/view_parts.h"
#include "tile/text/tile_printer.h"
#include "tile/tile_structure.h"

namespace weft {
namespace {

constexpr int64_t kLargestBitmap = int64_t{1} << 22;  ///< elements of an output

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
    if (is_recurrence(*loop)) continue;  // its iterations store into views of other places
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

bool is_within(const std::vector<PointSet::Image>& images, const Shape& shape) {
  return std::ranges::all_of(images, [&](const PointSet::Image& image) {
    const auto inside = [&](int64_t at, size_t k) { return at >= 0 && at < shape[image.axes[k]]; };
    if (!image.dense.empty()) return inside(image.dense.lo, 0) && inside(image.dense.hi, 0);
    return std::ranges::all_of(image.tuples, [&](const std::vector<int64_t>& tuple) {
      for (size_t k = 0; k < tuple.size(); ++k) {
        if (!inside(tuple[k], k)) return false;
      }
      return true;
    });
  });
}

/// Whether a shape or a loop depends on a size that is not bound: there is nothing to enumerate.
bool has_open_sizes(const TileProgram& program, const TileStructure& structure) {
  const auto open = [&](const IndexExpr& e) {
    return std::ranges::any_of(variables(e), [&](int id) {
      const TileVar& var = program.vars[static_cast<size_t>(id)];
      return var.kind == TileVar::Kind::kSize && var.extent == 0;
    });
  };
  for (const TileSymbol& symbol : program.symbols) {
    if (std::ranges::any_of(symbol.shape, open)) return true;
  }
  for (const auto& [loop, path] : structure.loop_path) {
    for (const TileLoop::Dim& dim : loop->dims) {
      if (open(dim.begin) || open(dim.end)) return true;
    }
  }
  return false;
}

/// The stores of an output, nothing where one cannot be enumerated.
std::optional<std::vector<Store>> enumerate_stores(const TileProgram& program,
                                                   const TileStructure& structure,
                                                   TileSymbolId output) {
  std::vector<Store> stores;
  for (const int32_t number : structure.updates[static_cast<size_t>(output)]) {
    const Site& site = structure.sites[static_cast<size_t>(number)];
    if (site.statement->assign != AssignOp::kAssign) return std::nullopt;  // a scatter
    for (const TileRef& target : site.statement->targets) {
      if (target.symbol != output) continue;
      auto store = enumerate_store(program, structure, site, target);
      if (!store.has_value()) return std::nullopt;
      stores.push_back(std::move(*store));
    }
  }
  return stores;
}

/// Elements that the stores reach together: fewer than the sum of theirs where they meet.
int64_t covered_elements(const std::vector<Store>& stores, const Shape& shape, int64_t total) {
  std::vector<bool> marked(static_cast<size_t>(total), false);
  const std::vector<int64_t> base(shape.size(), 0);
  for (const Store& store : stores) {
    PointSet::for_each_offset(store.images, shape, base,
                              [&](int64_t offset) { marked[static_cast<size_t>(offset)] = true; });
  }
  return std::ranges::count(marked, true);
}

/// Each store reaches as many elements as it has points, and together they cover the output without
/// meeting. The error says what, not of which program.
std::optional<std::string> store_mistake(const TilePrinter& printer, const TileSymbol& symbol,
                                         const std::vector<Store>& stores, const Shape& shape,
                                         int64_t total) {
  int64_t sum = 0;
  for (const Store& store : stores) {
    const int64_t reached = PointSet::size(store.images);
    if (reached != store.points) {
      return fmt::format("`{}` writes elements of {} more than once",
                         printer.statement(*store.site->statement), symbol.name);
    }
    if (!is_within(store.images, shape)) {
      return fmt::format("`{}` writes outside of {}", printer.statement(*store.site->statement),
                         symbol.name);
    }
    sum += reached;
  }
  const bool marks = stores.size() > 1 && total <= kLargestBitmap;
  const int64_t covered = marks ? covered_elements(stores, shape, total) : sum;
  if (sum > covered || sum > total) {
    return fmt::format("two statements write the same elements of {}", symbol.name);
  }
  if (covered < total) {
    return fmt::format("{} of {} elements of {} are not written", total - covered, total,
                       symbol.name);
  }
  return std::nullopt;
}

/// Whether the places of an output's views cover it without meeting; nothing where it has none.
std::optional<std::string> view_mistake(const TileProgram& program, const TileStructure& structure,
                                        TileSymbolId output, int64_t total) {
  const std::string& name = program.symbols[static_cast<size_t>(output)].name;
  std::vector<std::pair<int64_t, int64_t>> parts;  // first element, one past the last
  bool any = false;
  for (const TileSymbol& view : program.symbols) {
    if (view.view_of != output || view.kind != TileSymbol::Kind::kOutput) continue;
    any = true;
    const auto places = places_of(structure, view);
    const auto elements = elements_of(view);
    if (!places || !elements) return fmt::format("{} lies at too many places", view.name);
    for (const int64_t at : *places) parts.emplace_back(at, at + *elements);
  }
  if (!any) return std::nullopt;
  std::ranges::sort(parts);
  int64_t end = 0;
  for (const auto& [first, last] : parts) {
    if (first < end) return fmt::format("two views store element {} of {}", first, name);
    if (first > end) return fmt::format("no view stores element {} of {}", end, name);
    end = last;
  }
  if (end < total) return fmt::format("no view stores element {} of {}", end, name);
  return std::nullopt;
}

}  // namespace

Status verify_stores(const TileProgram& program, const TileStructure& structure) {
  if (has_open_sizes(program, structure)) return {};
  const TilePrinter printer(program);
  const auto value = [&](int id) { return program.vars[static_cast<size_t>(id)].extent; };
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const auto output = static_cast<TileSymbolId>(i);
    const TileSymbol& symbol = program.symbols[i];
    if (symbol.kind != TileSymbol::Kind::kOutput) continue;
    Shape shape;
    for (const IndexExpr& e : symbol.shape) shape.push_back(evaluate(e, value));
    const auto total = element_count(shape);
    if (!total.has_value()) {
      return invalid_input(
          fmt::format("tile program {}: the shape of {} is impossible", program.name, symbol.name));
    }
    const bool by_views = std::ranges::any_of(program.symbols, [&](const TileSymbol& s) {
      return s.view_of == output && s.kind == TileSymbol::Kind::kOutput;
    });
    std::optional<std::string> mistake;
    if (by_views) {
      // What is kept for another iteration lies where an earlier one lay.
      if (!symbol.is_workspace) mistake = view_mistake(program, structure, output, *total);
    } else if (const auto stores = enumerate_stores(program, structure, output)) {
      mistake = store_mistake(printer, symbol, *stores, shape, *total);
    }
    if (mistake) return invalid_input(fmt::format("tile program {}: {}", program.name, *mistake));
  }
  return {};
}

}  // namespace weft
