// The one thread-local block of the library. Anything bulky sits behind a pointer: 2 KB would no
// longer load with dlopen.
#pragma once
#include <type_traits>

#include "flambeau/core/config.h"

namespace flambeau {

struct Level;  // one entry of the stack of recorders, transforms and Python modes (ops/slow.h)

// A list of equal blocks that wait to be used again.
struct FreeList {
  void* head = nullptr;
  uint32_t count = 0;
};

// Bits of Tls::mode: any of them sends every op down the slow path.
enum Mode : uint8_t {
  kModeLevels = 1,
  kModeAutocast = 2,
  kModeProfile = 4,
  kModePython = 8,
  kModeRecord = 16,  // sizes that Python asks for say where they come from
  kModeBelow = 32,   // a level sees what derivatives do: they call ops (autograd/below.h)
};

struct Tls {
  uint8_t mode = 0;
  bool grad = true;          // is the tape on?
  bool inference = false;    // inside inference_mode
  bool anomaly = false;      // detect_anomaly is on
  bool anomaly_nan = false;  // and looks for NaN
  uint32_t depth = 0;        // ops below the outermost one are invisible to recorders
  uint64_t sequence = 0;     // Lamport clock of the tape
  Level* levels = nullptr;
  FreeList tensors, storages, nodes;
  void* engine = nullptr;  // the node whose backward is running, if any
  void* dying = nullptr;   // nodes that wait to be released, so that long chains do not recurse
  bool draining = false;
  void* notes = nullptr;      // pending error notes (core/error.cpp)
  bool watched = false;       // will end_thread run?
  bool counts_alone = false;  // see core/refcount.h

  void end_thread();
};
static_assert(sizeof(Tls) <= 256);
// A destructor would make the compiler call an initialiser before each access from another file.
static_assert(std::is_trivially_destructible_v<Tls>);

FL_API extern thread_local constinit Tls tls __attribute__((tls_model("initial-exec")));
// Whoever leaves something in the block calls this unless tls.watched: it is freed when the thread
// ends.
FL_API void watch_thread_end();

template <class T>
class Restore {  // sets a value for the length of a scope
 public:
  Restore(T& place, T value) : place_(place), old_(place) { place = value; }
  ~Restore() { place_ = old_; }
  Restore(const Restore&) = delete;

 private:
  T& place_;
  T old_;
};

class NoGradGuard {
 public:
  NoGradGuard() : restore_(tls.grad, false) {}

 private:
  Restore<bool> restore_;
};
class EnableGradGuard {
 public:
  EnableGradGuard() : restore_(tls.grad, true) {}

 private:
  Restore<bool> restore_;
};

}  // namespace flambeau
