// An allocator that keeps released blocks, the most recently used first, and gives the oldest back.
#pragma once
#include <mutex>
#include <string>

#include "flambeau/core/allocator.h"

namespace flambeau {

// Blocks of one device. What differs between devices: rounding, where memory comes from, how much
// may be kept.
class CachingAllocator : public Allocator {
 public:
  void* allocate(size_t bytes) override;
  void release(void* p, size_t bytes) noexcept override;
  MemoryStats stats() override;
  void reset_peak() override;
  void empty_cache() noexcept override;
  // For fork: a child must not inherit a lock that no thread of its own holds.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 protected:
  constexpr explicit CachingAllocator(const char* name) : name_(name) {}
  ~CachingAllocator() = default;

  virtual size_t round(size_t bytes) const noexcept = 0;
  virtual void* obtain(size_t size) noexcept = 0;  // null: no memory
  virtual void give_back(void* p, size_t size) noexcept = 0;
  virtual int64_t cache_limit() noexcept = 0;  // called with the lock held
  virtual int64_t device_limit() const noexcept { return 0; }

  MemoryStats stats_;  // behind mutex_

 private:
  // Lives in the memory of a block that waits; in two lists: blocks of about its size, and all by
  // age.
  struct Waiting {
    Waiting *next, *previous;
    Waiting *newer, *older;
    size_t size;
  };
  static constexpr int kBuckets = 48 * 8;

  static int bucket_of(size_t size);
  Waiting* take(size_t size);
  void keep(void* p, size_t size);
  void unlink(Waiting* block);
  Waiting* drop_while_over(int64_t most);
  void give_back_all(Waiting* dropped) noexcept;
  int64_t most_cached() noexcept;
  void count_live(size_t size, int sign);
  [[noreturn]] void out_of_memory(size_t bytes);

  std::mutex mutex_;
  const char* name_;
  Waiting* buckets_[kBuckets] = {};
  Waiting *newest_ = nullptr, *oldest_ = nullptr;
  int32_t live_in_[kBuckets] = {};
};

// 1 KiB, 1.5 GiB: for messages.
std::string readable_bytes(double bytes);

}  // namespace flambeau
