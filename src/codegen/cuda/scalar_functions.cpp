#include "codegen/cuda/scalar_text.h"

namespace weft {
namespace {

struct ScalarFunction {
  std::string_view name;
  std::string_view text;
};

/// One statement a line: the emulator's reports name lines.
constexpr ScalarFunction kFunctions[] = {
    {"sc_min", R"(
template <class T>
WF_DEVICE T sc_min(T a, T b) {
  return a != a ? a : b != b ? b : b < a ? b : a;
}
)"},
    {"sc_max", R"(
template <class T>
WF_DEVICE T sc_max(T a, T b) {
  return a != a ? a : b != b ? b : a < b ? b : a;
}
)"},
    {"sc_sign", R"(
template <class T>
WF_DEVICE T sc_sign(T a) {
  return a > T(0) ? T(1) : a < T(0) ? T(-1) : a == T(0) ? T(0) : a;
}
)"},
    {"sc_sigmoid", R"(
WF_DEVICE float sc_sigmoid(float a) {
  return 1.0f / (1.0f + expf(-a));
}
WF_DEVICE double sc_sigmoid(double a) {
  return 1.0 / (1.0 + exp(-a));
}
)"},
    {"sc_div", R"(
template <class T>
WF_DEVICE T sc_div(T a, T b) {
  return b == T(0) ? T(0) : b == T(-1) && T(-1) < T(0) ? T(0 - (u64)a) : T(a / b);
}
)"},
    {"sc_rem", R"(
template <class T>
WF_DEVICE T sc_rem(T a, T b) {
  return b == T(0) || (b == T(-1) && T(-1) < T(0)) ? T(0) : T(a % b);
}
)"},
    {"sc_pow", R"(
template <class T>
WF_DEVICE T sc_pow(T base, T exponent) {
  if (exponent < T(0)) {
    return base == T(1) ? T(1) : base == T(-1) ? (exponent % T(2) == T(0) ? T(1) : T(-1)) : T(0);
  }
  u64 power = (u64)base;
  u64 result = 1;
  for (u64 left = (u64)exponent; left != 0; left >>= 1) {
    if (left & 1) {
      result *= power;
    }
    power *= power;
  }
  return T(result);
}
)"},
    {"sc_shl", R"(
template <class T>
WF_DEVICE T sc_shl(T a, T b) {
  return !(b < T(0)) && (u64)b < sizeof(T) * 8 ? T((u64)a << (u64)b) : T(0);
}
)"},
    {"sc_shr", R"(
template <class T>
WF_DEVICE T sc_shr(T a, T b) {
  return !(b < T(0)) && (u64)b < sizeof(T) * 8 ? T(a >> b) : T(0);
}
)"},
    {"sc_threefry", R"(
WF_DEVICE u64 sc_threefry(u64 counter, u64 key) {
  const u32 low = (u32)key, high = (u32)(key >> 32);
  const u32 schedule[3] = {low, high, low ^ high ^ 0x1BD11BDAu};
  u32 x0 = (u32)counter + low, x1 = (u32)(counter >> 32) + high;
#define WF_ROUND(distance)                       \
  x0 += x1;                                      \
  x1 = (x1 << distance) | (x1 >> (32 - distance)); \
  x1 ^= x0;
#pragma unroll
  for (u32 i = 0; i < 5; ++i) {
    if (i % 2 == 0) {
      WF_ROUND(13) WF_ROUND(15) WF_ROUND(26) WF_ROUND(6)
    } else {
      WF_ROUND(17) WF_ROUND(29) WF_ROUND(16) WF_ROUND(24)
    }
    x0 += schedule[(i + 1) % 3];
    x1 += schedule[(i + 2) % 3] + i + 1;
  }
#undef WF_ROUND
  return ((u64)x1 << 32) | x0;
}
)"},
    {"sc_to_integer", R"(
template <class To, class From>
WF_DEVICE To sc_to_integer(From v, From below, From above, To lowest, To highest) {
  return v != v ? To(0) : v >= above ? highest : v <= below ? lowest : To(v);
}
)"},
};

bool calls(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const char next = at + name.size() < text.size() ? text[at + name.size()] : '\0';
    if (next == '(' || next == '<') return true;
  }
  return false;
}

}  // namespace

std::string cuda_scalar_functions(std::string_view text) {
  std::string out;
  for (const ScalarFunction& f : kFunctions) {
    if (calls(text, f.name)) out += f.text.substr(1);
  }
  return out;
}

}  // namespace weft
