// What a Fourier transform of one length needs to know beforehand: its passes, their roots of unity
// and how a long one is cut. Made once per length and kept for the next call.
#pragma once
#include <memory>

#include "flambeau/core/config.h"

namespace flambeau {

inline constexpr int64_t kFftLargestRadix = 127;

// One pass of Stockham's self-sorting transform (Cochran et al. 1967). Point j of a butterfly is
// element q + done (p + rest j), point k goes to element q + done (radix p + k), times exp(-2 pi i
// p k / (radix rest)).
struct FftPass {
  int64_t radix;
  int64_t done, rest;    // products of the radices before and after
  const void* twiddles;  // radix - 1 of them for each p
  const void* roots;     // exp(-2 pi i j / radix) for all j, where the radix is odd
};

struct FftPasses {
  int64_t n = 0;
  int count = 0;
  FftPass pass[40];
};

// Root number i is fine[i % 2^bits] times coarse[i / 2^bits]; coarse[0] is 1.
struct FftRoots {
  const void *fine = nullptr, *coarse = nullptr;
  int bits = 0;
  int64_t coarse_count = 1;
  [[gnu::always_inline]] int64_t step() const { return int64_t{1} << bits; }
};

struct FftPlan {
  int64_t n;
  // Of several transforms side by side, one per lane; not made for lengths that never run so.
  bool has_whole = false;
  FftPasses whole;
  // Of one transform as a grid of n = rows * columns points: down the columns, times roots, along
  // the rows (the six steps of Bailey 1990). A root here is a vector, for the columns of its lanes;
  // they are counted by rows within a group of columns.
  FftPasses down, along;
  FftRoots grid;
  // A length with a large prime factor is a convolution with a chirp (Bluestein 1970) of padded->n
  // points; the spectrum of the chirp is divided by these.
  const FftPlan* padded = nullptr;
  const void *chirp = nullptr, *spectrum = nullptr;
  // exp(-2 pi i k / 2n), k <= n / 2: n complex numbers fold into the spectrum of 2n real ones.
  FftRoots fold;
};

// The plan for complex transforms of n points, of doubles or floats, on the instruction set in use.
std::shared_ptr<const FftPlan> fft_plan(int64_t n, bool doubles);

}  // namespace flambeau
