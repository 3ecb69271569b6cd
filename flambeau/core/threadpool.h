// The library's own threads. Work is cut by size, never by thread: results do not depend on the
// count.
#pragma once
#include "flambeau/core/config.h"

namespace flambeau {

// Threads that may work at once, the caller among them. Honours affinity, cgroup quota and
// set_num_threads.
FL_API int num_threads();
FL_API void set_num_threads(int count);

namespace detail {
using ChunkFn = void (*)(void* body, int64_t begin, int64_t end);
FL_API void run_chunks(int64_t total, int64_t grain, ChunkFn fn, void* body);
}  // namespace detail

// Calls body(begin, end) over [0, total) in chunks of `grain` (the last may be shorter). A chunk
// must not throw, own a Tensor or touch Python. A call inside a chunk runs on the calling thread.
template <class F>
void parallel_for(int64_t total, int64_t grain, const F& body) {
  if (total <= 0) return;
  if (total <= grain) return body(int64_t(0), total);
  detail::run_chunks(
      total, grain,
      [](void* f, int64_t begin, int64_t end) { (*static_cast<const F*>(f))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace flambeau
