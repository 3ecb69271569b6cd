// How a tensor is walked for a reduction: along runs or across a tile of columns, in which blocks,
// on which threads. Every cut is by size alone, so the result is the same for any number of
// threads.
#include "flambeau/kernels/cpu/reduce.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/reduce_loops.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrain = 1 << 16;     // elements a thread should get at least
constexpr int64_t kRunBlock = 1 << 13;  // elements of a run that one register state may gather
constexpr int64_t kPieces = 64;         // most pieces of a long reduction
constexpr int64_t kColumnBlock =
    1 << 17;                        // bytes of a tile that a second pass should find in the cache
constexpr int64_t kRowBlock = 512;  // rows that one register state may gather
constexpr int64_t kPieceTotals = 1 << 17;  // bytes of totals on the stack while a length is split
constexpr int64_t kStage = 4096;           // elements of a staged block

// Copies n strided elements to where and how the loops read them.
using StageFn = void (*)(const void* x, int64_t x_stride, void* to, int64_t to_stride, int64_t n);

template <class T, class S>
void stage(const void* x, int64_t x_stride, void* to, int64_t to_stride, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    static_cast<S*>(to)[k * to_stride] = lane_of<S>(static_cast<const T*>(x)[k * x_stride]);
  }
}
template <class T>
void stage_same(const void* x, int64_t x_stride, void* to, int64_t to_stride, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    static_cast<T*>(to)[k * to_stride] = static_cast<const T*>(x)[k * x_stride];
  }
}

using FinishFn = void (*)(const ReduceArgs& args, int64_t first, int64_t count, const void* totals);

struct Entry {
  const Loops* loops = nullptr;
  FinishFn finish = nullptr;
  StageFn stage = nullptr;
  int element_size = 0;   // of x; the loops' own may differ
  bool converts = false;  // the loops have no version for x's type: every block is staged
  int result = -1;
};

// One reduction on its way.
struct Walk {
  const ReduceArgs& a;
  const Entry& e;
  const Loops& loops;
  int64_t outputs, length;

  Walk(const ReduceArgs& args, const Entry& entry)
      : a(args),
        e(entry),
        loops(*entry.loops),
        outputs(args.outer * args.inner),
        length(args.n * args.reps) {}

  const char* at_output(int64_t o) const {
    int64_t offset =
        a.inner == 1 ? o * a.x_outer : (o / a.inner) * a.x_outer + (o % a.inner) * a.x_inner;
    return static_cast<const char*>(a.x) + offset * e.element_size;
  }
  bool is_done(const void* totals, int64_t n) const { return loops.done && loops.done(totals, n); }

  // Elements [from, to) of the reps * n that go into one output.
  void run_total(const char* x, int64_t from, int64_t to, void* total) const {
    alignas(64) char staged[kStage * 16];
    bool direct = !e.converts && (a.x_n == 1 || a.n == 1);
    while (from < to && !is_done(total, 1)) {
      int64_t rep = a.reps == 1 ? 0 : from / a.n, i = from - rep * a.n;
      int64_t count = least(least(to - from, a.n - i), direct ? kRunBlock : kStage);
      const char* run = x + (rep * a.x_reps + i * a.x_n) * e.element_size;
      if (!direct) {
        e.stage(run, a.x_n, staged, 1, count);
        run = staged;
      }
      loops.runs(run, 0, 1, from, count, a.p, total);
      from += count;
    }
  }

  // The same for outputs [o, o + cols), which lie side by side in memory or are brought side by
  // side block by block.
  void tile_totals(int64_t o, int64_t cols, bool direct, int64_t from, int64_t to,
                   void* totals) const {
    alignas(64) char staged[kStage * 16];
    const char* start[kMaxTileCols];
    for (int64_t k = 0; k < (direct ? 1 : cols); ++k) start[k] = at_output(o + k);
    int64_t block = kRowBlock;
    if (loops.two_passes) block = most(64, kColumnBlock / (cols * e.element_size));
    if (!direct) block = kStage / cols;
    while (from < to && !is_done(totals, cols)) {
      int64_t rep = a.reps == 1 ? 0 : from / a.n, i = from - rep * a.n;
      int64_t rows = least(least(to - from, a.n - i), block);
      int64_t offset = (rep * a.x_reps + i * a.x_n) * e.element_size;
      if (direct) {
        loops.columns(start[0] + offset, a.x_n, from, rows, cols, a.p, totals);
      } else {
        stage_tile(start, offset, cols, rows, staged);
        loops.columns(staged, cols, from, rows, cols, a.p, totals);
      }
      from += rows;
    }
  }

  void stage_tile(const char* const* start, int64_t offset, int64_t cols, int64_t rows,
                  char* staged) const {
    int64_t size = loops.element_size;
    if (a.x_inner == 1 && cols <= a.inner &&
        start[cols - 1] - start[0] == (cols - 1) * e.element_size) {
      for (int64_t r = 0; r < rows; ++r) {
        e.stage(start[0] + offset + r * a.x_n * e.element_size, 1, staged + r * cols * size, 1,
                cols);
      }
    } else {
      for (int64_t k = 0; k < cols; ++k)
        e.stage(start[k] + offset, a.x_n, staged + k * size, cols, rows);
    }
  }

  // Few outputs of many elements: pieces of the length, joined in order.
  void split_length(bool by_runs, bool direct) const {
    int64_t size = loops.total_size;
    int64_t pieces =
        least(least(kPieces, kPieceTotals / (outputs * size)), ceil_div(length * outputs, kGrain));
    int64_t piece = ceil_div(length, pieces);
    pieces = ceil_div(length, piece);
    alignas(64) char totals[kPieceTotals];
    loops.clear(totals, pieces * outputs);
    parallel_for(pieces, 1, [&](int64_t p0, int64_t p1) {
      for (int64_t p = p0; p < p1; ++p) {
        int64_t from = p * piece, to = least(length, from + piece);
        char* mine = totals + p * outputs * size;
        if (by_runs) {
          for (int64_t o = 0; o < outputs; ++o) run_total(at_output(o), from, to, mine + o * size);
        } else {
          tile_totals(0, outputs, direct, from, to, mine);
        }
      }
    });
    for (int64_t p = 1; p < pieces; ++p) {
      for (int64_t o = 0; o < outputs; ++o)
        loops.join(totals + o * size, totals + (p * outputs + o) * size);
    }
    e.finish(a, 0, outputs, totals);
  }

  // Whether every output is one short run that the loops can read where it is.
  bool short_runs() const {
    return length <= kRunBlock && a.reps == 1 && (a.x_n == 1 || a.n == 1) && a.inner == 1 &&
           !e.converts;
  }

  void by_runs() const {
    bool at_once = short_runs();
    parallel_for(outputs, most(1, kGrain / length), [this, at_once](int64_t o0, int64_t o1) {
      constexpr int64_t kBatch = 32;
      alignas(64) char totals[kBatch * kMaxTotal];
      for (int64_t o = o0; o < o1; o += kBatch) {
        int64_t count = least(kBatch, o1 - o);
        loops.clear(totals, count);
        if (at_once) {
          loops.runs(at_output(o), a.x_outer, count, 0, length, a.p, totals);
        } else {
          for (int64_t k = 0; k < count; ++k) {
            run_total(at_output(o + k), 0, length, totals + k * loops.total_size);
          }
        }
        e.finish(a, o, count, totals);
      }
    });
  }

  // Nothing to plan, and a call on a few elements should take a few nanoseconds.
  void single_run() const {
    alignas(64) char total[kMaxTotal];
    loops.clear(total, 1);
    loops.runs(a.x, 0, 1, 0, length, a.p, total);
    e.finish(a, 0, 1, total);
  }

  // Tiles that are read in place never cross from one outer index to the next.
  void by_tiles(bool direct) const {
    int64_t lanes = loops.lanes, span = direct ? a.inner : outputs, spans = outputs / span;
    int64_t widest = direct ? int64_t(loops.tile_cols) : least(loops.tile_cols, 4 * lanes);
    // Narrower where there would be too few to share, yet a cache line or two wide.
    int64_t shares = least(8, ceil_div(length * outputs, kGrain));
    int64_t cols = ceil_div(ceil_div(outputs, shares), lanes) * lanes;
    cols = most(least(cols, widest), least(widest, 4 * lanes));
    int64_t tiles = ceil_div(span, cols);
    parallel_for(spans * tiles, most(1, kGrain / (length * cols)), [&](int64_t t0, int64_t t1) {
      alignas(64) char totals[kMaxTileCols * kMaxTotal];
      for (int64_t t = t0; t < t1; ++t) {
        int64_t begin = (t % tiles) * cols, count = least(cols, span - begin);
        int64_t o = (t / tiles) * span + begin;
        loops.clear(totals, count);
        tile_totals(o, count, direct, 0, length, totals);
        e.finish(a, o, count, totals);
      }
    });
  }

  void empty() const {
    alignas(64) char total[kMaxTotal];
    loops.clear(total, 1);
    for (int64_t o = 0; o < outputs; ++o) e.finish(a, o, 1, total);
  }

  void run() const {
    if (outputs == 0) return;
    if (length == 0) return empty();
    if (outputs == 1 && short_runs()) return single_run();
    int64_t lanes = loops.lanes;
    bool side_by_side = a.x_inner == 1 && a.inner > 1 && 2 * a.inner >= lanes;
    bool runs = lanes == 1 || outputs < lanes ||
                (!side_by_side && (a.x_n == 1 || length >= 512) && length >= 2 * lanes);
    if (runs) {
      if (outputs <= 4 && length * outputs > 2 * kGrain) return split_length(true, false);
      return by_runs();
    }
    bool direct = side_by_side && !e.converts && (a.inner >= lanes || a.outer == 1);
    if (length * outputs > 4 * kGrain &&
        (direct ? a.outer == 1 && outputs <= loops.tile_cols : outputs <= 64)) {
      return split_length(false, direct);
    }
    by_tiles(direct);
  }
};

// -- the table of [reduction][dtype]

template <class B, class T>
struct Out2Of {
  using type = char;
};
template <class B, class T>
requires requires { typename B::template Out2<T>; }
struct Out2Of<B, T> {
  using type = typename B::template Out2<T>;
};

// A half type may be asked for in float.
template <class Out, class R>
void write(void* out, DType dtype, int64_t o, R value) {
  if constexpr (kIsHalf<Out>) {
    if (dtype == DType::Float32) {
      static_cast<float*>(out)[o] = float(value);
      return;
    }
  }
  static_cast<Out*>(out)[o] = element_of<Out>(value);
}

template <class B, class T>
void finish(const ReduceArgs& a, int64_t first, int64_t count, const void* totals) {
  using L = typename B::template Lane<T>;
  for (int64_t k = 0; k < count; ++k) {
    auto result =
        B::template finish<L>(static_cast<const TotalOf<B, L>*>(totals)[k], a.n * a.reps, a.p);
    if constexpr (requires { result.second; }) {
      write<typename B::template Out<T>>(a.out, a.out_dtype, first + k, result.first);
      write<typename Out2Of<B, T>::type>(a.out2, a.out_dtype, first + k, result.second);
    } else {
      write<typename B::template Out<T>>(a.out, a.out_dtype, first + k, result);
    }
  }
}

template <class... T>
struct Elements {};
// In the order of DType.
using AllElements = Elements<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t,
                             uint64_t, Half, BFloat16, float, double, Cplx<float>, Cplx<double>>;

template <class T, class... All>
constexpr int dtype_number(Elements<All...>) {
  int at = 0, i = 0;
  ((std::is_same_v<T, All> ? void(at = i) : void(), ++i), ...);
  return at;
}

// What the loops read for elements T: rare integers and most reductions of half types come
// converted to lanes.
template <class B, class T>
using ReadAs = std::conditional_t<
    std::is_same_v<T, bool> || std::is_same_v<T, uint8_t>, uint8_t,
    std::conditional_t<kIsHalf<T> && !B::reads_halves, float,
                       std::conditional_t<kKind<T> == kIntInput && !std::is_same_v<T, int32_t>,
                                          typename B::template Lane<T>, T>>>;

template <ReduceOp op, class T>
constexpr Entry entry() {
  using B = Body<op>;
  Entry e;
  if constexpr ((B::takes & kKind<T>) != 0) {
    using L = typename B::template Lane<T>;
    using S = ReadAs<B, T>;
    e.loops = &LoopsOf<typename B::Loop, L, S>::value;
    e.finish = finish<B, T>;
    e.element_size = sizeof(T);
    e.converts = sizeof(S) != sizeof(T);
    if constexpr (sizeof(S) != sizeof(T)) {
      e.stage = stage<T, S>;
    } else {
      e.stage = stage_same<S>;
    }
    e.result = dtype_number<typename B::template Out<T>>(AllElements{});
  }
  return e;
}

struct Table {
  Entry entries[kReduceOps][kDTypes];
};
template <int op, class... T>
constexpr void fill_row(Table& table, Elements<T...>) {
  int i = 0;
  ((table.entries[op][i++] = entry<ReduceOp(op), T>()), ...);
}
template <int... op>
constexpr Table make_table(std::integer_sequence<int, op...>) {
  Table table;
  (fill_row<op>(table, AllElements{}), ...);
  return table;
}
constexpr Table kTable = make_table(std::make_integer_sequence<int, kReduceOps>());

}  // namespace

void reduce(const ReduceArgs& args) {
  Walk(args, kTable.entries[int(args.op)][int(args.dtype)]).run();
}

int reduce_result(ReduceOp op, DType dtype) { return kTable.entries[int(op)][int(dtype)].result; }

}  // namespace flambeau::FL_ISA
