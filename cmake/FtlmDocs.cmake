# SPDX-License-Identifier: Apache-2.0
# The pages that are generated from TableGen: `docs` writes docs/dialects/*.md and docs/passes.md into
# the source tree, `docs-check` fails with a diff when the committed ones are not current.

find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  set(command "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/lib/docs.py"
      --source "${PROJECT_SOURCE_DIR}" --build "${PROJECT_BINARY_DIR}/docs"
      --tblgen "$<TARGET_FILE:${MLIR_TABLEGEN_EXE}>")
  foreach(folder ${MLIR_INCLUDE_DIRS})
    list(APPEND command --include "${folder}")
  endforeach()
  add_custom_target(docs COMMAND ${command} VERBATIM)
  add_custom_target(docs-check COMMAND ${command} --check VERBATIM)
endif()
