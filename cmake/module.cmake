# tandem_module(<folder> SOURCES ... DEPS ... [TESTS ...] [TEST_DEPS ...])
#
# A static library tandem_<folder> from the listed sources, and one test program from the listed
# tests. DEPS name the only libraries whose headers the folder may include: that is how the layers
# of docs/architecture.md are enforced.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

add_library(tandem_flags INTERFACE)
target_compile_options(tandem_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                              -Wold-style-cast -Wcast-qual -Wundef -Wno-missing-field-initializers
                                              -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tandem_flags INTERFACE -Wno-restrict)  # GCC bug 105651
endif()
if(TANDEM_SANITIZE)
  # GCC's own documentation: with sanitizers, these warnings are often false.
  target_compile_options(tandem_flags INTERFACE -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  target_link_options(tandem_flags INTERFACE -fsanitize=${TANDEM_SANITIZE})
endif()

function(tandem_module folder)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;TESTS;TEST_DEPS" ${ARGN})
  set(name tandem_${folder})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE $<BUILD_INTERFACE:tandem_flags>)
  if(TANDEM_TESTS AND arg_TESTS)
    add_executable(${name}_test ${arg_TESTS})
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name}_test PRIVATE ${name} ${arg_TEST_DEPS} tandem_flags GTest::gmock_main)
    add_test(NAME ${folder} COMMAND ${name}_test)
  endif()
endfunction()
