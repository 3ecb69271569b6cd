// mt19937 in blocks of 624 draws, and torch's format of its state.
#include "flambeau/core/generator.h"

#include <sys/random.h>
#include <time.h>

#include <cmath>
#include <cstring>

#include "flambeau/core/check.h"

namespace flambeau {
namespace {

constexpr int kShift = 397;

// torch's struct, with its padding.
struct SavedState {
  uint64_t seed;
  int32_t left;  // draws left in the block, plus one
  int32_t seeded;
  uint64_t next;
  uint64_t state[624];
  double unused;
  double normal;
  double unused_too;
  int32_t has_normal;
  int32_t padding;
  float float_normal;
  uint8_t has_float_normal;
  uint8_t padding_too[3];
};
static_assert(sizeof(SavedState) == Generator::kStateBytes);

// Four words at a time: vector extensions vectorise at any optimisation level.
typedef uint32_t Words __attribute__((vector_size(16)));

Words load(const uint32_t* p) {
  Words w;
  std::memcpy(&w, p, sizeof w);
  return w;
}

template <class W>
W twist(W high, W low, W far) {
  W mixed = (high & 0x80000000) | (low & 0x7fffffff);
  return far ^ (mixed >> 1) ^ (-(low & 1) & 0x9908b0df);
}

template <class W>
W tempered(W y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680;
  y ^= (y << 15) & 0xefc60000;
  return y ^ (y >> 18);
}

// Words [begin, end) of the next block; `far` is where the third word comes from.
void twist_range(uint32_t* state, int begin, int end, int far) {
  int i = begin;
  for (; i + 4 <= end; i += 4) {
    Words next = twist(load(state + i), load(state + i + 1), load(state + i + far));
    std::memcpy(state + i, &next, sizeof next);
  }
  for (; i < end; i++) state[i] = twist(state[i], state[i + 1], state[i + far]);
}

}  // namespace

Generator::Generator(uint64_t seed, Device device) : device_(device) { reset(seed); }

Generator::Generator(const Generator& other) : device_(other.device_) {
  std::lock_guard lock(const_cast<Generator&>(other).mutex);
  seed_ = other.seed_;
  next_ = other.next_;
  fresh_ = other.fresh_;
  has_normal_ = other.has_normal_;
  normal_ = other.normal_;
  has_float_normal_ = other.has_float_normal_;
  float_normal_ = other.float_normal_;
  std::memcpy(state_, other.state_, sizeof state_);
  std::memcpy(drawn_, other.drawn_, sizeof drawn_);
}

// Only the low half of the seed reaches the twister, as in torch.
void Generator::reset(uint64_t seed) {
  seed_ = seed;
  fresh_ = true;
  state_[0] = uint32_t(seed);
  for (int i = 1; i < kWords; i++) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + uint32_t(i);
  }
  next_ = kWords;
  has_normal_ = has_float_normal_ = false;
  normal_ = 0;
  float_normal_ = 0;
}

void Generator::refill() {
  twist_range(state_, 0, kWords - kShift, kShift);
  twist_range(state_, kWords - kShift, kWords - 1, kShift - kWords);
  state_[kWords - 1] = twist(state_[kWords - 1], state_[0], state_[kShift - 1]);
  temper();
  fresh_ = false;
  next_ = 0;
}

void Generator::temper() {
  for (int i = 0; i < kWords; i += 4) {
    Words drawn = tempered(load(state_ + i));
    std::memcpy(drawn_ + i, &drawn, sizeof drawn);
  }
}

void Generator::random(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (next_ == kWords) refill();
    int64_t part = n < kWords - next_ ? n : kWords - next_;
    std::memcpy(out, drawn_ + next_, size_t(part) * sizeof *out);
    next_ += int(part);
    out += part;
    n -= part;
  }
}

double Generator::normal() {
  if (has_normal_) {
    has_normal_ = false;
    return normal_;
  }
  double angle = 2 * M_PI * uniform();
  double radius = std::sqrt(-2 * std::log1p(-uniform()));
  has_normal_ = true;
  normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

void Generator::manual_seed(uint64_t seed) {
  std::lock_guard lock(mutex);
  reset(seed);
}

uint64_t Generator::seed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != ssize_t(sizeof seed)) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = uint64_t(now.tv_nsec) * 0x9e3779b97f4a7c15 ^ uint64_t(now.tv_sec);
  }
  manual_seed(seed);
  return seed;
}

std::vector<uint8_t> Generator::get_state() {
  std::lock_guard lock(mutex);
  SavedState saved{};
  saved.seed = seed_;
  saved.seeded = 1;
  saved.next = fresh_ ? 0 : uint64_t(next_);
  saved.left = kWords - next_ + 1;
  for (int i = 0; i < kWords; i++) saved.state[i] = state_[i];
  saved.has_normal = has_normal_;
  saved.normal = has_normal_ ? normal_ : 0;
  saved.has_float_normal = has_float_normal_;
  saved.float_normal = has_float_normal_ ? float_normal_ : 0;
  std::vector<uint8_t> bytes(sizeof saved);
  std::memcpy(bytes.data(), &saved, sizeof saved);
  return bytes;
}

void Generator::set_state(std::basic_string_view<uint8_t> bytes) {
  FL_CHECK(bytes.size() == kStateBytes, RuntimeError,
           "set_state: a generator's state has {} bytes, got {}", kStateBytes, bytes.size());
  SavedState saved;
  std::memcpy(&saved, bytes.data(), sizeof saved);
  bool valid = saved.seeded == 1 && saved.left >= 1 && saved.left <= kWords &&
               (saved.left == 1 || saved.next == uint64_t(kWords + 1 - saved.left));
  FL_CHECK(valid, RuntimeError,
           "set_state: not the state of an mt19937 generator: seeded {}, left {}, next {}",
           saved.seeded, saved.left, saved.next);
  std::lock_guard lock(mutex);
  seed_ = saved.seed;
  for (int i = 0; i < kWords; i++) state_[i] = uint32_t(saved.state[i]);
  temper();
  next_ = kWords + 1 - saved.left;
  fresh_ = saved.left == 1 && saved.next == 0;
  has_normal_ = saved.has_normal & 1;
  normal_ = saved.normal;
  has_float_normal_ = saved.has_float_normal & 1;
  float_normal_ = saved.float_normal;
}

Generator& default_generator() {
  static Generator* generator = new Generator;  // threads may draw while the program ends
  return *generator;
}

}  // namespace flambeau
