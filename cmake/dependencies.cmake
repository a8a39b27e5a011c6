# Where the libraries come from: what the user points to, else build/deps and build/venv, which
# tools/bootstrap.py makes, else the system.

set(TANDEM_DEPS_DIR ${PROJECT_SOURCE_DIR}/build/deps/usr CACHE PATH "Where tools/bootstrap.py unpacked the headers")
if(EXISTS ${TANDEM_DEPS_DIR})
  list(APPEND CMAKE_PREFIX_PATH ${TANDEM_DEPS_DIR})
endif()

find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(xxhash INTERFACE)
target_include_directories(xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})

if(TANDEM_TESTS)
  find_package(GTest 1.12 REQUIRED)
endif()
if(TANDEM_BENCH)
  find_package(benchmark REQUIRED)
endif()

if(TANDEM_PLUGIN)
  if(NOT OpenVINO_DIR)
    find_program(TANDEM_PYTHON NAMES python3 PATHS ${PROJECT_SOURCE_DIR}/build/venv/bin NO_DEFAULT_PATH)
    find_program(TANDEM_PYTHON NAMES python3)
    execute_process(
      COMMAND ${TANDEM_PYTHON} -c "import importlib.util as u; print(u.find_spec('openvino').submodule_search_locations[0])"
      OUTPUT_VARIABLE openvino_package OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    set(OpenVINO_DIR ${openvino_package}/cmake CACHE PATH "Folder of OpenVINOConfig.cmake")
  endif()
  find_package(OpenVINO 2026.4 REQUIRED COMPONENTS Runtime ONNX)
  find_package(TBB REQUIRED PATHS ${OpenVINO_DIR} NO_DEFAULT_PATH)
  find_package(OnnxRuntimeHeaders 1.23 REQUIRED)
endif()
