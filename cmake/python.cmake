# flambeau._C, one binary for every CPython from 3.11 on, and the staged package that .venv's Python imports.
# nanobind works in split mode: its library comes with the package nanobind-backend, not with ours.
file(GLOB_RECURSE binding_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/src/*.cpp)
if(binding_sources)
  if(NOT Python_Development.Module_FOUND)
    message(FATAL_ERROR "flambeau: Python's headers are missing; on Debian: apt-get install python3-dev")
  endif()
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
                  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_package(nanobind 3.1 CONFIG QUIET)
  if(NOT nanobind_FOUND)
    message(FATAL_ERROR "flambeau: nanobind is missing for ${Python_EXECUTABLE}: pip install nanobind")
  endif()
  nanobind_add_module(_C NOMINSIZE NOSTRIP NB_SUPPRESS_WARNINGS
    BACKEND_MODULE nanobind_backend STABLE_ABI_VERSION 3.11 ${binding_sources})
  # -fno-plt: a small call makes some thirty calls of CPython and the library; each saves a jump.
  target_compile_options(_C PRIVATE ${FLAMBEAU_BASELINE} -fno-plt)
  target_link_libraries(_C PRIVATE flambeau_flags flambeau)
  add_dependencies(_C flambeau_generated)
  set_target_properties(_C PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${FLAMBEAU_STAGE}
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
else()
  add_custom_target(_C)
endif()

add_custom_target(stage ALL
  COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/stage.py
          ${FLAMBEAU_STAGE} ${CMAKE_SOURCE_DIR}/python/flambeau ${FLAMBEAU_GENERATED}/python
  DEPENDS flambeau_generated VERBATIM COMMENT "Linking the Python package")
