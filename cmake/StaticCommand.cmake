# weft-static: the command with everything but the C library inside, for machines that have none of weft's libraries (scripts/gpu
# carries it to one with a GPU). Not fully static, since the driver of a GPU is found by dlopen. The same objects as weft: what they
# link with otherwise comes first here, so that the shared libraries behind it have nothing left to give and are dropped.

add_executable(weft-static src/tools/main.cpp $<TARGET_OBJECTS:weft_static_fmt>)
target_compile_definitions(weft-static PRIVATE WEFT_VERSION="${PROJECT_VERSION}")
target_link_options(weft-static PRIVATE -Wl,--as-needed -static-libstdc++ -static-libgcc -s)
weft_use_jemalloc(weft-static)
target_link_libraries(weft-static PRIVATE ${WEFT_STATIC_LIBRARIES} weft_tools)
set_target_properties(weft-static PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
