# Runs tools/opgen over the op table. It names its products itself (--list: "<kind> <path below the output folder>"):
#   library   C++ compiled once            isa    C++ compiled once per instruction set
#   header    an include                   python   python/..., part of the package
# The generator leaves an unchanged product untouched, so that only what changed is compiled again.
file(GLOB tables CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/flambeau/ops/*.toml)
file(GLOB_RECURSE generator CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/opgen/*.py)
foreach(kind library isa header)
  set(GENERATED_${kind} "")
endforeach()

if(tables AND generator)
  set(opgen ${CMAKE_COMMAND} -E env PYTHONPATH=${CMAKE_SOURCE_DIR} PYTHONDONTWRITEBYTECODE=1
      ${Python_EXECUTABLE} -m tools.opgen --out ${FLAMBEAU_GENERATED})
  # The list of products may change with the table or the generator: ask again when they do.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tables} ${generator})
  execute_process(COMMAND ${opgen} --list WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                  OUTPUT_VARIABLE products OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" products "${products}")
  set(outputs "")
  foreach(product IN LISTS products)
    string(REGEX MATCH "^([a-z]+) (.+)$" matched "${product}")
    list(APPEND GENERATED_${CMAKE_MATCH_1} ${FLAMBEAU_GENERATED}/${CMAKE_MATCH_2})
    list(APPEND outputs ${FLAMBEAU_GENERATED}/${CMAKE_MATCH_2})
  endforeach()
  add_custom_command(OUTPUT ${outputs} COMMAND ${opgen} DEPENDS ${tables} ${generator}
                     WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} COMMENT "Reading the op table" VERBATIM)
  add_custom_target(flambeau_generated DEPENDS ${outputs})
else()
  add_custom_target(flambeau_generated)
endif()

configure_file(${CMAKE_SOURCE_DIR}/cmake/version.py.in ${FLAMBEAU_GENERATED}/python/_version.py @ONLY)
