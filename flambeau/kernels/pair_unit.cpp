// Finding the bfloat16 instructions, and asking the kernel for the tile registers.
#include "flambeau/kernels/pair_unit.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace flambeau {
namespace {

PairUnit best_unit() {
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kTiles = 1u << 22 | 1u << 24;  // AMX-BF16, AMX-TILE
  // Threads get room for the tiles' state on demand, from here on.
  constexpr long kRequestState = 0x1023, kTileState = 18;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & kTiles) == kTiles &&
      syscall(SYS_arch_prctl, kRequestState, kTileState) == 0) {
    return PairUnit::Tile;
  }
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & 1u << 5)) return PairUnit::Vector;
#endif
  return PairUnit::None;
}

std::atomic<PairUnit>& unit_in_use() {
  static std::atomic<PairUnit> unit = best_unit();
  return unit;
}

}  // namespace

PairUnit pair_unit() { return unit_in_use().load(std::memory_order_relaxed); }
PairUnit set_pair_unit(PairUnit unit) { return unit_in_use().exchange(unit); }

}  // namespace flambeau
