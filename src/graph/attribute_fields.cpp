#include "graph/attribute_fields.h"

#include <cstring>

#include "support/hash.h"

namespace weft {
namespace {

std::span<const std::byte> bytes_of(const HostTensor& tensor) {
  return {tensor.raw(), static_cast<size_t>(tensor.bytes())};
}

bool equal_constants(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.raw() == b.raw() ||
          (a.size() > 0 && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0) ||
          a.size() == 0);
}

/// The fields as one sequence of words, each vector after its length: equal sequences are equal
/// attributes.
struct Words {
  std::vector<int64_t> words;
  void add(int64_t value) { words.push_back(value); }
  void add(Combiner value) { words.push_back(static_cast<int64_t>(value)); }
  template <typename T>
  void add(const std::vector<T>& values) {
    words.push_back(static_cast<int64_t>(values.size()));
    words.insert(words.end(), values.begin(), values.end());
  }
};

template <typename Attrs>
std::vector<int64_t> words_of(const Attrs& attrs) {
  Words words;
  for_each_field(attrs, [&](const char*, const auto& field) { words.add(field); });
  return std::move(words.words);
}

template <typename Attrs>
bool equal_fields(const Attrs& a, const Attrs& b) {
  if constexpr (std::is_same_v<Attrs, ConstantAttrs>) {
    return equal_constants(a.value, b.value);
  } else if constexpr (std::is_same_v<Attrs, ElementwiseAttrs>) {
    return a.op == b.op;
  } else {
    return words_of(a) == words_of(b);
  }
}

std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(Combiner value) { return std::string(combiner_name(value)); }
template <typename T>
std::string text_of(const std::vector<T>& values) {
  std::string text = "{";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    text += text_of(static_cast<T>(values[i]));
  }
  return text + '}';
}

}  // namespace

uint64_t content_hash(const HostTensor& tensor) {
  Hasher hasher;
  hasher.add_value(static_cast<uint64_t>(tensor.dtype()));
  hasher.add_value(tensor.shape().size());
  for (int64_t extent : tensor.shape()) hasher.add_value(static_cast<uint64_t>(extent));
  hasher.add_bytes(bytes_of(tensor));
  return hasher.digest64();
}

bool attributes_match(GraphOp op, const Attributes& attrs) {
  switch (op) {
#define WEFT_GRAPH_OP(id, name, Attrs) \
  case GraphOp::id:                    \
    return std::holds_alternative<Attrs>(attrs);
#include "graph/ops.def"
#undef WEFT_GRAPH_OP
  }
  return false;
}

Attributes default_attributes(GraphOp op) {
  switch (op) {
#define WEFT_GRAPH_OP(id, name, Attrs) \
  case GraphOp::id:                    \
    return Attrs{};
#include "graph/ops.def"
#undef WEFT_GRAPH_OP
  }
  throw_internal_error(__FILE__, __LINE__, "graph op", "out of range");
}

bool equal_attributes(const Attributes& a, const Attributes& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& fields) {
        return equal_fields(fields, std::get<std::decay_t<decltype(fields)>>(b));
      },
      a);
}

uint64_t hash_attributes(const Attributes& attrs) {
  Hasher hasher;
  hasher.add_value(attrs.index());
  std::visit(
      [&](const auto& fields) {
        using A = std::decay_t<decltype(fields)>;
        if constexpr (std::is_same_v<A, ConstantAttrs>) {
          hasher.add_value(content_hash(fields.value));
        } else if constexpr (std::is_same_v<A, ElementwiseAttrs>) {
          hasher.add_value(static_cast<uint64_t>(fields.op));
        } else {
          for (int64_t word : words_of(fields)) hasher.add_value(static_cast<uint64_t>(word));
        }
      },
      attrs);
  return hasher.digest64();
}

std::vector<std::string> print_attributes(const Attributes& attrs) {
  std::vector<std::string> out;
  std::visit(
      [&](const auto& fields) {
        for_each_field(fields, [&](const char* name, const auto& field) {
          out.push_back(std::string(name) + "=" + text_of(field));
        });
      },
      attrs);
  return out;
}

}  // namespace weft
