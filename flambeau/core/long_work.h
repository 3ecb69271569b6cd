// Work of more than one chunk lets the program's other threads run: an interpreter that runs one
// thread at a time gives up its lock meanwhile. The core knows nothing of that interpreter.
#pragma once
#include "flambeau/core/config.h"

namespace flambeau {

struct LongWorkHooks {
  void* (*begin)() = nullptr;  // what it gives is handed to `end`; null: there was nothing to do
  void (*end)(void* begun) = nullptr;
};
FL_API extern constinit LongWorkHooks long_work_hooks;

// For the length of a scope this thread's work lets nobody else in: it holds a lock that they might
// wait for, or uses what they might drop.
class FL_API Alone {
 public:
  Alone();
  ~Alone();
  Alone(const Alone&) = delete;

 private:
  bool before_;
};

}  // namespace flambeau
