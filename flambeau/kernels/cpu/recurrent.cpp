// The steps of a recurrent layer: one matrix product each, whose weights are laid out once for all
// steps, and one pass over the gates.
#include "flambeau/kernels/cpu/recurrent.h"

#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/conv_image.h"
#include "flambeau/kernels/cpu/gemm.h"
#include "flambeau/kernels/cpu/rows.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/math_exp.h"

namespace flambeau::FL_ISA {
namespace {

// One step's rows of everything.
template <class T>
struct Step {
  int64_t hidden;
  const T *x, *bias, *c_before, *gates, *cells, *g_cells;
  T *sums, *gates_out, *cells_out, *output;
  T *gh, *gc, *gx;

  // Sample n of the batch: gates from sums, then cell and output.
  [[gnu::flatten]] void activate(int64_t n) const {
    const int64_t h = hidden;
    const T *in = x + n * 4 * h, *add = sums + n * 4 * h, *b = bias;
    T* gate = gates_out + n * 4 * h;
    each_register<T>(h, [=, this](int64_t k, auto part) {
      auto sum = [&](int64_t g) {
        Vec<T> s = load(in + g * h + k, part) + load(add + g * h + k, part);
        return b ? s + load(b + g * h + k, part) : s;
      };
      const Vec<T> i = sigmoid(sum(0)), f = sigmoid(sum(1)), fresh = tanh(sum(2)),
                   o = sigmoid(sum(3));
      const Vec<T> c = fma(f, load(c_before + n * h + k, part), i * fresh);
      store(gate + k, i, part), store(gate + h + k, f, part);
      store(gate + 2 * h + k, fresh, part), store(gate + 3 * h + k, o, part);
      store(cells_out + n * h + k, c, part);
      store(output + n * h + k, o * tanh(c), part);
    });
  }

  // The slopes of the sums and of the cell before, from those of output (gh) and cell (gc).
  [[gnu::flatten]] void slopes(int64_t n) const {
    const int64_t h = hidden;
    const T* gate = gates + n * 4 * h;
    T* to = gx + n * 4 * h;
    each_register<T>(h, [=, this](int64_t k, auto part) {
      const int64_t at = n * h + k;
      const Vec<T> i = load(gate + k, part), f = load(gate + h + k, part),
                   fresh = load(gate + 2 * h + k, part), o = load(gate + 3 * h + k, part);
      const Vec<T> shown = tanh(load(cells + at, part)), g = load(gh + at, part);
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
  int64_t rows = a.batch * a.hidden;  // elements of a state

  // The s-th step that is taken.
  int64_t time(int64_t s) const { return a.reverse ? a.steps - 1 - s : s; }
  T* before(void* states, const void* first, int64_t s) const {
    return s == 0 ? offset<T>(first, 0) : offset<T>(states, time(s - 1) * rows);
  }
  template <class F>
  void each_sample(const F& f) const {
    parallel_for(a.batch, most(1, 2048 / a.hidden), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) f(n);
    });
  }
  GemmArgs product(int64_t n, int64_t k) const {
    return {sizeof(T) == 4 ? DType::Float32 : DType::Float64, a.batch, n, k};
  }

  void forward() const {
    const int64_t h = a.hidden;
    T* turned = static_cast<T*>(
        scratch(Scratch::ConvWeight, sizeof(T) * size_t(4 * h * h + 4 * rows) + size_t(kVecBytes)));
    T* sums = turned + 4 * h * h;
    parallel_for(ceil_div(4 * h, 64), most(1, 256 / h), [&](int64_t begin, int64_t end) {
      const int64_t from = begin * 64, count = least(4 * h, end * 64) - from;
      turn(static_cast<const T*>(a.w) + from * h, h, count, h, turned + from, 4 * h);
    });
    for (int64_t s = 0; s < a.steps; ++s) {
      const int64_t t = time(s);
      GemmArgs g = product(4 * h, h);
      g.a = before(a.output, a.h0, s), g.a_row = h;
      g.b = turned, g.b_row = 4 * h;
      g.c = sums, g.c_row = 4 * h;
      gemm(g);
      Step<T> step{};
      step.hidden = h;
      step.x = offset<T>(a.x, 4 * t * rows), step.bias = offset<T>(a.bias, 0);
      step.sums = sums, step.c_before = before(a.cells, a.c0, s);
      step.gates_out = offset<T>(a.gates, 4 * t * rows);
      step.cells_out = offset<T>(a.cells, t * rows), step.output = offset<T>(a.output, t * rows);
      each_sample([&](int64_t n) { step.activate(n); });
    }
  }

  void backward() const {
    const int64_t h = a.hidden;
    T *gh = static_cast<T*>(a.gh0), *gc = static_cast<T*>(a.gc0);
    for (int64_t i = 0; i < rows; ++i) gh[i] = gc[i] = 0;
    for (int64_t s = a.steps - 1; s >= 0; --s) {
      const int64_t t = time(s);
      if (const T* g = offset<T>(a.g_output, t * rows)) {
        for (int64_t i = 0; i < rows; ++i) gh[i] += g[i];
      }
      Step<T> step{};
      step.hidden = h;
      step.gates = offset<T>(a.gates, 4 * t * rows), step.cells = offset<T>(a.cells, t * rows);
      step.c_before = before(a.cells, a.c0, s), step.g_cells = offset<T>(a.g_cells, t * rows);
      step.gh = gh, step.gc = gc, step.gx = offset<T>(a.gx, 4 * t * rows);
      each_sample([&](int64_t n) { step.slopes(n); });
      GemmArgs g = product(h, 4 * h);
      g.a = step.gx, g.a_row = 4 * h;
      g.b = a.w, g.b_row = h;
      g.c = gh, g.c_row = h;
      gemm(g);
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
