// What only C++ programs see: methods, operators, keys, factories.
#include <gtest/gtest.h>

#include <sstream>

#include "flambeau/flambeau.h"

namespace flambeau {
namespace {

using namespace indexing;

std::vector<double> values(const Tensor& t) {
  Tensor flat = t.to(kDouble).contiguous();
  return {flat.data<double>(), flat.data<double>() + flat.numel()};
}
using Values = std::vector<double>;

TEST(Methods, take_one_int_for_a_list_and_no_int_for_a_bool) {
  Tensor x = arange(6).view({2, 3}).to(kFloat);
  EXPECT_EQ(values(x.sum(1)), Values({3, 12}));
  EXPECT_EQ(values(x.sum({0, 1})), Values({15}));
  EXPECT_EQ(values(x.sum()), Values({15}));
  EXPECT_EQ(values(x.std(1)), Values({1, 1}));
  EXPECT_EQ(x.view(-1).sizes(), IntList({6}));
  EXPECT_EQ(x.mean(0, true).sizes(), IntList({1, 3}));
  EXPECT_EQ(values(std::get<1>(x.max(1))), Values({2, 2}));
  EXPECT_EQ(values(x.clip(1, 4)), Values({1, 1, 2, 3, 4, 4}));
}

TEST(Methods, in_place_ones_write_and_give_back_the_tensor) {
  Tensor x = ones({2, 2});
  EXPECT_TRUE(x.mul_(3).add_(1).is(x));
  EXPECT_EQ(values(x), Values({4, 4, 4, 4}));
  const Tensor& handle = x;
  handle.zero_();
  EXPECT_EQ(x.sum().item<int>(), 0);
}

TEST(Methods, record_on_the_tape) {
  Tensor x = tensor({1., 2., 3.}, {.requires_grad = true});
  Tensor y = (2 * x * x + x / 2 - 1).matmul(ones({3}));
  y.backward();
  EXPECT_EQ(values(x.grad()), Values({4.5, 8.5, 12.5}));
  EXPECT_FLOAT_EQ(y.item<float>(), 28);
}

TEST(Operators, compound_ones_write_in_place) {
  Tensor x = tensor({1., 2.});
  Tensor same = x;
  x += 1;
  x *= x;
  x -= tensor({1., 2.});
  x /= 2;
  EXPECT_TRUE(x.is(same));
  EXPECT_EQ(values(x), Values({1.5, 3.5}));
  x[0] += 10;
  EXPECT_EQ(values(x), Values({11.5, 3.5}));
  EXPECT_EQ(values(-x > -5), Values({0, 1}));
}

TEST(Index, keys_are_those_of_python) {
  Tensor x = arange(24).view({2, 3, 4});
  EXPECT_EQ(values(x[1][2]), Values({20, 21, 22, 23}));
  EXPECT_EQ(values(x.index({0, Slice(1, None), -1})), Values({7, 11}));
  EXPECT_EQ(values(x.index({Ellipsis, 0, Slice(None, None, 2)})), Values({0, 2, 12, 14}));
  EXPECT_EQ(x.index({None, "...", 0}).sizes(), IntList({1, 2, 3}));
  EXPECT_EQ(values(x.index({1, tensor({2, 0}), 3})), Values({23, 15}));
  EXPECT_EQ(values(x.index({x > 21})), Values({22, 23}));
  EXPECT_THROW(x.index({0, 0, 0, 0}), IndexError);
  EXPECT_THROW(x.index({Ellipsis, Ellipsis}), IndexError);
  EXPECT_THROW(x.index({"x"}), ValueError);
}

TEST(Index, assignment_writes_the_part) {
  Tensor x = zeros({2, 3});
  x.index_put_({0, Slice(1, 3)}, 5);
  x.index_put_({1}, tensor({1., 2., 3.}));
  x.index_put_({tensor({0, 1}), tensor({0, 0})}, -1);
  EXPECT_EQ(values(x), Values({-1, 5, 5, -1, 2, 3}));
}

TEST(Factories, literals_have_the_dtypes_of_python) {
  EXPECT_EQ(tensor({1, 2}).dtype(), kLong);
  EXPECT_EQ(tensor({1., 2.}).dtype(), kFloat);
  EXPECT_EQ(tensor(true).dtype(), kBool);
  EXPECT_EQ(tensor({{1, 2, 3}, {4, 5, 6}}).sizes(), IntList({2, 3}));
  EXPECT_EQ(tensor(std::vector<float>{1, 2}, {.dtype = kDouble}).dtype(), kDouble);
  EXPECT_THROW(tensor({{1, 2}, {3}}), ValueError);
  uint8_t bytes[] = {1, 2, 3};
  EXPECT_EQ(from_data(bytes, {3}).dtype(), kByte);
  Tensor x = zeros({2}, {.dtype = kDouble, .requires_grad = true});
  EXPECT_TRUE(x.requires_grad() && x.dtype() == kDouble);
  EXPECT_EQ(zeros({2}, kInt).dtype(), kInt);
}

TEST(Factories, seeds_give_torchs_numbers) {
  manual_seed(0);
  Tensor x = randn({2}, TensorOptions{});
  EXPECT_FLOAT_EQ(x[0].item<float>(), 1.5409961f);
  EXPECT_FLOAT_EQ(x[1].item<float>(), -0.2934289f);
}

TEST(Print, shows_values_and_what_is_unusual) {
  auto shown = [](const Tensor& t) {
    std::ostringstream out;
    out << t;
    return out.str();
  };
  EXPECT_EQ(shown(tensor({{1, 2}, {3, 4}})), "tensor([[1, 2], [3, 4]])");
  EXPECT_EQ(shown(tensor({0.5, -2.}, {.requires_grad = true})),
            "tensor([0.5, -2], requires_grad=true)");
  EXPECT_EQ(shown(tensor(true)), "tensor(true)");
  EXPECT_EQ(shown(zeros({0, 3}, kDouble)), "tensor([], size=(0, 3), dtype=float64)");
  EXPECT_EQ(shown(arange(2000)), "tensor([0, 1, 2, ..., 1997, 1998, 1999])");
  EXPECT_EQ(shown(Tensor()), "tensor()");
}

}  // namespace
}  // namespace flambeau
