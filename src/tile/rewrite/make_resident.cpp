#include "tile/rewrite/make_resident.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "support/rounding.h"
#include "tile/rewrite/box_accesses.h"

namespace weft {

namespace {

constexpr int64_t kAlignment = 64;   ///< of a value in the block's arena
constexpr int64_t kLeastBytes = 32;  ///< of a box: a sector of memory

/// A box that stays: the access that shows it, and those that read it in all steps.
struct Resident {
  BoxAccess source;
  std::vector<IndexExpr> coordinates;  ///< in the variables of the source
  struct Use {
    BoxAccess access;
    SameVariables same;  ///< by variable of the access: that of the source
  };
  std::vector<Use> uses;
  TileSymbolId kept = -1;
};

class Residence {
 public:
  Residence(TileProgram& program, int64_t room) : program_(program), room_(room) {
    program.body = cloned(program.body);
    structure_ = structure_of(program);
  }

  bool run() {
    for (const BoxAccess& access : box_accesses(structure_)) {
      if (access.nest.size() == 2 && access.read != nullptr && is_input(access.tensor))
        find(access);
    }
    // Loads stand before their recurrence: the last first, so that places in the body stay.
    std::map<NestPath, std::vector<Resident*>> of_nest;
    for (Resident& box : boxes_) of_nest[box.source.nest].push_back(&box);
    std::vector<std::pair<int32_t, TileNode>> loads;
    for (const auto& [nest, boxes] : of_nest) loads.emplace_back(nest[0], loads_of(boxes));
    for (const Resident& box : boxes_) {
      for (const Resident::Use& use : box.uses) read_kept(box, use);
    }
    for (auto& [before, nest] : std::views::reverse(loads))
      program_.body.insert(program_.body.begin() + before, std::move(nest));
    return !boxes_.empty();
  }

 private:
  bool is_input(TileSymbolId id) const {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
    return symbol.kind == TileSymbol::Kind::kInput && symbol.view_of < 0;
  }

  void find(const BoxAccess& access) {
    for (Resident& box : boxes_) {
      if (box.source.nest[0] != access.nest[0]) continue;
      auto same = same_box(structure_, box.source, access);
      if (!same) continue;
      box.uses.push_back({access, std::move(*same)});
      return;
    }
    auto coordinates = box_coordinates(structure_, access);
    if (!coordinates || !changes_with_steps_alone(access)) return;
    int64_t bytes = byte_size(access.read->type);
    for (const IndexExpr& e : *coordinates) {
      const int64_t elements = elements_along(structure_, e);
      if (elements == 0 || bytes > room_) return;
      bytes *= elements;
    }
    bytes = ceil_div(bytes, kAlignment) * kAlignment;
    if (bytes < kLeastBytes || taken_ + bytes > room_) return;
    taken_ += bytes;
    boxes_.push_back({access, std::move(*coordinates), {{access, {}}}, -1});
  }

  /// Whether the box is the same in all steps.
  bool changes_with_steps_alone(const BoxAccess& access) const {
    const TileLoop& steps = *program_.body[static_cast<size_t>(access.nest[0])].loop;
    return std::ranges::none_of(*access.indices, [&](const IndexExpr& e) {
      return std::ranges::any_of(steps.dims,
                                 [&](const TileLoop::Dim& dim) { return uses_var(e, dim.origin); });
    });
  }

  const TileStatement& statement_of(const BoxAccess& access) const {
    return *structure_.sites[static_cast<size_t>(access.site)].statement;
  }

  /// One nest with the loads of all boxes of a nest.
  TileNode loads_of(const std::vector<Resident*>& boxes) {
    std::map<TileVarId, TileVarId> fresh;
    const Site& first = structure_.sites[static_cast<size_t>(boxes[0]->source.site)];
    TileLoop nest = copy_of(*first.loops[1], &fresh);
    for (Resident* box : boxes) nest.body.push_back(load_of(*box, fresh));
    return TileNode::of(std::move(nest));
  }

  /// The loop's header over variables of its own.
  TileLoop copy_of(const TileLoop& loop, std::map<TileVarId, TileVarId>* fresh) {
    TileLoop out;
    out.kind = loop.kind;
    out.dims = loop.dims;
    for (TileLoop::Dim& dim : out.dims) {
      for (TileVarId* v : {&dim.origin, &dim.offset}) {
        if (*v < 0) continue;
        const TileVar var = program_.vars[static_cast<size_t>(*v)];
        const TileVarId copy = program_.add_var(var.name, var.kind, var.extent);
        (*fresh)[*v] = copy;
        *v = copy;
      }
      dim.begin = renamed(dim.begin, *fresh);
      dim.end = renamed(dim.end, *fresh);
    }
    return out;
  }

  static IndexExpr renamed(const IndexExpr& e, const std::map<TileVarId, TileVarId>& names) {
    return substitute(e, [&](int id) {
      const auto other = names.find(id);
      return IndexExpr::var(other == names.end() ? id : other->second);
    });
  }

  /// The statement that loads a box, in the loops that its coordinates run along.
  TileNode load_of(Resident& box, std::map<TileVarId, TileVarId> names) {
    const Site& site = structure_.sites[static_cast<size_t>(box.source.site)];
    std::vector<TileLoop> loops;
    for (size_t l = 2; l < site.loops.size(); ++l) loops.push_back(copy_of(*site.loops[l], &names));
    TileStatement load;
    box.kept = add_value(box.source);
    load.targets = {{box.kept, {}, false}};
    std::set<TileVarId> along;
    for (const IndexExpr& e : box.coordinates) {
      load.targets[0].indices.push_back(renamed(e, names));
      add_box_variables(program_, load.targets[0].indices.back(), &along);
    }
    load.value = rewrite(box.source.read,
                         [&](int id) {
                           const auto other = names.find(id);
                           return IndexExpr::var(other == names.end() ? id : other->second);
                         },
                         {});
    for (Place::Axis axis : statement_of(box.source).place.axes) {
      const auto other = names.find(axis.var);
      if (other != names.end()) axis.var = other->second;
      if (along.count(axis.var) != 0) load.place.axes.push_back(std::move(axis));
    }
    TileNode out = TileNode::of(std::move(load));
    for (TileLoop& loop : std::views::reverse(loops)) {
      loop.body.push_back(std::move(out));
      out = TileNode::of(std::move(loop));
    }
    return out;
  }

  TileSymbolId add_value(const BoxAccess& access) {
    TileSymbol symbol;
    const std::string base = program_.symbols[static_cast<size_t>(access.tensor)].name + "_kept";
    symbol.name = base;
    const auto is_taken = [&](const std::string& name) {
      return program_.find_symbol(name) >= 0 ||
             std::ranges::any_of(program_.vars, [&](const TileVar& v) { return v.name == name; });
    };
    for (int n = 1; is_taken(symbol.name); ++n) symbol.name = base + std::to_string(n);
    symbol.type = access.read->type;
    return program_.add_symbol(std::move(symbol));
  }

  void read_kept(const Resident& box, const Resident::Use& use) {
    std::map<TileVarId, TileVarId> here;
    for (const auto& [later, earlier] : use.same) here[earlier] = later;
    std::vector<IndexExpr> at;
    for (const IndexExpr& e : box.coordinates) at.push_back(renamed(e, here));
    const ScalarRef kept = scalar_read(box.kept, use.access.read->type, std::move(at));
    TileStatement& reader =
        statement_at(program_.body, structure_.sites[static_cast<size_t>(use.access.site)].path);
    reader.value = rewrite(
        reader.value, {}, [&](const ScalarRef& r) { return equal(r, use.access.read) ? kept : r; });
  }

  static TileStatement& statement_at(TileBody& body, const std::vector<int32_t>& path) {
    TileBody* inner = &body;
    for (size_t i = 0; i + 1 < path.size(); ++i)
      inner = &(*inner)[static_cast<size_t>(path[i])].loop->body;
    return (*inner)[static_cast<size_t>(path.back())].statement;
  }

  TileProgram& program_;
  int64_t room_, taken_ = 0;
  TileStructure structure_;
  std::vector<Resident> boxes_;
};

}  // namespace

bool make_resident(TileProgram& program, int64_t room) { return Residence(program, room).run(); }

}  // namespace weft
