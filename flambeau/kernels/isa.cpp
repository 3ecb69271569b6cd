// Which instruction set the kernels use: found once, at the first allocation or at library
// initialisation.
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "flambeau/core/check.h"
#include "flambeau/core/startup.h"
#include "flambeau/kernels/kernel.h"

namespace flambeau {
namespace {

constexpr std::string_view kIsaNames[kIsas] = {"v2", "v3", "v4"};

std::atomic<bool> initialized{false};

Isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return Isa::v4;
  if (__builtin_cpu_supports("x86-64-v3")) return Isa::v3;
#endif
  return Isa::v2;
}

}  // namespace

constinit Isa active_isa = Isa::v2;

Isa detect_isa() {
  Isa best = best_isa();
  const char* text = std::getenv("FLAMBEAU_ISA");
  if (!text || !*text) return best;
  for (int i = 0; i < kIsas; i++) {
    if (kIsaNames[i] != text) continue;
    FL_CHECK(i <= int(best), ValueError, "FLAMBEAU_ISA: this CPU has at most {}, got {}",
             kIsaNames[int(best)], text);
    return Isa(i);
  }
  FL_CHECK(false, ValueError, "FLAMBEAU_ISA: must be v2, v3 or v4, got {}", text);
  return best;
}

void initialize_isa() {
  if (initialized.load(std::memory_order_acquire)) return;
  Isa isa = detect_isa();
  // Two threads may come here at once. Both found the same level; only one may write it.
  static std::atomic<bool> claimed{false};
  if (!claimed.exchange(true)) {
    active_isa = isa;
    initialized.store(true, std::memory_order_release);
    return;
  }
  while (!initialized.load(std::memory_order_acquire)) {
  }
}

}  // namespace flambeau
