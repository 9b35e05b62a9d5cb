# Installs what BUILD has, builds tests/install/consumer against it, and runs its programs on an artefact.
cmake_minimum_required(VERSION 3.25)
set(work "${BUILD}/install-test")
file(REMOVE_RECURSE "${work}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(code)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command} failed (${code}):\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${work}/prefix")
run("${CMAKE_COMMAND}" -S "${SOURCE}/tests/install/consumer" -B "${work}/build" -G "${GENERATOR}"
  -D "CMAKE_PREFIX_PATH=${work}/prefix" -D "CMAKE_C_COMPILER=${C_COMPILER}" -D "CMAKE_CXX_COMPILER=${CXX_COMPILER}"
  -D "C_EXAMPLE=${SOURCE}/examples/c_artefact/main.c")
run("${CMAKE_COMMAND}" --build "${work}/build")

run("${MAKE_ARTEFACT}" "${work}/double.weft")
run("${work}/build/c_artefact" "${work}/double.weft")
if(NOT output STREQUAL "y: first element 3\n")
  message(FATAL_ERROR "c_artefact says: ${output}")
endif()
if(EXISTS "${work}/build/cpp_consumer")
  run("${work}/build/cpp_consumer" "${work}/double.weft")
  if(NOT output MATCHES "y = 3 5 7")
    message(FATAL_ERROR "cpp_consumer says: ${output}")
  endif()
endif()
file(REMOVE_RECURSE "${work}")
