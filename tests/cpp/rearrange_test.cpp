// Block copies against element-by-element loops: random sizes, orders of dims, signs of strides and
// item sizes.
#include "flambeau/kernels/cpu/rearrange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace flambeau {
namespace {

using Ints = std::vector<int64_t>;
using Bytes = std::vector<char>;
const int64_t kItemSizes[] = {1, 2, 4, 8, 16};

std::mt19937_64 engine(11);

int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }

Bytes random_bytes(int64_t n) {
  Bytes v(n);
  for (auto& b : v) b = char(engine());
  return v;
}

int64_t product(const Ints& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

// Calls body(coordinates) for every place of `sizes` in order.
template <class F>
void each_place(const Ints& sizes, const F& body) {
  const int64_t n = product(sizes);
  Ints at(sizes.size());
  for (int64_t flat = 0; flat < n; ++flat) {
    int64_t rest = flat;
    for (int d = int(sizes.size()) - 1; d >= 0; --d) {
      at[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    body(at);
  }
}

int64_t dot(const Ints& at, const Ints& strides) {
  return std::inner_product(at.begin(), at.end(), strides.begin(), int64_t(0));
}

// Strides of a tensor whose dims lie in memory in the given order, `gap` apart; `negative` dims run
// backwards from `start`, `expanded` ones do not move.
struct Layout {
  Ints strides;
  int64_t start = 0, numel = 0;

  Layout(const Ints& sizes, const std::vector<int>& order, int64_t gap, unsigned negative,
         unsigned expanded)
      : strides(sizes.size()) {
    int64_t stride = gap;
    for (int d : order) {
      bool still = expanded >> d & 1;
      strides[d] = still ? 0 : stride;
      if (!still) stride *= sizes[d];
      if (negative >> d & 1) {
        start += strides[d] * (sizes[d] - 1);
        strides[d] = -strides[d];
      }
    }
    numel = std::max<int64_t>(stride, 1);
  }
};

void check_copy(int64_t itemsize, const Ints& sizes, const Layout& from, const Layout& to) {
  Bytes src = random_bytes(from.numel * itemsize), got = random_bytes(to.numel * itemsize),
        want = got;
  each_place(sizes, [&](const Ints& at) {
    std::memcpy(&want[(to.start + dot(at, to.strides)) * itemsize],
                &src[(from.start + dot(at, from.strides)) * itemsize], itemsize);
  });
  copy_strided(itemsize, int(sizes.size()), sizes.data(), &src[from.start * itemsize],
               from.strides.data(), &got[to.start * itemsize], to.strides.data());
  ASSERT_EQ(got, want);
}

TEST(CopyStrided, RandomLayouts) {
  for (int round = 0; round < 3000; ++round) {
    int ndim = int(below(6));
    Ints sizes(ndim);
    for (auto& s : sizes) s = below(10) == 0 ? 1 : 1 + below(round % 3 ? 7 : 20);
    if (product(sizes) > 20000) continue;
    std::vector<int> src_order(ndim), dst_order(ndim);
    std::iota(src_order.begin(), src_order.end(), 0);
    std::iota(dst_order.rbegin(), dst_order.rend(), 0);
    std::shuffle(src_order.begin(), src_order.end(), engine);
    if (round % 2) std::shuffle(dst_order.begin(), dst_order.end(), engine);
    unsigned negative = round % 5 ? 0 : unsigned(below(64)),
             expanded = round % 7 ? 0 : unsigned(below(64));
    Layout from(sizes, src_order, round % 11 ? 1 : 2, negative, expanded);
    Layout to(sizes, dst_order, round % 13 ? 1 : 3, 0, 0);
    check_copy(kItemSizes[below(5)], sizes, from, to);
  }
}

TEST(CopyStrided, LargeTranspositions) {
  for (int64_t itemsize : kItemSizes) {
    for (const Ints& sizes :
         {Ints{1, 300, 517}, Ints{3, 129, 64}, Ints{1, 4, 9000}, Ints{2, 5000, 5}}) {
      check_copy(itemsize, sizes, Layout(sizes, {1, 2, 0}, 1, 0, 0),
                 Layout(sizes, {2, 1, 0}, 1, 0, 0));
      check_copy(itemsize, sizes, Layout(sizes, {1, 0, 2}, 1, 0, 0),
                 Layout(sizes, {2, 1, 0}, 1, 0, 0));
    }
  }
}

TEST(CopyStrided, FlipExpandAndPlain) {
  for (int64_t itemsize : kItemSizes) {
    Ints sizes = {40, 5003};
    Layout plain(sizes, {1, 0}, 1, 0, 0);
    check_copy(itemsize, sizes, plain, plain);
    check_copy(itemsize, sizes, Layout(sizes, {1, 0}, 1, 2, 0), plain);
    check_copy(itemsize, sizes, Layout(sizes, {1, 0}, 1, 3, 0), plain);
    check_copy(itemsize, sizes, Layout(sizes, {1, 0}, 1, 0, 1), plain);
    check_copy(itemsize, sizes, Layout(sizes, {1, 0}, 1, 0, 2), plain);
    check_copy(itemsize, sizes, Layout(sizes, {1, 0}, 1, 0, 3), plain);
  }
  check_copy(4, {0, 3}, Layout({0, 3}, {1, 0}, 1, 0, 0), Layout({0, 3}, {1, 0}, 1, 0, 0));
}

TEST(CatRows, PiecesSideBySide) {
  for (int64_t rows : {1, 3, 1000}) {
    Ints widths = {5, 0, 1, 700, 64};
    std::vector<Bytes> data;
    std::vector<CatPiece> pieces;
    for (int64_t width : widths) data.push_back(random_bytes(rows * (width + 3)));
    for (size_t p = 0; p < widths.size(); ++p)
      pieces.push_back({data[p].data(), widths[p], widths[p] + 3});
    int64_t row_bytes = std::accumulate(widths.begin(), widths.end(), int64_t(0));
    Bytes got(rows * row_bytes), want;
    for (int64_t r = 0; r < rows; ++r) {
      for (size_t p = 0; p < widths.size(); ++p) {
        auto from = data[p].begin() + r * (widths[p] + 3);
        want.insert(want.end(), from, from + widths[p]);
      }
    }
    cat_rows(pieces.data(), int64_t(pieces.size()), rows, got.data());
    EXPECT_EQ(got, want);
  }
  cat_rows(nullptr, 0, 1, nullptr);
}

TEST(Roll, EveryDimAndSign) {
  for (int64_t itemsize : kItemSizes) {
    for (const Ints& sizes : {Ints{}, Ints{7}, Ints{4, 5}, Ints{3, 300, 400}, Ints{2, 0}}) {
      Ints shifts;
      for (size_t d = 0; d < sizes.size(); ++d) shifts.push_back(below(50) - 25);
      Bytes x = random_bytes(product(sizes) * itemsize), got(x.size()), want(x.size());
      int64_t flat = 0;
      each_place(sizes, [&](const Ints& at) {
        int64_t to = 0;
        for (size_t d = 0; d < sizes.size(); ++d) {
          to = to * sizes[d] + ((at[d] + shifts[d]) % sizes[d] + sizes[d]) % sizes[d];
        }
        std::memcpy(&want[to * itemsize], &x[flat++ * itemsize], itemsize);
      });
      roll_items(itemsize, int(sizes.size()), sizes.data(), shifts.data(), x.data(), got.data());
      ASSERT_EQ(got, want);
    }
  }
}

TEST(Triangle, KeepsOneSideOfTheDiagonal) {
  for (int64_t itemsize : kItemSizes) {
    for (const Ints& sizes :
         {Ints{1, 4, 6}, Ints{3, 7, 2}, Ints{2, 1, 1}, Ints{2, 0, 3}, Ints{1, 300, 500}}) {
      for (int64_t diagonal : {-400, -2, 0, 1, 400}) {
        Bytes x = random_bytes(product(sizes) * itemsize), lower = x, upper(x.size());
        tril_rows(itemsize, lower.data(), lower.data(), sizes[0], sizes[1], sizes[2], diagonal);
        triu_rows(itemsize, x.data(), upper.data(), sizes[0], sizes[1], sizes[2], diagonal);
        Bytes want_lower = x, want_upper = x;
        int64_t flat = 0;
        each_place(sizes, [&](const Ints& at) {
          if (at[2] - at[1] > diagonal) std::memset(&want_lower[flat * itemsize], 0, itemsize);
          if (at[2] - at[1] < diagonal) std::memset(&want_upper[flat * itemsize], 0, itemsize);
          ++flat;
        });
        ASSERT_EQ(lower, want_lower);
        ASSERT_EQ(upper, want_upper);
      }
    }
  }
}

TEST(PadConstant, ValueAroundTheInput) {
  for (int64_t itemsize : kItemSizes) {
    for (const Ints& sizes : {Ints{3}, Ints{2, 3}, Ints{3, 0, 4}, Ints{20, 30, 40}}) {
      for (int64_t gap : {1, 2}) {
        Ints before, out_sizes;
        std::vector<int> order;
        for (int d = int(sizes.size()) - 1; d >= 0; --d) order.push_back(d);
        for (int64_t size : sizes) {
          before.push_back(below(3));
          out_sizes.push_back(size + before.back() + below(3));
        }
        Layout from(sizes, order, gap, 0, 0);
        Bytes x = random_bytes(from.numel * itemsize), value = random_bytes(16);
        Bytes got(product(out_sizes) * itemsize), want;
        each_place(out_sizes, [&](Ints at) {
          bool inside = true;
          for (size_t d = 0; d < sizes.size(); ++d) {
            at[d] -= before[d];
            inside &= at[d] >= 0 && at[d] < sizes[d];
          }
          const char* item = inside ? &x[dot(at, from.strides) * itemsize] : value.data();
          want.insert(want.end(), item, item + itemsize);
        });
        pad_constant_rows(itemsize, int(sizes.size()), sizes.data(), x.data(), from.strides.data(),
                          before.data(), out_sizes.data(), value.data(), got.data());
        ASSERT_EQ(got, want);
      }
    }
  }
}

}  // namespace
}  // namespace flambeau
