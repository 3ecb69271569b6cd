// Networks, loaders and files of C++ programs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "flambeau/flambeau.h"

namespace flambeau {
namespace {

struct Net : nn::Module {
  nn::Sequential body = register_module(
      "body", nn::Sequential(nn::Conv2d(1, 2, 3, nn::Conv2dOptions{.padding = 1}),
                             nn::BatchNorm2d(2), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten()));
  nn::Linear head = register_module("head", nn::Linear(8, 3));
  Tensor forward(const Tensor& x) override { return head(body(x)); }
};

std::vector<std::string> names(const StateDict& state) {
  std::vector<std::string> found;
  for (auto& [name, tensor] : state) found.push_back(name);
  return found;
}

struct TemporaryFile {
  std::string path =
      (std::filesystem::temp_directory_path() / ("flambeau_" + std::to_string(getpid()) + ".pt"))
          .string();
  ~TemporaryFile() { std::remove(path.c_str()); }
};

TEST(Module, names_and_modes_go_down_the_tree) {
  Net net;
  EXPECT_EQ(names(net.named_parameters()),
            (std::vector<std::string>{"body.0.weight", "body.0.bias", "body.1.weight",
                                      "body.1.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(names(net.named_buffers()),
            (std::vector<std::string>{"body.1.running_mean", "body.1.running_var",
                                      "body.1.num_batches_tracked"}));
  EXPECT_EQ(net.state_dict().size(), 9u);
  net.eval();
  EXPECT_FALSE((*net.body)[1]->is_training());
  EXPECT_THROW(net.register_module("head", nn::ReLU()), ValueError);
  EXPECT_THROW(net.register_buffer("a.b", ones({1})), ValueError);
}

TEST(Module, conversion_keeps_the_tensors) {
  Net net;
  Tensor weight = net.head->weight;
  net.to(kDouble);
  EXPECT_EQ(weight.dtype(), kDouble);
  EXPECT_EQ((*net.body)[1]->named_buffers()[2].second.dtype(), kLong);
  EXPECT_EQ(net.forward(ones({1, 1, 4, 4}, kDouble)).dtype(), kDouble);
}

TEST(Module, training_lowers_the_loss) {
  manual_seed(1);
  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  Tensor x = randn({8, 1, 4, 4}), y = arange(8).remainder(3);
  double first = 0, last = 0;
  for (int step = 0; step < 60; step++) {
    Tensor loss = nn::functional::cross_entropy(net.forward(x), y);
    net.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  EXPECT_GT(first, 0.8);
  EXPECT_LT(last, 0.3);
  EXPECT_EQ((*net.body)[1]->named_buffers()[2].second.item<int>(), 60);
}

TEST(Module, layers_draw_what_python_draws) {
  manual_seed(0);
  nn::Linear layer(2, 1);
  EXPECT_FLOAT_EQ(layer->weight[0][0].item<float>(), -0.0052939812f);
  EXPECT_FLOAT_EQ(layer->weight[0][1].item<float>(), 0.3793228865f);
  EXPECT_FLOAT_EQ(layer->bias[0].item<float>(), -0.5819807649f);
}

TEST(Module, a_padding_row_starts_as_zeros_and_stays) {
  nn::Embedding table(4, 2, -1);
  Tensor found = table(tensor({3, 1}));
  EXPECT_EQ(found[0].abs().sum().item<double>(), 0);
  found.sum().backward();
  EXPECT_EQ(table->weight.grad()[3].sum().item<double>(), 0);
  EXPECT_EQ(table->weight.grad()[1].sum().item<double>(), 2);
}

TEST(Module, dropout_acts_in_training_only) {
  manual_seed(0);
  nn::Dropout dropout(0.5);
  Tensor x = ones({1000});
  double kept = dropout(x).sum().item<double>() / 2;
  EXPECT_NEAR(kept, 500, 60);
  dropout->eval();
  EXPECT_TRUE(dropout(x).equal(x));
}

TEST(Module, files_bring_the_values_back) {
  TemporaryFile file;
  Net a, b;
  a.forward(randn({2, 1, 4, 4}));
  save(a, file.path);
  load(b, file.path);
  StateDict left = a.state_dict(), right = b.state_dict();
  for (size_t i = 0; i < left.size(); i++) EXPECT_TRUE(left[i].second.equal(right[i].second));
}

TEST(StateDict, holds_every_dtype_and_shares_memory) {
  TemporaryFile file;
  Tensor x = arange(6).view({2, 3});
  StateDict state = {{"x", x}, {"again", x}, {"part", x.t()[1]}, {"empty", zeros({0, 3})}};
  for (DType t : {kBool, kByte, kChar, kShort, kInt, kHalf, kBFloat16, kDouble, DType::Complex64})
    state.emplace_back(std::string(name(t)), ones({2}, t));
  save(state, file.path);
  StateDict found = load_state_dict(file.path);
  ASSERT_EQ(names(found), names(state));
  for (size_t i = 0; i < state.size(); i++) {
    EXPECT_EQ(found[i].second.dtype(), state[i].second.dtype());
    EXPECT_TRUE(found[i].second.equal(state[i].second)) << found[i].first;
  }
  EXPECT_EQ(found[0].second->storage, found[1].second->storage);
  EXPECT_THROW(save({{"u", ones({1}, DType::UInt16)}}, file.path), RuntimeError);
}

TEST(StateDict, damage_is_found) {
  TemporaryFile file;
  save({{"x", arange(100)}}, file.path);
  std::ifstream in(file.path, std::ios::binary);
  std::string whole(std::istreambuf_iterator<char>(in), {});
  auto loads = [&](std::string bytes) {
    std::ofstream(file.path, std::ios::binary) << bytes;
    try {
      load_state_dict(file.path);
      return true;
    } catch (const RuntimeError&) {
      return false;
    }
  };
  EXPECT_TRUE(loads(whole));
  for (size_t size = 0; size < whole.size(); size += 7) EXPECT_FALSE(loads(whole.substr(0, size)));
  for (size_t at = 0; at < whole.size(); at += 5) {  // finds it or is none the worse
    std::string changed = whole;
    changed[at] = char(changed[at] ^ 0x55);
    loads(changed);
  }
  EXPECT_THROW(load_state_dict("/nowhere.pt"), RuntimeError);
}

TEST(StateDict, names_must_fit) {
  Net net;
  StateDict state = net.state_dict();
  state.pop_back();
  EXPECT_THROW(net.load_state_dict(state), RuntimeError);
  net.load_state_dict(state, false);
  state[0].second = ones({1});
  EXPECT_THROW(net.load_state_dict(state, false), RuntimeError);
}

TEST(DataLoader, visits_all_rows_once) {
  Tensor x = arange(10);
  data::DataLoader plain(data::TensorDataset({x, x * 2}), {.batch_size = 4});
  std::vector<int64_t> sizes;
  for (const auto& batch : plain) {
    sizes.push_back(batch[0].size(0));
    EXPECT_TRUE((batch[0] * 2).equal(batch[1]));
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 2}));
  data::DataLoader shuffled(data::TensorDataset({x}),
                            {.batch_size = 3, .shuffle = true, .drop_last = true});
  EXPECT_EQ(shuffled.size(), 3);
  std::set<int64_t> seen;
  for (const auto& batch : shuffled)
    for (int64_t i = 0; i < 3; i++) seen.insert(batch[0][i].item<int64_t>());
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_THROW(data::TensorDataset({x, ones({3})}), ValueError);
}

TEST(DataLoader, shuffles_as_python_does) {
  // flambeau.manual_seed(3); DataLoader(TensorDataset(arange(6)), batch_size=6, shuffle=True)
  manual_seed(3);
  data::DataLoader loader(data::TensorDataset({arange(6)}), {.batch_size = 6, .shuffle = true});
  std::vector<Tensor> epochs;
  for (int epoch = 0; epoch < 2; epoch++)
    for (const auto& batch : loader) epochs.push_back(batch[0]);
  EXPECT_TRUE(epochs[0].equal(tensor({2, 4, 0, 1, 3, 5})));
  EXPECT_TRUE(epochs[1].equal(tensor({3, 2, 0, 1, 4, 5})));
}

}  // namespace
}  // namespace flambeau
