// Counts of references to tensors, storages and nodes.
#pragma once
#include <atomic>

#include "flambeau/core/tls.h"

namespace flambeau {

// Atomic, unless the thread says that it counts alone (tls.counts_alone): then whoever else counts
// waits for a lock that this thread holds. So it is under Python's, and an atomic read-modify-write
// takes a tenth of a small op: the tape of x * y makes eight.
class RefCount {
 public:
  int32_t load(std::memory_order order = std::memory_order_acquire) const {
    return value_.load(order);
  }
  void up() {
    if (tls.counts_alone)
      value_.store(load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    else
      value_.fetch_add(1, std::memory_order_relaxed);
  }
  // Was it the last one? The count then stays at 1.
  bool down() {
    int32_t now = load();
    if (now == 1) return true;
    if (!tls.counts_alone) return value_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    value_.store(now - 1, std::memory_order_relaxed);
    return false;
  }

 private:
  std::atomic<int32_t> value_{1};
};

}  // namespace flambeau
