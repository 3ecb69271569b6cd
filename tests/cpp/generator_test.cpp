// The generator and its distributions against numbers recorded with PyTorch 2.13 after
// manual_seed(42).
#include "flambeau/core/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "flambeau/core/error.h"
#include "flambeau/core/startup.h"
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/random.h"

namespace flambeau {
namespace {

struct GeneratorTest : testing::Test {
  Generator generator{42};
  void SetUp() override { initialize_isa(); }

  template <class T, class Fill>
  std::vector<T> draw(size_t n, const Fill& fill) {
    generator.manual_seed(42);
    std::vector<T> out(n);
    fill(kDTypeOf<T>, out.data(), int64_t(n));
    return out;
  }
  template <class T>
  std::vector<T> normals(size_t n, bool dense = true) {
    return draw<T>(n,
                   [&](DType t, T* p, int64_t m) { fill_normal(generator, t, p, m, 0, 1, dense); });
  }
};

template <class T>
std::vector<T> list(std::initializer_list<T> values) {
  return values;
}

std::vector<float> floats(const std::vector<BFloat16>& halves) {
  std::vector<float> out;
  for (BFloat16 x : halves) out.push_back(to_float(x));
  return out;
}

TEST_F(GeneratorTest, StandardsTenThousandthNumber) {
  generator.manual_seed(5489);  // ISO C++ asks for this value of mt19937
  for (int i = 0; i < 9999; i++) generator.random();
  EXPECT_EQ(generator.random(), 4123659995u);
}

TEST_F(GeneratorTest, BlocksEqualSingleDraws) {
  Generator other(42);
  std::vector<uint32_t> block(3000);
  generator.random(block.data(), 700);
  generator.random(block.data() + 700, 2300);
  for (uint32_t word : block) ASSERT_EQ(word, other.random());
}

TEST_F(GeneratorTest, Uniform) {
  auto fill = [&](DType t, void* p, int64_t n) { fill_uniform(generator, t, p, n, 0, 1); };
  EXPECT_EQ(draw<float>(3, fill),
            list<float>({0.8822692632675171f, 0.9150039553642273f, 0.38286375999450684f}));
  EXPECT_EQ(draw<double>(3, fill),
            list<double>({0.05815448596142969, 0.06291016742457756, 0.12358607277440903}));
  EXPECT_EQ(floats(draw<BFloat16>(3, fill)), list<float>({0.8828125f, 0.9140625f, 0.3828125f}));
  auto wider = [&](DType t, void* p, int64_t n) { fill_uniform(generator, t, p, n, -3, 5); };
  EXPECT_EQ(draw<float>(3, wider),
            list<float>({4.058154106140137f, 4.320031642913818f, 0.06291007995605469f}));
}

TEST_F(GeneratorTest, UniformNeverReachesItsEnd) {
  auto ones = draw<BFloat16>(
      20'000, [&](DType t, void* p, int64_t n) { fill_uniform(generator, t, p, n, 0, 1); });
  for (BFloat16 x : ones) ASSERT_LT(to_float(x), 1.0f);
  auto coarse = draw<float>(1000, [&](DType t, void* p, int64_t n) {
    fill_uniform(generator, t, p, n, 16777216, 16777218);
  });
  for (float x : coarse) ASSERT_EQ(x, 16777216.0f);
}

TEST_F(GeneratorTest, FewNormals) {
  EXPECT_EQ(normals<float>(5),
            list<float>({0.33669036626815796f, 0.12880940735340118f, 0.23446236550807953f,
                         0.23033303022384644f, -1.1228563785552979f}));
  EXPECT_EQ(normals<float>(40, false)[4], -1.1228563785552979f);
  EXPECT_EQ(normals<std::complex<float>>(2),
            (std::vector<std::complex<float>>{{0.23807603120803833f, 0.09108200669288635f},
                                              {0.16578993201255798f, 0.16287004947662354f}}));
}

TEST_F(GeneratorTest, ManyNormals) {
  auto single = normals<float>(17);
  EXPECT_EQ(single[0], 1.9269152879714966f);
  EXPECT_EQ(single[1], -0.1595974713563919f);
  EXPECT_EQ(single[4], -0.7581311464309692f);
  EXPECT_EQ(single[16], -0.3097267746925354f);
  auto twice = normals<double>(17);
  EXPECT_NEAR(twice[0], 0.2995562877502637, 1e-15);
  EXPECT_NEAR(twice[4], -0.03720300727052493, 1e-16);
  EXPECT_NEAR(twice[16], 0.2494118796915765, 1e-15);
  auto half = floats(normals<BFloat16>(17));
  EXPECT_EQ(half[0], 1.9296875f);
  EXPECT_EQ(half[1], 1.640625f);
  EXPECT_EQ(half[16], 0.859375f);
}

TEST_F(GeneratorTest, ResultsDoNotDependOnThreads) {
  int before = num_threads();
  set_num_threads(1);
  auto alone = normals<float>(300'001);
  set_num_threads(4);
  EXPECT_EQ(normals<float>(300'001), alone);
  set_num_threads(before);
  double mean = 0, square = 0;
  for (float x : alone) mean += x, square += double(x) * x;
  EXPECT_NEAR(mean / double(alone.size()), 0, 0.01);
  EXPECT_NEAR(square / double(alone.size()), 1, 0.01);
}

TEST_F(GeneratorTest, Bernoulli) {
  auto fill = [&](DType t, void* p, int64_t n) { fill_bernoulli(generator, t, p, n, 0.3); };
  EXPECT_EQ(draw<int64_t>(12, fill), list<int64_t>({1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0}));
  EXPECT_EQ(draw<float>(5, fill), list<float>({1, 1, 1, 1, 0}));
  EXPECT_EQ(floats(draw<BFloat16>(5, fill)), list<float>({1, 1, 1, 1, 0}));
  float p[12];
  for (int i = 0; i < 12; i++) p[i] = float(i) / 11;
  auto each = [&](DType t, void* out, int64_t n) {
    fill_bernoulli(generator, t, out, n, DType::Float32, p);
  };
  EXPECT_EQ(draw<float>(12, each), list<float>({0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1}));
  p[7] = 1.5;
  EXPECT_THROW(draw<float>(12, each), RuntimeError);
  for (double sure : {0.0, 1.0}) {
    auto all = draw<uint8_t>(
        500, [&](DType t, void* out, int64_t n) { fill_bernoulli(generator, t, out, n, sure); });
    EXPECT_EQ(all, std::vector<uint8_t>(500, uint8_t(sure)));
  }
}

TEST_F(GeneratorTest, Integers) {
  generator.manual_seed(42);
  int64_t wide[6];
  fill_integers(generator, DType::Int64, wide, 6, -5, 1005);
  EXPECT_EQ(std::vector(wide, wide + 6), list<int64_t>({367, 537, 11, 779, 781, 900}));
  fill_integers(generator, DType::Int64, wide, 3, 0, uint64_t(1) << 40);
  EXPECT_EQ(std::vector(wide, wide + 3), list<int64_t>({810017303572, 440001501305, 902372521174}));
  fill_integers(generator, DType::Int64, wide, 3);
  EXPECT_EQ(std::vector(wide, wide + 3),
            list<int64_t>({1071453510346823114, 6754757701360545140, 1865242737500154727}));
  uint8_t bytes[4];
  fill_integers(generator, DType::UInt8, bytes, 4);
  EXPECT_EQ(std::vector(bytes, bytes + 4), list<uint8_t>({151, 130, 149, 52}));
  float reals[3];
  fill_integers(generator, DType::Float32, reals, 3);
  EXPECT_EQ(std::vector(reals, reals + 3), list<float>({4981257, 13953183, 1766678}));
  fill_integers(generator, DType::Int64, wide, 2, INT64_MIN, 0);
  EXPECT_EQ(std::vector(wide, wide + 2), list<int64_t>({-1133502354526840027, 14365674248606911}));
}

TEST_F(GeneratorTest, BoundsMoveToWhatTheDTypeHolds) {
  int64_t low = 0, high = int64_t(1) << 28;
  narrow_to_dtype(DType::Float32, low, high);
  EXPECT_EQ(low, 0);
  EXPECT_EQ(float(high - 1), 268435440.0f);
  low = -7, high = 1000;
  narrow_to_dtype(DType::Float16, low, high);
  EXPECT_EQ(low, -7);
  EXPECT_EQ(high, 1000);
}

TEST_F(GeneratorTest, RealDistributions) {
  auto near = [&](const std::vector<double>& got, std::initializer_list<double> want) {
    for (size_t i = 0; i < want.size(); i++) {
      EXPECT_NEAR(got[i], want.begin()[i], 1e-14 * std::fabs(want.begin()[i]));
    }
  };
  near(draw<double>(
           3, [&](DType t, void* p, int64_t n) { fill_exponential(generator, t, p, n, 2.5); }),
       {0.02396560627632086, 0.02599045151735412, 0.05276671199363623});
  near(draw<double>(3, [&](DType t, void* p, int64_t n) { fill_cauchy(generator, t, p, n, 1, 2); }),
       {-9.824974593994627, -8.987402160112728, -3.8897486534543475});
  near(draw<double>(
           3, [&](DType t, void* p, int64_t n) { fill_log_normal(generator, t, p, n, 0, 0.25); }),
       {1.087816622351976, 1.0327264576884, 1.0603675473868737});
  EXPECT_EQ(
      draw<int>(5, [&](DType t, void* p, int64_t n) { fill_geometric(generator, t, p, n, 0.3); }),
      list<int>({8, 8, 6, 9, 2}));
}

TEST_F(GeneratorTest, Samplers) {
  float rate[6] = {3, 40, 3, 40, 0, 12};
  EXPECT_EQ(draw<float>(
                6, [&](DType t, void* p, int64_t n) { sample_poisson(generator, t, rate, p, n); }),
            list<float>({1, 31, 4, 32, 0, 11}));
  float count[5] = {10, 100, 10, 100, 50}, chance[5] = {0.4f, 0.4f, 0.9f, 0.9f, 0};
  EXPECT_EQ(draw<float>(5, [&](DType t, void* p,
                               int64_t n) { sample_binomial(generator, t, count, chance, p, n); }),
            list<float>({1, 33, 9, 95, 0}));
  double alpha[3] = {2.5, 0.3, 7};
  auto gammas = draw<double>(
      3, [&](DType t, void* p, int64_t n) { sample_gamma(generator, t, alpha, p, n); });
  EXPECT_NEAR(gammas[0], 2.70100859239725, 1e-13);
  EXPECT_NEAR(gammas[1], 0.9178573280163175, 1e-13);
  EXPECT_NEAR(gammas[2], 2.1113553587417444, 1e-13);
  float shares[3] = {1, 2, 3};
  EXPECT_EQ(draw<float>(3, [&](DType t, void* p,
                               int64_t) { sample_dirichlet(generator, t, shares, p, 1, 3); }),
            list<float>({0.24279317259788513f, 0.4549908936023712f, 0.30221593379974365f}));
  float negative = -1;
  EXPECT_THROW(sample_poisson(generator, DType::Float32, &negative, shares, 1), RuntimeError);
}

TEST_F(GeneratorTest, PermutationsAndChoices) {
  EXPECT_EQ(
      draw<int64_t>(10, [&](DType t, void* p, int64_t n) { fill_permutation(generator, t, p, n); }),
      list<int64_t>({2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  EXPECT_EQ(generator.uniform_float(), 0.13318592309951782f);
  generator.manual_seed(42);
  float weights[4] = {1, 2, 3, 4};
  int64_t out[6];
  sample_multinomial(generator, DType::Float32, weights, 1, 4, 4, false, out);
  EXPECT_EQ(std::vector(out, out + 4), list<int64_t>({3, 1, 2, 0}));
  sample_multinomial(generator, DType::Float32, weights, 1, 4, 6, true, out);
  EXPECT_EQ(std::vector(out, out + 6), list<int64_t>({2, 2, 3, 3, 0, 1}));
  weights[1] = -1;
  EXPECT_THROW(sample_multinomial(generator, DType::Float32, weights, 1, 4, 2, true, out),
               RuntimeError);
  EXPECT_THROW(sample_multinomial(generator, DType::Float32, weights, 1, 4, 5, false, out),
               RuntimeError);
}

TEST_F(GeneratorTest, StateHasTorchsLayout) {
  generator.manual_seed(12);
  float three[3];
  fill_normal(generator, DType::Float32, three, 3, 0, 1);
  std::vector<uint8_t> bytes = generator.get_state();
  ASSERT_EQ(bytes.size(), 5056u);
  uint64_t words[632];
  std::memcpy(words, bytes.data(), sizeof words);
  EXPECT_EQ(std::vector(words, words + 4), list<uint64_t>({12, 4294967913, 8, 2752380201}));
  EXPECT_EQ(std::vector(words + 626, words + 632),
            list<uint64_t>({2150850701, 0, 4601805945005143554, 0, 1, 0}));
}

TEST_F(GeneratorTest, StateRestoresEveryDraw) {
  for (int used : {0, 1, 3, 623, 624, 625}) {
    generator.manual_seed(7);
    for (int i = 0; i < used; i++) generator.random();
    if (used % 2) generator.normal();
    auto state = generator.get_state();
    Generator copy(generator), other(1);
    other.set_state({state.data(), state.size()});
    EXPECT_EQ(other.get_state(), state);
    EXPECT_EQ(other.initial_seed(), 7u);
    for (int i = 0; i < 1300; i++) {
      uint32_t next = generator.random();
      ASSERT_EQ(other.random(), next);
      ASSERT_EQ(copy.random(), next);
    }
    double normal = generator.normal();
    EXPECT_EQ(other.normal(), normal);
    EXPECT_EQ(copy.normal(), normal);
  }
}

TEST_F(GeneratorTest, OtherBytesAreRefused) {
  std::vector<uint8_t> bytes(5056);
  EXPECT_THROW(generator.set_state({bytes.data(), 5055}), RuntimeError);
  EXPECT_THROW(generator.set_state({bytes.data(), 5056}), RuntimeError);
  generator.manual_seed(42);
  EXPECT_EQ(generator.uniform_float(), 0.8822692632675171f);
}

TEST_F(GeneratorTest, SeedsAreKeptWhole) {
  generator.manual_seed(uint64_t(-1));
  EXPECT_EQ(generator.initial_seed(), uint64_t(-1));
  EXPECT_EQ(generator.uniform_float(), 0.9937993884086609f);
  EXPECT_EQ(default_generator().initial_seed(), 67280421310721u);
  EXPECT_NE(generator.seed(), generator.seed());
}

TEST_F(GeneratorTest, ThreadsTakeWholeTensors) {
  std::vector<float> first(1000), second(1000), both(2000);
  std::thread other([&] { fill_uniform(generator, DType::Float32, first.data(), 1000, 0, 1); });
  fill_uniform(generator, DType::Float32, second.data(), 1000, 0, 1);
  other.join();
  Generator same(42);
  fill_uniform(same, DType::Float32, both.data(), 2000, 0, 1);
  if (first[0] != both[0]) std::swap(first, second);
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_EQ(first, both);
}

}  // namespace
}  // namespace flambeau
