#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/data_type.h"

namespace tandem {

// What reader and writer of bundles agree on; docs/bundle-format.md.

// Keys of the metadata.
constexpr std::string_view kFormatKey = "tandem.format";
constexpr std::string_view kMtimeKey = "tandem.mtime_ns";
constexpr std::string_view kDigestsKey = "tandem.digests";
constexpr std::string_view kHeaderKey = "tandem.header";

constexpr uint64_t kLengthBytes = 8;          // of the header's length, before it
constexpr uint64_t kMaxHeader = 100'000'000;  // what safetensors itself accepts
constexpr std::string_view kPadPrefix = "pad/";

// The header ends, and tensors from kLargeTensor bytes on begin, at a page.
constexpr uint64_t kPage = 4096;
constexpr uint64_t kCacheLine = 64;
constexpr uint64_t kLargeTensor = 64 * 1024;

struct SafetensorsType {
  std::string_view name;
  DataType type;
};

// Types that safetensors has. Others (4 bits) are stored as their bytes.
constexpr std::array kSafetensorsTypes{
    SafetensorsType{"U8", DataType::kUint8},    SafetensorsType{"I8", DataType::kInt8},
    SafetensorsType{"U16", DataType::kUint16},  SafetensorsType{"I16", DataType::kInt16},
    SafetensorsType{"U32", DataType::kUint32},  SafetensorsType{"I32", DataType::kInt32},
    SafetensorsType{"U64", DataType::kUint64},  SafetensorsType{"I64", DataType::kInt64},
    SafetensorsType{"F16", DataType::kFloat16}, SafetensorsType{"BF16", DataType::kBfloat16},
    SafetensorsType{"F32", DataType::kFloat32}, SafetensorsType{"F64", DataType::kFloat64},
    SafetensorsType{"BOOL", DataType::kBool},
};

}  // namespace tandem
