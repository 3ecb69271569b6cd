// Per-thread lists of equal blocks: the hot objects (tensors, storages, nodes) are made and freed
// in a few instructions.
#pragma once
#include <cstdlib>
#include <new>

#include "flambeau/core/tls.h"

namespace flambeau {

inline constexpr uint32_t kMaxFreeBlocks = 4096;  // beyond that a block goes back to malloc

inline void* take_block(FreeList& list, size_t bytes) {
  if (void* block = list.head; FL_LIKELY(block != nullptr)) {
    list.head = *static_cast<void**>(block);
    list.count--;
    return block;
  }
  void* block = std::malloc(bytes);
  if (!block) throw std::bad_alloc();
  return block;
}

inline void return_block(FreeList& list, void* block) {
  if (FL_UNLIKELY(!tls.watched)) watch_thread_end();
  if (FL_UNLIKELY(!kKeepBlocks || list.count >= kMaxFreeBlocks)) return std::free(block);
  *static_cast<void**>(block) = list.head;
  list.head = block;
  list.count++;
}

}  // namespace flambeau
