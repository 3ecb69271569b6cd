# libflambeau. A kernel source that lives in `namespace flambeau::FL_ISA` is compiled once per instruction set;
# everything else once, for the oldest processor that we run on.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/flambeau/*.cpp)
set(isa_sources ${GENERATED_isa})
foreach(source IN LISTS sources)
  if(source MATCHES "/flambeau/kernels/cpu/")
    # The text of these files decides where they go, so a change of it configures again.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} marked REGEX "namespace flambeau::FL_ISA" LIMIT_COUNT 1)
    if(marked)
      list(APPEND isa_sources ${source})
      list(REMOVE_ITEM sources ${source})
    endif()
  endif()
endforeach()

# A node takes all arguments of its op and keeps those that its backward needs.
set_source_files_properties(${GENERATED_library} PROPERTIES COMPILE_OPTIONS -Wno-unused-parameter)
add_library(flambeau_objects OBJECT ${sources} ${GENERATED_library})
target_compile_options(flambeau_objects PRIVATE ${FLAMBEAU_BASELINE} ${FLAMBEAU_COMPACT})
target_link_libraries(flambeau_objects PRIVATE flambeau_flags)
add_dependencies(flambeau_objects flambeau_generated)
set(objects $<TARGET_OBJECTS:flambeau_objects>)

foreach(isa v2 v3 v4)
  if(isa_sources)
    add_library(flambeau_${isa} OBJECT ${isa_sources})
    # psabi: a wide vector passed by value warns below its instruction set; such functions never leave their object.
    target_compile_options(flambeau_${isa} PRIVATE -march=x86-64-${isa} -Wno-psabi)
    if(isa STREQUAL "v2")
      target_compile_options(flambeau_${isa} PRIVATE ${FLAMBEAU_COMPACT})
    endif()
    # What the thread sanitizer inserts hides from the compiler that every lane is set.
    if(FLAMBEAU_SANITIZE STREQUAL "thread")
      target_compile_options(flambeau_${isa} PRIVATE -Wno-maybe-uninitialized)
    endif()
    target_compile_definitions(flambeau_${isa} PRIVATE FL_ISA=${isa})
    target_link_libraries(flambeau_${isa} PRIVATE flambeau_flags)
    add_dependencies(flambeau_${isa} flambeau_generated)
    list(APPEND objects $<TARGET_OBJECTS:flambeau_${isa}>)
  endif()
endforeach()

# Opens BLAS, CUDA and the like by name when they are first needed; links none of them.
find_package(Threads REQUIRED)
add_library(flambeau SHARED ${objects})
add_library(flambeau::flambeau ALIAS flambeau)
set_target_properties(flambeau PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${FLAMBEAU_STAGE})
target_compile_features(flambeau PUBLIC cxx_std_20)
target_include_directories(flambeau PUBLIC
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${FLAMBEAU_GENERATED}>)
target_link_libraries(flambeau PRIVATE $<BUILD_INTERFACE:flambeau_flags> Threads::Threads ${CMAKE_DL_LIBS})
# -z defs: a missing symbol fails here, not at import. -Bsymbolic-functions: calls inside the library skip the PLT.
target_link_options(flambeau PRIVATE -Wl,-z,defs -Wl,-Bsymbolic-functions)
