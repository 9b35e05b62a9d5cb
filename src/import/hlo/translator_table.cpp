#include <unordered_map>

#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

using Index = std::unordered_map<std::string_view, const Translator*>;

Index make_index() {
  Index index;
  for (const TranslatorTable& table :
       {elementwise_translators(), bit_translators(), constant_translators(),
        movement_translators(), dynamic_slice_translators(), gather_translators(),
        scatter_translators(), contraction_translators(), reduction_translators(),
        window_translators(), sort_translators(), call_translators(), loop_translators(),
        random_translators(), fourier_translators(), normalization_translators(),
        linear_algebra_translators()}) {
    for (const Translator& row : table) index.emplace(row.opcode, &row);
  }
  return index;
}

}  // namespace

const Translator* find_translator(std::string_view opcode) {
  static const Index kIndex = make_index();
  const auto found = kIndex.find(opcode);
  return found != kIndex.end() ? found->second : nullptr;
}

}  // namespace weft::hlo
