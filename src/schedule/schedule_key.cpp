#include "schedule/schedule_key.h"

#include <algorithm>
#include <set>

#include "schedule/calls/library_call.h"
#include "schedule/writer/kernel_names.h"

namespace weft {

Result<ScheduledKernel> schedule_key(const GroupKey& key, const TensorProgram& program,
                                     const Group& group, const Target& target,
                                     const PhysicalLeaves* known,
                                     std::span<const MeasuredComposition> measured) {
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel,
                        schedule_leaf(program, group, target, "k", &key, known, measured));
  const auto number = [&](TensorId t) { return static_cast<TensorId>(key.number_of(t)); };
  for (TensorId& t : kernel.parameters) t = number(t);
  std::map<TensorId, Layout> orders;
  for (auto& [t, layout] : kernel.orders) orders.emplace(number(t), std::move(layout));
  kernel.orders = std::move(orders);
  return kernel;
}

namespace {

/// The names that were asked for, as a kernel of the group gives them out.
std::vector<std::string> given_names(const std::vector<std::string>& asked, const GroupKey& key,
                                     const TensorProgram& program) {
  KernelNames names;
  std::vector<std::string> out;
  const auto given = [&](size_t n) -> std::string_view { return out[n]; };
  for (const std::string& base : asked)
    out.push_back(names.unique(with_numbers(with_names(base, key, program), kAskedMark, given)));
  return out;
}

bool differ(const std::vector<TileSymbol>& symbols) {
  std::set<std::string_view> seen;
  return std::ranges::all_of(symbols,
                             [&](const TileSymbol& s) { return seen.insert(s.name).second; });
}

}  // namespace

std::optional<ScheduledKernel> kernel_of_key(const ScheduledKernel& kernel, const GroupKey& key,
                                             const TensorProgram& program,
                                             const std::string& name) {
  ScheduledKernel out = kernel;
  const std::vector<std::string> given = given_names(kernel.asked_names, key, program);
  const auto put_names = [&](std::string& text) {
    if (text.find(kAskedMark) != std::string::npos)
      text = with_numbers(text, kAskedMark, [&](size_t n) -> std::string_view { return given[n]; });
  };
  out.program.name = KernelNames::identifier(name);
  for (TileSymbol& s : out.program.symbols) put_names(s.name);
  if (!differ(out.program.symbols)) return std::nullopt;
  for (TileVar& v : out.program.vars) put_names(v.name);
  for (SymbolScope& s : out.scopes.symbols) put_names(s.reason);
  out.program.body = cloned(kernel.program.body);
  out.asked_names.clear();
  for (TensorId& t : out.parameters) t = key.tensors[static_cast<size_t>(t)];
  out.orders.clear();
  for (const auto& [number, layout] : kernel.orders)
    out.orders.emplace(key.tensors[static_cast<size_t>(number)], layout);
  return out;
}

}  // namespace weft
