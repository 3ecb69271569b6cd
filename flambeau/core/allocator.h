// Memory of devices. Blocks are kept for reuse; the smallest come from lists of the calling thread.
#pragma once
#include <atomic>

#include "flambeau/core/device.h"

namespace flambeau {

// Sizes are those of the blocks, which may be a little larger than what was asked for.
struct MemoryStats {
  int64_t live_bytes = 0;    // in use
  int64_t peak_bytes = 0;    // the most that was in use since reset_peak()
  int64_t cached_bytes = 0;  // kept for reuse; empty_cache() gives them back
  int64_t small_bytes =
      0;  // taken from the system for blocks of at most kSmallBytes, in use or not
  int64_t limit_bytes = 0;  // what live and cached bytes may reach; 0: no limit of our own
  int64_t live_blocks = 0;
  int64_t cached_blocks = 0;
  int64_t largest_cached = 0;
  int64_t allocations = 0;  // since the start
};

struct Allocator {
  // At least 64-byte aligned, uninitialised; null for no bytes. Throws OutOfMemoryError.
  virtual void* allocate(size_t bytes) = 0;
  // On any thread; `bytes` is what was asked for.
  virtual void release(void* p, size_t bytes) noexcept = 0;
  virtual MemoryStats stats() = 0;
  virtual void reset_peak() = 0;
  virtual void empty_cache() noexcept = 0;

 protected:
  ~Allocator() = default;
};

// Throws NotImplementedError for a device whose memory is not managed here.
FL_API Allocator& allocator(DeviceType type);
// The fake device's memory, 1 GiB unless set.
FL_API void set_fake_memory_limit(size_t bytes);

// Host memory of at most kSmallBytes without a lock or an atomic read-modify-write.
inline constexpr size_t kSmallBytes = 1024;
void* allocate_small(size_t bytes);
void release_small(void* p, size_t bytes) noexcept;

namespace detail {

inline constexpr size_t kSmallStep = 64;
inline constexpr size_t kSmallClasses = kSmallBytes / kSmallStep + 1;  // class 0: no bytes

struct SmallBlock {
  SmallBlock* next;
  // In the first block of a chain that a thread handed on:
  SmallBlock* next_chain;
  uint32_t chain_length;
};

// Counters have one writer, their thread; others only read them.
class Counter {
 public:
  void add(int64_t n) { value_.store(get() + n, std::memory_order_relaxed); }
  int64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

struct SmallList {
  SmallBlock* head = nullptr;
  uint32_t length = 0, limit = 0;
  Counter allocated, released;
};

struct SmallCache {
  SmallList lists[kSmallClasses];
  SmallCache* next = nullptr;  // all caches, of living and ended threads
  bool owned = false;
};

// A thread without a cache has one whose lists are empty and full at once: the same branches lead
// to the slow path.
FL_API extern constinit thread_local SmallCache* small_cache
    __attribute__((tls_model("initial-exec")));
FL_API void* refill_small(size_t size_class);
FL_API void hand_on_small(void* p, size_t size_class) noexcept;

// For the allocator's report.
struct SmallStats {
  int64_t live_bytes, live_blocks, allocations, system_bytes;
};
SmallStats small_stats();

}  // namespace detail

inline void* allocate_small(size_t bytes) {
  size_t size_class = (bytes + detail::kSmallStep - 1) / detail::kSmallStep;
  detail::SmallList& list = detail::small_cache->lists[size_class];
  detail::SmallBlock* block = list.head;
  if (FL_UNLIKELY(!block)) return detail::refill_small(size_class);
  list.head = block->next;
  list.length--;
  list.allocated.add(1);
  return block;
}

inline void release_small(void* p, size_t bytes) noexcept {
  size_t size_class = (bytes + detail::kSmallStep - 1) / detail::kSmallStep;
  detail::SmallList& list = detail::small_cache->lists[size_class];
  if (FL_UNLIKELY(list.length >= list.limit)) return detail::hand_on_small(p, size_class);
  auto* block = static_cast<detail::SmallBlock*>(p);
  block->next = list.head;
  list.head = block;
  list.length++;
  list.released.add(1);
}

}  // namespace flambeau
