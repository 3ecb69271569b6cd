// The allocators of the host and of the fake device, which is host memory with a limit of its own:
// device rules can be tested without a device.
#include "flambeau/core/allocator.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>

#include "flambeau/core/block_cache.h"
#include "flambeau/core/check.h"
#include "flambeau/core/host.h"
#include "flambeau/core/startup.h"

namespace flambeau {
namespace {

// From this size a block starts on a huge page's boundary: first use of fresh memory costs a third
// then.
constexpr size_t kHugePage = size_t(2) << 20;
constexpr size_t kFakeStep = 512;

// Eight sizes to a doubling waste an eighth at most and let blocks of similar tensors serve each
// other.
size_t round_to_class(size_t bytes) {
  int log2 = 63 - __builtin_clzll(bytes);
  size_t step = log2 > 9 ? size_t(1) << (log2 - 3) : detail::kSmallStep;
  return (bytes + step - 1) & ~(step - 1);
}

void* map_aligned(size_t size) {
  size = (size + 4095) & ~size_t(4095);
  size_t span = size + kHugePage;
  void* map = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(map);
  size_t head = size_t(-reinterpret_cast<intptr_t>(begin)) & (kHugePage - 1);
  if (head) munmap(begin, head);
  if (size_t tail = span - head - size) munmap(begin + head + size, tail);
  madvise(begin + head, size, MADV_HUGEPAGE);
  return begin + head;
}

void unmap(void* p, size_t size) { munmap(p, (size + 4095) & ~size_t(4095)); }

class HostAllocator final : public CachingAllocator {
 public:
  constexpr HostAllocator() : CachingAllocator("cpu") {}

  void* allocate(size_t bytes) override {
    if (bytes <= kSmallBytes) return allocate_small(bytes);
    initialize_isa();
    return CachingAllocator::allocate(bytes);
  }
  void release(void* p, size_t bytes) noexcept override {
    if (bytes <= kSmallBytes) return release_small(p, bytes);
    CachingAllocator::release(p, bytes);
  }

  // The peak counts small blocks as of the last report: to follow each one would cost more than it
  // does.
  MemoryStats stats() override {
    detail::SmallStats small = detail::small_stats();
    MemoryStats stats = CachingAllocator::stats();
    stats.live_bytes += small.live_bytes;
    stats.live_blocks += small.live_blocks;
    stats.allocations += small.allocations;
    stats.small_bytes = small.system_bytes;
    int64_t peak_small = peak_small_.load(std::memory_order_relaxed);
    if (small.live_bytes > peak_small) peak_small_.store(peak_small = small.live_bytes);
    stats.peak_bytes += peak_small;
    return stats;
  }
  void reset_peak() override {
    CachingAllocator::reset_peak();
    peak_small_.store(detail::small_stats().live_bytes);
  }

 private:
  size_t round(size_t bytes) const noexcept override { return round_to_class(bytes); }
  void* obtain(size_t size) noexcept override {
    return size < kHugePage ? std::aligned_alloc(kCacheLine, size) : map_aligned(size);
  }
  void give_back(void* p, size_t size) noexcept override {
    size < kHugePage ? std::free(p) : unmap(p, size);
  }
  int64_t cache_limit() noexcept override {
    if (!cache_limit_) cache_limit_ = host_memory() / 4;
    return cache_limit_;
  }

  int64_t cache_limit_ = 0;
  std::atomic<int64_t> peak_small_{0};
};

class FakeAllocator final : public CachingAllocator {
 public:
  constexpr FakeAllocator() : CachingAllocator("fake") {}
  void set_limit(size_t bytes) { limit_.store(int64_t(bytes), std::memory_order_relaxed); }

 private:
  size_t round(size_t bytes) const noexcept override {
    return (bytes + kFakeStep - 1) / kFakeStep * kFakeStep;
  }
  void* obtain(size_t size) noexcept override { return std::aligned_alloc(kFakeStep, size); }
  void give_back(void* p, size_t) noexcept override { std::free(p); }
  // Alternating shapes must not pile up: what is held stays within 1.15 of what was ever needed at
  // once.
  int64_t cache_limit() noexcept override {
    return stats_.peak_bytes + stats_.peak_bytes * 3 / 20 - stats_.live_bytes;
  }
  int64_t device_limit() const noexcept override { return limit_.load(std::memory_order_relaxed); }

  std::atomic<int64_t> limit_{int64_t(1) << 30};
};

constinit HostAllocator host;
constinit FakeAllocator fake;

void handle_fork() {
  pthread_atfork([] { host.lock(), fake.lock(); }, [] { fake.unlock(), host.unlock(); },
                 [] { fake.unlock(), host.unlock(); });
}

}  // namespace

Allocator& allocator(DeviceType type) {
  static std::atomic<bool> ready{false};
  if (FL_UNLIKELY(!ready.load(std::memory_order_relaxed)) && !ready.exchange(true)) handle_fork();
  if (type == DeviceType::CPU) return host;
  FL_CHECK(type == DeviceType::Fake, NotImplementedError,
           "allocator: memory is managed for cpu and fake only, got {}", Device{type});
  return fake;
}

void set_fake_memory_limit(size_t bytes) { fake.set_limit(bytes); }

}  // namespace flambeau
