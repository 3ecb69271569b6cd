// Random bits: torch's generator for CPUs, the Mersenne Twister mt19937 (Matsumoto & Nishimura
// 1998) with torch's rules for what a draw consumes. The distributions are in kernels/cpu/random.h.
#pragma once
#include <mutex>
#include <string_view>
#include <vector>

#include "flambeau/core/device.h"
#include "flambeau/core/long_work.h"

namespace flambeau {

class FL_API Generator {
 public:
  static constexpr uint64_t kDefaultSeed = 67280421310721;  // torch's
  static constexpr size_t kStateBytes = 5056;

  explicit Generator(uint64_t seed = kDefaultSeed, Device device = {});
  // The same state, a mutex of its own.
  Generator(const Generator& other);
  Generator& operator=(const Generator&) = delete;

  // Whoever draws holds the lock for the whole tensor, so that two threads' tensors never mix. The
  // functions below do not take it, the ones after them do.
  std::mutex mutex;

  uint32_t random() {
    if (FL_UNLIKELY(next_ == kWords)) refill();
    return drawn_[next_++];
  }
  // The first draw is the high half.
  uint64_t random64() {
    uint64_t high = random();
    return high << 32 | random();
  }
  void random(uint32_t* out, int64_t n);
  // [0, 1) with 24 bits of one draw, with 53 bits of two.
  float uniform_float() { return float(random() & 0xffffff) * 0x1p-24f; }
  double uniform() { return double(random64() & ((uint64_t(1) << 53) - 1)) * 0x1p-53; }
  // Box & Muller 1958. Every second call returns the other half of a pair.
  double normal();

  void manual_seed(uint64_t seed);
  // A seed from the system; returns it.
  uint64_t seed();
  uint64_t initial_seed() const { return seed_; }
  // torch's layout, byte for byte. set_state throws RuntimeError for anything that is not such a
  // state.
  std::vector<uint8_t> get_state();
  void set_state(std::basic_string_view<uint8_t> bytes);
  Device device() const { return device_; }

 private:
  static constexpr int kWords = 624;
  void reset(uint64_t seed);
  void refill();
  void temper();

  uint64_t seed_;
  Device device_;
  int next_ = kWords;  // drawn_[next_] comes next
  bool fresh_ = true;  // seeded, nothing drawn: torch's state tells this from an exhausted block
  bool has_normal_ = false;
  double normal_ = 0;
  // torch keeps a second, float sample that nothing draws any more; it only travels with the state.
  bool has_float_normal_ = false;
  float float_normal_ = 0;
  uint32_t state_[kWords];
  uint32_t drawn_[kWords];  // the state, tempered
};

// The generator that ops use when they are given none.
FL_API Generator& default_generator();

// A generator for one tensor's draws.
class GeneratorLock {
 public:
  explicit GeneratorLock(Generator& generator) : lock_(generator.mutex) {}

 private:
  std::lock_guard<std::mutex> lock_;
  Alone alone_;  // others may wait for the generator while they keep an interpreter's lock
};

}  // namespace flambeau
