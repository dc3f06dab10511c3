# SPDX-License-Identifier: Apache-2.0
# What every target of the tree shares: language level, warnings, output folders, ccache.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
# Installed programs find the shared libraries where the build found them (MLIR's are in no standard folder).
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# The MLIR packages are built with NDEBUG; mixing the two settings is undefined (pass statistics
# change their layout). Our own checks that must stay use FTLM_CHECK, which NDEBUG does not remove.
add_compile_definitions(NDEBUG FTLM_VERSION="${PROJECT_VERSION}")
# A product a*b+c is fused only where the source says so: the same bits on every processor.
add_compile_options(-ffp-contract=off)

find_program(FTLM_CCACHE ccache)
if(FTLM_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${FTLM_CCACHE}")
endif()

set(FTLM_WARNINGS -Wall -Wextra -Wpedantic $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>
                  # GCC 12 sees overlaps in string concatenation that cannot be.
                  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -Wnon-virtual-dtor -Woverloaded-virtual
                  -Wno-unused-parameter -Werror)

# ftlm_library(NAME SOURCES... [DEPENDS lib...]) declares a static library of the tree. Headers lie
# beside the sources and are included from the root: #include "runtime/io/Safetensors.h".
function(ftlm_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;SYSTEM_DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
  target_compile_options(${name} PRIVATE ${FTLM_WARNINGS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# ftlm_executable(NAME SOURCES... [DEPENDS lib...]) declares a program of the tree.
function(ftlm_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
  target_compile_options(${name} PRIVATE ${FTLM_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
endfunction()

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
