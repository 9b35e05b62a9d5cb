# weft_embed_page(library): the page of `weft explain --html` as page_sources() of driver/page/page_sources.h, from src/driver/page:
# page.html, page.css, and the scripts, which are one module in the order of their names.
function(weft_embed_page library)
  set(folder "${PROJECT_SOURCE_DIR}/src/driver/page")
  file(GLOB scripts CONFIGURE_DEPENDS "${folder}/*.js")
  list(SORT scripts)
  set(html "")
  set(css "")
  set(js "")
  foreach(file IN ITEMS "${folder}/page.html" "${folder}/page.css" LISTS scripts)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    get_filename_component(ending "${file}" EXT)
    string(SUBSTRING "${ending}" 1 -1 ending)
    file(READ "${file}" text)
    string(APPEND ${ending} "\n    R\"page(${text})page\"")
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/page_sources.cpp" @ONLY CONTENT
"#include \"driver/page/page_sources.h\"

namespace weft {

PageSources page_sources() {
  return {@html@,@css@,@js@};
}

}  // namespace weft
")
  target_sources(${library} PRIVATE "${PROJECT_BINARY_DIR}/generated/page_sources.cpp")
endfunction()
