// Compaction: nonzero, masked_select, masked_scatter. Two passes over fixed blocks; the second
// knows where each block's results start, so blocks are independent.
#include "flambeau/kernels/cpu/elements.h"
#include "flambeau/kernels/cpu/index.h"
#include "flambeau/kernels/cpu/items.h"

namespace flambeau::FL_ISA {
namespace {

template <class T>
bool truth(T x) {
  return x != 0;
}

// Bit tests stand for x != 0: shifting out the sign makes -0 zero and leaves NaN nonzero.
template <class E>
bool is_nonzero(typename E::Storage x) {
  if constexpr (E::is_half) {
    return uint16_t(x.bits << 1) != 0;
  } else if constexpr (E::is_complex) {
    return truth(x.re) || truth(x.im);
  } else {
    return truth(x);
  }
}

// The body gets (block, first element, its length).
template <class F>
void each_block(int64_t n, const F& body) {
  parallel_for(compact_blocks(n), 1, [&](int64_t block, int64_t end) {
    for (; block < end; ++block) {
      int64_t first = block * kCompactBlock;
      body(block, first, least(kCompactBlock, n - first));
    }
  });
}

// As each_block, with the number of true elements before the block. Runs of blocks are summed once
// per chunk.
template <class F>
void each_block_at(int64_t n, const int64_t* counts, const F& body) {
  constexpr int64_t kBlocksPerChunk = 4;
  parallel_for(compact_blocks(n), kBlocksPerChunk, [&](int64_t block, int64_t end) {
    int64_t before = 0;
    for (int64_t b = 0; b < block; ++b) before += counts[b];
    for (; block < end; before += counts[block++]) {
      int64_t first = block * kCompactBlock;
      if (counts[block]) body(first, least(kCompactBlock, n - first), before);
    }
  });
}

// Positions (from `first`) of the nonzero elements of x[first, first + n). Branch-free: every
// position is written, the write place moves only for a nonzero element.
template <class E>
int64_t positions(const void* data, int64_t first, int64_t n, uint16_t* out) {
  const auto* x = static_cast<const typename E::Storage*>(data) + first;
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[count] = uint16_t(i);
    count += is_nonzero<E>(x[i]);
  }
  return count;
}
using PositionsFn = int64_t (*)(const void*, int64_t, int64_t, uint16_t*);

// Splits flat positions of a contiguous tensor into coordinates. Divides only when a row of the
// last dim ends.
struct Coordinates {
  int ndim;
  const int64_t* sizes;
  int64_t row_start;
  int64_t at[64] = {};

  Coordinates(int ndim_, const int64_t* sizes_, int64_t flat) : ndim(ndim_), sizes(sizes_) {
    seek(flat);
  }

  void seek(int64_t flat) {
    row_start = flat;
    for (int d = ndim - 1; d >= 0; --d) {
      at[d] = flat % sizes[d];
      flat /= sizes[d];
    }
    row_start -= at[ndim - 1];
  }

  void write(int64_t flat, int64_t* out) {
    if (flat - row_start >= sizes[ndim - 1]) seek(flat);
    for (int d = 0; d < ndim - 1; ++d) out[d] = at[d];
    out[ndim - 1] = flat - row_start;
  }
};

// 2-d is what masks mostly are: rows are short loops with both coordinates in registers.
void write_pairs(Coordinates& c, const uint16_t* found, int64_t count, int64_t first,
                 int64_t* out) {
  int64_t row = c.at[0], start = c.row_start, width = c.sizes[1];
  for (int64_t k = 0; k < count; ++k) {
    int64_t flat = first + found[k];
    if (FL_UNLIKELY(flat - start >= width)) {
      int64_t rows = (flat - start) / width;
      row += rows;
      start += rows * width;
    }
    out[2 * k] = row;
    out[2 * k + 1] = flat - start;
  }
}

void write_coords(Coordinates& c, const uint16_t* found, int64_t count, int64_t first,
                  int64_t* out) {
  if (c.ndim == 1) {
    for (int64_t k = 0; k < count; ++k) out[k] = first + found[k];
  } else if (c.ndim == 2) {
    write_pairs(c, found, count, first, out);
  } else {
    for (int64_t k = 0; k < count; ++k) c.write(first + found[k], out + k * c.ndim);
  }
}

}  // namespace

int64_t count_nonzero_blocks(DType dtype, const void* data, int64_t n, int64_t* counts) {
  with_element(dtype, [&](auto element) {
    using E = decltype(element);
    const auto* x = static_cast<const typename E::Storage*>(data);
    each_block(n, [&](int64_t block, int64_t first, int64_t length) {
      uint32_t lanes[16] = {};
      int64_t i = 0;
      for (; i + 16 <= length; i += 16) {
        for (int j = 0; j < 16; ++j) lanes[j] += is_nonzero<E>(x[first + i + j]);
      }
      for (; i < length; ++i) lanes[0] += is_nonzero<E>(x[first + i]);
      int64_t count = 0;
      for (uint32_t lane : lanes) count += lane;
      counts[block] = count;
    });
  });
  int64_t total = 0;
  for (int64_t b = 0; b < compact_blocks(n); ++b) total += counts[b];
  return total;
}

void nonzero_coords(DType dtype, const void* x, int ndim, const int64_t* sizes,
                    const int64_t* counts, int64_t* out) {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= sizes[d];
  if (ndim == 0 || n == 0) return;  // a true scalar has one row of no coordinates
  PositionsFn positions_of = nullptr;
  with_element(dtype, [&](auto element) { positions_of = positions<decltype(element)>; });
  each_block_at(n, counts, [&](int64_t first, int64_t length, int64_t before) {
    uint16_t found[kCompactBlock];
    int64_t count = positions_of(x, first, length, found);
    Coordinates c(ndim, sizes, first);
    write_coords(c, found, count, first, out + before * ndim);
  });
}

void masked_select_items(int64_t itemsize, const void* data, const uint8_t* mask, int64_t n,
                         const int64_t* counts, void* out) {
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    const T* x = static_cast<const T*>(data);
    each_block_at(n, counts, [&](int64_t first, int64_t length, int64_t before) {
      // A tile takes the write past the last element that the branch-free loop makes: it may be
      // another block's.
      constexpr int64_t kTile = 1024;
      T tile[kTile];
      T* to = static_cast<T*>(out) + before;
      for (int64_t i = first; i < first + length; i += kTile) {
        int64_t count = 0, end = least(i + kTile, first + length);
        for (int64_t j = i; j < end; ++j) {
          tile[count] = x[j];
          count += mask[j] != 0;
        }
        std::memcpy(to, tile, count * sizeof(T));
        to += count;
      }
    });
  });
}

void masked_scatter_items(int64_t itemsize, void* data, const uint8_t* mask, int64_t n,
                          const int64_t* counts, const void* src) {
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    T* x = static_cast<T*>(data);
    each_block_at(n, counts, [&](int64_t first, int64_t length, int64_t before) {
      const T* from = static_cast<const T*>(src) + before;
      for (int64_t i = first; i < first + length; ++i) {
        if (mask[i]) x[i] = *from++;
      }
    });
  });
}

}  // namespace flambeau::FL_ISA
