// The thread pool: every chunk once, callers that compete, changes of size, forks, quotas.
#include "flambeau/core/threadpool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "flambeau/core/error.h"
#include "flambeau/core/host.h"

namespace flambeau {
namespace {

namespace fs = std::filesystem;

int tasks() {
  int count = 0;
  for ([[maybe_unused]] auto& entry : fs::directory_iterator("/proc/self/task")) count++;
  return count;
}

void burn(int64_t microseconds) {
  auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < until) {
  }
}

// Adds one to every element, in chunks of `grain`. Chunks that take no time would never wake a
// worker.
void touch(std::vector<int>& hits, int64_t grain, int64_t microseconds = 0) {
  parallel_for(int64_t(hits.size()), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) hits[size_t(i)]++;
    if (microseconds) burn(microseconds);
  });
}

struct ThreadPool : testing::Test {
  int before = num_threads();
  ~ThreadPool() override { set_num_threads(before); }
};

TEST_F(ThreadPool, EveryElementIsVisitedOnce) {
  set_num_threads(4);
  for (int64_t total : {1, 2, 7, 64, 1000, 100'000}) {
    for (int64_t grain : {1, 3, 64, 5000}) {
      std::vector<int> hits(static_cast<size_t>(total), 0);
      touch(hits, grain, total == 1000 ? 1 : 0);
      EXPECT_EQ(hits, std::vector<int>(static_cast<size_t>(total), 1)) << total << " by " << grain;
    }
  }
}

TEST_F(ThreadPool, ChunksAreCutBySizeAlone) {
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    std::vector<int64_t> ends(11, 0);
    parallel_for(1005, 100, [&](int64_t begin, int64_t end) { ends[size_t(begin / 100)] = end; });
    EXPECT_EQ(ends,
              (std::vector<int64_t>{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1005}));
  }
}

TEST_F(ThreadPool, ManyMoreChunksThanClaims) {
  set_num_threads(3);
  std::vector<int> hits(300'000, 0);
  touch(hits, 1);
  EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), int64_t(0)), 300'000);
  EXPECT_EQ(*std::max_element(hits.begin(), hits.end()), 1);
}

TEST_F(ThreadPool, SeveralThreadsTakePart) {
  set_num_threads(3);
  std::atomic<int> inside{0}, most{0};
  for (int attempt = 0; attempt < 200 && most < 2; attempt++) {
    parallel_for(16, 1, [&](int64_t, int64_t) {
      int now = ++inside;
      if (now > most) most = now;
      burn(200);
      --inside;
    });
  }
  EXPECT_GE(most, 2);
  EXPECT_LE(most, 3);
}

TEST_F(ThreadPool, OneThreadLeavesNoWorker) {
  std::thread([] {}).join();  // a sanitizer's own thread comes with the first
  int alone = tasks();        // other tests' pools are gone as soon as the size is 1
  set_num_threads(4);
  std::vector<int> hits(64, 0);
  parallel_for(64, 1, [&](int64_t begin, int64_t) { burn(100), hits[size_t(begin)]++; });
  EXPECT_GT(tasks(), 1);
  set_num_threads(1);
  EXPECT_LE(tasks(), alone);
  touch(hits, 1);
  EXPECT_LE(tasks(), alone);
}

TEST_F(ThreadPool, SizeIsReportedAndChecked) {
  set_num_threads(7);
  EXPECT_EQ(num_threads(), 7);
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_THROW(set_num_threads(-3), Error);
  EXPECT_EQ(num_threads(), 7);
}

TEST_F(ThreadPool, NestedCallsRunOnTheCallingThread) {
  set_num_threads(2);
  std::vector<int> hits(8 * 100, 0);
  std::atomic<bool> moved{false};
  parallel_for(8, 1, [&](int64_t row, int64_t) {
    auto self = std::this_thread::get_id();
    parallel_for(100, 10, [&](int64_t begin, int64_t end) {
      if (std::this_thread::get_id() != self) moved = true;
      for (int64_t i = begin; i < end; i++) hits[size_t(row * 100 + i)]++;
    });
  });
  EXPECT_FALSE(moved);
  EXPECT_EQ(hits, std::vector<int>(800, 1));
}

TEST_F(ThreadPool, CallersMayCompete) {
  set_num_threads(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; c++) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; round++) {
        std::vector<int> hits(1000, 0);
        touch(hits, 37, 3);
        if (hits != std::vector<int>(1000, 1)) wrong++;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadPool, SizeMayChangeWhileOthersWork) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread caller([&] {
    while (!stop) {
      std::vector<int> hits(500, 0);
      touch(hits, 11, 3);
      if (hits != std::vector<int>(500, 1)) wrong++;
    }
  });
  for (int round = 0; round < 60; round++) {
    set_num_threads(1 + round % 4);
    burn(300);
  }
  stop = true;
  caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ThreadPool, SizeMayChangeFromInsideAChunk) {
  set_num_threads(2);
  std::vector<int> hits(100, 0);
  parallel_for(4, 1, [](int64_t, int64_t) { set_num_threads(3); });
  EXPECT_EQ(num_threads(), 3);
  touch(hits, 5);
  EXPECT_EQ(hits, std::vector<int>(100, 1));
}

TEST_F(ThreadPool, FloatModeOfTheCallerHoldsInWorkers) {
  set_num_threads(2);
  volatile float tiny = 1e-30f, small = 1e-10f;  // their product is subnormal
  unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8000);
  std::atomic<int> kept{0};
  parallel_for(64, 1, [&](int64_t, int64_t) {
    burn(20);
    if (tiny * small != 0) kept++;
  });
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(kept, 0);
  parallel_for(64, 1, [&](int64_t, int64_t) {
    burn(20);
    if (tiny * small != 0) kept++;
  });
  EXPECT_EQ(kept, 64);
}

// One cannot start threads after a fork, the other may leave its allocator's locks held in the
// child.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_F(ThreadPool, ForkedChildrenHaveAPoolOfTheirOwn) {
  set_num_threads(2);
  std::vector<int> hits(1000, 0);
  std::atomic<bool> stop{false};
  std::thread other([&] {  // the pool is often in use at the moment of the fork
    while (!stop) {
      std::vector<int> mine(1000, 0);
      touch(mine, 10, 1);
    }
  });
  for (int round = 0; round < 20; round++) {
    touch(hits, 10);
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      std::vector<int> mine(1000, 0);
      for (int i = 0; i < 5; i++) {
        parallel_for(1000, 10, [&](int64_t begin, int64_t end) {
          burn(20);
          for (int64_t k = begin; k < end; k++) mine[size_t(k)]++;
        });
      }
      bool good = mine == std::vector<int>(1000, 5) && tasks() > 1;
      set_num_threads(1);
      _exit(good && tasks() == 1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "round " << round;
  }
  stop = true;
  other.join();
}
#endif

struct Cgroup : testing::Test {
  fs::path root = fs::temp_directory_path() / ("flambeau-cgroup-" + std::to_string(getpid()));
  void SetUp() override {
    fs::create_directories(root / "a/b"), fs::create_directories(root / "cpu/a");
  }
  void TearDown() override { fs::remove_all(root); }
  void write(const fs::path& file, const std::string& text) { std::ofstream(root / file) << text; }
  int quota() { return cgroup_quota(root / "self", root); }
};

TEST_F(Cgroup, QuotaIsRoundedUpAndTheTightestWins) {
  write("self", "0::/a/b\n");
  EXPECT_EQ(quota(), 0);
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("a/b/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(), 4);
  write("a/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(Cgroup, VersionOneAndAPathOutsideTheContainer) {
  write("self", "4:memory:/x\n1:cpu:/somewhere/else\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  write("cpu/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(Cgroup, MemoryIsTheTightestLimit) {
  write("self", "0::/a/b\n");
  auto memory = [&] { return host_memory(root / "self", root); };
  int64_t machine = memory();
  EXPECT_GT(machine, int64_t(1) << 27);
  write("a/b/memory.max", "max\n");
  EXPECT_EQ(memory(), machine);
  write("a/memory.max", "104857600\n");
  EXPECT_EQ(memory(), 104857600);
}

}  // namespace
}  // namespace flambeau
