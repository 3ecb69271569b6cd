// The thread-local blocks behind scratch().
#include "flambeau/kernels/cpu/scratch.h"

#include <cstdlib>
#include <new>

namespace flambeau {
namespace {

struct Blocks {
  void* data[kScratchSlots] = {};
  size_t bytes[kScratchSlots] = {};
  ~Blocks() {
    for (void* block : data) std::free(block);
  }
};
constinit thread_local Blocks blocks;

// Room beyond what was asked: vector loads may read one vector past the end of a panel.
constexpr size_t kSlack = 256;

}  // namespace

void* scratch(Scratch slot, size_t bytes) {
  Blocks& own = blocks;
  const int i = int(slot);
  if (FL_LIKELY(bytes <= own.bytes[i])) return own.data[i];
  // Growing by half at least keeps a slowly rising sequence of sizes from allocating each time.
  size_t grown = own.bytes[i] + own.bytes[i] / 2;
  if (grown < bytes) grown = bytes;
  grown = (grown + kSlack + 4095) / 4096 * 4096;
  std::free(own.data[i]);
  own.data[i] = std::aligned_alloc(kCacheLine, grown);
  own.bytes[i] = own.data[i] ? grown - kSlack : 0;
  if (!own.data[i]) throw std::bad_alloc();
  return own.data[i];
}

}  // namespace flambeau
