// Names of devices and the default one.
#include "flambeau/core/device.h"

#include <atomic>

#include "flambeau/core/check.h"

namespace flambeau {

namespace {

constexpr std::string_view kNames[kDeviceTypes] = {"cpu", "meta", "fake", "cuda"};
std::atomic<uint16_t> default_bits{
    uint16_t(uint8_t(-1))};  // type in the high byte, index in the low

}  // namespace

Device parse_device(std::string_view text) {
  std::string_view type = text.substr(0, text.find(':'));
  for (int i = 0; i < kDeviceTypes; i++) {
    if (type != kNames[i]) continue;
    Device device{DeviceType(i), -1};
    if (type.size() == text.size()) return device;
    std::string_view digits = text.substr(type.size() + 1);
    bool valid = !digits.empty() && digits.size() < 3 && (digits.size() == 1 || digits[0] != '0');
    int index = 0;
    for (char c : digits) {
      valid = valid && c >= '0' && c <= '9';
      index = 10 * index + (c - '0');
    }
    FL_CHECK(valid, RuntimeError, "device: the index must be a number from 0 to 99, got '{}'",
             text);
    device.index = int8_t(index);
    return device;
  }
  fail<RuntimeError>("device: expected one of cpu, meta, fake, cuda, got '{}'", text);
}

std::string to_string(Device device) {
  std::string text(kNames[int(device.type)]);
  if (device.index >= 0) text += ':' + std::to_string(device.index);
  return text;
}

Device default_device() {
  uint16_t bits = default_bits.load(std::memory_order_relaxed);
  return {DeviceType(bits >> 8), int8_t(bits & 0xff)};
}

void set_default_device(Device device) {
  default_bits.store(uint16_t(int(device.type) << 8 | uint8_t(device.index)),
                     std::memory_order_relaxed);
}

}  // namespace flambeau
