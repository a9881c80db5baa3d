# Finds CAF and gives CAF::core. CAF 1.x brings its own CMake files; Debian's CAF 0.17 brings none, so headers and
# library are looked up here. Sets CAF_FOUND and CAF_VERSION.

find_package(CAF CONFIG QUIET)
if(TARGET CAF::core)
  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(CAF CONFIG_MODE)
  return()
endif()

find_path(CAF_INCLUDE_DIR caf/config.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY)

if(CAF_INCLUDE_DIR)
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" version_line REGEX "^#define CAF_VERSION [0-9]+")
  if(version_line MATCHES "CAF_VERSION ([0-9]+)")
    math(EXPR major "${CMAKE_MATCH_1} / 10000")
    math(EXPR minor "${CMAKE_MATCH_1} / 100 % 100")
    math(EXPR patch "${CMAKE_MATCH_1} % 100")
    set(CAF_VERSION "${major}.${minor}.${patch}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION)

if(CAF_FOUND)
  find_package(Threads REQUIRED)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION "${CAF_CORE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
