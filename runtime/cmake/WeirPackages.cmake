# What `cpack -G DEB` makes: of a shared build (cmake --preset package) the packages libweirX.Y (the library), libweir-dev
# (headers, CMake files) and weir (the program); of a static build the library is part of libweir-dev.

get_target_property(soversion weir SOVERSION)
set(library_package "libweir${soversion}") # Debian's rule: the package is called as its SONAME
set(components development)
if(BUILD_SHARED_LIBS)
  list(APPEND components library)
endif()
if(TARGET weir_program)
  list(APPEND components program)
endif()

set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE) # one package each
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGE_CONTACT "weir contributors <weir@example.org>")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS # whatever the umask of who makes the packages
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON) # the same version of each other
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")

# debian_package(COMPONENT NAME SECTION TEXT)
function(debian_package component name section text)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_DESCRIPTION "Every byte that may arrive has been paid for in advance. ${text}" PARENT_SCOPE)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${name}" RENAME copyright
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

debian_package(library ${library_package} libs "This package has the shared library.")
debian_package(development libweir-dev libdevel
  "This package has what is needed to build against it: headers and CMake files.")
debian_package(program weir net "This package has the program weir: a ready-made node and the benchmarks.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)

# What the public headers and weirConfig.cmake need.
set(needs "libcaf-dev, libcapnp-dev, capnproto, pkgconf, libfmt-dev")
if(BUILD_SHARED_LIBS)
  set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS library)
  set(CPACK_COMPONENT_PROGRAM_DEPENDS library)
else()
  string(APPEND needs ", libspdlog-dev, libboost-json1.81-dev | libboost-json-dev (>= 1.81)")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${needs}")

include(CPack)
