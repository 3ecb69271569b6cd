// Devices, layouts and memory formats: small value types.
#pragma once
#include <string>
#include <string_view>

#include "flambeau/core/config.h"

namespace flambeau {

enum class DeviceType : uint8_t { CPU, Meta, Fake, CUDA };
inline constexpr int kDeviceTypes = 4;

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;  // -1: the current one
  bool operator==(const Device&) const = default;
};

// "cpu", "fake:0". Throws RuntimeError for an unknown name or a bad index.
FL_API Device parse_device(std::string_view text);
FL_API std::string to_string(Device device);
// Where factories put new tensors when they are not told (set_default_device).
FL_API Device default_device();
FL_API void set_default_device(Device device);

enum class Layout : uint8_t { Strided, Sparse, SparseCsr, SparseCsc };
enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

}  // namespace flambeau
