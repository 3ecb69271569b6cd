// The steps of a recurrent layer. Threads share the units, a panel of columns each: the product of
// a panel, whose weights are laid out once for all steps, and what happens to its units after it.
#include "flambeau/kernels/cpu/recurrent.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/rows.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/math_exp.h"

namespace flambeau::FL_ISA {
namespace {

// Units of one panel.
template <class T>
inline constexpr int64_t kUnits = tile::kColumns<T>;

// One step's rows of everything.
template <class T>
struct Step {
  int64_t hidden;
  const T *x, *bias, *c_before, *gates, *cells, *g_cells, *g_output;
  T *gates_out, *cells_out, *output;
  T *gh, *gc, *gx;

  // Units [from, from + count) of sample n of the batch: gates from sums, a panel for each gate,
  // then cell and output.
  [[gnu::flatten]] void activate(int64_t n, int64_t from, int64_t count, const T* sums) const {
    const int64_t h = hidden, at = n * h + from;
    const T *in = x + n * 4 * h + from, *b = bias ? bias + from : nullptr;
    T* gate = gates_out + n * 4 * h + from;
    each_register<T>(count, [=, this](int64_t k, auto part) {
      auto sum = [&](int64_t g) {
        Vec<T> s = load(in + g * h + k, part) + load(sums + g * kUnits<T> + k, part);
        return b ? s + load(b + g * h + k, part) : s;
      };
      const Vec<T> i = sigmoid(sum(0)), f = sigmoid(sum(1)), fresh = tanh(sum(2)),
                   o = sigmoid(sum(3));
      const Vec<T> c = fma(f, load(c_before + at + k, part), i * fresh);
      store(gate + k, i, part), store(gate + h + k, f, part);
      store(gate + 2 * h + k, fresh, part), store(gate + 3 * h + k, o, part);
      store(cells_out + at + k, c, part);
      store(output + at + k, o * tanh(c), part);
    });
  }

  // The slopes of the sums and of the cell before, from those of output (gh) and cell (gc).
  [[gnu::flatten]] void slopes(int64_t n, int64_t from, int64_t count) const {
    const int64_t h = hidden;
    const T* gate = gates + n * 4 * h + from;
    T* to = gx + n * 4 * h + from;
    each_register<T>(count, [=, this](int64_t k, auto part) {
      const int64_t at = n * h + from + k;
      const Vec<T> i = load(gate + k, part), f = load(gate + h + k, part),
                   fresh = load(gate + 2 * h + k, part), o = load(gate + 3 * h + k, part);
      const Vec<T> shown = tanh(load(cells + at, part));
      Vec<T> g = load(gh + at, part);
      if (g_output) g = g + load(g_output + at, part);
      Vec<T> c = fma(g * o, 1 - shown * shown, load(gc + at, part));
      if (g_cells) c = c + load(g_cells + at, part);
      store(to + k, c * fresh * i * (1 - i), part);
      store(to + h + k, c * load(c_before + at, part) * f * (1 - f), part);
      store(to + 2 * h + k, c * i * (1 - fresh * fresh), part);
      store(to + 3 * h + k, g * shown * o * (1 - o), part);
      store(gc + at, c * f, part);
    });
  }
};

template <class T>
T* offset(const void* p, int64_t count) {
  return p ? static_cast<T*>(const_cast<void*>(p)) + count : nullptr;
}

template <class T>
struct Layer {
  const LstmArgs& a;
  int64_t h = a.hidden, rows = a.batch * h;  // elements of a state

  // The s-th step that is taken.
  int64_t time(int64_t s) const { return a.reverse ? a.steps - 1 - s : s; }
  T* before(void* states, const void* first, int64_t s) const {
    return s == 0 ? offset<T>(first, 0) : offset<T>(states, time(s - 1) * rows);
  }
  // f(from, count) for the units of every panel.
  template <class F>
  void each_panel(const F& f) const {
    const int64_t grain = grain_of(rows * 4 * kUnits<T>);
    parallel_for(ceil_div(h, kUnits<T>), grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) f(p * kUnits<T>, least(kUnits<T>, h - p * kUnits<T>));
    });
  }
  // The weights in panels: of w^T unit by unit, its four gates side by side, or of w.
  T* pack(bool transposed) const {
    const int64_t panels = ceil_div(h, kUnits<T>);
    T* packed = static_cast<T*>(
        scratch(Scratch::ConvWeight, sizeof(T) * size_t(panels * kUnits<T> * 4 * h)));
    each_panel([=, this](int64_t from, int64_t count) {
      const T* w = static_cast<const T*>(a.w);
      T* to = packed + from * 4 * h;
      if (!transposed) return tile::pack_b(w + from, h, 1, count, 4 * h, to);
      for (int64_t g = 0; g < 4; ++g, w += h * h, to += kUnits<T> * h)
        tile::pack_b(w + from * h, 1, h, count, h, to);
    });
    return packed;
  }
  // The product of all rows of `in`, k long, by one panel.
  void multiply(const T* in, int64_t k, const T* panel, int64_t columns, T* out,
                int64_t out_row) const {
    tile::Tile<T> t{};
    t.a_row = k, t.a_col = 1, t.k = k, t.b = panel, t.c_row = out_row, t.columns = columns;
    // As even as possible: a tile of two rows takes nearly the time of four.
    const int64_t height = ceil_div(a.batch, ceil_div(a.batch, tile::kRows));
    for (int64_t i = 0; i < a.batch; i += height) {
      t.a = in + i * k, t.c = out + i * out_row;
      tile::run<tile::A::Strided, tile::B::Packed>(t, least(height, a.batch - i));
    }
  }

  void forward() const {
    const T* packed = pack(true);
    for (int64_t s = 0; s < a.steps; ++s) {
      const int64_t t = time(s);
      const T* state = before(a.output, a.h0, s);
      Step<T> step{};
      step.hidden = h;
      step.x = offset<T>(a.x, 4 * t * rows), step.bias = offset<T>(a.bias, 0);
      step.c_before = before(a.cells, a.c0, s);
      step.gates_out = offset<T>(a.gates, 4 * t * rows);
      step.cells_out = offset<T>(a.cells, t * rows), step.output = offset<T>(a.output, t * rows);
      each_panel([&](int64_t from, int64_t count) {
        constexpr int64_t kRow = 4 * kUnits<T>;
        T* sums = static_cast<T*>(scratch(Scratch::GemmC, sizeof(T) * size_t(a.batch * kRow)));
        for (int64_t g = 0; g < 4; ++g)
          multiply(state, h, packed + (4 * from + g * kUnits<T>)*h, count, sums + g * kUnits<T>,
                   kRow);
        for (int64_t n = 0; n < a.batch; ++n) step.activate(n, from, count, sums + n * kRow);
      });
    }
  }

  Step<T> step_back(int64_t s) const {
    const int64_t t = time(s);
    Step<T> step{};
    step.hidden = h;
    step.gates = offset<T>(a.gates, 4 * t * rows), step.cells = offset<T>(a.cells, t * rows);
    step.c_before = before(a.cells, a.c0, s), step.g_cells = offset<T>(a.g_cells, t * rows);
    step.g_output = offset<T>(a.g_output, t * rows);
    step.gh = static_cast<T*>(a.gh0), step.gc = static_cast<T*>(a.gc0);
    step.gx = offset<T>(a.gx, 4 * t * rows);
    return step;
  }

  // A step's product gives the slopes of its state, which the step before begins with.
  void backward() const {
    // Few rows read the weights where they lie as fast as panels.
    const T* packed = a.batch < 4 ? nullptr : pack(false);
    T *gh = static_cast<T*>(a.gh0), *gc = static_cast<T*>(a.gc0);
    for (int64_t i = 0; i < rows; ++i) gh[i] = gc[i] = 0;
    for (int64_t s = a.steps; s >= 0; --s) {
      const Step<T> step = step_back(s > 0 ? s - 1 : 0);
      const T* slopes = s < a.steps ? offset<T>(a.gx, 4 * time(s) * rows) : nullptr;
      if (slopes && !packed) {
        gemm({sizeof(T) == 4 ? DType::Float32 : DType::Float64, a.batch, h, 4 * h, slopes, 4 * h, 1,
              a.w, h, 1, gh, h});
      }
      each_panel([&](int64_t from, int64_t count) {
        if (slopes && packed) multiply(slopes, 4 * h, packed + 4 * from * h, count, gh + from, h);
        for (int64_t n = 0; s > 0 && n < a.batch; ++n) step.slopes(n, from, count);
      });
    }
  }
};

}  // namespace

void lstm_forward(const LstmArgs& a) {
  a.dtype == DType::Float32 ? Layer<float>{a}.forward() : Layer<double>{a}.forward();
}
void lstm_backward(const LstmArgs& a) {
  a.dtype == DType::Float32 ? Layer<float>{a}.backward() : Layer<double>{a}.backward();
}

}  // namespace flambeau::FL_ISA
