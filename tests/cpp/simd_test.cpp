// Registers, loops and bodies on every instruction set of this processor.
#include <gtest/gtest.h>

#include "tests/cpp/kernel_shims.h"

namespace flambeau {
namespace {

TEST(Simd, registers_keep_their_promises) {
  for (int isa = 0; isa <= int(detect_isa()); ++isa) {
    EXPECT_STREQ(broken_register_promise.variants[isa](), "") << "v" << isa + 2;
  }
}

TEST(Simd, loops_keep_their_promises) {
  for (int isa = 0; isa <= int(detect_isa()); ++isa) {
    EXPECT_STREQ(broken_loop_promise.variants[isa](), "") << "v" << isa + 2;
  }
}

TEST(Simd, bodies_keep_their_promises) {
  for (int isa = 0; isa <= int(detect_isa()); ++isa) {
    EXPECT_STREQ(broken_body_promise.variants[isa](), "") << "v" << isa + 2;
  }
}

}  // namespace
}  // namespace flambeau
