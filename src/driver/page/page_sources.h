#pragma once

#include <string_view>

namespace weft {

/// What the page is made of, from the files of this folder (cmake/EmbedPage.cmake).
struct PageSources {
  std::string_view html;  ///< with {{style}}, {{script}} and {{data}} where those go
  std::string_view style;
  std::string_view script;
};
PageSources page_sources();

}  // namespace weft
