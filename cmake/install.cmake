# Two products: `cmake --install` gives C++ programs headers, library, CMake package and pkg-config file;
# the component "python" is what scikit-build-core puts into the wheel.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS flambeau EXPORT flambeau LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY flambeau DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
foreach(header IN LISTS GENERATED_header)
  file(RELATIVE_PATH path ${FLAMBEAU_GENERATED} ${header})
  get_filename_component(folder ${path} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/flambeau)
install(EXPORT flambeau NAMESPACE flambeau:: FILE flambeau-targets.cmake DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/flambeau-config-version.cmake COMPATIBILITY SameMinorVersion)
file(WRITE ${CMAKE_BINARY_DIR}/flambeau-config.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/flambeau-targets.cmake)\n")
install(FILES ${CMAKE_BINARY_DIR}/flambeau-config.cmake ${CMAKE_BINARY_DIR}/flambeau-config-version.cmake
        DESTINATION ${package})
configure_file(cmake/flambeau.pc.in ${CMAKE_BINARY_DIR}/flambeau.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/flambeau.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS flambeau LIBRARY DESTINATION flambeau COMPONENT python EXCLUDE_FROM_ALL)
if(TARGET _C AND binding_sources)
  install(TARGETS _C LIBRARY DESTINATION flambeau COMPONENT python EXCLUDE_FROM_ALL)
endif()
install(DIRECTORY ${FLAMBEAU_GENERATED}/python/ DESTINATION flambeau COMPONENT python EXCLUDE_FROM_ALL)
