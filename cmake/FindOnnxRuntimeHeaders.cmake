# ONNX Runtime's C API headers, as the interface library onnxruntime_headers. Nothing is linked: the
# plugin gets every function from the OrtApiBase that it is given. ONNXRUNTIME_INCLUDE_DIR, when the
# user sets it, is used first.

find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_ep_c_api.h PATH_SUFFIXES onnxruntime onnxruntime/core/session)
if(ONNXRUNTIME_INCLUDE_DIR)
  file(STRINGS ${ONNXRUNTIME_INCLUDE_DIR}/onnxruntime_c_api.h version_line REGEX "^#define ORT_API_VERSION ")
  string(REGEX MATCH "[0-9]+" api_version "${version_line}")
  set(OnnxRuntimeHeaders_VERSION 1.${api_version})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  OnnxRuntimeHeaders
  REQUIRED_VARS ONNXRUNTIME_INCLUDE_DIR
  VERSION_VAR OnnxRuntimeHeaders_VERSION)

if(OnnxRuntimeHeaders_FOUND AND NOT TARGET onnxruntime_headers)
  add_library(onnxruntime_headers INTERFACE IMPORTED)
  target_include_directories(onnxruntime_headers SYSTEM INTERFACE ${ONNXRUNTIME_INCLUDE_DIR})
endif()
