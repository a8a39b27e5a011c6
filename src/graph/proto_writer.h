#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tandem {

// Writes protobuf's wire format (https://protobuf.dev/programming-guides/encoding/): as much of it
// as an ONNX model needs.
class ProtoWriter {
 public:
  void Int(int field, int64_t value) {
    Key(field, 0);
    Varint(static_cast<uint64_t>(value));
  }

  void Float(int field, float value) {
    Key(field, 5);
    char bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    buffer_.append(bytes, sizeof(bytes));
  }

  void Bytes(int field, std::string_view bytes) {
    Key(field, 2);
    Varint(bytes.size());
    buffer_.append(bytes);
  }

  void Message(int field, const ProtoWriter& message) { Bytes(field, message.buffer_); }

  std::string Take() { return std::move(buffer_); }

 private:
  void Key(int field, int wire_type) { Varint(static_cast<uint64_t>(field) << 3 | wire_type); }

  void Varint(uint64_t value) {
    while (value >= 0x80) {
      buffer_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    buffer_.push_back(static_cast<char>(value));
  }

  std::string buffer_;
};

}  // namespace tandem
