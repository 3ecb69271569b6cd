// Attention by blocks of rows and columns, with the running maximum and sum of each row (Milakov &
// Gimelshein 2018; Dao et al. 2022). Backward computes the scores again from what is saved: one
// number per row.
#include "flambeau/kernels/cpu/attention.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/rows.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/math_exp.h"

namespace flambeau::FL_ISA {
namespace {

// A block of scores (128 KB of floats) stays in the second cache between its two products.
constexpr int64_t kRowBlock = 256, kColBlock = 128;
constexpr double kInfinity = __builtin_inf();

// One batch and head; everything as pointers to rows.
template <class T>
struct Head {
  const AttentionArgs& a;
  int64_t b, h;

  T* row_of(const AttentionOperand& o, int64_t row) const {
    return static_cast<T*>(const_cast<void*>(o.data)) + b * o.step[0] + h * o.step[1] +
           row * o.step[2];
  }
  // Of what is contiguous as [batch][row][heads][size].
  T* row_of(const void* p, int64_t count, int64_t size, int64_t row) const {
    return static_cast<T*>(const_cast<void*>(p)) + ((b * count + row) * a.heads + h) * size;
  }
  T* values(int64_t row) const { return row_of(a.values, a.rows, a.width, row); }
  T* slopes(int64_t row) const { return row_of(a.g, a.rows, a.width, row); }
  T* logsumexp() const { return static_cast<T*>(a.logsumexp) + (b * a.heads + h) * a.rows; }
  int64_t visible(int64_t row) const { return a.causal ? least(a.cols, row + 1) : a.cols; }
};

// Scores that one pair of products takes: rows [row, row + rows) by columns [col, col + cols).
struct Block {
  int64_t row, rows, col, cols;
};

// Columns from `col` on; under a causal mask the rows before them see none of them.
template <class T>
Block block_at(const Head<T>& head, int64_t row, int64_t end, int64_t col) {
  const AttentionArgs& a = head.a;
  const int64_t first = a.causal ? most(row, col) : row;
  return {first, end - first, col, least(kColBlock, head.visible(end - 1) - col)};
}

template <class T>
GemmArgs product(const AttentionArgs& a, int64_t m, int64_t n, int64_t k, T* c, int64_t c_row,
                 bool add) {
  GemmArgs g{a.dtype, m, n, k};
  g.c = c, g.c_row = c_row, g.beta = add, g.rounded = a.rounded;
  return g;
}

// left (rows x depth) times the transpose of right (cols x depth).
template <class T>
void multiply_turned(const AttentionArgs& args, const Block& at, int64_t depth, const T* left,
                     int64_t left_row, const T* right, int64_t right_row, T* out) {
  GemmArgs g = product(args, at.rows, at.cols, depth, out, at.cols, false);
  g.a = left, g.a_row = left_row;
  g.b = right, g.b_row = 1, g.b_col = right_row;
  gemm(g);
}

// Scales and masks the scores that a row sees; the others, up to `cols`, become -infinity.
template <class T>
[[gnu::flatten]] void finish_scores(const Head<T>& head, int64_t row, const Block& at, T* s) {
  const AttentionArgs& a = head.a;
  const int64_t count = most(0, least(at.cols, head.visible(row) - at.col));
  const Vec<T> scale = T(a.scale);
  if (!a.mask.data) {
    each_register<T>(count,
                     [=](int64_t i, auto part) { store(s + i, load(s + i, part) * scale, part); });
  } else if (a.mask_is_bool) {
    const auto* mask = static_cast<const bool*>(a.mask.data) + head.b * a.mask.step[0] +
                       head.h * a.mask.step[1] + row * a.mask.step[2] + at.col;
    for (int64_t i = 0; i < count; ++i) {
      const T either[2] = {T(-kInfinity), s[i] * T(a.scale)};  // masks are too random for a branch
      s[i] = either[mask[i]];
    }
  } else {
    const T* mask = head.row_of(a.mask, row) + at.col;
    each_register<T>(count, [=](int64_t i, auto part) {
      store(s + i, fma(load(s + i, part), scale, load(mask + i, part)), part);
    });
  }
  for (int64_t i = count; i < at.cols; ++i) s[i] = T(-kInfinity);
}

template <class T>
[[gnu::flatten]] T largest(const T* s, int64_t n) {
  Vec<T> most = T(-kInfinity);
  each_register<T>(n, [&](int64_t i, auto part) {
    Vec<T> x = load(s + i, part);
    most = max(most, select(kept(Vec<T>(1), part) > Vec<T>(0), x, most));
  });
  return max_lanes(most);
}

// s = exp(s - shift); returns the sum.
template <class T>
[[gnu::flatten]] T exponentials(T* s, int64_t n, T shift) {
  Vec<T> sum = T(0);
  each_register<T>(n, [&](int64_t i, auto part) {
    Vec<T> e = exp(load(s + i, part) - shift);
    store(s + i, e, part);
    sum = sum + kept(e, part);
  });
  return sum_lanes(sum);
}

template <class T>
[[gnu::flatten]] void scale_by(T* x, int64_t n, T factor) {
  each_register<T>(n,
                   [=](int64_t i, auto part) { store(x + i, load(x + i, part) * factor, part); });
}

template <class T>
T dot(const T* x, const T* y, int64_t n) {
  return T(sums<T, 1>(n, [=](Vec<T>* s, int64_t i, auto part) {
             s[0] = fma(load(x + i, part), load(y + i, part), s[0]);
           }).v[0]);
}

// What the rows of a block of rows have seen so far.
template <class T>
struct Seen {
  T max[kRowBlock];
  double sum[kRowBlock];
};

// Turns a row's scores to weights, and its values so far to the new maximum.
template <class T>
void weigh_row(T* s, int64_t cols, T* values, int64_t width, T& max, double& sum) {
  const T now = largest(s, cols), before = max;
  if (now > before) max = now;
  if (max == T(-kInfinity)) {  // nothing seen yet; -infinity - -infinity would be NaN
    for (int64_t i = 0; i < cols; ++i) {
      s[i] = s[i] == s[i] ? T(0) : s[i];
      sum += double(s[i]);
    }
    return;
  }
  if (max != before && sum != 0) {
    const T factor = T(__builtin_exp(double(before) - double(max)));
    scale_by(values, width, factor);
    sum *= double(factor);
  }
  sum += double(exponentials(s, cols, max));
}

template <class T>
void forward_rows(const Head<T>& head, int64_t row, int64_t end, T* scores) {
  const AttentionArgs& a = head.a;
  const int64_t out_row = a.heads * a.width;
  Seen<T> seen;
  for (int64_t i = 0; i < end - row; ++i) seen.max[i] = T(-kInfinity), seen.sum[i] = 0;
  for (int64_t col = 0; col < head.visible(end - 1); col += kColBlock) {
    const Block at = block_at(head, row, end, col);
    multiply_turned(a, at, a.depth, head.row_of(a.q, at.row), a.q.step[2], head.row_of(a.k, col),
                    a.k.step[2], scores);
    for (int64_t i = 0; i < at.rows; ++i) {
      const int64_t r = at.row + i;
      T* s = scores + i * at.cols;
      finish_scores(head, r, at, s);
      weigh_row(s, at.cols, head.values(r), a.width, seen.max[r - row], seen.sum[r - row]);
    }
    GemmArgs g = product(a, at.rows, a.width, at.cols, head.values(at.row), out_row, col > 0);
    g.a = scores, g.a_row = at.cols;
    g.b = head.row_of(a.v, col), g.b_row = a.v.step[2];
    gemm(g);
  }
  for (int64_t r = row; r < end; ++r) {
    const double sum = seen.sum[r - row];
    if (a.cols == 0) scale_by(head.values(r), a.width, T(0));
    if (sum != 0) scale_by(head.values(r), a.width, T(1 / sum));
    head.logsumexp()[r] = sum == 0 ? T(-kInfinity) : T(seen.max[r - row] + __builtin_log(sum));
  }
}

// From scores and slopes of the weights to weights and slopes of the scores (before scaling).
template <class T>
[[gnu::flatten]] void slopes_of_row(T* s, T* ds, int64_t n, T logsumexp, T shift, T scale) {
  if (logsumexp == T(-kInfinity)) {
    for (int64_t i = 0; i < n; ++i) s[i] = ds[i] = 0;
    return;
  }
  each_register<T>(n, [=](int64_t i, auto part) {
    const Vec<T> p = exp(load(s + i, part) - logsumexp);
    store(s + i, p, part);
    store(ds + i, p * (load(ds + i, part) - shift) * scale, part);
  });
}

// Adds one block's part to the gradients of its rows and columns. `shift`: g times values, summed
// over each row.
template <class T>
void backward_block(const Head<T>& head, const Block& at, const T* shift, T* scores, T* slopes) {
  const AttentionArgs& a = head.a;
  const int64_t g_row = a.heads * a.width, depth_row = a.heads * a.depth;
  const T *q = head.row_of(a.q, at.row), *k = head.row_of(a.k, at.col), *g = head.slopes(at.row);
  multiply_turned(a, at, a.depth, q, a.q.step[2], k, a.k.step[2], scores);
  multiply_turned(a, at, a.width, g, g_row, head.row_of(a.v, at.col), a.v.step[2], slopes);
  parallel_for(at.rows, most(1, 16384 / at.cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* s = scores + i * at.cols;
      const int64_t r = at.row + i;
      finish_scores(head, r, at, s);
      slopes_of_row(s, slopes + i * at.cols, at.cols, head.logsumexp()[r], shift[r], T(a.scale));
    }
  });
  auto add_turned = [&](const T* left, const T* right, int64_t right_row, void* out, int64_t size) {
    if (!out) return;
    GemmArgs x = product(a, at.cols, size, at.rows, head.row_of(out, a.cols, size, at.col),
                         a.heads * size, true);
    x.a = left, x.a_row = 1, x.a_col = at.cols;
    x.b = right, x.b_row = right_row;
    gemm(x);
  };
  add_turned(scores, g, g_row, a.gv, a.width);
  add_turned(slopes, q, a.q.step[2], a.gk, a.depth);
  if (!a.gq) return;
  GemmArgs x = product(a, at.rows, a.depth, at.cols, head.row_of(a.gq, a.rows, a.depth, at.row),
                       depth_row, true);
  x.a = slopes, x.a_row = at.cols;
  x.b = k, x.b_row = a.k.step[2];
  gemm(x);
}

template <class T>
void backward_head(const Head<T>& head) {
  const AttentionArgs& a = head.a;
  auto clear = [&](void* p, int64_t count, int64_t size) {
    for (int64_t r = 0; p && r < count; ++r)
      __builtin_memset(head.row_of(p, count, size, r), 0, size_t(size) * sizeof(T));
  };
  clear(a.gq, a.rows, a.depth), clear(a.gk, a.cols, a.depth), clear(a.gv, a.cols, a.width);
  constexpr int64_t kScores = kRowBlock * kColBlock;
  T* scores = static_cast<T*>(scratch(Scratch::Scores, sizeof(T) * size_t(2 * kScores + a.rows)));
  T *slopes = scores + kScores, *shift = slopes + kScores;
  for (int64_t r = 0; r < a.rows; ++r) shift[r] = dot(head.slopes(r), head.values(r), a.width);
  for (int64_t row = 0; row < a.rows; row += kRowBlock) {
    const int64_t end = least(a.rows, row + kRowBlock);
    for (int64_t col = 0; col < head.visible(end - 1); col += kColBlock)
      backward_block(head, block_at(head, row, end, col), shift, scores, slopes);
  }
}

// Each unit is one thread's; where those are too few, the threads share the products of each.
template <class F>
void each_unit(const AttentionArgs& a, int64_t units, const F& f) {
  const int64_t work = a.batch * a.heads * a.rows * a.cols * (a.depth + a.width) / most(1, units);
  parallel_for(units, units < num_threads() ? units : grain_of(work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) f(i);
               });
}

template <class T>
void forward(const AttentionArgs& a) {
  const int64_t parts = ceil_div(a.rows, kRowBlock);
  each_unit(a, a.batch * a.heads * parts, [&](int64_t unit) {
    T* scores =
        static_cast<T*>(scratch(Scratch::Scores, sizeof(T) * size_t(kRowBlock * kColBlock)));
    const int64_t row = unit % parts * kRowBlock, head = unit / parts;
    forward_rows(Head<T>{a, head / a.heads, head % a.heads}, row, least(a.rows, row + kRowBlock),
                 scores);
  });
}

template <class T>
void backward(const AttentionArgs& a) {
  each_unit(a, a.batch * a.heads, [&](int64_t unit) {
    backward_head(Head<T>{a, unit / a.heads, unit % a.heads});
  });
}

}  // namespace

void attention_forward(const AttentionArgs& a) {
  a.dtype == DType::Float32 ? forward<float>(a) : forward<double>(a);
}
void attention_backward(const AttentionArgs& a) {
  a.dtype == DType::Float32 ? backward<float>(a) : backward<double>(a);
}

}  // namespace flambeau::FL_ISA
