// Packing: operands of any strides and storage type are laid out as the register tile reads them.
#pragma once
#include "flambeau/kernels/cpu/tile_kernel.h"

namespace flambeau::FL_ISA::tile {

// Swaps the off-diagonal blocks of Step lanes between two rows of a matrix held in registers.
template <int Step, class V, int... I>
inline void exchange(V& low, V& high, std::integer_sequence<int, I...>) {
  constexpr int kCount = sizeof...(I);
  V a = low, b = high;
  low = __builtin_shufflevector(a, b, ((I & Step) == 0 ? I : kCount + I - Step)...);
  high = __builtin_shufflevector(a, b, ((I & Step) == 0 ? I + Step : kCount + I)...);
}

// Transposes kLanes x kLanes elements: each round halves the blocks that change places.
template <class T, int Step = kLanes<T> / 2>
inline void transpose(Vector<T> (&rows)[kLanes<T>]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; i++) {
    if ((i & Step) == 0)
      exchange<Step>(rows[i], rows[i + Step], std::make_integer_sequence<int, kLanes<T>>());
  }
  if constexpr (Step > 1) transpose<T, Step / 2>(rows);
}

// out[p * width + i] = in[i * row + p * col] for i < count; the rest of the vectors in use is 0,
// since what happens to lie there could be slow to multiply. Either operand packs by this: a with
// its rows, b with its columns as i.
template <class S, class T>
inline void pack_gather(const S* in, int64_t row, int64_t col, int64_t count, int64_t k, int width,
                        T* out) {
  for (int64_t p = 0; p < k; p++, in += col, out += width) {
    for (int64_t i = 0; i < count; i += kLanes<T>) {
      if (i + kLanes < T >> count) store(out + i, Vector<T>{}, EdgeMask<T>(width - i));
    }
    for (int64_t i = 0; i < count; i++) out[i] = widen_one(in[i * row]);
  }
}

// Steps of k that are packed together, see pack_across.
inline constexpr int64_t kTogether = 8;

// The case row == 1: each step of k is a short run of memory.
template <class S, class T>
inline void pack_runs(const S* in, int64_t col, int64_t count, int64_t k, int width, T* out) {
  if (count == 2 * kLanes<T> && width == count) {
    for (int64_t p = 0; p < k; p++, in += col, out += width) {
      __builtin_prefetch(in + kTogether * col);
      __builtin_prefetch(in + kTogether * col + kLanes<T>);
      const Vector<T> low = load(in), high = load(in + kLanes<T>);
      store(out, low), store(out + kLanes<T>, high);
    }
    return;
  }
  for (int i = 0; i < width; i += kLanes<T>) {
    const EdgeMask<T> read(count - i), write(width - i);
    const S* from = in + i;
    T* to = out + i;
    for (int64_t p = 0; p < k; p++, from += col, to += width) {
      store(to, load(from, read, count - i), write);
    }
  }
}

// Turns a block of Rows lines (the last one stands in for those beyond `count`) by `steps` of k.
template <int Rows, bool kWhole, class S, class T>
inline void turn_block(const S* from, int64_t row, int64_t count, int64_t steps, T* to, int width) {
  constexpr int kLane = kLanes<T>;
  const EdgeMask<T> write(Rows), read(steps);
  Vector<T> block[kLane] = {};
#pragma GCC unroll 16
  for (int r = 0; r < Rows; r++) {
    const S* line = from + least(r, count - 1) * row;
    block[r] = kWhole ? load(line) : load(line, read, steps);
  }
  transpose<T>(block);
  if constexpr (kWhole) {
#pragma GCC unroll 16
    for (int c = 0; c < kLane; c++) store(to + c * width, block[c], write);
  } else {
    // Through memory: branches between the stores would multiply the code.
    Vector<T> edge[kLane];
#pragma GCC unroll 16
    for (int c = 0; c < kLane; c++) edge[c] = block[c];
#pragma GCC unroll 1
    for (int c = 0; c < steps; c++) store(to + c * width, edge[c], write);
  }
}

template <int Width, bool kWhole, class S, class T>
inline void turn_blocks(const S* in, int64_t row, int64_t count, int64_t steps, T* out) {
  constexpr int kLane = kLanes<T>, kLast = Width % kLane;
  int i = 0;
  for (; i + kLane <= Width && i < count; i += kLane) {
    turn_block<kLane, kWhole>(in + i * row, row, count - i, steps, out + i, Width);
  }
  if constexpr (kLast > 0) {
    if (i < count) turn_block<kLast, kWhole>(in + i * row, row, count - i, steps, out + i, Width);
  }
}

// The case col == 1: blocks turn in registers.
template <int Width, class S, class T>
void pack_turned(const S* in, int64_t row, int64_t count, int64_t k, T* out) {
  int64_t p = 0;
  for (; p + kLanes<T> <= k; p += kLanes<T>) {
    turn_blocks<Width, true>(in + p, row, count, kLanes<T>, out + p * Width);
  }
  if (p == k) return;
  // A block takes about as long as 64 elements one by one.
  if ((k - p) * count <= 64 || sizeof(S) != sizeof(T)) {
    pack_gather(in + p, row, 1, count, k - p, Width, out + p * Width);
  } else {
    turn_blocks<Width, false>(in + p, row, count, k - p, out + p * Width);
  }
}

template <int Width, class S, class T>
inline void pack_panel(const S* in, int64_t row, int64_t col, int64_t count, int64_t k, T* out) {
  if (col == 1) return pack_turned<Width>(in, row, count, k, out);
  if (row == 1) return pack_runs(in, col, count, k, Width, out);
  pack_gather(in, row, col, count, k, Width, out);
}

// Panels of `count` lines that lie side by side, their k far apart: a few steps of k at a time
// across all panels. Down a single panel every step would meet another page.
template <int Width, class S, class T>
inline void pack_across(const S* in, int64_t col, int64_t lines, int64_t count, int64_t k, T* out) {
  for (int64_t p = 0; p < k; p += kTogether) {
    T* to = out + p * Width;
    for (int64_t i = 0; i < lines; i += count, to += Width * k) {
      pack_runs(in + p * col + i, col, least(count, lines - i), least(kTogether, k - p), Width, to);
    }
  }
}

// Panels of `height` rows of a, each kRows * k elements.
template <class S, class T>
void pack_a(const S* a, int64_t a_row, int64_t a_col, int64_t m, int64_t height, int64_t k,
            T* out) {
  if (a_row == 1 && a_col != 1) return pack_across<kRows>(a, a_col, m, height, k, out);
  for (int64_t i = 0; i < m; i += height, out += kRows * k) {
    pack_panel<kRows>(a + i * a_row, a_row, a_col, least(height, m - i), k, out);
  }
}

// Panels of kColumns columns of b, each kColumns * k elements.
template <class S, class T>
void pack_b(const S* b, int64_t b_row, int64_t b_col, int64_t n, int64_t k, T* out) {
  if (b_col == 1) return pack_across<kColumns<T>>(b, b_row, n, kColumns<T>, k, out);
  for (int64_t j = 0; j < n; j += kColumns<T>, out += kColumns<T> * k) {
    pack_panel<kColumns<T>>(b + j * b_col, b_col, b_row, least(kColumns<T>, n - j), k, out);
  }
}

}  // namespace flambeau::FL_ISA::tile
