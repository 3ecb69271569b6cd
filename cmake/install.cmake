# Two products with the same content for C++ programs: headers, library, CMake package, pkg-config file.
#   cmake --install           below the prefix: include/, lib/, lib/cmake/flambeau/, lib/pkgconfig/
#   component "python"        below flambeau/ in the wheel, whose folder is the prefix (python -m flambeau --cmake-prefix-path)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

write_basic_package_version_file(${CMAKE_BINARY_DIR}/flambeau-config-version.cmake COMPATIBILITY SameMinorVersion)
file(WRITE ${CMAKE_BINARY_DIR}/flambeau-config.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/flambeau-targets.cmake)\n")

# install_product(<export> <prefix> <libraries, below the prefix> <arguments of install()>)
function(install_product export prefix libraries)
  set(package ${prefix}lib/cmake/flambeau)
  install(TARGETS flambeau EXPORT ${export} LIBRARY DESTINATION ${prefix}${libraries} ${ARGN}
          INCLUDES DESTINATION ${prefix}include)
  install(EXPORT ${export} NAMESPACE flambeau:: FILE flambeau-targets.cmake DESTINATION ${package} ${ARGN})
  install(FILES ${CMAKE_BINARY_DIR}/flambeau-config.cmake ${CMAKE_BINARY_DIR}/flambeau-config-version.cmake
          DESTINATION ${package} ${ARGN})
  install(DIRECTORY flambeau DESTINATION ${prefix}include ${ARGN} FILES_MATCHING PATTERN "*.h")
  foreach(header IN LISTS GENERATED_header)
    file(RELATIVE_PATH path ${FLAMBEAU_GENERATED} ${header})
    get_filename_component(folder ${path} DIRECTORY)
    install(FILES ${header} DESTINATION ${prefix}include/${folder} ${ARGN})
  endforeach()
  configure_file(cmake/flambeau.pc.in ${CMAKE_BINARY_DIR}/${export}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${export}.pc DESTINATION ${prefix}lib/pkgconfig RENAME flambeau.pc ${ARGN})
endfunction()

install_product(flambeau "" ${CMAKE_INSTALL_LIBDIR})
install_product(flambeau-wheel flambeau/ . COMPONENT python EXCLUDE_FROM_ALL)

if(TARGET _C AND binding_sources)
  install(TARGETS _C LIBRARY DESTINATION flambeau COMPONENT python EXCLUDE_FROM_ALL)
endif()
install(DIRECTORY ${FLAMBEAU_GENERATED}/python/ DESTINATION flambeau COMPONENT python EXCLUDE_FROM_ALL)

# The staged package is a prefix too: programs build against a working tree.
export(EXPORT flambeau NAMESPACE flambeau:: FILE ${FLAMBEAU_STAGE}/lib/cmake/flambeau/flambeau-targets.cmake)
configure_file(${CMAKE_BINARY_DIR}/flambeau-config.cmake ${FLAMBEAU_STAGE}/lib/cmake/flambeau/flambeau-config.cmake COPYONLY)
