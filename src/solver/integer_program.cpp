#include "solver/integer_program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "solver/cbc.h"

namespace weft {

namespace {

/// Columns that rows hold together, with those rows.
struct Part {
  std::vector<int> columns;  ///< of the whole program
  IntegerProgram program;    ///< of these, by their positions
};

/// By the first column of each.
std::vector<Part> parts_of(const IntegerProgram& program) {
  const size_t n = program.gains.size();
  std::vector<int> of(n);
  std::iota(of.begin(), of.end(), 0);
  const auto root = [&](int c) {
    while (of[static_cast<size_t>(c)] != c) {
      of[static_cast<size_t>(c)] = of[static_cast<size_t>(of[static_cast<size_t>(c)])];
      c = of[static_cast<size_t>(c)];
    }
    return c;
  };
  for (const IntegerProgram::Row& row : program.rows) {
    for (const int c : row.columns) {
      const auto [least, most] = std::minmax(root(c), root(row.columns.front()));
      of[static_cast<size_t>(most)] = least;
    }
  }
  std::vector<Part> parts;
  std::vector<size_t> part_of(n);
  std::vector<int> position(n);
  for (size_t c = 0; c < n; ++c) {
    const auto first = static_cast<size_t>(root(static_cast<int>(c)));
    if (first == c) {
      part_of[c] = parts.size();
      parts.emplace_back();
    }
    Part& part = parts[part_of[c] = part_of[first]];
    position[c] = static_cast<int>(part.columns.size());
    part.columns.push_back(static_cast<int>(c));
    part.program.gains.push_back(program.gains[c]);
  }
  for (const IntegerProgram::Row& row : program.rows) {
    if (row.columns.empty()) continue;
    IntegerProgram::Row own{{}, row.most};
    for (const int c : row.columns) own.columns.push_back(position[static_cast<size_t>(c)]);
    parts[part_of[static_cast<size_t>(row.columns.front())]].program.rows.push_back(std::move(own));
  }
  return parts;
}

/// Equal for parts that differ in the numbers of their columns alone.
std::vector<double> key_of(const IntegerProgram& part) {
  std::vector<double> key = {static_cast<double>(part.gains.size())};
  key.insert(key.end(), part.gains.begin(), part.gains.end());
  for (const IntegerProgram::Row& row : part.rows) {
    key.push_back(-1 - static_cast<double>(row.most));
    key.insert(key.end(), row.columns.begin(), row.columns.end());
  }
  return key;
}

/// One column that nothing forbids needs no solver.
Result<IntegerSolution> solve_part(const IntegerProgram& part, int64_t most_nodes) {
  if (!part.rows.empty()) return solve_by_cbc(part, most_nodes);
  const double gain = std::max(part.gains.front(), 0.0);
  return IntegerSolution{{gain > 0}, gain, gain, true};
}

}  // namespace

Result<IntegerSolution> solve(const IntegerProgram& program, int64_t most_nodes) {
  IntegerSolution out;
  out.chosen.resize(program.gains.size(), false);
  out.optimal = true;
  std::map<std::vector<double>, IntegerSolution> known;
  for (const Part& part : parts_of(program)) {
    const auto [at, is_new] = known.try_emplace(key_of(part.program));
    if (is_new) {
      WEFT_ASSIGN_OR_RETURN(at->second, solve_part(part.program, most_nodes));
    }
    const IntegerSolution& own = at->second;
    for (size_t c = 0; c < part.columns.size(); ++c)
      out.chosen[static_cast<size_t>(part.columns[c])] = own.chosen[c];
    out.gain += own.gain;
    out.bound += own.bound;
    out.optimal &= own.optimal;
  }
  return out;
}

}  // namespace weft
