#include "assemble/constant_table.h"

namespace weft {

const ConstantTable::Entry& ConstantTable::add(const Tensor& tensor, DType type,
                                               const Layout& layout, const Shape& shape) {
  const bool as_is = layout.is_row_major() && type == tensor.type.dtype;
  Entry& entry = known_[{tensor.value.raw(),
                         print(TensorType{tensor.type.dtype, tensor.type.shape}) +
                             (as_is ? "" : print(TensorType{type, shape}) + print(layout))}];
  const bool is_known = entry.bytes > 0;
  if (is_known) return entry;
  entry = {values_.size(), tensor.value.shape(), tensor.value.bytes()};
  values_.push_back(as_is ? tensor.value : HostTensor());
  if (!as_is) {
    entry.shape = {physical_size(layout, shape)};
    entry.bytes = entry.shape[0] * byte_size(type);
    jobs_.push_back({tensor.value.reshaped(shape), layout, type});
    made_.push_back(entry.number);
  }
  return entry;
}

ConstantTable::Constants ConstantTable::take(const LayoutOptions& options) {
  Constants out{std::move(values_), {}};
  out.keys.resize(out.values.size());
  std::vector<LaidOutConstant> made = lay_out_constants(jobs_, options);
  for (size_t j = 0; j < made.size(); ++j) {
    out.values[made_[j]] = std::move(made[j].value);
    out.keys[made_[j]] = made[j].key;
  }
  return out;
}

}  // namespace weft
