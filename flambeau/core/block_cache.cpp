// Lists of waiting blocks by size and by age. The system is asked outside the lock.
#include "flambeau/core/block_cache.h"

#include <cstdio>
#include <new>

#include "flambeau/core/check.h"

namespace flambeau {
namespace {

// Longest search among blocks of nearly the same size.
constexpr int kSearch = 32;

}  // namespace

std::string readable_bytes(double bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 6; unit++) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

// Eight buckets to a doubling.
int CachingAllocator::bucket_of(size_t size) {
  int log2 = 63 - __builtin_clzll(size | 8);
  int bucket = log2 * 8 + int(size >> (log2 - 3) & 7);
  return bucket < kBuckets ? bucket : kBuckets - 1;
}

CachingAllocator::Waiting* CachingAllocator::take(size_t size) {
  Waiting* block = buckets_[bucket_of(size)];
  for (int i = 0; block && block->size != size && i < kSearch; i++) block = block->next;
  if (!block || block->size != size) return nullptr;
  unlink(block);
  return block;
}

void CachingAllocator::unlink(Waiting* block) {
  (block->previous ? block->previous->next : buckets_[bucket_of(block->size)]) = block->next;
  if (block->next) block->next->previous = block->previous;
  (block->newer ? block->newer->older : newest_) = block->older;
  (block->older ? block->older->newer : oldest_) = block->newer;
  stats_.cached_bytes -= int64_t(block->size);
  stats_.cached_blocks--;
}

void CachingAllocator::keep(void* p, size_t size) {
  Waiting*& bucket = buckets_[bucket_of(size)];
  auto* block = new (p) Waiting{bucket, nullptr, nullptr, newest_, size};
  if (bucket) bucket->previous = block;
  bucket = block;
  (newest_ ? newest_->newer : oldest_) = block;
  newest_ = block;
  stats_.cached_bytes += int64_t(size);
  stats_.cached_blocks++;
}

// Takes out the oldest blocks until at most `most` bytes wait; returns them as a list to give back
// without the lock.
CachingAllocator::Waiting* CachingAllocator::drop_while_over(int64_t most) {
  Waiting* dropped = nullptr;
  while (oldest_ && stats_.cached_bytes > most) {
    Waiting* block = oldest_;
    unlink(block);
    block->next = dropped;
    dropped = block;
  }
  return dropped;
}

void CachingAllocator::give_back_all(Waiting* dropped) noexcept {
  while (dropped) {
    Waiting* next = dropped->next;
    give_back(dropped, dropped->size);
    dropped = next;
  }
}

void CachingAllocator::count_live(size_t size, int sign) {
  stats_.live_bytes += sign * int64_t(size);
  stats_.live_blocks += sign;
  live_in_[bucket_of(size)] += sign;
  if (stats_.live_bytes > stats_.peak_bytes) stats_.peak_bytes = stats_.live_bytes;
}

// What may wait: the device's own rule, and what its limit leaves beside the live blocks.
int64_t CachingAllocator::most_cached() noexcept {
  int64_t most = cache_limit();
  int64_t limit = device_limit();
  return limit && limit - stats_.live_bytes < most ? limit - stats_.live_bytes : most;
}

void* CachingAllocator::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > size_t(1) << 47) out_of_memory(bytes);
  size_t size = round(bytes);
  Waiting* dropped = nullptr;
  bool admitted;
  {
    std::lock_guard lock(mutex_);
    Waiting* block = take(size);
    int64_t limit = device_limit();
    admitted = block || !limit || stats_.live_bytes + int64_t(size) <= limit;
    if (admitted) {
      count_live(size, +1);
      stats_.allocations++;
    }
    if (block) return block;
    if (admitted) dropped = drop_while_over(most_cached());
  }
  give_back_all(dropped);
  if (!admitted) out_of_memory(bytes);
  void* p = obtain(size);
  if (p) return p;
  empty_cache();
  p = obtain(size);
  if (p) return p;
  {
    std::lock_guard lock(mutex_);
    count_live(size, -1);
  }
  out_of_memory(bytes);
}

void CachingAllocator::release(void* p, size_t bytes) noexcept {
  if (!p) return;
  size_t size = round(bytes);
  Waiting* dropped;
  {
    std::lock_guard lock(mutex_);
    count_live(size, -1);
    if (kKeepBlocks) keep(p, size);
    dropped = drop_while_over(most_cached());
  }
  if (!kKeepBlocks) give_back(p, size);
  give_back_all(dropped);
}

MemoryStats CachingAllocator::stats() {
  std::lock_guard lock(mutex_);
  MemoryStats stats = stats_;
  stats.limit_bytes = device_limit();
  for (Waiting* block = newest_; block; block = block->older) {
    if (int64_t(block->size) > stats.largest_cached) stats.largest_cached = int64_t(block->size);
  }
  return stats;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

void CachingAllocator::empty_cache() noexcept {
  Waiting* dropped;
  {
    std::lock_guard lock(mutex_);
    dropped = drop_while_over(0);
  }
  give_back_all(dropped);
}

void CachingAllocator::out_of_memory(size_t bytes) {
  int largest = kBuckets - 1;
  {
    std::lock_guard lock(mutex_);
    while (largest > 0 && !live_in_[largest]) largest--;
  }
  MemoryStats now = stats();
  std::string limit;
  if (now.limit_bytes) {
    limit = format("; the device has {}, free {}", readable_bytes(double(now.limit_bytes)),
                   readable_bytes(double(now.limit_bytes - now.live_bytes - now.cached_bytes)));
  }
  std::string live =
      format("; live {} in {} blocks", readable_bytes(double(now.live_bytes)), now.live_blocks);
  if (now.live_blocks) {
    double size = double(8 + largest % 8) * double(uint64_t(1) << (largest / 8)) / 8;
    live += format(", the largest about {}", readable_bytes(size));
  }
  fail<OutOfMemoryError>("{}: out of memory, asked for {} ({} bytes){}{}; peak {}; cached {}",
                         name_, readable_bytes(double(bytes)), bytes, limit, live,
                         readable_bytes(double(now.peak_bytes)),
                         readable_bytes(double(now.cached_bytes)));
}

}  // namespace flambeau
