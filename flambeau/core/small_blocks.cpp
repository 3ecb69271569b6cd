// Blocks of at most 1 KB. A thread keeps a list per size; whole chains pass between threads through
// a shared depot, so a block may be released on any thread. The memory behind them is never given
// back.
#include <pthread.h>

#include <cstdlib>
#include <mutex>
#include <new>

#include "flambeau/core/allocator.h"
#include "flambeau/core/check.h"
#include "flambeau/core/startup.h"

namespace flambeau {
namespace detail {
namespace {

constexpr size_t kSlabBytes = 256 << 10;
constexpr size_t kListBytes = 32 << 10;  // a thread's list holds this much, and 32 blocks at least
constexpr uint32_t kChain = 32;          // blocks carved from a slab at once

// What threads share; behind `mutex`.
struct Depot {
  std::mutex mutex;
  SmallBlock* chains[kSmallClasses] = {};
  SmallCache* caches = nullptr;
  char* slab = nullptr;
  size_t slab_left = 0;
  int64_t system_bytes = 0;
  bool started = false;
  pthread_key_t thread_end = 0;
};

constinit Depot depot;
constinit SmallCache no_cache;

constexpr size_t block_bytes(size_t size_class) { return size_class * kSmallStep; }

uint32_t list_limit(size_t size_class) {
  size_t blocks = kListBytes / block_bytes(size_class);
  return kKeepBlocks ? uint32_t(blocks < 2 * kChain ? 2 * kChain : blocks) : 0;
}

void put_chain(size_t size_class, SmallBlock* head, uint32_t length) {
  if (!head) return;
  head->next_chain = depot.chains[size_class];
  head->chain_length = length;
  depot.chains[size_class] = head;
}

// Runs when a thread ends; its cache waits for another one.
void end_thread(void* ended) {
  auto* cache = static_cast<SmallCache*>(ended);
  small_cache = &no_cache;
  std::lock_guard lock(depot.mutex);
  for (size_t k = 1; k < kSmallClasses; k++) {
    SmallList& list = cache->lists[k];
    put_chain(k, list.head, list.length);
    list.head = nullptr;
    list.length = 0;
  }
  cache->owned = false;
}

bool start_depot() {
  if (depot.started) return true;
  if (pthread_key_create(&depot.thread_end, end_thread) != 0) return false;
  pthread_atfork([] { depot.mutex.lock(); }, [] { depot.mutex.unlock(); },
                 [] { depot.mutex.unlock(); });
  return depot.started = true;
}

SmallCache* find_cache() {
  std::lock_guard lock(depot.mutex);
  if (!start_depot()) return nullptr;
  SmallCache* cache = depot.caches;
  while (cache && cache->owned) cache = cache->next;
  if (!cache) {
    cache = new (std::nothrow) SmallCache;
    if (!cache) return nullptr;
    for (size_t k = 1; k < kSmallClasses; k++) cache->lists[k].limit = list_limit(k);
    cache->next = depot.caches;
    depot.caches = cache;
  }
  cache->owned = true;
  return cache;
}

// Null when there is no memory for one.
SmallCache* thread_cache() {
  if (small_cache != &no_cache) return small_cache;
  SmallCache* cache = find_cache();
  if (!cache || pthread_setspecific(depot.thread_end, cache) != 0) return nullptr;
  return small_cache = cache;
}

// A chain of blocks cut from the slab; null when the system has no memory.
SmallBlock* carve_chain(size_t size_class, uint32_t& length) {
  size_t bytes = block_bytes(size_class);
  if (depot.slab_left < bytes) {
    depot.slab = static_cast<char*>(std::aligned_alloc(4096, kSlabBytes));
    depot.slab_left = depot.slab ? kSlabBytes : 0;
    depot.system_bytes += int64_t(depot.slab_left);
  }
  SmallBlock* head = nullptr;
  for (length = 0; length < kChain && depot.slab_left >= bytes; length++) {
    depot.slab_left -= bytes;
    auto* block = reinterpret_cast<SmallBlock*>(depot.slab + depot.slab_left);
    block->next = head;
    head = block;
  }
  return head;
}

SmallBlock* take_chain(size_t size_class, uint32_t& length) {
  std::lock_guard lock(depot.mutex);
  SmallBlock* head = depot.chains[size_class];
  if (!head) return carve_chain(size_class, length);
  depot.chains[size_class] = head->next_chain;
  length = head->chain_length;
  return head;
}

[[noreturn]] void no_memory(size_t size_class) {
  fail<OutOfMemoryError>(
      "cpu: out of memory, asked for {} bytes; {} bytes of blocks this small are live",
      block_bytes(size_class), small_stats().live_bytes);
}

}  // namespace

constinit thread_local SmallCache* small_cache = &no_cache;

void* refill_small(size_t size_class) {
  if (size_class == 0) return nullptr;
  initialize_isa();
  SmallCache* cache = thread_cache();
  if (!cache) no_memory(size_class);
  SmallList& list = cache->lists[size_class];
  if constexpr (!kKeepBlocks) {
    void* block = std::aligned_alloc(kSmallStep, block_bytes(size_class));
    if (!block) no_memory(size_class);
    list.allocated.add(1);
    return block;
  }
  uint32_t length = 0;
  SmallBlock* head = take_chain(size_class, length);
  if (!head) allocator(DeviceType::CPU).empty_cache(), head = take_chain(size_class, length);
  if (!head) no_memory(size_class);
  list.head = head->next;
  list.length = length - 1;
  list.allocated.add(1);
  return head;
}

void hand_on_small(void* p, size_t size_class) noexcept {
  if (size_class == 0) return;
  SmallCache* cache = thread_cache();
  if (cache) cache->lists[size_class].released.add(1);
  if constexpr (!kKeepBlocks) return std::free(p);
  auto* block = static_cast<SmallBlock*>(p);
  if (!cache) {
    std::lock_guard lock(depot.mutex);
    return put_chain(size_class, block, 1);
  }
  SmallList& list = cache->lists[size_class];
  if (list.length >= list.limit) {
    // The older half goes on; what was released last is still in this core's cache.
    uint32_t keep = list.length / 2;
    SmallBlock* last = list.head;
    for (uint32_t i = 1; i < keep; i++) last = last->next;
    std::lock_guard lock(depot.mutex);
    put_chain(size_class, last->next, list.length - keep);
    last->next = nullptr;
    list.length = keep;
  }
  block->next = list.head;
  list.head = block;
  list.length++;
}

SmallStats small_stats() {
  std::lock_guard lock(depot.mutex);
  SmallStats stats{0, 0, 0, depot.system_bytes};
  for (SmallCache* cache = depot.caches; cache; cache = cache->next) {
    for (size_t k = 1; k < kSmallClasses; k++) {
      // Read in this order a block can be missed, never counted as released before it was live.
      int64_t released = cache->lists[k].released.get();
      int64_t allocated = cache->lists[k].allocated.get();
      stats.allocations += allocated;
      stats.live_blocks += allocated - released;
      stats.live_bytes += (allocated - released) * int64_t(block_bytes(k));
    }
  }
  return stats;
}

}  // namespace detail
}  // namespace flambeau
