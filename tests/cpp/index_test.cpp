// Kernels that move data by index tensors, against loops that say what they should do. Inputs are
// random; every itemsize, several layouts, and sizes around the kernels' blocks.
#include "flambeau/kernels/cpu/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "flambeau/kernels/cpu/scatter.h"

namespace flambeau {
namespace {

using Ints = std::vector<int64_t>;

struct Random {
  std::mt19937_64 engine{7};
  int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }
  Ints indices(int64_t n, int64_t low, int64_t high) {
    Ints v(n);
    for (auto& i : v) i = low + below(high - low);
    return v;
  }
  std::vector<char> bytes(int64_t n) {
    std::vector<char> v(n);
    for (auto& b : v) b = char(engine());
    return v;
  }
  template <class T>
  std::vector<T> small_numbers(int64_t n) {
    std::vector<T> v(n);
    for (auto& x : v) x = T(below(9));
    return v;
  }
};

int64_t product(const Ints& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

Ints coordinates(int64_t flat, const Ints& sizes) {
  Ints at(sizes.size());
  for (int d = int(sizes.size()) - 1; d >= 0; --d) {
    at[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return at;
}

int64_t dot(const Ints& at, const int64_t* strides) {
  int64_t sum = 0;
  for (size_t d = 0; d < at.size(); ++d) sum += at[d] * strides[d];
  return sum;
}

const int64_t kItemSizes[] = {1, 2, 4, 8, 16};

TEST(FindBadIndex, ReportsTheFirst) {
  Random random;
  for (int64_t n : {0, 1, 7, 8, 100, 5000, 200000}) {
    Ints index = random.indices(n, -5, 10);
    EXPECT_EQ(find_bad_index(index.data(), n, -5, 10), -1);
    if (n == 0) continue;
    int64_t first = n / 3;
    index[first] = 10;
    index[n - 1] = INT64_MIN;
    EXPECT_EQ(find_bad_index(index.data(), n, -5, 10), first);
    index[first] = -6;
    EXPECT_EQ(find_bad_index(index.data(), n, -5, 10), first);
  }
  Ints zero(1);
  EXPECT_EQ(find_bad_index(zero.data(), 1, 0, 0), 0);
}

// An x of shape [12][9][w] indexed along its first `n_index` dims by tensors of shape `shape`, and
// a plain last dim of `width`, which is absent for 0.
struct Case {
  IndexArgs args{};
  Ints shape;
  std::vector<Ints> index;
  std::vector<char> x, out;

  Case(Random& random, int64_t itemsize, int n_index, Ints index_shape, int64_t width,
       bool spread) {
    Ints dims = {12, 9};
    dims.resize(n_index);
    const int64_t gap = spread ? 2 : 1, run = std::max<int64_t>(width, 1);
    shape = index_shape;
    if (width) shape.push_back(width);
    args.itemsize = itemsize;
    args.ndim = int(shape.size());
    int64_t out_stride = itemsize * gap, index_stride = 1;
    for (int d = args.ndim - 1; d >= 0; --d) {
      bool plain = width && d == args.ndim - 1;
      args.sizes[d] = shape[d];
      args.out_strides[d] = out_stride;
      args.x_strides[d] = plain ? itemsize * gap : 0;
      for (int k = 0; k < n_index; ++k) args.index_strides[k][d] = plain ? 0 : index_stride;
      out_stride *= shape[d];
      if (!plain) index_stride *= shape[d];
    }
    args.n_index = n_index;
    int64_t x_stride = itemsize * gap * run;
    for (int k = n_index - 1; k >= 0; --k) {
      index.push_back(random.indices(index_stride, -dims[k], dims[k]));
      args.index_size[k] = dims[k];
      args.index_x_stride[k] = x_stride;
      x_stride *= dims[k];
    }
    std::reverse(index.begin(), index.end());
    for (int k = 0; k < n_index; ++k) args.index[k] = index[k].data();
    x = random.bytes(x_stride);
    out = random.bytes(std::max<int64_t>(out_stride, itemsize));
    args.x = x.data();
    args.out = out.data();
  }

  // Calls body(x offset, out offset) in order, for element after element.
  template <class F>
  void each(const F& body) const {
    for (int64_t flat = 0; flat < product(shape); ++flat) {
      Ints at = coordinates(flat, shape);
      int64_t x_at = dot(at, args.x_strides);
      for (int k = 0; k < args.n_index; ++k) {
        int64_t i = index[k][dot(at, args.index_strides[k])];
        x_at += (i < 0 ? i + args.index_size[k] : i) * args.index_x_stride[k];
      }
      body(x_at, dot(at, args.out_strides));
    }
  }
};

template <class F>
void each_case(const F& body) {
  Random random;
  for (int64_t itemsize : kItemSizes) {
    for (int n_index : {1, 2}) {
      for (const Ints& shape :
           {Ints{}, Ints{5}, Ints{0}, Ints{3, 4}, Ints{2, 3, 4}, Ints{3000}, Ints{40000}}) {
        for (int64_t width : {0, 1, 3, 64, 600}) {
          if (product(shape) * width > 200000) continue;
          for (bool spread : {false, true})
            body(Case(random, itemsize, n_index, shape, width, spread));
        }
      }
    }
  }
}

TEST(AdvancedIndex, GetsEveryElement) {
  each_case([](Case c) {
    std::vector<char> want = c.out;
    c.each([&](int64_t x, int64_t out) { std::memcpy(&want[out], &c.x[x], c.args.itemsize); });
    index_get(c.args);
    EXPECT_EQ(c.out, want);
  });
}

TEST(AdvancedIndex, SetsInOrder) {
  each_case([](Case c) {
    std::vector<char> want = c.x;
    c.each([&](int64_t x, int64_t out) { std::memcpy(&want[x], &c.out[out], c.args.itemsize); });
    index_set(c.args);
    EXPECT_EQ(c.x, want);
  });
}

TEST(AdvancedIndex, AccumulatesInOrder) {
  each_case([](Case c) {
    if (c.args.itemsize != 4 && c.args.itemsize != 8) return;
    std::vector<char> want = c.x;
    c.each([&](int64_t x, int64_t out) {
      uint64_t a = 0, b = 0;
      std::memcpy(&a, &want[x], c.args.itemsize);
      std::memcpy(&b, &c.out[out], c.args.itemsize);
      a += b;
      std::memcpy(&want[x], &a, c.args.itemsize);
    });
    index_accumulate(c.args.itemsize == 4 ? DType::Int32 : DType::Int64, c.args);
    EXPECT_EQ(c.x, want);
  });
}

TEST(IndexRows, SelectCopyFill) {
  Random random;
  for (int64_t itemsize : kItemSizes) {
    for (auto [outer, size, inner, n] : std::vector<std::array<int64_t, 4>>{{1, 10, 1, 7},
                                                                            {3, 5, 4, 9},
                                                                            {2, 100, 64, 300},
                                                                            {1, 50, 1, 40000},
                                                                            {4, 3, 3000, 6},
                                                                            {2, 4, 5, 0}}) {
      Ints index = random.indices(n, 0, size);
      auto x = random.bytes(outer * size * inner * itemsize),
           src = random.bytes(outer * n * inner * itemsize);
      auto out = src, got = x, filled = x, want = x, want_filled = x;
      const int64_t row = inner * itemsize;
      RowsArgs args{itemsize, outer, size, inner, n, index.data()};
      index_select_rows(args, x.data(), out.data());
      index_copy_rows(args, got.data(), src.data());
      auto value = random.bytes(16);
      index_fill_rows(args, filled.data(), value.data());
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < n; ++i) {
          int64_t to = (o * size + index[i]) * row, from = (o * n + i) * row;
          ASSERT_EQ(std::memcmp(&out[from], &x[to], row), 0);
          std::memcpy(&want[to], &src[from], row);
          for (int64_t j = 0; j < inner; ++j)
            std::memcpy(&want_filled[to + j * itemsize], value.data(), itemsize);
        }
      }
      EXPECT_EQ(got, want);
      EXPECT_EQ(filled, want_filled);
    }
  }
}

TEST(IndexItems, TakeAndPut) {
  Random random;
  for (int64_t n : {0, 1, 1000, 50000}) {
    Ints index = random.indices(n, -777, 777), x = random.indices(777, 0, 1000),
         src = random.indices(n, 0, 1000);
    Ints out(n), put = x, want = x, sums = x, want_sums = x;
    take_items(8, x.data(), 777, index.data(), n, out.data());
    put_items(8, put.data(), 777, index.data(), n, src.data());
    put_add_items(DType::Int64, sums.data(), 777, index.data(), n, src.data());
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = index[i] < 0 ? index[i] + 777 : index[i];
      ASSERT_EQ(out[i], x[at]);
      want[at] = src[i];
      want_sums[at] += src[i];
    }
    EXPECT_EQ(put, want);
    EXPECT_EQ(sums, want_sums);
  }
}

// The three operands of a gather or scatter along `dim` of a 3-d index tensor, each with its own
// order of dims.
struct DimCase {
  DimArgs args{};
  Ints sizes, index;
  int dim;
  int64_t x_numel, src_numel;
  int64_t strides[3][3];  // x, index, src

  DimCase(Random& random, Ints index_sizes, int dim_, int64_t x_size, bool transposed)
      : sizes(index_sizes), dim(dim_) {
    Ints x_sizes = sizes;
    x_sizes[dim] = x_size;
    fill_strides(strides[0], x_sizes, transposed);
    fill_strides(strides[1], sizes, !transposed);
    fill_strides(strides[2], sizes, transposed);
    x_numel = product(x_sizes);
    src_numel = product(sizes);
    index = random.indices(src_numel, 0, x_size);
    for (int d = 0; d < 3; ++d) {
      if (d == dim) continue;
      args.sizes[args.ndim] = sizes[d];
      args.x_strides[args.ndim] = strides[0][d];
      args.index_strides[args.ndim] = strides[1][d];
      args.src_strides[args.ndim++] = strides[2][d];
    }
    args.n = sizes[dim];
    args.x_size = x_size;
    args.x_stride = strides[0][dim];
    args.index_stride = strides[1][dim];
    args.src_stride = strides[2][dim];
    args.index = index.data();
  }

  static void fill_strides(int64_t* strides, const Ints& sizes, bool transposed) {
    int64_t stride = 1;
    for (int i = 2; i >= 0; --i) {
      int d = transposed ? 2 - i : i;
      strides[d] = stride;
      stride *= sizes[d];
    }
  }

  template <class F>
  void each(const F& body) const {
    for (int64_t flat = 0; flat < src_numel; ++flat) {
      Ints at = coordinates(flat, sizes);
      int64_t src_at = dot(at, strides[2]), i = index[dot(at, strides[1])];
      at[dim] = i;
      body(dot(at, strides[0]), src_at);
    }
  }
};

template <class F>
void each_dim_case(const F& body) {
  Random random;
  for (const Ints& sizes :
       {Ints{3, 4, 5}, Ints{1, 1, 1}, Ints{2, 0, 3}, Ints{70, 2, 20}, Ints{2, 70, 66}}) {
    for (int dim : {0, 1, 2}) {
      for (int64_t x_size : {1, 6, 300}) {
        for (bool transposed : {false, true})
          body(DimCase(random, sizes, dim, x_size, transposed), random);
      }
    }
  }
}

TEST(Gather, EveryLayoutAndItemSize) {
  each_dim_case([](DimCase c, Random& random) {
    for (int64_t itemsize : kItemSizes) {
      auto x = random.bytes(c.x_numel * itemsize), got = random.bytes(c.src_numel * itemsize),
           want = got;
      c.each([&](int64_t x_at, int64_t at) {
        std::memcpy(&want[at * itemsize], &x[x_at * itemsize], itemsize);
      });
      c.args.x = x.data();
      c.args.src = got.data();
      gather_dim(itemsize, c.args);
      ASSERT_EQ(got, want);
    }
  });
}

TEST(Scatter, LastValueWins) {
  each_dim_case([](DimCase c, Random& random) {
    for (int64_t itemsize : kItemSizes) {
      auto got = random.bytes(c.x_numel * itemsize), want = got,
           src = random.bytes(c.src_numel * itemsize);
      c.each([&](int64_t x_at, int64_t at) {
        std::memcpy(&want[x_at * itemsize], &src[at * itemsize], itemsize);
      });
      c.args.x = got.data();
      c.args.src = src.data();
      scatter_dim(itemsize, c.args);
      ASSERT_EQ(got, want);
    }
  });
}

// Integers wrap, as in tensors.
template <class T>
T combined(Combine op, T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  switch (op) {
    case Combine::Sum:
      return T(U(a) + U(b));
    case Combine::Prod:
      return T(U(a) * U(b));
    case Combine::Max:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}

template <class T>
void check_combine() {
  each_dim_case([](DimCase c, Random& random) {
    for (Combine op : {Combine::Sum, Combine::Prod, Combine::Max, Combine::Min}) {
      auto got = random.small_numbers<T>(c.x_numel), want = got,
           src = random.small_numbers<T>(c.src_numel);
      c.each([&](int64_t x_at, int64_t at) { want[x_at] = combined(op, want[x_at], src[at]); });
      c.args.x = got.data();
      c.args.src = src.data();
      scatter_combine_dim(op, kDTypeOf<T>, c.args);
      ASSERT_EQ(got, want);
    }
  });
}

TEST(ScatterCombine, UInt8) { check_combine<uint8_t>(); }
TEST(ScatterCombine, Int16) { check_combine<int16_t>(); }
TEST(ScatterCombine, Int64) { check_combine<int64_t>(); }
TEST(ScatterCombine, UInt64) { check_combine<uint64_t>(); }
TEST(ScatterCombine, Float32) { check_combine<float>(); }
TEST(ScatterCombine, Float64) { check_combine<double>(); }

TEST(ScatterCombine, HalfSumsInFloat) {
  constexpr int64_t n = 1000;
  Ints index(n, 1);
  std::vector<BFloat16> x(2, to_bfloat16(0)), ones(n, to_bfloat16(1));
  DimArgs args{};
  args.n = n;
  args.x_size = 2;
  args.x_stride = args.index_stride = args.src_stride = 1;
  args.x = x.data();
  args.index = index.data();
  args.src = ones.data();
  scatter_combine_dim(Combine::Sum, DType::BFloat16, args);
  EXPECT_EQ(to_float(x[0]), 0);
  EXPECT_EQ(to_float(x[1]), 1000);
}

TEST(ScatterCombine, NanWinsInMaxAndMin) {
  const float nan = std::nanf("");
  for (Combine op : {Combine::Max, Combine::Min}) {
    std::vector<float> x = {1, nan, 1}, src = {nan, 2, 3};
    Ints index = {0, 1, 2};
    DimArgs args{};
    args.n = args.x_size = 3;
    args.x_stride = args.index_stride = args.src_stride = 1;
    args.x = x.data();
    args.index = index.data();
    args.src = src.data();
    scatter_combine_dim(op, DType::Float32, args);
    EXPECT_TRUE(std::isnan(x[0]) && std::isnan(x[1]));
    EXPECT_EQ(x[2], op == Combine::Max ? 3 : 1);
  }
}

TEST(ScatterCombine, BoolAndComplex) {
  std::vector<uint8_t> flags = {1, 0}, more = {1, 1, 0};
  Ints index = {0, 1, 1};
  RowsArgs rows{1, 1, 2, 1, 3, index.data()};
  index_combine_rows(Combine::Sum, DType::Bool, rows, flags.data(), more.data());
  EXPECT_EQ(flags, (std::vector<uint8_t>{1, 1}));
  using C = std::complex<float>;
  std::vector<C> x = {{1, 1}, {2, 0}}, src = {{0, 1}, {1, 0}, {3, 4}};
  rows.itemsize = 8;
  index_combine_rows(Combine::Prod, DType::Complex64, rows, x.data(), src.data());
  EXPECT_EQ(x, (std::vector<C>{{-1, 1}, {6, 8}}));
}

TEST(IndexCombine, RowsInOrder) {
  Random random;
  for (auto [outer, size, inner, n] : std::vector<std::array<int64_t, 4>>{
           {1, 10, 1, 7}, {3, 5, 4, 9}, {2, 100, 64, 300}, {1, 20, 700, 100}}) {
    for (Combine op : {Combine::Sum, Combine::Prod, Combine::Max, Combine::Min}) {
      Ints index = random.indices(n, 0, size);
      auto got = random.small_numbers<float>(outer * size * inner), want = got;
      auto src = random.small_numbers<float>(outer * n * inner);
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < inner; ++j) {
            float& to = want[(o * size + index[i]) * inner + j];
            to = combined(op, to, src[(o * n + i) * inner + j]);
          }
        }
      }
      index_combine_rows(op, DType::Float32, {4, outer, size, inner, n, index.data()}, got.data(),
                         src.data());
      EXPECT_EQ(got, want);
    }
  }
}

TEST(DivideCounts, RoundsIntegersDown) {
  std::vector<int8_t> x = {7, -7, 100, 5};
  Ints count = {2, 2, 300, 0};
  divide_counts(DType::Int8, x.data(), count.data(), 4);
  EXPECT_EQ(x, (std::vector<int8_t>{3, -4, 0, 5}));
  std::vector<float> y = {7, -7, 1, 5};
  divide_counts(DType::Float32, y.data(), count.data(), 4);
  EXPECT_EQ(y, (std::vector<float>{3.5, -3.5, 1.0f / 300, 5}));
}

TEST(Nonzero, CoordinatesInOrder) {
  Random random;
  for (const Ints& sizes : {Ints{0}, Ints{5}, Ints{40000}, Ints{3, 7}, Ints{300, 150},
                            Ints{20000, 1}, Ints{1, 50000}, Ints{9, 11, 500}, Ints{2, 3, 0, 4}}) {
    const int64_t n = product(sizes);
    for (int64_t density : {0, 1, 50, 100}) {
      std::vector<float> x(n);
      for (auto& v : x) v = random.below(100) < density ? std::nanf("") : -0.0f;
      Ints counts(compact_blocks(n)), want;
      for (int64_t i = 0; i < n; ++i) {
        if (x[i] == 0) continue;
        for (int64_t c : coordinates(i, sizes)) want.push_back(c);
      }
      int64_t count = count_nonzero_blocks(DType::Float32, x.data(), n, counts.data());
      Ints got(count * sizes.size());
      nonzero_coords(DType::Float32, x.data(), int(sizes.size()), sizes.data(), counts.data(),
                     got.data());
      EXPECT_EQ(got, want);
    }
  }
}

TEST(Nonzero, EveryDtypeCounts) {
  for (int t = 0; t < kDTypes; ++t) {
    DType dtype = DType(t);
    std::vector<char> x(40 * itemsize(dtype));
    x[3 * itemsize(dtype)] = 1;
    x[39 * itemsize(dtype)] = 1;
    int64_t counts[1];
    EXPECT_EQ(count_nonzero_blocks(dtype, x.data(), 40, counts), 2) << name(dtype);
  }
}

TEST(Masked, SelectAndScatterAreInverse) {
  Random random;
  for (int64_t itemsize : kItemSizes) {
    for (int64_t n : {0, 1, 1023, 1024, 1025, 16384, 60000}) {
      for (int64_t density : {0, 3, 50, 100}) {
        std::vector<uint8_t> mask(n);
        for (auto& m : mask) m = random.below(100) < density;
        auto x = random.bytes(n * itemsize);
        Ints counts(compact_blocks(n));
        int64_t count = count_nonzero_blocks(DType::Bool, mask.data(), n, counts.data());
        std::vector<char> got(count * itemsize), want;
        masked_select_items(itemsize, x.data(), mask.data(), n, counts.data(), got.data());
        auto back = random.bytes(n * itemsize), want_back = back;
        masked_scatter_items(itemsize, back.data(), mask.data(), n, counts.data(), got.data());
        for (int64_t i = 0; i < n; ++i) {
          if (!mask[i]) continue;
          want.insert(want.end(), &x[i * itemsize], &x[i * itemsize] + itemsize);
          std::memcpy(&want_back[i * itemsize], &x[i * itemsize], itemsize);
        }
        ASSERT_EQ(got, want);
        ASSERT_EQ(back, want_back);
      }
    }
  }
}

}  // namespace
}  // namespace flambeau
