// Tests that run on every instruction set of the processor.
#pragma once
#include <gtest/gtest.h>

#include "flambeau/kernels/kernel.h"

namespace flambeau {

// f once per level, within one test.
template <class F>
void on_each_isa(const F& f) {
  const Isa best = detect_isa();
  for (int i = 0; i <= int(best); i++) {
    active_isa = Isa(i);
    SCOPED_TRACE(i);
    f();
  }
  active_isa = best;
}

// One test per level.
class EveryIsa : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    best_ = active_isa;
    if (GetParam() > int(detect_isa())) GTEST_SKIP() << "this processor lacks the instruction set";
    active_isa = Isa(GetParam());
  }
  void TearDown() override { active_isa = best_; }
  Isa best_;
};

}  // namespace flambeau
