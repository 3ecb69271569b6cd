// The steps of a recurrent layer. Threads share the units, a panel of columns each: the product of
// a panel, whose weights are laid out once for all steps, and what happens to its units after it.
#include "flambeau/kernels/cpu/recurrent.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/recurrent_cells.h"
#include "flambeau/kernels/cpu/rows.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace {

// Units of one panel.
template <class T>
inline constexpr int64_t kUnits = tile::kColumns<T>;
// Steps of a product that are taken together: the part of a panel stays in L1 for all rows.
template <class T>
inline constexpr int64_t kDepth = 1024 / int64_t(sizeof(T));

template <class T>
T* scratch_of(Scratch slot, int64_t count) {
  return static_cast<T*>(scratch(slot, sizeof(T) * size_t(count)));
}

// The matrix b, (k, parts * columns), that every step multiplies by. Few rows, of all steps
// together, do not pay for panels: they read it where it lies.
template <class T>
struct Weights {
  const T* b;
  int64_t row, col, k, parts, columns;
  const T* packed = nullptr;  // for each panel of columns those of all parts, one after the other

  template <class F>
  void each_panel(int64_t rows, const F& f) const {
    const int64_t grain = grain_of(rows * k * parts * kUnits<T>);
    parallel_for(ceil_div(columns, kUnits<T>), grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        f(p * kUnits<T>, least(kUnits<T>, columns - p * kUnits<T>));
    });
  }

  void pack(int64_t rows, Scratch slot) {
    if (rows < 12) return;
    const int64_t panels = ceil_div(columns, kUnits<T>);
    T* to = scratch_of<T>(slot, panels * kUnits<T> * parts * k);
    each_panel(1, [=, this](int64_t from, int64_t count) {
      for (int64_t part = 0; part < parts; ++part) {
        tile::pack_b(b + (part * columns + from) * col, row, col, count, k,
                     to + (from * parts + part * kUnits<T>)*k);
      }
    });
    packed = to;
  }

  // n rows of `in` by columns [from, from + count) of every part; the parts' sums lie kUnits apart.
  void multiply(const T* in, int64_t n, int64_t from, int64_t count, T* out, int64_t out_row,
                bool add) const {
    if (n == 0) return;
    tile::Tile<T> t{};
    t.a_row = k, t.a_col = 1, t.c_row = out_row, t.columns = count;
    // As even as possible: a tile of two rows takes nearly the time of four.
    const int64_t height = ceil_div(n, ceil_div(n, tile::kRows));
    const int64_t depth = ceil_div(k, ceil_div(k, kDepth<T>));
    for (int64_t p = 0; p < k; p += depth) {
      t.k = least(depth, k - p), t.end.beta = add || p > 0 ? 1 : 0;
      for (int64_t part = 0; part < parts; ++part) {
        t.b = packed + (from * parts + part * kUnits<T>)*k + p * kUnits<T>;
        for (int64_t i = 0; i < n; i += height) {
          t.a = in + i * k + p, t.c = out + i * out_row + part * kUnits<T>;
          tile::run<tile::A::Strided, tile::B::Packed>(t, least(height, n - i));
        }
      }
    }
  }

  // The same for all columns of b as it lies.
  void multiply_whole(const T* in, int64_t n, T* out, bool add) const {
    GemmArgs g{sizeof(T) == 4 ? DType::Float32 : DType::Float64, n, parts * columns, k};
    g.a = in, g.a_row = k, g.b = b, g.b_row = row, g.b_col = col;
    g.c = out, g.c_row = parts * columns, g.beta = add ? 1 : 0;
    gemm(g);
  }
};

template <class T, class Cell>
struct Layer {
  static constexpr int64_t kGates = gates_of(Cell::kCell), kKept = kept_per_unit(Cell::kCell);
  static constexpr bool kHasCell = Cell::kCell == RecurrentCell::Lstm;
  static constexpr bool kApart = Cell::kCell == RecurrentCell::Gru;  // g_sums are not gx

  const RecurrentArgs& a;
  const int64_t h = a.hidden, batch = a.starts[1];

  // The s-th step that is taken, its first row and its rows.
  int64_t time(int64_t s) const { return a.reverse ? a.steps - 1 - s : s; }
  int64_t start(int64_t s) const { return a.starts[time(s)]; }
  int64_t rows(int64_t s) const { return a.starts[time(s) + 1] - start(s); }
  // Rows that had a step before. Backwards in time longer sequences join.
  int64_t going(int64_t s) const { return s == 0 ? 0 : least(rows(s), rows(s - 1)); }

  // Rows of step s of a tensor with rows of `width`; null if there is none.
  static T* at(const void* p, int64_t row, int64_t width) {
    return p ? static_cast<T*>(const_cast<void*>(p)) + row * width : nullptr;
  }
  T* of(const void* p, int64_t s, int64_t width) const { return at(p, start(s), width); }
  // Where row n of step s was after the step before.
  const T* before(const void* all, const void* first, int64_t s, int64_t n, int64_t width) const {
    return n < going(s) ? at(all, start(s - 1) + n, width) : at(first, n, width);
  }

  Weights<T> gates() const { return {at(a.w, 0, 0), 1, a.states, a.states, kGates, h}; }
  Weights<T> gates_back() const { return {at(a.w, 0, 0), a.states, 1, kGates * h, 1, a.states}; }
  Weights<T> projection() const { return {at(a.w_hr, 0, 0), 1, h, h, 1, a.states}; }
  Weights<T> projection_back() const { return {at(a.w_hr, 0, 0), h, 1, a.states, 1, h}; }

  // ---- forward ----

  // Units [from, from + count) of row n of step s, from its sums, `apart` from gate to gate.
  [[gnu::flatten]] void activate(int64_t s, int64_t n, int64_t from, int64_t count, const T* sums,
                                 int64_t apart, T* state) const {
    const int64_t row = start(s) + n;
    const T *x = at(a.x, row, kGates * h) + from, *bias = a.bias ? at(a.bias, from, 1) : nullptr;
    const T* old = before(a.output, a.h0, s, n, h) + from;
    T *cell = kHasCell ? at(a.last_cell, n, h) + from : nullptr, *to = state + n * h + from;
    T* cells = a.cells && kHasCell ? at(a.cells, row, h) + from : nullptr;
    T* keep = a.kept && kKept ? at(a.kept, row, kKept * h) + from : nullptr;
    each_register<T>(count, [=, this](int64_t i, auto part) {
      Vec<T> in[kGates], sum[kGates], kept[kKept + 1], c(0), was(0);
#pragma GCC unroll 4
      for (int64_t g = 0; g < kGates; ++g) {
        in[g] = load(x + g * h + i, part), sum[g] = load(sums + g * apart + i, part);
        if (bias) sum[g] = sum[g] + load(bias + g * h + i, part);
      }
      if constexpr (kHasCell) c = load(cell + i, part);
      if constexpr (Cell::kReadsBefore) was = load(old + i, part);
      store(to + i, Cell::forward(in, sum, was, c, kept), part);
      if constexpr (kHasCell) store(cell + i, c, part);
      if (cells) store(cells + i, c, part);
      if (!keep) return;
#pragma GCC unroll 4
      for (int64_t g = 0; g < kKept; ++g) store(keep + g * h + i, kept[g], part);
    });
  }

  // f(from, states, count of rows) for the rows with a step before and for those without.
  template <class F>
  void each_source(int64_t s, const F& f) const {
    const int64_t old = going(s);
    if (old > 0) f(0, before(a.output, a.h0, s, 0, a.states), old);
    if (rows(s) > old) f(old, at(a.h0, old, a.states), rows(s) - old);
  }

  void step(int64_t s, const Weights<T>& w, T* state) const {
    T* whole = w.packed ? nullptr : scratch_of<T>(Scratch::ConvOutput, rows(s) * kGates * h);
    if (whole) {
      each_source(s, [&](int64_t first, const T* in, int64_t n) {
        w.multiply_whole(in, n, whole + first * kGates * h, false);
      });
    }
    w.each_panel(rows(s), [&](int64_t from, int64_t count) {
      const int64_t apart = whole ? h : kUnits<T>;
      T* sums = whole ? whole + from : scratch_of<T>(Scratch::GemmC, rows(s) * kGates * apart);
      if (!whole) {
        each_source(s, [&](int64_t first, const T* in, int64_t n) {
          w.multiply(in, n, from, count, sums + first * kGates * apart, kGates * apart, false);
        });
      }
      for (int64_t n = 0; n < rows(s); ++n)
        activate(s, n, from, count, sums + n * kGates * apart, apart, state);
    });
  }

  // out = in * w
  void product(const Weights<T>& w, const T* in, int64_t n, T* out) const {
    if (!w.packed) return w.multiply_whole(in, n, out, false);
    w.each_panel(n, [&](int64_t from, int64_t count) {
      w.multiply(in, n, from, count, out + from, w.columns, false);
    });
  }

  static void copy(const T* from, int64_t count, T* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = from ? from[i] : T(0);
  }

  void forward() const {
    Weights<T> w = gates(), shrink = projection();
    w.pack(a.starts[a.steps], Scratch::ConvWeight);
    if (a.w_hr) shrink.pack(a.starts[a.steps], Scratch::Columns);
    if constexpr (kHasCell) copy(at(a.c0, 0, 0), batch * h, at(a.last_cell, 0, 0));
    for (int64_t s = 0; s < a.steps; ++s) {
      T* output = of(a.output, s, a.states);
      T* state = a.w_hr ? scratch_of<T>(Scratch::ConvInput, batch * h) : output;
      step(s, w, state);
      if (a.w_hr) product(shrink, state, rows(s), output);
      // Sequences that end here.
      const int64_t stay = s + 1 < a.steps ? least(rows(s + 1), rows(s)) : 0;
      copy(output + stay * a.states, (rows(s) - stay) * a.states, at(a.last, stay, a.states));
    }
  }

  // ---- backward ----

  // Units [from, from + count) of row n of step s: the slopes of sums, of the cell before and, as
  // far as they have other ways, of the state before; from those of the state.
  [[gnu::flatten]] void slopes(int64_t s, int64_t n, int64_t from, int64_t count, const T* g_state,
                               const T* g_output) const {
    const int64_t row = start(s) + n;
    const T* keep = kKept ? at(a.kept, row, kKept * h) + from : nullptr;
    const T *old = before(a.output, a.h0, s, n, h) + from, *now = at(a.output, row, h) + from;
    const T* old_cell = kHasCell ? before(a.cells, a.c0, s, n, h) + from : nullptr;
    const T* cell = kHasCell ? at(a.cells, row, h) + from : nullptr;
    T *gh = at(a.gh0, n, h) + from, *gc = kHasCell ? at(a.gc0, n, h) + from : nullptr;
    T *gx = at(a.gx, row, kGates * h) + from, *gs = at(a.g_sums, row, kGates * h) + from;
    each_register<T>(count, [=, this](int64_t i, auto part) {
      Vec<T> kept[kKept + 1], to_x[kGates], to_sums[kGates], c(0), g = load(g_state + i, part);
#pragma GCC unroll 4
      for (int64_t k = 0; k < kKept; ++k) kept[k] = load(keep + k * h + i, part);
      if (g_output) g = g + load(g_output + i, part);
      UnitState<T> unit{};
      if constexpr (Cell::kReadsBefore) unit.before = load(old + i, part);
      if constexpr (Cell::kReadsAfter) unit.after = load(now + i, part);
      if constexpr (kHasCell) {
        unit.cell_before = load(old_cell + i, part), unit.cell = load(cell + i, part);
        c = load(gc + i, part);
      }
      const Vec<T> direct = Cell::backward(kept, unit, g, c, to_x, to_sums);
      if constexpr (kHasCell) store(gc + i, c, part);
      if constexpr (kApart) store(gh + i, direct, part);
#pragma GCC unroll 4
      for (int64_t k = 0; k < kGates; ++k) {
        store(gx + k * h + i, to_x[k], part);
        if constexpr (kApart) store(gs + k * h + i, to_sums[k], part);
      }
    });
  }

  // With a projection: the slopes of step s's states, and of what they were projected from.
  void slopes_projected(int64_t s, const Weights<T>& expand) const {
    const int64_t n = rows(s), p = a.states;
    const T *g_output = of(a.g_output, s, p), *gh = at(a.gh0, 0, 0);
    T *total = of(a.g_states, s, p), *wide = scratch_of<T>(Scratch::ConvInput, batch * h);
    for (int64_t i = 0; i < n * p; ++i) total[i] = g_output ? gh[i] + g_output[i] : gh[i];
    if (!expand.packed) expand.multiply_whole(total, n, wide, false);
    expand.each_panel(n, [&](int64_t from, int64_t count) {
      if (expand.packed) expand.multiply(total, n, from, count, wide + from, h, false);
      for (int64_t i = 0; i < n; ++i) slopes(s, i, from, count, wide + i * h + from, nullptr);
    });
  }

  // A step's product gives the slopes of its state, which the step before begins with.
  void backward() const {
    Weights<T> w = gates_back(), expand = projection_back();
    w.pack(a.starts[a.steps], Scratch::ConvWeight);
    if (a.w_hr) expand.pack(a.starts[a.steps], Scratch::Columns);
    T* gh = at(a.gh0, 0, 0);
    copy(at(a.g_last, 0, 0), batch * a.states, gh);
    if constexpr (kHasCell) copy(at(a.g_last_cell, 0, 0), batch * h, at(a.gc0, 0, 0));
    for (int64_t s = a.steps; s >= 0; --s) {
      const T* sums = s < a.steps ? of(a.g_sums, s, kGates * h) : nullptr;
      const T* g_output = s > 0 ? of(a.g_output, s - 1, a.states) : nullptr;
      if (sums && !w.packed) w.multiply_whole(sums, rows(s), gh, kApart);
      w.each_panel(batch, [&](int64_t from, int64_t count) {
        if (sums && w.packed) w.multiply(sums, rows(s), from, count, gh + from, a.states, kApart);
        if (a.w_hr || s == 0) return;
        for (int64_t n = 0; n < rows(s - 1); ++n) {
          slopes(s - 1, n, from, count, gh + n * h + from,
                 g_output ? g_output + n * h + from : nullptr);
        }
      });
      if (a.w_hr && s > 0) slopes_projected(s - 1, expand);
    }
  }
};

// f(Layer) for the type and the cell that the arguments name.
template <class F>
void with_layer(const RecurrentArgs& a, const F& f) {
  with_float_type(a.dtype, [&](auto zero) {
    using T = ComputeOf<decltype(zero)>;
    switch (a.cell) {
      case RecurrentCell::Lstm:
        return f(Layer<T, LstmCell<T>>{a});
      case RecurrentCell::Gru:
        return f(Layer<T, GruCell<T>>{a});
      case RecurrentCell::Tanh:
        return f(Layer<T, TanhCell<T>>{a});
      default:
        return f(Layer<T, ReluCell<T>>{a});
    }
  });
}

}  // namespace

void recurrent_forward(const RecurrentArgs& a) {
  with_layer(a, [](const auto& layer) { layer.forward(); });
}
void recurrent_backward(const RecurrentArgs& a) {
  with_layer(a, [](const auto& layer) { layer.backward(); });
}

}  // namespace flambeau::FL_ISA
