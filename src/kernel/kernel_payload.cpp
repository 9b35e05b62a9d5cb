#include "kernel/kernel_payload.h"

namespace weft {
namespace {

template <typename Field>
bool same_field(const Field& a, const Field& b) {
  if constexpr (std::is_same_v<Field, ScalarValue>) {
    return a.type == b.type && a.i == b.i &&
           std::bit_cast<uint64_t>(a.f) == std::bit_cast<uint64_t>(b.f);
  } else {
    return a == b;
  }
}

}  // namespace

bool same_payload(const KernelPayload& a, const KernelPayload& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        const auto& y = std::get<std::remove_cvref_t<decltype(x)>>(b);
        return std::apply(
            [&](const auto&... of_x) {
              return std::apply(
                  [&](const auto&... of_y) { return (same_field(of_x, of_y) && ...); }, y.fields());
            },
            x.fields());
      },
      a);
}

}  // namespace weft
