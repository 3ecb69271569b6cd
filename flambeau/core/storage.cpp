// Storages come from a per-thread list of blocks; their memory from the device's allocator.
#include "flambeau/core/storage.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "flambeau/core/allocator.h"
#include "flambeau/core/pool.h"
#include "flambeau/core/tensor.h"

namespace flambeau {

namespace {

// Host memory that the allocator takes from the thread's lists: the way around it is shorter.
bool is_small(const Storage& s) {
  return s.device.type == DeviceType::CPU && 0 < s.bytes && s.bytes <= kSmallBytes;
}

}  // namespace

Storage* new_storage(size_t bytes, Device device) {
  auto* s = new (take_block(tls.storages, sizeof(Storage))) Storage;
  s->device = device;
  s->bytes = bytes;
  if (bytes == 0 || device.type == DeviceType::Meta) return s;
  try {
    s->data = static_cast<char*>(is_small(*s) ? allocate_small(bytes)
                                              : allocator(device.type).allocate(bytes));
  } catch (...) {
    return_block(tls.storages, s);
    throw;
  }
  return s;
}

Storage* wrap_storage(void* data, size_t bytes, Device device, void (*deleter)(void*),
                      void* context) {
  auto* s = new (take_block(tls.storages, sizeof(Storage))) Storage;
  s->device = device;
  s->bytes = bytes;
  s->data = static_cast<char*>(data);
  s->resizable = false;
  s->deleter = deleter;
  s->context = context;
  return s;
}

void Storage::destroy() {
  if (FL_UNLIKELY(py != nullptr) && core_hooks.drop_python_storage)
    core_hooks.drop_python_storage(this);
  if (FL_UNLIKELY(writer != nullptr)) core_hooks.drop_writer(writer);
  if (FL_UNLIKELY(deleter != nullptr))
    deleter(context);
  else if (FL_LIKELY(is_small(*this)))
    release_small(data, bytes);
  else if (data)
    allocator(device.type).release(data, bytes);
  return_block(tls.storages, this);
}

void resize_storage(Storage& storage, size_t bytes) {
  FL_CHECK(storage.resizable, RuntimeError,
           "resize_: this storage is borrowed memory and cannot grow, {} -> {} bytes",
           storage.bytes, bytes);
  if (storage.device.type == DeviceType::Meta) {
    storage.bytes = bytes;
    return;
  }
  auto& memory = allocator(storage.device.type);
  char* fresh = bytes ? static_cast<char*>(memory.allocate(bytes)) : nullptr;
  if (fresh && storage.data) std::memcpy(fresh, storage.data, std::min(bytes, storage.bytes));
  if (storage.data) memory.release(storage.data, storage.bytes);
  storage.data = fresh;
  storage.bytes = bytes;
}

}  // namespace flambeau
