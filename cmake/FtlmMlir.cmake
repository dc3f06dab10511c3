# SPDX-License-Identifier: Apache-2.0
# Finds MLIR and LLVM 22.1 and declares the helpers for dialects. Only the shared libraries MLIR and
# LLVM are ever linked: static parts beside them would put two copies of MLIR into one program.

find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)

add_library(ftlm_mlir INTERFACE)
target_include_directories(ftlm_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS}
                           "${PROJECT_BINARY_DIR}/generated")
target_compile_definitions(ftlm_mlir INTERFACE ${LLVM_DEFINITIONS_LIST})

target_link_libraries(ftlm_mlir INTERFACE MLIR LLVM)

# ftlm_tablegen(TARGET SOURCE.td OUTPUT ARGS...) runs mlir-tblgen on SOURCE.td and writes
# generated/<folder of the source>/OUTPUT, for #include "<folder>/OUTPUT".
function(ftlm_tablegen target source output)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(out "${PROJECT_BINARY_DIR}/generated/${folder}/${output}")
  set(includes "-I${PROJECT_SOURCE_DIR}")
  foreach(dir ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
    list(APPEND includes "-I${dir}")
  endforeach()
  add_custom_command(
    OUTPUT "${out}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/generated/${folder}"
    COMMAND ${MLIR_TABLEGEN_EXE} ${ARGN} ${includes} "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
            -o "${out}" -d "${out}.d"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
    DEPFILE "${out}.d"
    COMMENT "tablegen ${folder}/${output}")
  set_property(GLOBAL APPEND PROPERTY FTLM_GENERATED "${out}")
  set_property(GLOBAL APPEND PROPERTY FTLM_GENERATED_${target} "${out}")
endfunction()

# ftlm_tablegen_target(TARGET) makes the outputs declared for TARGET a target to depend on.
function(ftlm_tablegen_target target)
  get_property(outputs GLOBAL PROPERTY FTLM_GENERATED_${target})
  add_custom_target(${target} DEPENDS ${outputs})
endfunction()
