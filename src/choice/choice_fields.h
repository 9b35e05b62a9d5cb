#pragma once

#include "choice/choice.h"

namespace weft {

/// Calls f(name, member pointer) for each field of a choice: the one list that printing and parsing
/// go by.
template <typename F>
void for_each_field(const SweepChoice*, F&& f) {
  using C = SweepChoice;
  f("grid", &C::grid);
  f("inner", &C::inner);
  f("vec_axis", &C::vec_axis);
  f("row_vector", &C::row_vector);
  f("row_axis", &C::row_axis);
  f("rows", &C::rows);
  f("vectors", &C::vectors);
  f("lanes", &C::lanes);
  f("chunked", &C::chunked);
  f("kept", &C::kept);
}

template <typename F>
void for_each_field(const PanelChoice*, F&& f) {
  using C = PanelChoice;
  f("grid", &C::grid);
  f("inner", &C::inner);
  f("vec_axis", &C::vec_axis);
  f("row_axis", &C::row_axis);
  f("rows", &C::rows);
  f("vectors", &C::vectors);
  f("lanes", &C::lanes);
  f("vec_strides", &C::vec_strides);
  f("constants_in_panels", &C::constants_in_panels);
  f("staged_read", &C::staged_read);
  f("rows_outermost", &C::rows_outermost);
  f("depth", &C::depth);
  f("staged_factor", &C::staged_factor);
  f("apart", &C::apart);
  f("part", &C::part);
  f("part_rows", &C::part_rows);
  f("part_axes", &C::part_axes);
}

template <typename F>
void for_each_field(const RowsChoice*, F&& f) {
  using C = RowsChoice;
  f("vec_axis", &C::vec_axis);
  f("free", &C::free);
  f("row", &C::row);
  f("digits", &C::digits);
  f("warps", &C::warps);
  f("resident", &C::resident);
  f("joins", &C::joins);
  f("split", &C::split);
  f("part", &C::part);
  f("parts", &C::parts);
  f("cluster", &C::cluster);
  f("blocks", &C::blocks);
  f("keeps", &C::keeps);
  f("kept_dims", &C::kept_dims);
  f("together", &C::together);
  f("per_sm", &C::per_sm);
  f("apart", &C::apart);
  f("cross", &C::cross);
  f("cross_digits", &C::cross_digits);
}

template <typename F>
void for_each_field(const TwoWaysChoice*, F&& f) {
  using C = TwoWaysChoice;
  f("along", &C::along);
  f("digits", &C::digits);
  f("warps", &C::warps);
  f("blocks", &C::blocks);
  f("per_sm", &C::per_sm);
  f("chunk", &C::chunk);
}

template <typename F>
void for_each_field(const TilesChoice*, F&& f) {
  using C = TilesChoice;
  f("m", &C::m);
  f("n", &C::n);
  f("k", &C::k);
  f("warps_m", &C::warps_m);
  f("warps_n", &C::warps_n);
  f("stages", &C::stages);
  f("splits", &C::splits);
  f("groups", &C::groups);
}

template <typename F>
void for_each_field(const ThreadTilesChoice*, F&& f) {
  using C = ThreadTilesChoice;
  f("others", &C::others);
  f("inner", &C::inner);
  f("row_axis", &C::row_axis);
  f("column_axis", &C::column_axis);
  f("row_digits", &C::row_digits);
  f("column_digits", &C::column_digits);
  f("warps", &C::warps);
  f("shared", &C::shared);
  f("window", &C::window);
  f("beside_axis", &C::beside_axis);
  f("beside_warps", &C::beside_warps);
}

template <typename F>
void for_each_field(const FragmentsChoice*, F&& f) {
  using C = FragmentsChoice;
  f("warps", &C::warps);
  f("stages", &C::stages);
  f("depth", &C::depth);
  f("left_in_block", &C::left_in_block);
}

}  // namespace weft
