// Allocators: reuse, blocks that change threads, limits, reports.
#include "flambeau/core/allocator.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "flambeau/core/error.h"

namespace flambeau {
namespace {

constexpr size_t kMiB = size_t(1) << 20;

struct Block {
  char* data;
  size_t bytes;
};

Allocator& cpu() { return allocator(DeviceType::CPU); }
Allocator& fake() { return allocator(DeviceType::Fake); }

Block make(Allocator& from, size_t bytes) {
  Block block{static_cast<char*>(from.allocate(bytes)), bytes};
  if (bytes) block.data[0] = block.data[bytes - 1] = char(bytes);
  return block;
}

bool intact(const Block& block) {
  return block.data[0] == char(block.bytes) && block.data[block.bytes - 1] == char(block.bytes);
}

std::string error_of(Allocator& from, size_t bytes) {
  try {
    from.release(from.allocate(bytes), bytes);
  } catch (const OutOfMemoryError& error) {
    return error.what();
  }
  return "no error";
}

struct AllocatorTest : testing::Test {
  void SetUp() override { cpu().empty_cache(), fake().empty_cache(), fake().reset_peak(); }
  void TearDown() override { set_fake_memory_limit(1024 * kMiB); }
};

TEST_F(AllocatorTest, BlocksAreAlignedAndDistinct) {
  std::mt19937 random(1);
  std::vector<Block> blocks;
  for (int i = 0; i < 3000; i++) {
    size_t bytes = random() % 4 ? 1 + random() % 1024 : 1 + random() % 50'000;
    blocks.push_back(make(cpu(), bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().data) % 64, 0u);
    if (random() % 3 == 0) {
      size_t victim = random() % blocks.size();
      EXPECT_TRUE(intact(blocks[victim]));
      cpu().release(blocks[victim].data, blocks[victim].bytes);
      blocks[victim] = blocks.back();
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) {
    EXPECT_TRUE(intact(block)) << block.bytes;
    cpu().release(block.data, block.bytes);
  }
}

TEST_F(AllocatorTest, NoBytesNeedNoMemory) {
  EXPECT_EQ(cpu().allocate(0), nullptr);
  cpu().release(nullptr, 0);
  EXPECT_EQ(allocate_small(0), nullptr);
  release_small(nullptr, 0);
  EXPECT_EQ(fake().allocate(0), nullptr);
}

TEST_F(AllocatorTest, LargeBlocksStartOnAHugePage) {
  Block block = make(cpu(), 5 * kMiB + 12345);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % (2 * kMiB), 0u);
  cpu().release(block.data, block.bytes);
}

TEST_F(AllocatorTest, LiveBytesReturnToWhereTheyWere) {
  MemoryStats before = cpu().stats();
  std::vector<Block> blocks;
  for (size_t bytes : {1, 64, 65, 1024, 1025, 100'000, 3'000'000})
    blocks.push_back(make(cpu(), bytes));
  MemoryStats during = cpu().stats();
  EXPECT_EQ(during.live_blocks - before.live_blocks, 7);
  EXPECT_GE(during.live_bytes - before.live_bytes, 3'102'179);
  EXPECT_LE(during.live_bytes - before.live_bytes, 3'102'179 * 9 / 8 + 256);
  EXPECT_EQ(during.allocations - before.allocations, 7);
  for (const Block& block : blocks) cpu().release(block.data, block.bytes);
  MemoryStats after = cpu().stats();
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_EQ(after.live_blocks, before.live_blocks);
  EXPECT_GE(after.peak_bytes, during.live_bytes);
  cpu().reset_peak();
  EXPECT_LT(cpu().stats().peak_bytes, during.live_bytes);
}

#ifndef __SANITIZE_ADDRESS__
TEST_F(AllocatorTest, ReleasedBlocksComeBackFirst) {
  for (size_t bytes : {8, 700, 4000, 300'000, 8'000'000}) {
    void* p = cpu().allocate(bytes);
    cpu().release(p, bytes);
    void* q = cpu().allocate(bytes);
    EXPECT_EQ(p, q) << bytes;
    cpu().release(q, bytes);
  }
}

TEST_F(AllocatorTest, CacheIsReportedAndEmptied) {
  Block block = make(cpu(), 8 * kMiB);
  cpu().release(block.data, block.bytes);
  EXPECT_EQ(cpu().stats().cached_bytes, int64_t(8 * kMiB));
  EXPECT_EQ(cpu().stats().cached_blocks, 1);
  EXPECT_EQ(cpu().stats().largest_cached, int64_t(8 * kMiB));
  cpu().empty_cache();
  EXPECT_EQ(cpu().stats().cached_bytes, 0);
  EXPECT_EQ(cpu().stats().cached_blocks, 0);
}

TEST_F(AllocatorTest, AnotherThreadsBlocksAreUsedAgain) {
  // One thread makes blocks, the other releases them: without a way back memory would grow by 64
  // MiB here.
  int64_t before = cpu().stats().small_bytes;
  for (int round = 0; round < 1000; round++) {
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; i++) blocks.push_back(allocate_small(64));
    std::thread([&] {
      for (void* p : blocks) release_small(p, 64);
    }).join();
  }
  EXPECT_LE(cpu().stats().small_bytes - before, int64_t(2 * kMiB));
}
#endif

TEST_F(AllocatorTest, ManyThreadsExchangeBlocks) {
  int64_t before = cpu().stats().live_bytes;
  std::vector<std::atomic<char*>> slots(64);
  for (auto& slot : slots) slot = nullptr;
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 20'000; i++) {
        size_t slot = random() % slots.size();
        size_t bytes = 64 * (slot + 1);  // small and larger ones
        char* p = static_cast<char*>(cpu().allocate(bytes));
        std::memset(p, int(slot), bytes);
        char* old = slots[slot].exchange(p);
        if (!old) continue;
        if (old[0] != char(slot) || old[bytes - 1] != char(slot)) damaged++;
        cpu().release(old, bytes);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t slot = 0; slot < slots.size(); slot++) cpu().release(slots[slot], 64 * (slot + 1));
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(cpu().stats().live_bytes, before);
}

TEST_F(AllocatorTest, ImpossibleSizesNameTheirNumbers) {
  Block block = make(cpu(), 3 * kMiB);
  std::string huge = error_of(cpu(), size_t(1) << 62);
  EXPECT_NE(huge.find("cpu: out of memory, asked for 4.00 EiB (4611686018427387904 bytes)"),
            std::string::npos)
      << huge;
  EXPECT_NE(huge.find("the largest about 3.00 MiB"), std::string::npos) << huge;
  EXPECT_NE(huge.find("cached "), std::string::npos) << huge;
  // Passes the check of the size; the system refuses it.
  EXPECT_NE(error_of(cpu(), size_t(1) << 47).find("asked for 128.00 TiB"), std::string::npos);
  cpu().release(block.data, block.bytes);
}

TEST_F(AllocatorTest, FakeDeviceStopsAtItsLimit) {
  set_fake_memory_limit(10 * kMiB);
  Block first = make(fake(), 4 * kMiB);
  Block second = make(fake(), 3 * kMiB);
  EXPECT_EQ(error_of(fake(), 5 * kMiB),
            "fake: out of memory, asked for 5.00 MiB (5242880 bytes); the device has 10.00 MiB, "
            "free 3.00 MiB; "
            "live 7.00 MiB in 2 blocks, the largest about 4.00 MiB; peak 7.00 MiB; cached 0 bytes");
  EXPECT_EQ(fake().stats().live_bytes, int64_t(7 * kMiB));
  Block third = make(fake(), 3 * kMiB);  // a smaller request still works
  for (const Block& block : {first, second, third}) fake().release(block.data, block.bytes);
  EXPECT_EQ(fake().stats().live_bytes, 0);
}

TEST_F(AllocatorTest, FakeCacheNeverBlocksARequest) {
  std::mt19937 random(3);
  std::vector<Block> blocks;
  for (int i = 0; i < 400; i++) {
    blocks.push_back(make(fake(), 1 + random() % (2 * kMiB)));
    size_t victim = random() % blocks.size();
    if (i % 2) {
      fake().release(blocks[victim].data, blocks[victim].bytes);
      blocks.erase(blocks.begin() + long(victim));
    }
  }
  MemoryStats now = fake().stats();
  size_t request = size_t(double(now.limit_bytes - now.live_bytes) * 0.9);
  Block big{static_cast<char*>(fake().allocate(request)), request};
  fake().release(big.data, big.bytes);
  for (const Block& block : blocks) fake().release(block.data, block.bytes);
}

TEST_F(AllocatorTest, AlternatingShapesHoldLittleMoreThanTheyNeed) {
  int64_t held = 0;
  for (size_t step = 0; step < 200; step++) {
    Block a = make(fake(), (1 + step % 7) * 300'000);
    Block b = make(fake(), (1 + step % 5) * 500'000);
    MemoryStats now = fake().stats();
    held = std::max(held, now.live_bytes + now.cached_bytes);
    fake().release(a.data, a.bytes);
    fake().release(b.data, b.bytes);
  }
  EXPECT_LE(double(held), 1.15 * double(fake().stats().peak_bytes));
}

TEST_F(AllocatorTest, OtherDevicesAreRefused) {
  EXPECT_THROW(allocator(DeviceType::CUDA), NotImplementedError);
  EXPECT_THROW(allocator(DeviceType::Meta), NotImplementedError);
}

TEST_F(AllocatorTest, ForkedChildrenAllocate) {
  std::atomic<bool> stop{false};
  std::thread other([&] {  // holds the locks as often as it can
    while (!stop) cpu().release(cpu().allocate(5000), 5000);
  });
  for (int round = 0; round < 20; round++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (size_t bytes : {10, 2000, 5'000'000}) cpu().release(cpu().allocate(bytes), bytes);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

}  // namespace
}  // namespace flambeau
