# How every C++ file of the project is compiled and linked: the interface target flambeau_flags.
add_library(flambeau_flags INTERFACE)
target_include_directories(flambeau_flags INTERFACE ${CMAKE_SOURCE_DIR} ${FLAMBEAU_GENERATED})

target_compile_options(flambeau_flags INTERFACE
  -Wall -Wextra -Werror
  # Contraction would make a result depend on the instruction set; kernels ask for fma where they mean it.
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -ffunction-sections -fdata-sections
  # __FILE__ must not carry the folder of the build machine into the library.
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
target_link_options(flambeau_flags INTERFACE -Wl,--gc-sections)

if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(FATAL_ERROR "flambeau: the kernels are written for x86-64, this machine is ${CMAKE_SYSTEM_PROCESSOR}")
endif()
set(FLAMBEAU_BASELINE -march=x86-64-v2)
# Code whose loops are short, or run on old processors only, is not padded: a thirtieth of the library.
set(FLAMBEAU_COMPACT -fno-align-functions -fno-align-loops -fno-align-jumps -fno-align-labels)

if(FLAMBEAU_SANITIZE)
  target_compile_options(flambeau_flags INTERFACE
    -fsanitize=${FLAMBEAU_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(flambeau_flags INTERFACE -fsanitize=${FLAMBEAU_SANITIZE})
else()
  # A release is shipped: names that only a debugger reads are a fifth of it.
  target_link_options(flambeau_flags INTERFACE $<$<CONFIG:Release>:-Wl,--strip-all>)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
