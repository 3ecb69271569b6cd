// Counted memory. It also carries the version counter that all views of the memory share.
#pragma once
#include <utility>

#include "flambeau/core/device.h"
#include "flambeau/core/refcount.h"

namespace flambeau {

struct Storage {
  RefCount refs;
  uint32_t version = 0;
  Device device;
  bool resizable = true;
  bool watched = false;    // some node saved a view of it: in-place writers leave their name
  void* writer = nullptr;  // the last one (autograd/saved.cpp)
  char* data = nullptr;
  size_t bytes = 0;
  // How to give the memory back; null: to the device's allocator.
  void (*deleter)(void* context) = nullptr;
  void* context = nullptr;
  void* py = nullptr;  // the Python storage object, if one exists

  void incref() { refs.up(); }
  void decref() {
    if (refs.down()) destroy();
  }
  FL_API void destroy();
};

class StoragePtr {
 public:
  StoragePtr() = default;
  explicit StoragePtr(Storage* steal) : p_(steal) {}
  StoragePtr(const StoragePtr& o) : p_(o.p_) {
    if (p_) p_->incref();
  }
  StoragePtr(StoragePtr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  StoragePtr& operator=(StoragePtr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~StoragePtr() {
    if (p_) p_->decref();
  }
  static StoragePtr borrow(Storage* p) {
    if (p) p->incref();
    return StoragePtr(p);
  }
  Storage* get() const { return p_; }
  Storage* operator->() const { return p_; }
  Storage* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_; }

 private:
  Storage* p_ = nullptr;
};

// Uninitialised memory of the device; `meta` has none. Throws OutOfMemoryError.
FL_API Storage* new_storage(size_t bytes, Device device);
// Memory that somebody else made: `deleter(context)` is called when the last view is gone.
FL_API Storage* wrap_storage(void* data, size_t bytes, Device device, void (*deleter)(void*),
                             void* context);
// Grows or shrinks in place, keeping the contents that fit.
FL_API void resize_storage(Storage& storage, size_t bytes);

}  // namespace flambeau
