// Embedding lookups and their gradient. Backward sorts the positions by index first (a counting
// sort, stable), so every row of the table is written by one thread, once.
#include "flambeau/kernels/cpu/embedding.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/rows.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrainBytes = 1 << 16;
constexpr int64_t kTileCols = 512;

// The positions of each row's indices: those of row r are order[start[r] .. start[r + 1]).
struct Positions {
  int64_t *start, *order;

  explicit Positions(const EmbeddingGrads& a) {
    start =
        static_cast<int64_t*>(scratch(Scratch::Rows, size_t(a.rows + 2 + a.n) * sizeof(int64_t)));
    order = start + a.rows + 2;
    for (int64_t r = 0; r < a.rows + 2; ++r) start[r] = 0;
    // Counted two places up: filling moves every start[r + 1] from the beginning of row r to its
    // end.
    for (int64_t i = 0; i < a.n; ++i) ++start[a.indices[i] + 2];
    for (int64_t r = 1; r < a.rows + 2; ++r) start[r] += start[r - 1];
    for (int64_t i = 0; i < a.n; ++i) order[start[a.indices[i] + 1]++] = i;
  }
};

template <class T>
[[gnu::flatten]] void sum_gradients(const T* g, int64_t dim, const int64_t* order, int64_t count,
                                    ComputeOf<T> scale, T* gw) {
  using L = ComputeOf<T>;
  L sum[kTileCols];
  for (int64_t begin = 0; begin < dim; begin += kTileCols) {
    int64_t cols = least(kTileCols, dim - begin);
    each_register<L>(cols, [&](int64_t c, auto part) { store(sum + c, Vec<L>(0), part); });
    for (int64_t k = 0; k < count; ++k) {
      const T* row = g + order[k] * dim + begin;
      each_register<L>(cols, [&](int64_t c, auto part) {
        store(sum + c, load(sum + c, part) + load(row + c, part), part);
      });
    }
    each_register<L>(cols, [&](int64_t c, auto part) {
      store(gw + begin + c, load(sum + c, part) * scale, part);
    });
  }
}

template <class T>
void backward(const EmbeddingGrads& a) {
  Positions at(a);
  const T* g = static_cast<const T*>(a.g);
  T* gw = static_cast<T*>(a.gw);
  int64_t row_bytes = a.dim * int64_t(sizeof(T));
  parallel_for(a.rows, most(1, kGrainBytes / most(1, row_bytes)), [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      int64_t count = at.start[r + 1] - at.start[r];
      if (count == 0 || r == a.padding_index) {
        __builtin_memset(gw + r * a.dim, 0, size_t(row_bytes));
        continue;
      }
      ComputeOf<T> scale =
          a.scale_by_frequency ? ComputeOf<T>(1) / ComputeOf<T>(count) : ComputeOf<T>(1);
      sum_gradients(g, a.dim, at.order + at.start[r], count, scale, gw + r * a.dim);
    }
  });
}

}  // namespace

void embedding_rows(const void* table, int64_t stride_bytes, int64_t row_bytes,
                    const int64_t* indices, int64_t n, void* out) {
  parallel_for(n, most(1, kGrainBytes / most(1, row_bytes)), [=](int64_t i0, int64_t i1) {
    const char* from = static_cast<const char*>(table);
    char* to = static_cast<char*>(out) + i0 * row_bytes;
    for (int64_t i = i0; i < i1; ++i, to += row_bytes) {
      __builtin_memcpy(to, from + indices[i] * stride_bytes, size_t(row_bytes));
    }
  });
}

void embedding_backward(const EmbeddingGrads& a) {
  with_float_type(a.dtype, [&]<class T>(T) { backward<T>(a); });
}

}  // namespace flambeau::FL_ISA
