// cat, roll, tril / triu and constant padding: runs of memory copied row by row. Strided copies are
// in copy.cpp.
#include "flambeau/kernels/cpu/rearrange.h"

#include "flambeau/kernels/cpu/items.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kChunkBytes = 1 << 18;

int64_t rows_per_chunk(int64_t row_bytes) {
  return most<int64_t>(1, kChunkBytes / most<int64_t>(1, row_bytes));
}

template <class T>
void fill_run(T* to, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}

// The rows of a contiguous tensor (runs along its last dim) with their coordinates along the other
// dims.
struct Rows {
  int dims;  // all but the last
  const int64_t* sizes;
  int64_t at[kCopyDims] = {};

  Rows(int ndim, const int64_t* sizes_, int64_t row) : dims(ndim - 1), sizes(sizes_) {
    for (int d = dims - 1; d >= 0; --d) {
      at[d] = row % sizes[d];
      row /= sizes[d];
    }
  }

  void next() {
    for (int d = dims - 1; d >= 0; --d) {
      if (++at[d] < sizes[d]) return;
      at[d] = 0;
    }
  }
};

int64_t count_rows(int ndim, const int64_t* sizes) {
  int64_t rows = 1;
  for (int d = 0; d < ndim - 1; ++d) rows *= sizes[d];
  return rows;
}

template <bool kLower>
void triangle(int64_t itemsize, const char* x, char* out, int64_t batch, int64_t rows, int64_t cols,
              int64_t diagonal) {
  if (rows == 0 || cols == 0) return;
  const int64_t row_bytes = cols * itemsize;
  // Beyond the corners nothing changes, and the sum below stays in its type.
  diagonal = diagonal < -rows ? -rows : least(diagonal, cols);
  parallel_for(batch * rows, rows_per_chunk(row_bytes), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // Columns [0, cut) belong to the lower part, the rest to the upper.
      int64_t cut = i % rows + diagonal + (kLower ? 1 : 0);
      int64_t cut_bytes = cut < 0 ? 0 : least(cut, cols) * itemsize;
      const char* from = x + i * row_bytes;
      char* to = out + i * row_bytes;
      int64_t first = kLower ? 0 : cut_bytes, kept = kLower ? cut_bytes : row_bytes - cut_bytes;
      if (from != to) std::memcpy(to + first, from + first, kept);
      std::memset(kLower ? to + cut_bytes : to, 0, row_bytes - kept);
    }
  });
}

// The row of x that becomes row `at` of the result.
int64_t rolled_from(const Rows& rows, const int64_t* shifts) {
  int64_t source = 0;
  for (int d = 0; d < rows.dims; ++d) {
    int64_t i = (rows.at[d] - shifts[d]) % rows.sizes[d];
    source = source * rows.sizes[d] + (i < 0 ? i + rows.sizes[d] : i);
  }
  return source;
}

void roll(int64_t itemsize, int ndim, const int64_t* sizes, const int64_t* shifts, const char* x,
          char* out) {
  const int64_t cols = sizes[ndim - 1], row_bytes = cols * itemsize;
  const int64_t shift = shifts[ndim - 1] % cols,
                head = (shift < 0 ? shift + cols : shift) * itemsize;
  parallel_for(count_rows(ndim, sizes), rows_per_chunk(row_bytes), [&](int64_t begin, int64_t end) {
    Rows at(ndim, sizes, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      const char* from = x + rolled_from(at, shifts) * row_bytes;
      char* to = out + row * row_bytes;
      std::memcpy(to, from + row_bytes - head, head);
      std::memcpy(to + head, from, row_bytes - head);
    }
  });
}

struct Padding {
  int ndim;
  const int64_t *sizes, *x_strides, *before, *out_sizes;
};

// The offset in x of the row at `at` of the result, or -1 where the row is all padding.
int64_t source_row(const Padding& p, const Rows& rows) {
  int64_t offset = 0;
  for (int d = 0; d < p.ndim - 1; ++d) {
    int64_t i = rows.at[d] - p.before[d];
    if (uint64_t(i) >= uint64_t(p.sizes[d])) return -1;
    offset += i * p.x_strides[d];
  }
  return offset;
}

template <class T>
void pad(const Padding& p, const T* x, T value, T* out) {
  const int last = p.ndim - 1;
  const int64_t cols = p.out_sizes[last], kept = p.sizes[last], left = p.before[last];
  const int64_t stride = p.x_strides[last], right = cols - left - kept;
  int64_t rows = count_rows(p.ndim, p.out_sizes);
  parallel_for(rows, rows_per_chunk(cols * int64_t(sizeof(T))), [&](int64_t begin, int64_t end) {
    Rows at(p.ndim, p.out_sizes, begin);
    for (int64_t row = begin; row < end; ++row, at.next()) {
      T* to = out + row * cols;
      int64_t source = source_row(p, at);
      if (source < 0) {
        fill_run(to, cols, value);
        continue;
      }
      fill_run(to, left, value);
      if (stride == 1) {
        std::memcpy(to + left, x + source, kept * sizeof(T));
      } else {
        for (int64_t i = 0; i < kept; ++i) to[left + i] = x[source + i * stride];
      }
      fill_run(to + left + kept, right, value);
    }
  });
}

// The chunk [begin, end) of the bytes of the result.
void cat_bytes(const CatPiece* pieces, int64_t count, int64_t row_bytes, char* out, int64_t begin,
               int64_t end) {
  int64_t row = begin / row_bytes, skip = begin % row_bytes;
  for (; begin < end; ++row) {
    for (int64_t p = 0; p < count && begin < end; ++p) {
      const CatPiece& piece = pieces[p];
      if (skip >= piece.bytes) {
        skip -= piece.bytes;
        continue;
      }
      int64_t n = least(piece.bytes - skip, end - begin);
      const char* from = static_cast<const char*>(piece.data) + row * piece.row_stride + skip;
      std::memcpy(out + begin, from, n);
      begin += n;
      skip = 0;
    }
  }
}

}  // namespace

void cat_rows(const CatPiece* pieces, int64_t count, int64_t rows, void* out) {
  int64_t row_bytes = 0;
  for (int64_t p = 0; p < count; ++p) row_bytes += pieces[p].bytes;
  parallel_for(rows * row_bytes, kChunkBytes, [&](int64_t begin, int64_t end) {
    cat_bytes(pieces, count, row_bytes, static_cast<char*>(out), begin, end);
  });
}

void roll_items(int64_t itemsize, int ndim, const int64_t* sizes, const int64_t* shifts,
                const void* x, void* out) {
  for (int d = 0; d < ndim; ++d) {
    if (sizes[d] == 0) return;
  }
  const char* from = static_cast<const char*>(x);
  if (ndim == 0) {
    std::memcpy(out, from, itemsize);
  } else {
    roll(itemsize, ndim, sizes, shifts, from, static_cast<char*>(out));
  }
}

void tril_rows(int64_t itemsize, const void* x, void* out, int64_t batch, int64_t rows,
               int64_t cols, int64_t diagonal) {
  triangle<true>(itemsize, static_cast<const char*>(x), static_cast<char*>(out), batch, rows, cols,
                 diagonal);
}

void triu_rows(int64_t itemsize, const void* x, void* out, int64_t batch, int64_t rows,
               int64_t cols, int64_t diagonal) {
  triangle<false>(itemsize, static_cast<const char*>(x), static_cast<char*>(out), batch, rows, cols,
                  diagonal);
}

void pad_constant_rows(int64_t itemsize, int ndim, const int64_t* sizes, const void* x,
                       const int64_t* x_strides, const int64_t* before, const int64_t* out_sizes,
                       const void* value, void* out) {
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    T v;
    std::memcpy(&v, value, sizeof(T));
    pad(Padding{ndim, sizes, x_strides, before, out_sizes}, static_cast<const T*>(x), v,
        static_cast<T*>(out));
  });
}

}  // namespace flambeau::FL_ISA
