// The tape among threads of a C++ program: what they share without a lock of their own. Under
// ThreadSanitizer these are the proof, elsewhere they check the sums.
#include <gtest/gtest.h>

#include <thread>

#include "flambeau/flambeau.h"

namespace flambeau {
namespace {

constexpr int kThreads = 4;

template <class F>
void on_threads(F&& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& t : threads) t.join();
}

double largest(const Tensor& t) { return t.abs().max().item<double>(); }

TEST(Tape, threads_train_networks_of_their_own) {
  std::vector<double> losses(kThreads);
  on_threads([&](int i) {
    Tensor x = ones({8, 3}), w = full({3, 2}, 0.5, {.requires_grad = true});
    for (int step = 0; step < 50; step++) {
      Tensor loss = (x.matmul(w).tanh() - 0.1).square().mean();
      losses[size_t(i)] = loss.item<double>();
      loss.backward();
      NoGradGuard no_grad;
      w.sub_(0.1 * w.grad());
      w.grad().zero_();
    }
  });
  EXPECT_LT(losses[0], 1e-3);
  EXPECT_EQ(losses, std::vector<double>(kThreads, losses[0]));
}

TEST(Tape, gradients_of_all_threads_arrive_at_a_shared_leaf) {
  constexpr int kSteps = 100;
  Tensor w = full({64}, 2., {.requires_grad = true});
  on_threads([&](int) {
    for (int step = 0; step < kSteps; step++) (w * w).sum().backward();
  });
  EXPECT_EQ(largest(w.grad() - 4. * kThreads * kSteps), 0);
}

TEST(Tape, threads_walk_a_shared_graph) {
  Tensor w = full({64}, 3., {.requires_grad = true});
  Tensor shared = (w * w).exp().log();
  on_threads([&](int i) { (shared * double(i + 1)).sum().backward(Tensor(), true); });
  EXPECT_NEAR(largest(w.grad() - 6. * (1 + 2 + 3 + 4)), 0, 1e-3);
}

TEST(Tape, graphs_made_on_one_thread_end_on_another) {
  Tensor w = full({16}, 1., {.requires_grad = true});
  for (int round = 0; round < 20; round++) {
    std::vector<Tensor> roots;
    for (int i = 0; i < kThreads; i++) {
      Tensor y = w;
      for (int depth = 0; depth < 200; depth++) y = y * 1.0 + 0.0;
      roots.push_back(y.sum());
    }
    on_threads([&](int i) {
      Tensor root = std::move(roots[size_t(i)]);
      if (i % 2) root.backward();
    });
  }
  EXPECT_EQ(largest(w.grad() - 40.), 0);
}

TEST(Tape, threads_read_views_and_copies_of_shared_memory) {
  Tensor base = arange(4096).to(kFloat).view({64, 64});
  std::vector<double> sums(kThreads);
  on_threads([&](int i) {
    for (int step = 0; step < 50; step++) {
      Tensor part = base.select(0, i).clone();
      sums[size_t(i)] = (part.t() + base.t().select(1, i)).sum().item<double>();
    }
  });
  for (int i = 0; i < kThreads; i++) EXPECT_EQ(sums[size_t(i)], 2 * (64 * (64 * i + 31.5)));
}

TEST(Tape, results_outlive_each_other_in_any_order) {
  // Saved results that die before the backward become the node's own.
  for (int kept = 0; kept < 3; kept++) {
    Tensor a = tensor({2., 1., 1., 3.}, {.requires_grad = true}).detach().view({2, 2});
    a.set_requires_grad(true);
    std::vector<Tensor> parts;
    {
      auto [u, s, vh] = linalg_svd(a);
      for (const Tensor& part : {u, s, vh}) parts.push_back(part.abs().sum());
    }
    Tensor root = parts[size_t(kept)];
    parts.clear();
    std::vector<Tensor> noise;  // takes whatever memory was given back too early
    for (int i = 0; i < 64; i++) noise.push_back(full({2, 2}, 1e6));
    root.backward();
    EXPECT_LT(largest(a.grad()), 10) << kept;
  }
}

}  // namespace
}  // namespace flambeau
