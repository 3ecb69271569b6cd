// Plane rotations of neighbouring rows, kept back until there are many: strips of the rows then
// stay in cache while all of them pass. Source: Van Zee, van de Geijn and Quintana-Orti 2014.
#pragma once
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/simd.h"

namespace flambeau::FL_ISA {

// Turns that lead from row `from` to its neighbour, from there to the next one, and so on.
struct Sweep {
  int64_t from, step, first, count;  // step: 1 or -1; first: the place of its factors
};

template <class R>
class Turns {
 public:
  // Rows of y are `row` numbers apart, a multiple of the lanes; null y: nothing is turned. Each
  // list of one thread has its own slot. `longest`: the turns of a sweep, at most.
  Turns(Scratch slot, R* y, int64_t row, int64_t longest) : y_(y), row_(row) {
    if (!y) return;
    const int64_t several = 4 * longest * longest;
    most_ = (several < kTurns ? several : kTurns) + longest;
    const size_t bytes = kSweeps * sizeof(Sweep) + size_t(most_) * 2 * sizeof(R);
    sweeps_ = static_cast<Sweep*>(scratch(slot, bytes));
    factors_ = reinterpret_cast<R*>(sweeps_ + kSweeps);
  }

  // A new sweep, of at most `longest` turns.
  void begin(int64_t from, int64_t step, int64_t longest) {
    if (!y_) return;
    if (turns_ + longest > most_ || count_ == kSweeps) flush();
    if (!count_ || sweeps_[count_ - 1].count) count_++;
    sweeps_[count_ - 1] = {from, step, turns_, 0};
  }
  // (here, next) becomes (c here + s next, c next - s here); next is the following turn's here.
  void add(double c, double s) {
    if (!y_) return;
    factors_[2 * turns_] = R(c);
    factors_[2 * turns_ + 1] = R(s);
    turns_++;
    sweeps_[count_ - 1].count++;
  }
  void flush() {
    constexpr int64_t kWide = kStrips * Vec<R>::kLanes;
    if (turns_) {
      parallel_for((row_ + kWide - 1) / kWide, 1 + (1 << 16) / (kStrips * turns_),
                   [this](int64_t begin, int64_t end) {
                     for (int64_t i = begin * kWide; i < end * kWide && i < row_; i += kWide) {
                       if (i + kWide <= row_) {
                         turn_strip<kStrips>(y_ + i);
                       } else {
                         for (int64_t j = i; j < row_; j += Vec<R>::kLanes) turn_strip<1>(y_ + j);
                       }
                     }
                   });
    }
    turns_ = count_ = 0;
  }

 private:
  using V = Vec<R>;
  // As many as stay in L2 beside a strip.
  static constexpr int64_t kTurns = 32768, kSweeps = 1024;
  static constexpr int kStrips = kVecBytes == 64 ? 4 : 2;

  template <int S>
  struct Strip {
    V part[S];
    void load(const R* p) {
#pragma GCC unroll 4
      for (int s = 0; s < S; s++) part[s] = V::load(p + s * V::kLanes);
    }
    void store(R* p) const {
#pragma GCC unroll 4
      for (int s = 0; s < S; s++) part[s].store(p + s * V::kLanes);
    }
    // Gives what `here` becomes; here becomes what next does.
    Strip turn(const Strip& next, const R* f) {
      const V c(f[0]), sine(f[1]);
      Strip out;
#pragma GCC unroll 4
      for (int s = 0; s < S; s++) {
        out.part[s] = fma(sine, next.part[s], c * part[s]);
        part[s] = c * next.part[s] - sine * part[s];
      }
      return out;
    }
  };

  template <int S>
  void turn_strip(R* y) const {
    for (int64_t i = 0; i < count_; i++) {
      const Sweep &one = sweeps_[i], &two = sweeps_[i + 1 < count_ ? i + 1 : i];
      if (i + 1 < count_ && two.from == one.from && two.step == one.step && two.count > 0 &&
          two.count <= one.count) {
        turn_two<S>(y, one, two);
        i++;
      } else {
        Strip<S> here;
        here.load(y + one.from * row_);
        turn_rest<S>(y, one, 0, here);
      }
    }
  }

  // The turns of a sweep after the first `done`; `here` is the row that they have come to.
  template <int S>
  void turn_rest(R* y, const Sweep& sweep, int64_t done, Strip<S> here) const {
    const int64_t step = sweep.step * row_;
    R* at = y + sweep.from * row_ + done * step;
    const R* f = factors_ + 2 * (sweep.first + done);
    for (int64_t t = done; t < sweep.count; t++, at += step, f += 2) {
      Strip<S> next;
      next.load(at + step);
      here.turn(next, f).store(at);
    }
    here.store(at);
  }

  // Two sweeps with the same beginning, the second one row behind the first: half the memory
  // traffic.
  template <int S>
  void turn_two(R* y, const Sweep& one, const Sweep& two) const {
    const int64_t step = one.step * row_;
    R* at = y + one.from * row_;
    const R *f = factors_ + 2 * one.first, *g = factors_ + 2 * two.first;
    Strip<S> ahead, next;
    ahead.load(at);
    next.load(at + step);
    Strip<S> here = ahead.turn(next, f);
    const int64_t both = two.count < one.count ? two.count : two.count - 1;
    for (int64_t t = 0; t < both; t++, at += step) {
      next.load(at + 2 * step);
      const Strip<S> between = ahead.turn(next, f + 2 * (t + 1));
      here.turn(between, g + 2 * t).store(at);
    }
    if (two.count < one.count) {
      here.store(at);
      turn_rest<S>(y, one, both + 1, ahead);
    } else {
      here.turn(ahead, g + 2 * both).store(at);
      here.store(at + step);
    }
  }

  R* y_;
  R* factors_ = nullptr;
  int64_t row_, most_ = 0;
  Sweep* sweeps_ = nullptr;
  int64_t turns_ = 0, count_ = 0;
};

}  // namespace flambeau::FL_ISA
