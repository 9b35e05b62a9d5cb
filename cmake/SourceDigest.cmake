# Writes OUTPUT, which defines weft::source_digest() of the files under SOURCES: run by the build with cmake -P.
file(GLOB_RECURSE files RELATIVE "${SOURCES}" "${SOURCES}/*.cpp" "${SOURCES}/*.h" "${SOURCES}/*.def")
list(SORT files)
set(all "")
foreach(file IN LISTS files)
  file(SHA256 "${SOURCES}/${file}" digest)
  string(APPEND all "${file} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
file(WRITE "${OUTPUT}" "#include \"driver/cache/source_digest.h\"

namespace weft {

std::string_view source_digest() { return \"${digest}\"; }

}  // namespace weft
")
