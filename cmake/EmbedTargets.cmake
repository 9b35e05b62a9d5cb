# weft_embed_targets(library): the files of targets/ as target_texts() of target/target_texts.h, so that an installed command knows them.
function(weft_embed_targets library)
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/targets/*.target")
  list(SORT files)
  set(entries "")
  foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME_WLE)
    file(READ "${file}" text)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    string(APPEND entries "    {\"${name}\", R\"target(${text})target\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/target_texts.cpp" @ONLY CONTENT
"#include \"target/target_texts.h\"

namespace weft {
namespace {

constexpr TargetText kTexts[] = {
@entries@};

}  // namespace

std::span<const TargetText> target_texts() { return kTexts; }

}  // namespace weft
")
  target_sources(${library} PRIVATE "${PROJECT_BINARY_DIR}/generated/target_texts.cpp")
endfunction()
