// Fourier transforms along one dim. Short ones run side by side, one per lane; long and single ones
// as a grid whose columns and rows fill the lanes. Every lane's arithmetic is the same wherever it
// runs, so that results do not depend on the threads.
#include "flambeau/kernels/cpu/fft.h"

#include "flambeau/core/allocator.h"
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/fft_lines.h"
#include "flambeau/kernels/cpu/scratch.h"

namespace flambeau::FL_ISA {
namespace fft {
namespace {

constexpr int64_t kChunkPoints = 1 << 13;
constexpr int64_t kAlone = 1 << 15;     // transforms that threads share where there are few
constexpr int64_t kVeryLong = 1 << 19;  // and always, since each needs much room
constexpr int64_t kTurnedBytes = 1024;  // of parts of contiguous lines side by side

// Work memory: the thread's own, or for long transforms from the allocator.
template <class T>
class Room {
 public:
  Room(Scratch slot, int64_t numbers) : bytes_(size_t(numbers) * sizeof(T)) {
    owned_ = bytes_ > (size_t(1) << 22);
    data_ = static_cast<T*>(owned_ ? allocator(DeviceType::CPU).allocate(bytes_)
                                   : scratch(slot, bytes_));
  }
  Room(const Room&) = delete;
  ~Room() {
    if (owned_) allocator(DeviceType::CPU).release(data_, bytes_);
  }
  T* data() const { return data_; }

 private:
  size_t bytes_;
  bool owned_;
  T* data_;
};

// ---- the batch ----

// Lines in order, the last batch dim innermost; offsets in numbers.
struct Walk {
  const FftArgs& args;
  int in_parts, out_parts;
  int64_t in = 0, out = 0;
  int64_t index[kMaxBatchDims];

  Walk(const FftArgs& a, int64_t at) : args(a) {
    in_parts = fft_real_input(a.kind) ? 1 : 2;
    out_parts = a.kind == FftKind::ToReal ? 1 : 2;
    for (int d = a.ndim - 1; d >= 0; --d) {
      index[d] = d ? at % a.sizes[d] : at;
      at = d ? at / a.sizes[d] : 0;
      in += index[d] * a.in_strides[d] * in_parts;
      out += index[d] * a.out_strides[d] * out_parts;
    }
  }
  // How many lines from here on follow each other at one stride.
  int64_t straight() const {
    return args.ndim ? args.sizes[args.ndim - 1] - index[args.ndim - 1] : 1;
  }
  int64_t in_stride() const { return args.ndim ? args.in_strides[args.ndim - 1] * in_parts : 0; }
  int64_t out_stride() const { return args.ndim ? args.out_strides[args.ndim - 1] * out_parts : 0; }
  // At most straight() steps.
  void advance(int64_t steps) {
    for (int d = args.ndim - 1; d >= 0; --d, steps = 1) {
      in += steps * args.in_strides[d] * in_parts, out += steps * args.out_strides[d] * out_parts;
      if ((index[d] += steps) < args.sizes[d] || d == 0) return;
      in -= index[d] * args.in_strides[d] * in_parts;
      out -= index[d] * args.out_strides[d] * out_parts;
      index[d] = 0;
    }
  }
};

int64_t batch_of(const FftArgs& a, int ndim) {
  int64_t count = 1;
  for (int d = 0; d < ndim; ++d) count *= a.sizes[d];
  return count;
}

// Whether neighbours of the innermost batch dim are neighbours in memory.
bool side_by_side(const FftArgs& a) {
  return a.ndim > 0 && a.in_strides[a.ndim - 1] == 1 && a.out_strides[a.ndim - 1] == 1 &&
         a.sizes[a.ndim - 1] > 1;
}

// The factors of what is read and written: a transform with plus in the exponent is the conjugate
// of that of conjugates.
template <class T>
struct Signs {
  Factors<T> in, out;
  explicit Signs(const FftArgs& a) {
    const T scale = T(a.scale), sign = a.forward ? T(1) : T(-1);
    in = {1, fft_real_input(a.kind) ? T(1) : sign};
    out = {scale, a.kind == FftKind::ToReal ? scale : sign * scale};
    // The fold leaves a factor of two.
    if (fft_real_input(a.kind) && fft_halves(a.kind, a.n)) out = {out.re / 2, out.im / 2};
  }
};

// ---- one transform per lane ----

template <class T>
struct Group {
  Lines<T, const T> in;
  Lines<T, T> out;
};

template <class T>
void mirror_lanes(int64_t n, T* x) {
  for (int64_t k = 1; 2 * k < n; ++k)
    conj(Point<T>::load(x + k * kPitch<T>)).store(x + (n - k) * kPitch<T>);
}

template <class T>
void negate_odd(int64_t points, T* x) {
  for (int64_t i = 0; i < points; ++i)
    conj(Point<T>::load(x + i * kPitch<T>)).store(x + i * kPitch<T>);
}

// Fills x with what the complex transform takes.
template <class T>
void load_group(const FftArgs& a, const Group<T>& g, T* x, T* y) {
  const bool halves = fft_halves(a.kind, a.n);
  if (fft_real_input(a.kind)) {
    load_lines(g.in, a.n, halves ? x : y);
    for (int64_t i = 0; !halves && i < a.n; ++i)
      Point<T>{Vec<T>::load(y + i * kLanes<T>), Vec<T>(0)}.store(x + i * kPitch<T>);
    return;
  }
  const int64_t count = a.kind == FftKind::ToReal ? a.n / 2 + 1 : a.n;
  load_lines(g.in, 2 * count, x);
  if (!a.forward) negate_odd(count, x);
  if (a.kind != FftKind::ToReal) return;
  if (halves) return fold_lanes<true>(a.plan->fold, a.plan->n, x);
  Vec<T>(0).store(x + kLanes<T>);
  mirror_lanes(a.n, x);
}

template <class T>
void store_group(const FftArgs& a, const Group<T>& g, const Signs<T>& signs, T* x) {
  const bool halves = fft_halves(a.kind, a.n);
  if (a.kind == FftKind::ToReal) {
    for (int64_t i = 0; !halves && i < a.n; ++i)
      Vec<T>::load(x + i * kPitch<T>).store(x + i * kLanes<T>);
    return store_lines(g.out, a.n, x, signs.out.re, signs.out.re);
  }
  if (halves) fold_lanes<false>(a.plan->fold, a.plan->n, x);
  if (halves && a.kind == FftKind::FromRealMirrored) mirror_lanes(a.n, x);
  const int64_t count = a.kind == FftKind::FromReal ? a.n / 2 + 1 : a.n;
  store_lines(g.out, 2 * count, x, signs.out.re, signs.out.im);
}

template <class T>
void run_group(const FftArgs& a, const Group<T>& g, const Signs<T>& signs, T* x, T* y) {
  const FftPasses& passes = a.plan->whole;
  // Columns of complex numbers are read by the first pass and written by the last.
  const bool direct = a.kind == FftKind::Complex && passes.count > 1;
  const bool from_memory = direct && meets_memory(passes.pass[0]) && g.in.adjacent &&
                           g.in.step != 1 && g.in.live == kLanes<T>;
  const bool to_memory = direct && meets_memory(passes.pass[passes.count - 1]) && g.out.adjacent &&
                         g.out.step != 1 && g.out.live == kLanes<T>;
  if (from_memory) {
    run<false, T>(passes.pass[0], FromColumns<T>{g.in.at[0], 2 * g.in.step, signs.in.im},
                  ToBuffer<T>{x});
  } else {
    load_group(a, g, x, y);
  }
  T* done = run_inner(passes, from_memory, to_memory, x, y);
  if (!to_memory) return store_group(a, g, signs, done);
  run<true, T>(passes.pass[passes.count - 1], FromBuffer<T>{done},
               ToColumns<T>{g.out.at[0], 2 * g.out.step, signs.out.re, signs.out.im});
}

// The next `live` lines of the walk.
template <class T>
void next_group(const FftArgs& a, Walk& walk, int64_t live, Group<T>& g) {
  g.in.live = g.out.live = live;
  for (int64_t l = 0, end; l < live; l = end) {
    const int64_t in = walk.in_stride(), out = walk.out_stride(), first = l;
    end = least(live, l + walk.straight());
    for (; l < end; ++l) {
      g.in.at[l] = static_cast<const T*>(a.in) + walk.in + (l - first) * in;
      g.out.at[l] = static_cast<T*>(a.out) + walk.out + (l - first) * out;
    }
    g.in.adjacent = end - first == live && in == g.in.parts;
    g.out.adjacent = end - first == live && out == g.out.parts;
    walk.advance(end - first);
  }
  for (int64_t l = live; l < kLanes<T>; ++l) g.in.at[l] = g.in.at[0], g.out.at[l] = g.out.at[0];
}

template <class T>
void run_side_by_side(const FftArgs& a) {
  constexpr int64_t kLane = kLanes<T>;
  const int64_t points = a.plan->n, batch = batch_of(a, a.ndim);
  // Groups end with a row of neighbours where that is long.
  const bool cut = side_by_side(a) && a.sizes[a.ndim - 1] >= kLane / 2;
  const int64_t run = cut ? a.sizes[a.ndim - 1] : batch, per_run = ceil_div(run, kLane);
  const Signs<T> signs(a);
  const int64_t room = (2 * most(a.n, points) + 2 + kLane) * kLane;
  const int64_t grain = most(1, kChunkPoints / (points * kLane));
  parallel_for(batch / run * per_run, grain, [&](int64_t begin, int64_t end) {
    T* x = static_cast<T*>(scratch(Scratch::FftLanes, size_t(2 * room) * sizeof(T)));
    Walk walk(a, begin / per_run * run + begin % per_run * kLane);
    Group<T> g;
    g.in.step = a.in_step, g.in.parts = walk.in_parts;
    g.out.step = a.out_step, g.out.parts = walk.out_parts;
    for (int64_t i = begin; i < end; ++i) {
      next_group(a, walk, least(kLane, run - i % per_run * kLane), g);
      run_group(a, g, signs, x, x + room);
    }
  });
}

// ---- one transform as a grid ----

template <class T>
struct Grid {
  const FftPlan& plan;
  int64_t rows, columns, pitch;  // numbers from row to row

  explicit Grid(const FftPlan& p) : plan(p), rows(p.down.n), columns(p.along.n) {
    pitch = 2 * ceil_div(columns, kLanes<T>) * kLanes<T>;
    // Rows a power of two apart would compete for the same lines of the cache.
    if (pitch * sizeof(T) % 2048 == 0) pitch += kPitch<T>;
  }
  int64_t numbers() const { return rows * pitch; }
};

template <class T>
int64_t lane_room(const FftPasses& passes) {
  return (passes.n * 2 + kLanes<T>)*kLanes<T>;
}

// Transforms a group of columns of `from` down into the grid.
template <class T>
void go_down(const Grid<T>& grid, int64_t group, const T* from, T sign, T* to, T* x, T* y) {
  constexpr int64_t kLane = kLanes<T>;
  const FftPasses& passes = grid.plan.down;
  const FftRoots& roots = grid.plan.grid;
  const int64_t first = group * kLane, live = least(kLane, grid.columns - first);
  const FromColumns<T> source{from + 2 * first, 2 * grid.columns, sign};
  const T* fine = static_cast<const T*>(roots.fine);
  const T* coarse = static_cast<const T*>(roots.coarse);
  const ToGrid<T> target{
      to + group * kPitch<T>, grid.pitch, fine + group * least(roots.step(), grid.rows) * kPitch<T>,
      coarse ? coarse + group * roots.coarse_count * kPitch<T> : nullptr, roots.bits};
  const bool direct = live == kLane && passes.count > 1 && meets_memory(passes.pass[0]);
  if (direct) {
    run<false, T>(passes.pass[0], source, ToBuffer<T>{x});
  } else {
    for (int64_t i = 0; i < grid.rows; ++i) {
      Point<T> p = load_pairs(source.at + i * source.step, live);
      Point<T>{p.re, p.im * source.sign}.store(x + i * kPitch<T>);
    }
  }
  const T* done = run_inner(passes, direct, 0, x, y);
  for (int64_t i = 0; i < grid.rows; ++i) target.store(i, Point<T>::load(done + i * kPitch<T>));
}

// Transforms a group of the grid's rows along; row k's element j belongs to place k + rows j.
template <class T>
void go_along(const Grid<T>& grid, int64_t group, const T* from, T* to, Factors<T> factors, T* x,
              T* y) {
  constexpr int64_t kLane = kLanes<T>;
  const FftPasses& passes = grid.plan.along;
  const int64_t first = group * kLane, live = least(kLane, grid.rows - first);
  for (int64_t c = 0; c < grid.columns; c += kLane) {
    for (int64_t part = 0; part < kPitch<T>; part += kLane) {
      const T* block = from + first * grid.pitch + 2 * c + part;
      turn_in([&](int l) { return block + (l < live ? l : 0) * grid.pitch; },
              x + c * kPitch<T> + part, kPitch<T>);
    }
  }
  T* target = to + 2 * first;
  const bool direct =
      live == kLane && passes.count > 0 && meets_memory(passes.pass[passes.count - 1]);
  T* done = run_inner(passes, 0, direct, x, y);
  if (direct) {
    const ToColumns<T> columns{target, 2 * grid.rows, factors.re, factors.im};
    return fft::run<true, T>(passes.pass[passes.count - 1], FromBuffer<T>{done}, columns);
  }
  for (int64_t i = 0; i < grid.columns; ++i, target += 2 * grid.rows)
    store_pairs(target, factors.of(Point<T>::load(done + i * kPitch<T>)), live);
}

template <class T>
void run_grid(const FftPlan& plan, const T* in, T sign, T* out, Factors<T> factors) {
  constexpr int64_t kLane = kLanes<T>;
  const Grid<T> grid(plan);
  const Room<T> room(Scratch::FftGrid, grid.numbers());
  T* cells = room.data();
  const int64_t longer =
      most(lane_room<T>(plan.down), lane_room<T>(plan.along) + kLane * kPitch<T>);
  auto groups = [&](int64_t count, int64_t length, const auto& body) {
    parallel_for(ceil_div(count, kLane), most(1, kChunkPoints / (length * kLane)),
                 [&](int64_t begin, int64_t end) {
                   T* x =
                       static_cast<T*>(scratch(Scratch::FftLanes, size_t(2 * longer) * sizeof(T)));
                   for (int64_t g = begin; g < end; ++g) body(g, x, x + longer);
                 });
  };
  groups(grid.columns, grid.rows,
         [&](int64_t g, T* x, T* y) { go_down(grid, g, in, sign, cells, x, y); });
  groups(grid.rows, grid.columns,
         [&](int64_t g, T* x, T* y) { go_along<T>(grid, g, cells, out, factors, x, y); });
}

// to = from * by, elementwise, the imaginary parts of from and to times signs; `to` may be `from`.
template <class T>
void multiply_lines(const T* from, T sign, const T* by, int64_t count, T* to, Factors<T> factors) {
  parallel_for(count, kChunkPoints, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kLanes<T> <= end; i += kLanes<T>) {
      Point<T> x = Factors<T>{1, sign}.of(load_pairs(from + 2 * i));
      store_pairs(to + 2 * i, factors.of(x * load_pairs(by + 2 * i)));
    }
    if (i == end) return;
    Point<T> x = Factors<T>{1, sign}.of(load_pairs(from + 2 * i, end - i));
    store_pairs(to + 2 * i, factors.of(x * load_pairs(by + 2 * i, end - i)), end - i);
  });
}

// Bluestein 1970: x[j] c[j] convolved with the chirp's conjugate, times c[k].
template <class T>
void run_chirp(const FftPlan& plan, const T* in, T sign, T* out, Factors<T> factors) {
  const int64_t n = plan.n, m = plan.padded->n;
  const Room<T> room(Scratch::FftPadded, 2 * m);
  T* x = room.data();
  const T *chirp = static_cast<const T*>(plan.chirp),
          *spectrum = static_cast<const T*>(plan.spectrum);
  multiply_lines<T>(in, sign, chirp, n, x, {1, 1});
  __builtin_memset(x + 2 * n, 0, size_t(2 * (m - n)) * sizeof(T));
  run_grid<T>(*plan.padded, x, 1, x, {1, 1});
  // The way back is the conjugate of the transform of the conjugate.
  multiply_lines<T>(x, 1, spectrum, m, x, {1, -1});
  run_grid<T>(*plan.padded, x, 1, x, {1, 1});
  multiply_lines<T>(x, -1, chirp, n, out, factors);
}

template <class T>
void run_one(const FftPlan& plan, const T* in, T sign, T* out, Factors<T> factors) {
  if (plan.padded) return run_chirp(plan, in, sign, out, factors);
  run_grid(plan, in, sign, out, factors);
}

// ---- lines in memory, one after another ----

template <class T>
void mirror_line(int64_t n, T* x, T sign) {
  for (int64_t k = 1; 2 * k < n; ++k)
    x[2 * (n - k)] = x[2 * k], x[2 * (n - k) + 1] = sign * x[2 * k + 1];
}

// Both lines contiguous; `line` has room for n + 1 complex numbers and may be `in` or `out`.
template <class T>
void run_line(const FftArgs& a, const Signs<T>& signs, const T* in, T* out, T* line) {
  const FftPlan& plan = *a.plan;
  const Factors<T> none{1, 1};
  const int64_t n = a.n, half = n / 2 + 1;
  if (a.kind == FftKind::Complex) return run_one(plan, in, signs.in.im, out, signs.out);
  if (a.kind == FftKind::ToReal && n % 2 == 0) {
    fold_line<true>(plan.fold, plan.n, in, line, signs.in, none);
    return run_one(plan, line, T(1), out, signs.out);
  }
  if (a.kind == FftKind::ToReal) {
    for (int64_t k = 0; k < half; ++k)
      line[2 * k] = in[2 * k], line[2 * k + 1] = k ? in[2 * k + 1] * signs.in.im : 0;
    mirror_line<T>(n, line, -1);
    run_one(plan, line, T(1), line, signs.out);
    for (int64_t i = 0; i < n; ++i) out[i] = line[2 * i];
    return;
  }
  if (n % 2 == 0) {
    run_one(plan, in, T(1), out, none);
    fold_line<false>(plan.fold, plan.n, out, out, none, signs.out);
    if (a.kind == FftKind::FromRealMirrored) mirror_line<T>(n, out, -1);
    return;
  }
  for (int64_t i = n - 1; i >= 0; --i) line[2 * i] = in[i], line[2 * i + 1] = 0;
  run_one(plan, line, T(1), line, signs.out);
  const int64_t count = a.kind == FftKind::FromReal ? half : n;
  for (int64_t i = 0; i < 2 * count; ++i) out[i] = line[i];
}

// The first `count` lines to contiguous ones, `room` numbers apart; element by element, since a
// cache line holds neighbours.
template <class T>
void gather_lines(const FftArgs& a, const T* const* in, int64_t count, T* to, int64_t room) {
  const int64_t parts = fft_real_input(a.kind) ? 1 : 2;
  const int64_t n = a.kind == FftKind::ToReal ? a.n / 2 + 1 : a.n;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t l = 0; l < count; ++l)
      for (int64_t part = 0; part < parts; ++part)
        to[l * room + i * parts + part] = in[l][i * a.in_step * parts + part];
}
template <class T>
void scatter_lines(const FftArgs& a, T* const* out, int64_t count, const T* from, int64_t room) {
  const int64_t parts = a.kind == FftKind::ToReal ? 1 : 2;
  const int64_t n = a.kind == FftKind::FromReal ? a.n / 2 + 1 : a.n;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t l = 0; l < count; ++l)
      for (int64_t part = 0; part < parts; ++part)
        out[l][i * a.out_step * parts + part] = from[l * room + i * parts + part];
}

template <class T>
void run_lines(const FftArgs& a) {
  const int64_t batch = batch_of(a, a.ndim);
  const Signs<T> signs(a);
  // Lines that stand side by side are gathered a few at a time: a cache line holds several.
  const int64_t room = 2 * a.n + 2;
  const bool gathers = a.in_step != 1, scatters = a.out_step != 1;
  const int64_t together = gathers || scatters ? most(1, least(8, (1 << 18) / a.n)) : 1;
  auto run = [&](int64_t begin, int64_t end) {
    Walk walk(a, begin);
    const Room<T> lines(Scratch::FftLines, (2 * together + 1) * room);
    T *sources = lines.data(), *targets = sources + together * room,
      *spare = targets + together * room;
    const T* in[8];
    T* out[8];
    for (int64_t i = begin; i < end; i += together) {
      const int64_t count = least(together, end - i);
      for (int64_t l = 0; l < count; ++l, walk.advance(1))
        in[l] = static_cast<const T*>(a.in) + walk.in, out[l] = static_cast<T*>(a.out) + walk.out;
      if (gathers) gather_lines(a, in, count, sources, room);
      for (int64_t l = 0; l < count; ++l) {
        run_line(a, signs, gathers ? sources + l * room : in[l],
                 scatters ? targets + l * room : out[l], spare);
      }
      if (scatters) scatter_lines(a, out, count, targets, room);
    }
  };
  if (a.n >= kVeryLong || (a.n >= kAlone && batch < 8)) return run(0, batch);
  parallel_for(batch, most(together, kChunkPoints / a.n), run);
}

// The lines [begin, end) of the innermost batch dim; `sizes` is room for theirs.
template <class T>
FftArgs part_of(const FftArgs& a, int64_t begin, int64_t end, int64_t* sizes) {
  FftArgs part = a;
  for (int d = 0; d < a.ndim; ++d) sizes[d] = a.sizes[d];
  sizes[a.ndim - 1] = end - begin;
  part.sizes = sizes;
  const Walk walk(a, begin);
  part.in = static_cast<const T*>(a.in) + walk.in;
  part.out = static_cast<T*>(a.out) + walk.out;
  return part;
}

template <class T>
void run_type(const FftArgs& a) {
  const int64_t batch = batch_of(a, a.ndim);
  if (batch == 0) return;
  const bool columns = side_by_side(a) && a.in_step != 1 && a.out_step != 1;
  const bool many = batch >= kLanes<T> / 2 &&
                    (columns || a.plan->n * int64_t(sizeof(T)) <= kTurnedBytes) &&
                    a.plan->has_whole;
  if (!many) return run_lines<T>(a);
  const int64_t run = columns ? a.sizes[a.ndim - 1] : 0, last = run % kLanes<T>;
  // A few columns beyond whole vectors fill more lanes one by one.
  if (run < kLanes<T> || last == 0 || 4 * last > kLanes<T> || a.n < 64 || a.plan->padded)
    return run_side_by_side<T>(a);
  int64_t sizes[kMaxBatchDims];
  run_side_by_side<T>(part_of<T>(a, 0, run - last, sizes));
  run_lines<T>(part_of<T>(a, run - last, run, sizes));
}

}  // namespace
}  // namespace fft

void fft_lines(const FftArgs& a) { a.doubles ? fft::run_type<double>(a) : fft::run_type<float>(a); }

}  // namespace flambeau::FL_ISA
