#pragma once

#include <limits>
#include <type_traits>

#include "graph/scalar_math.h"
#include "support/check.h"

namespace weft {

/// What a reduction of values T keeps between elements: double for floats, T otherwise (integers
/// wrap).
template <typename T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, T>;

/// The accumulator that leaves any other unchanged.
template <typename T>
Accumulator<T> identity_of(Combiner combiner) {
  using A = Accumulator<T>;
  using Limits = std::numeric_limits<A>;
  switch (combiner) {
    case Combiner::kProd:
      return A{1};
    case Combiner::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case Combiner::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Combiner::kAnd:
      return std::is_same_v<T, bool> ? A{1} : static_cast<A>(-1);
    default:
      return A{0};
  }
}

/// Calls body(f, identity) with the combiner as (A, A) -> A on accumulators of T; infer_types saw
/// that they fit.
template <typename T, typename Body>
void with_combiner(Combiner combiner, Body&& body) {
  using A = Accumulator<T>;
  const bool known =
      with_binary<A>(*combiner_op(combiner), [&](auto f) { body(f, identity_of<T>(combiner)); });
  WEFT_CHECK(known, "a combiner that its type does not have");
}

}  // namespace weft
