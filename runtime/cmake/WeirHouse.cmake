# How our own code is compiled, and the functions that turn folders into targets.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG") # CMake's default: ours keeps line numbers for a back-trace
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

if(WEIR_SANITIZE)
  list(JOIN WEIR_SANITIZE "," sanitizers)
  add_compile_options("-fsanitize=${sanitizers}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${sanitizers}")
endif()

set(WEIR_FORWARDING_DIR "${PROJECT_BINARY_DIR}/include") # <weir/errc.hpp> and its like
set(WEIR_SCHEMA_DIR "${PROJECT_BINARY_DIR}/schemas")     # "net/wire.capnp.h" and its like
set(WEIR_OBJECTS "")                                     # what the library is made of

# What every source of ours is compiled with: never exported.
add_library(weir_house INTERFACE)
target_compile_options(weir_house INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  "$<$<BOOL:${WEIR_WERROR}>:-Werror>")
target_include_directories(weir_house INTERFACE
  "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/runtime/include"
  "${WEIR_FORWARDING_DIR}")
target_include_directories(weir_house SYSTEM INTERFACE "${WEIR_SCHEMA_DIR}")
target_link_libraries(weir_house INTERFACE
  CAF::core CapnProto::capnp-rpc CapnProto::capnp-json Boost::json Boost::headers
  fmt::fmt spdlog::spdlog Threads::Threads)

add_custom_target(weir_generated) # everything that clang-tidy needs beside the sources

# weir_any_library(TARGET): its objects can be part of a static and of a shared library, so that one build directory
# makes either without compiling anything twice. Calls within a source stay as direct as they are without.
function(weir_any_library target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
endfunction()

# weir_schemas(TARGET FOLDER...): compiles FOLDER/*.capnp into an OBJECT library, included as "FOLDER/NAME.capnp.h".
# Folders without schemas are fine: then there is no target, and weir_use_schemas skips it.
function(weir_schemas target)
  list(TRANSFORM ARGN APPEND "/*.capnp" OUTPUT_VARIABLE patterns)
  list(TRANSFORM patterns PREPEND "${PROJECT_SOURCE_DIR}/")
  file(GLOB schemas CONFIGURE_DEPENDS ${patterns})
  if(NOT schemas)
    return()
  endif()
  set(CAPNPC_SRC_PREFIX "${PROJECT_SOURCE_DIR}")
  set(CAPNPC_OUTPUT_DIR "${WEIR_SCHEMA_DIR}")
  file(MAKE_DIRECTORY "${WEIR_SCHEMA_DIR}")
  capnp_generate_cpp(sources headers ${schemas})
  add_library(${target} OBJECT ${sources} ${headers})
  target_compile_options(${target} PRIVATE -w)
  weir_any_library(${target})
  target_include_directories(${target} SYSTEM PUBLIC "${WEIR_SCHEMA_DIR}")
  target_link_libraries(${target} PUBLIC CapnProto::capnp-rpc)
  add_dependencies(weir_generated ${target})
endfunction()

# weir_use_schemas(TARGET SCHEMAS...): their headers exist before TARGET is compiled. The objects of weir_schemas are in
# the library already; those of other schemas become part of TARGET.
function(weir_use_schemas target)
  foreach(schemas IN LISTS ARGN)
    if(NOT TARGET ${schemas})
      continue()
    endif()
    if(schemas STREQUAL "weir_schemas")
      add_dependencies(${target} ${schemas})
    else()
      target_link_libraries(${target} PRIVATE ${schemas})
    endif()
  endforeach()
endfunction()

# weir_layer(NAME): NAME/*.cpp becomes the OBJECT library weir_NAME and part of the library.
function(weir_layer name)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${name}/*.cpp")
  if(sources)
    add_library(weir_${name} OBJECT ${sources})
    weir_any_library(weir_${name})
    target_link_libraries(weir_${name} PRIVATE weir_house)
    weir_use_schemas(weir_${name} weir_schemas)
    list(APPEND WEIR_OBJECTS $<TARGET_OBJECTS:weir_${name}>)
  endif()
  if(TARGET weir_schemas)
    list(APPEND WEIR_OBJECTS $<TARGET_OBJECTS:weir_schemas>)
    list(REMOVE_DUPLICATES WEIR_OBJECTS)
  endif()
  set(WEIR_OBJECTS "${WEIR_OBJECTS}" PARENT_SCOPE)
endfunction()

# weir_forwarding_headers(FILE...): makes FILE includable as <weir/NAME> in this tree, as it will be once installed.
function(weir_forwarding_headers)
  foreach(header IN LISTS ARGN)
    cmake_path(GET header FILENAME name)
    file(CONFIGURE OUTPUT "${WEIR_FORWARDING_DIR}/weir/${name}"
      CONTENT "#pragma once\n#include \"${PROJECT_SOURCE_DIR}/${header}\"\n" @ONLY)
  endforeach()
endfunction()
