#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// The texts of graphs that several folders test.

/// Rows of x, each less its maximum, through exp, and divided by their sum: y.
inline std::string softmax(int64_t rows, int64_t columns, std::string_view type = "f32") {
  return fmt::format(R"((x: {2}[{0},{1}]) {{
  m = reduce x, axes={{1}}, combiner=max : {2}[{0}]
  mb = broadcast m, dims={{0}} : {2}[{0},{1}]
  d = sub x, mb : {2}[{0},{1}]
  e = exp d : {2}[{0},{1}]
  s = reduce e, axes={{1}}, combiner=sum : {2}[{0}]
  sb = broadcast s, dims={{0}} : {2}[{0},{1}]
  y = div e, sb : {2}[{0},{1}]
}} -> (y))",
                     rows, columns, type);
}

/// x[m,k] times w[k,n], and `after`: lines that make the result y of the product p.
inline std::string product(int64_t m, int64_t n, int64_t k, std::string_view type,
                           std::string_view after = "", std::string_view outputs = "y") {
  return fmt::format(R"((x: {3}[{0},{2}], w: {3}[{2},{1}]) {{
  {5} = dot_general x, w, lhs_contract={{1}}, rhs_contract={{0}} : {3}[{0},{1}]
{4}}} -> ({6}))",
                     m, n, k, type, after, after.empty() ? "y" : "p", outputs);
}

/// Sums of the rows of x, and something of another shape that has nothing to do with them.
inline std::string apart(int64_t rows, int64_t columns) {
  return fmt::format(R"((x: f32[{0},{1}], u: f32[7,5,3]) {{
  y = reduce x, axes={{1}}, combiner=sum : f32[{0}]
  z = exp u : f32[7,5,3]
}} -> (y, z))",
                     rows, columns);
}

}  // namespace weft
