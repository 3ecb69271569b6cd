// cast_strided against values of the reference and against itself: registers, single elements and
// every instruction set must agree bit for bit.
#include "flambeau/kernels/cpu/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace flambeau {
namespace {

using CastStrided = decltype(&v2::cast_strided);
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<CastStrided> usable_variants() {
  std::vector<CastStrided> variants{v2::cast_strided};
  if (detect_isa() >= Isa::v3) variants.push_back(v3::cast_strided);
  if (detect_isa() >= Isa::v4) variants.push_back(v4::cast_strided);
  return variants;
}

template <class To, class From>
std::vector<To> cast(std::vector<From> x, DType from = kDTypeOf<From>, DType to = kDTypeOf<To>) {
  std::vector<To> y(x.size());
  cast_strided(from, to, x.data(), sizeof(From), y.data(), sizeof(To), int64_t(x.size()));
  return y;
}

TEST(Cast, floats_truncate_and_wrap_as_in_the_reference) {
  std::vector<float> x{300, -1, -1.5, 3e9, kNaN, kInf, -kInf};
  using V8 = std::vector<uint8_t>;
  using V32 = std::vector<int32_t>;
  constexpr int32_t least = std::numeric_limits<int32_t>::min();
  EXPECT_EQ((cast<uint8_t>(x)), (V8{44, 255, 255, 0, 0, 0, 0}));
  EXPECT_EQ((cast<int32_t>(x)), (V32{300, -1, -1, least, least, least, least}));
  EXPECT_EQ((cast<int64_t>(x))[3], 3000000000);
  EXPECT_EQ((cast<uint32_t>(x))[3], 3000000000u);
  EXPECT_EQ((cast<uint64_t>(std::vector<double>{1e19, -1}))[0], 10000000000000000000u);
  EXPECT_EQ((cast<uint64_t>(std::vector<double>{1e19, -1}))[1], ~uint64_t(0));
}

TEST(Cast, to_bool_is_unequal_to_zero_and_nan_is_true) {
  std::vector<float> x{0, -0.0f, kNaN, 0.25, -3, kInf};
  EXPECT_EQ((cast<uint8_t>(x, DType::Float32, DType::Bool)),
            (std::vector<uint8_t>{0, 0, 1, 1, 1, 1}));
  std::vector<std::complex<float>> z{{0, 0}, {0, 1}, {2, 0}};
  EXPECT_EQ((cast<uint8_t>(z, DType::Complex64, DType::Bool)), (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ((cast<double>(z)), (std::vector<double>{0, 0, 2}));
}

TEST(Cast, halves_round_to_nearest_even) {
  // 2049 lies between 2048 and 2050, 65520 rounds up to infinity, 2^-25 is half of the least
  // subnormal.
  std::vector<float> x{1,  2049, 2051, 65519, 65520, 0x1p-24f, 0x1p-25f, 0x1.8p-25f,
                       -2, kInf, 1,    1,     1,     1,        1,        1};
  std::vector<uint16_t> expect{0x3c00, 0x6800, 0x6802, 0x7bff, 0x7c00, 1, 0, 1, 0xc000, 0x7c00};
  expect.resize(x.size(), 0x3c00);
  EXPECT_EQ((cast<uint16_t>(x, DType::Float32, DType::Float16)), expect);
  std::vector<float> y{1, 0x1.01p0f, 0x1.03p0f, 3.4e38f, kNaN, -kInf};
  EXPECT_EQ((cast<uint16_t>(y, DType::Float32, DType::BFloat16)),
            (std::vector<uint16_t>{0x3f80, 0x3f80, 0x3f82, 0x7f80, 0x7fc0, 0xff80}));
}

TEST(Cast, every_half_survives_the_trip_through_float) {
  for (DType half : {DType::Float16, DType::BFloat16}) {
    for (CastStrided run : usable_variants()) {
      std::vector<uint16_t> all(65536), back(65536);
      std::vector<float> wide(65536);
      for (int i = 0; i < 65536; ++i) all[i] = uint16_t(i);
      run(half, DType::Float32, all.data(), 2, wide.data(), 4, 65536);
      run(DType::Float32, half, wide.data(), 4, back.data(), 2, 65536);
      for (int i = 0; i < 65536; ++i) {
        if (std::isnan(wide[i])) continue;  // a NaN may become quiet
        ASSERT_EQ(back[i], all[i]) << name(half);
      }
    }
  }
}

// Values of which every type can hold some, NaN and infinities among the floats.
std::vector<double> mixed_values() {
  std::mt19937 random(1);
  std::vector<double> x{0,    -0.0, 1,    -1,   255,  256,  -129, 65504,
                        1e-8, 3e9,  -3e9, 1e19, kNaN, kInf, -kInf};
  while (x.size() < 83)
    x.push_back(std::ldexp(double(random()) - 2147483648.0, int(random() % 60) - 50));
  return x;
}

TEST(Cast, strides_and_instruction_sets_do_not_change_bits) {
  const int64_t n = 83;
  std::vector<double> values = mixed_values();
  for (int f = 0; f < kDTypes; ++f) {
    for (int t = 0; t < kDTypes; ++t) {
      DType from = DType(f), to = DType(t);
      int64_t source = itemsize(from), target = itemsize(to);
      std::vector<char> x(n * source), expect(n * target), gapped(n * source * 3);
      v2::cast_strided(DType::Float64, from, values.data(), 8, x.data(), source, n);
      v2::cast_strided(from, to, x.data(), source, expect.data(), target, n);
      for (int64_t i = 0; i < n; ++i) std::memcpy(&gapped[3 * i * source], &x[i * source], source);
      for (CastStrided run : usable_variants()) {
        std::vector<char> contiguous(n * target), strided(n * target, 1);
        run(from, to, x.data(), source, contiguous.data(), target, n);
        run(from, to, gapped.data() + 3 * source * (n - 1), -3 * source,
            strided.data() + target * (n - 1), -target, n);
        ASSERT_EQ(contiguous, expect) << name(from) << " to " << name(to);
        ASSERT_EQ(strided, expect) << name(from) << " to " << name(to) << " strided";
      }
    }
  }
}

TEST(Cast, a_stride_of_zero_repeats_one_element) {
  float x = 2.5;
  std::vector<int64_t> y(37);
  cast_strided(DType::Float32, DType::Int64, &x, 0, y.data(), 8, 37);
  EXPECT_EQ(y, std::vector<int64_t>(37, 2));
  std::vector<std::complex<double>> z(5);
  std::complex<double> value(1, -2);
  fill_contiguous(16, &value, z.data(), 5);
  EXPECT_EQ(z, std::vector<std::complex<double>>(5, value));
}

}  // namespace
}  // namespace flambeau
