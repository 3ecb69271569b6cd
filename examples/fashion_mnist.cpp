// The C++ twin of fashion_mnist.py: the same network, arguments and random
// draws, hence the same losses; either program loads the model that the other
// saved. No Python is needed.
//
//   fashion_mnist                      Debian's dataset-fashion-mnist, 5 epochs
//   fashion_mnist --model FILE         only tests a saved model
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numbers>
#include <stdexcept>

#include "flambeau/flambeau.h"

using namespace flambeau;
namespace F = nn::functional;

constexpr double kMean = 0.2860,
                 kStd = 0.3530;  // of the training pixels, scaled to [0, 1]
constexpr size_t kLossesKept = 100;

// A mistake of the user's: one sentence that says what to do.
struct UserError : Error {
  using Error::Error;
};

struct Net : nn::Module {
  nn::Conv2d conv1{1, 16, 3, nn::Conv2dOptions{.padding = 1}};
  nn::Conv2d conv2{16, 32, 3, nn::Conv2dOptions{.padding = 1}};
  nn::Linear hidden{32 * 7 * 7, 64};
  nn::Linear classes{64, 10};

  Net() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("hidden", hidden);
    register_module("classes", classes);
  }
  Tensor forward(const Tensor& images) override {       // (B, 1, 28, 28)
    Tensor x = F::max_pool2d(conv1(images).relu(), 2);  // (B, 16, 14, 14)
    x = F::max_pool2d(conv2(x).relu(), 2);              // (B, 32, 7, 7)
    return classes(hidden(x.flatten(1)).relu());        // (B, 10)
  }
};

struct Arguments {
  std::string data = "/usr/share/datasets/fashion-mnist", out = "out", losses, model;
  int64_t epochs = 5, batch = 128, seed = 0, threads = 0;
  double lr = 3e-3;
};

// An IDX file of bytes as a uint8 tensor: two zeros, type 8, number of dims,
// the sizes, the bytes.
Tensor read_idx(const std::filesystem::path& path, int ndim) {
  const std::string advice =
      ": install Debian's package dataset-fashion-mnist "
      "or name the folder that holds the four .gz "
      "files with --data DIR";
  if (!std::filesystem::exists(path)) throw UserError(path.string() + " is missing" + advice);
  std::FILE* pipe = popen(("gzip -dc '" + path.string() + "' 2>/dev/null").c_str(), "r");
  std::vector<uint8_t> bytes;
  std::array<uint8_t, 1 << 16> block;
  while (size_t n = pipe ? std::fread(block.data(), 1, block.size(), pipe) : 0)
    bytes.insert(bytes.end(), block.begin(), block.begin() + int64_t(n));
  if (!pipe || pclose(pipe) != 0) throw UserError(path.string() + " is damaged" + advice);

  size_t start = 4 + 4 * size_t(ndim);
  if (bytes.size() < start || bytes[2] != 8 || bytes[3] != ndim)
    throw UserError(path.string() + " is no IDX file of bytes in " + std::to_string(ndim) +
                    " dimensions" + advice);
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (int d = 0; d < ndim; d++) {
    const uint8_t* n = &bytes[4 + 4 * size_t(d)];
    sizes.push_back(int64_t(n[0]) << 24 | n[1] << 16 | n[2] << 8 | n[3]);
    count *= sizes.back();
  }
  if (int64_t(bytes.size() - start) != count || count == 0)
    throw UserError(path.string() + " is damaged" + advice);
  return from_data(&bytes[start], sizes);
}

// Images as floats (N, 1, 28, 28) of mean 0 and deviation 1, labels as int64
// (N,).
data::TensorDataset read_split(const std::string& folder, const std::string& name) {
  std::filesystem::path base(folder);
  Tensor images = read_idx(base / (name + "-images-idx3-ubyte.gz"), 3);
  Tensor labels = read_idx(base / (name + "-labels-idx1-ubyte.gz"), 1);
  if (images.size(1) != 28 || images.size(2) != 28 || images.size(0) != labels.size(0))
    throw UserError(folder + " holds no Fashion-MNIST, name another with --data DIR");
  Tensor pixels = (images.unsqueeze(1).to(kFloat) / 255 - kMean) / kStd;
  return data::TensorDataset({pixels, labels.to(kLong)});
}

// Learning rate: up to `peak` over the first fifth, then down to zero (Smith
// 2018).
double one_cycle(int64_t step, int64_t steps, double peak) {
  int64_t rise = std::max<int64_t>(steps / 5, 1);
  if (step < rise) return peak * double(step + 1) / double(rise);
  double along = double(step - rise) / double(std::max<int64_t>(steps - rise, 1));
  return peak * 0.5 * (1 + std::cos(std::numbers::pi * along));
}

double accuracy(Net& net, const data::TensorDataset& dataset) {
  NoGradGuard no_grad;
  int64_t correct = 0;
  for (const auto& batch : data::DataLoader(dataset, {.batch_size = 500}))
    correct += (net.forward(batch[0]).argmax(1) == batch[1]).sum().item<int64_t>();
  return double(correct) / double(dataset.size());
}

// Trains the network; returns the loss of every step.
std::vector<double> train(Net& net, const data::TensorDataset& train_data,
                          const data::TensorDataset& test_data, const Arguments& args) {
  data::DataLoader loader(train_data, {.batch_size = args.batch, .shuffle = true});
  optim::Adam optimizer(net.parameters(), {.lr = args.lr});
  int64_t steps = args.epochs * loader.size();
  std::vector<double> losses;
  for (int64_t epoch = 1; epoch <= args.epochs; epoch++) {
    auto begin = std::chrono::steady_clock::now();
    double sum = 0;
    for (const auto& batch : loader) {
      optimizer.options.lr = one_cycle(int64_t(losses.size()), steps, args.lr);
      Tensor loss = F::cross_entropy(net.forward(batch[0]), batch[1]);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
      sum += losses.back();
    }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::fprintf(stderr, "%.0f images/s\n", double(train_data.size()) / took.count());
    std::printf("epoch %d: loss %.4f, test accuracy %.4f\n", int(epoch),
                sum / double(loader.size()), accuracy(net, test_data));
  }
  return losses;
}

// The shortest text that reads back as the same number, as Python writes it.
std::string shortest(double x) {
  char text[32];
  std::string found(text, std::to_chars(text, text + sizeof text, x).ptr);
  return found.find_first_of(".en") == std::string::npos ? found + ".0" : found;
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  std::map<std::string, std::string*> texts = {
      {"--data", &a.data}, {"--out", &a.out}, {"--losses", &a.losses}, {"--model", &a.model}};
  std::map<std::string, int64_t*> counts = {
      {"--epochs", &a.epochs}, {"--batch", &a.batch}, {"--threads", &a.threads}};
  for (int i = 1; i < argc; i += 2) {
    std::string name = argv[i];
    if (i + 1 == argc) throw UserError(name + " needs a value");
    std::string value = argv[i + 1];
    try {
      if (texts.contains(name)) {
        *texts[name] = value;
      } else if (counts.contains(name)) {
        *counts[name] = std::stoll(value);
        if (*counts[name] < 1) throw UserError(name + " must be at least 1, got " + value);
      } else if (name == "--seed") {
        a.seed = std::stoll(value);
      } else if (name == "--lr") {
        a.lr = std::stod(value);
      } else {
        throw UserError("unknown argument " + name);
      }
    } catch (const std::logic_error&) {
      throw UserError(name + " takes a number, got " + value);
    }
  }
  return a;
}

void run(const Arguments& args) {
  if (args.threads) set_num_threads(int(args.threads));
  manual_seed(uint64_t(args.seed));
  auto test_data = read_split(args.data, "t10k");
  Net net;
  if (args.model.empty()) {
    auto train_data = read_split(args.data, "train");
    std::vector<double> losses = train(net, train_data, test_data, args);
    if (!args.losses.empty()) {
      std::ofstream file(args.losses);
      for (size_t i = 0; i < std::min(losses.size(), kLossesKept); i++)
        file << shortest(losses[i]) << "\n";
    }
    std::filesystem::create_directories(args.out);
    std::string model = (std::filesystem::path(args.out) / "fashion_mnist.pt").string();
    save(net, model);
    std::printf("saved %s\n", model.c_str());
  } else {
    load(net, args.model);
  }
  std::printf("test accuracy %.4f\n", accuracy(net, test_data));
}

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const Error& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return 1;
  }
}
