// Convolution of images whose rows fill vectors badly: the pixels under each tap, of several images
// side by side, are packed as the columns of a matrix product.
#include "flambeau/kernels/cpu/conv_task.h"
#include "flambeau/kernels/cpu/gemm_product.h"

namespace flambeau::FL_ISA {
namespace {

using namespace tile;

// Columns that are packed at once.
template <class T>
inline constexpr int64_t kBlock = 16 * kColumns<T>;

// A vector's worth of pixels that are neighbours on the lattice and in a panel.
struct Run {
  int64_t from, to;
};

// How pixels map to columns: `images` of them side by side, in panels of kColumns.
template <class T>
struct Layout {
  int64_t pixels;   // of one image
  int64_t images;   // that share panels
  int64_t lattice;  // elements from one image's chunk to the next

  Layout(const Plan& plan, int64_t batch, int64_t lattice)
      : pixels(plan.axis[0].outs * plan.axis[1].outs * plan.axis[2].outs),
        // At least a few panels, lest weights be read too often; and a few units for the threads.
        images(most(1, least(least(batch, kBlock<T> / pixels),
                             most(ceil_div(4 * kColumns<T>, pixels), ceil_div(batch, 4))))),
        lattice(lattice) {}
};

// Runs of the columns [begin, end) of one panel. A vector that is stored whole spills into columns
// of later runs, or behind the panel, where there is room.
template <class T>
int64_t find_runs(const Plan& plan, const Layout<T>& layout, int64_t begin, int64_t end,
                  Run* runs) {
  const Axis &h = plan.axis[1], &w = plan.axis[2];
  int64_t count = 0;
  for (int64_t column = begin; column < end;) {
    const int64_t image = column / layout.pixels, pixel = column % layout.pixels;
    const int64_t k = pixel % w.outs, j = pixel / w.outs % h.outs, i = pixel / w.outs / h.outs;
    runs[count++] = {image * layout.lattice + (i * h.extent + j) * w.extent + k, column - begin};
    column += least(kLanes<T>, w.outs - k);
  }
  // Unused columns get numbers too: what happens to lie there could be slow to multiply.
  for (int64_t to = end - begin; to < kColumns<T>; to += kLanes<T>) runs[count++] = {0, to};
  return count;
}

template <class T>
void pack_columns(const T* lattice, const int64_t* offsets, int64_t k, const Run* runs,
                  int64_t count, T* to) {
  for (int64_t p = 0; p < k; p++, to += kColumns<T>) {
    const T* from = lattice + offsets[p];
    for (int64_t r = 0; r < count; r++) store(to + runs[r].to, load(from + runs[r].from));
  }
}

template <class S, class T>
struct Patches {
  const Task<S>& task;
  const Rows<T>& weights;
  const T* bias;
  Plan plan;
  bool in_place;
  Layout<T> layout;

  Patches(const Task<S>& task, const Rows<T>& weights, const T* bias)
      : task(task),
        weights(weights),
        bias(bias),
        plan(task.plan),
        in_place(task.roomy && lattice_is_image<S, T>(plan, task.x_strides)),
        layout(plan, task.batch, in_place ? task.x_strides.image : plan.chunk * plan.plane) {
    plan.lay_rows_out();
  }

  // Where sums go: one image straight into its planes if they are as dense as the sums.
  bool straight() const {
    bool dense = sizeof(S) == sizeof(T) && layout.images == 1 && task.y_strides.axis[2] == 1 &&
                 task.y_strides.channel == plan.out_plane;
    for (const Axis& a : plan.axis) dense = dense && a.out_step == 1;
    return dense;
  }

  void fill(const S* x, int64_t images, int64_t c0, int64_t channels, T* lattice) const {
    const int64_t together = task.x_strides.channel == 1 ? 2 * kLanes<T> : 1;
    const int64_t parts = ceil_div(channels, together);
    parallel_for(images * parts, most(1, 32768 / most(1, plan.plane * together)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t item = begin; item < end; item++) {
                     const int64_t image = item / parts, c = item % parts * together;
                     fill_lattice(
                         plan, x + image * task.x_strides.image + (c0 + c) * task.x_strides.channel,
                         task.x_strides, least(together, channels - c),
                         lattice + image * layout.lattice + c * plan.plane);
                   }
                 });
  }

  // All rows by columns [j, j + columns) of sums, over one chunk of channels.
  template <A kA>
  void multiply(const T* lattice, int64_t group, int64_t c0, int64_t k, const Epilogue<T>& end,
                T* sums, int64_t sums_row, int64_t j, int64_t columns) const {
    const int64_t panels = ceil_div(columns, kColumns<T>), step = k * kColumns<T> + kLanes<T>;
    T* columns_of_k = static_cast<T*>(scratch(Scratch::GemmB, sizeof(T) * size_t(panels * step)));
    Run* runs =
        static_cast<Run*>(scratch(Scratch::GemmA, sizeof(Run) * size_t(panels * 2 * kColumns<T>)));
    parallel_for(panels, most(1, 32768 / step), [&](int64_t begin, int64_t stop) {
      for (int64_t p = begin; p < stop; p++) {
        Run* own = runs + p * 2 * kColumns<T>;
        const int64_t at = j + p * kColumns<T>;
        const int64_t count =
            find_runs(plan, layout, at, least(at + kColumns<T>, j + columns), own);
        pack_columns(lattice, plan.offsets, k, own, count, columns_of_k + p * step);
      }
    });
    parallel_for(weights.panels, grain_of(weights.height * columns * k),
                 [&](int64_t begin, int64_t stop) {
                   Tile<T> t;
                   t.k = k, t.c_row = sums_row;
                   t.end = end;
                   for (int64_t panel = begin; panel < stop; panel++) {
                     const int64_t row = panel * weights.height;
                     weights.set(t, group, panel, c0 * plan.taps);
                     if (end.row_bias) t.end.row_bias = end.row_bias + row;
                     for (int64_t p = 0; p < panels; p++) {
                       t.b = columns_of_k + p * step;
                       t.c = sums + row * sums_row + j + p * kColumns<T>;
                       t.columns = least(kColumns<T>, columns - p * kColumns<T>);
                       run<kA, B::Packed>(t, least(weights.height, plan.rows - row));
                     }
                   }
                 });
  }

  void run_unit(int64_t first, int64_t group) const {
    const int64_t images = least(layout.images, task.batch - first);
    const int64_t columns = images * layout.pixels;
    const S* x =
        task.x + first * task.x_strides.image + group * plan.channels * task.x_strides.channel;
    S* y = task.y + first * task.y_strides.image + group * plan.rows * task.y_strides.channel;
    const bool direct = straight();
    T* sums = direct ? reinterpret_cast<T*>(y)
                     : static_cast<T*>(
                           scratch(Scratch::ConvOutput, sizeof(T) * size_t(plan.rows * columns)));
    // Slack: vectors read past the last plane.
    const size_t room = in_place ? 0 : size_t(images * layout.lattice + 2 * kLanes<T>);
    T* copy = static_cast<T*>(scratch(Scratch::ConvInput, sizeof(T) * room));
    for (int64_t c0 = 0; c0 < plan.channels; c0 += plan.chunk) {
      const int64_t channels = least(plan.chunk, plan.channels - c0);
      const T* lattice = in_place ? reinterpret_cast<const T*>(x) + c0 * plan.plane : copy;
      if (!in_place) fill(x, images, c0, channels, copy);
      const bool last = c0 + channels == plan.channels;
      Epilogue<T> end{1, T(c0 > 0), nullptr, bias && last ? bias + group * plan.rows : nullptr};
      end.settle();
      for (int64_t j = 0; j < columns; j += kBlock<T>) {
        const int64_t k = channels * plan.taps, width = least(kBlock<T>, columns - j);
        weights.packed ? multiply<A::Packed>(lattice, group, c0, k, end, sums, columns, j, width)
                       : multiply<A::Strided>(lattice, group, c0, k, end, sums, columns, j, width);
      }
    }
    if (!direct) place(sums, images, y);
  }

  void place(const T* sums, int64_t images, S* y) const {
    const int64_t together = task.y_strides.channel == 1 ? 2 * kLanes<T> : 1;
    const int64_t parts = ceil_div(plan.rows, together);
    parallel_for(images * parts, most(1, 32768 / (layout.pixels * together)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t item = begin; item < end; item++) {
                     const int64_t image = item / parts, r = item % parts * together;
                     place_output(plan, sums + image * layout.pixels, images * layout.pixels,
                                  y + image * task.y_strides.image, task.y_strides, r,
                                  least(plan.rows, r + together));
                   }
                 });
  }

  void run_all() const {
    const int64_t parts = ceil_div(task.batch, layout.images), units = parts * task.groups;
    // Each unit is one thread's, or all threads share each: no result depends on it.
    parallel_for(units, units < num_threads() ? units : 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; unit++)
        run_unit(unit % parts * layout.images, unit / parts);
    });
  }
};

// Which part of the vectors' work is wanted: in tiles of segments, and in packed columns. Packing a
// panel takes a cycle or two for each run and tap, multiplying it one for each row.
double use_of_segments(const Plan& plan, int64_t pixels, int lanes) {
  return double(pixels) / double(plan.segments * lanes);
}
double use_of_columns(const Plan& plan, int64_t columns, int lanes) {
  const int64_t width = plan.axis[2].outs, panel = kVectors * lanes;
  const double runs = double(panel * ceil_div(width, lanes)) / double(width) + 1;
  const double packing = (1.5 * runs + 3) / double(plan.rows);
  return double(columns) / double(ceil_div(columns, panel) * panel) / (1 + packing);
}

template <class S, class T>
bool run_patches(const Task<S>& task, const Rows<T>& weights, const T* bias) {
  const Patches<S, T> patches(task, weights, bias);
  const int64_t pixels = patches.layout.pixels;
  const double columns = use_of_columns(task.plan, patches.layout.images * pixels, kLanes<T>);
  if (columns < 1.05 * use_of_segments(task.plan, pixels, kLanes<T>)) return false;
  patches.run_all();
  return true;
}

}  // namespace

bool run_by_patches(const Task<float>& t, const Rows<float>& p, const float* bias) {
  return run_patches(t, p, bias);
}
bool run_by_patches(const Task<double>& t, const Rows<double>& p, const double* bias) {
  return run_patches(t, p, bias);
}
bool run_by_patches(const Task<Half>& t, const Rows<float>& p, const float* bias) {
  return run_patches(t, p, bias);
}
bool run_by_patches(const Task<BFloat16>& t, const Rows<float>& p, const float* bias) {
  return run_patches(t, p, bias);
}

}  // namespace flambeau::FL_ISA
