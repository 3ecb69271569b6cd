// The pool behind parallel_for. A job is cut into claims; threads take them with one fetch_add
// each, the caller among them, and the caller waits only for claims that somebody took: a worker
// that wakes late costs nothing.
//
// A worker stands on every allowed CPU; the one on the caller's CPU sits a job out, because a
// thread woken there would push the caller aside and leave another CPU idle. With fewer threads
// than CPUs nothing is pinned: several processes of that kind would otherwise share the first few
// CPUs.
#include "flambeau/core/threadpool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>
#include <cstdio>
#include <new>

#include "flambeau/core/check.h"
#include "flambeau/core/host.h"
#include "flambeau/core/long_work.h"

namespace flambeau {

constinit LongWorkHooks long_work_hooks;

namespace {

constexpr int kMaxClaims = 4096;  // claims and failed claims of one job must fit 16 bits
constexpr int kMaxThreads = 4096;
constexpr int64_t kSpinNs = 60'000;      // a worker's wait for the next job before it parks
constexpr int64_t kShortSpinNs = 2'000;  // the caller's wait where spinning would burn a CPU quota
constexpr int64_t kLookNs = 5'000'000;   // between two looks at the CPU mask
constexpr int64_t kWakeNs = 40'000;      // what a parked worker needs to arrive
constexpr int64_t kMeasuredChunks =
    8;  // with this many chunks the first is timed before anybody is woken

__attribute__((tls_model("initial-exec"))) constinit thread_local bool inside_chunk = false;
__attribute__((tls_model("initial-exec"))) constinit thread_local bool alone = false;

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// The caller's rounding and flush-to-zero modes hold for its whole job, whoever computes a chunk.
unsigned float_mode() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~unsigned(_MM_EXCEPT_MASK);
#else
  return 0;
#endif
}

void set_float_mode([[maybe_unused]] unsigned mode) {
#if defined(__x86_64__)
  if (float_mode() != mode) _mm_setcsr(mode);
#endif
}

long futex(const void* word, int op, uint32_t value, uint32_t bits) {
  return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, bits);
}

// epoch (32 bits) | claims (16) | next (16). Whoever adds one learns which claim is his and whether
// there is one; the job's fields stay until every claim is done, so they may be read after a
// successful claim and at no other time.
struct Ticket {
  uint64_t bits;
  uint32_t epoch() const { return uint32_t(bits >> 32); }
  uint32_t claims() const { return uint32_t(bits >> 16) & 0xffff; }
  uint32_t next() const { return uint32_t(bits) & 0xffff; }
  bool open() const { return next() < claims(); }
};

struct Job {
  detail::ChunkFn fn;
  void* body;
  int64_t total, grain;
  int64_t first, chunks;  // chunks before `first` are done already
  int64_t chunks_per_claim;
  unsigned float_mode;

  void run_chunk(int64_t chunk) const {
    int64_t begin = chunk * grain;
    fn(body, begin, begin + grain < total ? begin + grain : total);
  }
  void run_claim(int64_t claim) const {
    int64_t begin = first + claim * chunks_per_claim;
    int64_t end = begin + chunks_per_claim < chunks ? begin + chunks_per_claim : chunks;
    for (int64_t chunk = begin; chunk < end; chunk++) run_chunk(chunk);
  }
};

struct alignas(kCacheLine) Worker {
  pthread_t thread;
  int id;
  std::atomic<pid_t> tid{0};
  std::atomic<bool> parked{false};
};

class Pool {
 public:
  void run(Job job) noexcept;
  bool try_lock() { return !busy_.exchange(true, std::memory_order_acquire); }
  void lock();
  void unlock() { busy_.store(false, std::memory_order_release); }
  void resize_to(int threads);
  void work_until_stopped(Worker& self);
  void forget_workers();

 private:
  bool prepare();
  void start(int threads);
  bool add_worker(const cpu_set_t& cpus);
  void stop();
  void publish(const Job& job, int64_t claims);
  int64_t work();
  void wait_for_claims(uint32_t count);
  bool wait_for_job(Worker& self);
  void park(Worker& self, uint32_t epoch);
  void wake(int64_t count);
  int sleepers() const;
  void choose_excluded();
  void run_alone(const Job& job) const {
    for (int64_t chunk = job.first; chunk < job.chunks; chunk++) job.run_chunk(chunk);
  }
  // The futex word: the ticket's upper half, that is its second word on a little-endian machine.
  const void* epoch_word() const { return reinterpret_cast<const uint32_t*>(&ticket_) + 1; }

  alignas(kCacheLine) std::atomic<uint64_t> ticket_{0};
  alignas(kCacheLine) std::atomic<uint32_t> done_{0};  // claims finished by workers
  std::atomic<bool> caller_sleeps_{false};
  alignas(kCacheLine) Job job_{};
  std::atomic<int> excluded_{-1};
  std::atomic<bool> stopping_{false};
  alignas(kCacheLine) std::atomic<int> parked_{0};
  alignas(kCacheLine) std::atomic<bool> busy_{false};

  // Below: only touched by the thread that set busy_.
  Worker* workers_ = nullptr;
  int worker_count_ = 0;
  int pinned_ = 0;   // the first workers are pinned, one to each CPU
  int threads_ = 0;  // what the pool was started for
  bool spins_ = false;
  bool handles_fork_ = false;
  int64_t next_look_ = 0;
  cpu_set_t cpus_{};
  int16_t worker_on_[CPU_SETSIZE]{};
};

// Never destroyed: workers may outlive every static object of the program.
constinit Pool pool;
constinit std::atomic<int> wanted{
    -1};  // set_num_threads or the environment; 0: by CPUs; -1: not asked yet
constinit std::atomic<int> known_quota{-1};

int wanted_threads() {
  int count = wanted.load(std::memory_order_relaxed);
  if (FL_LIKELY(count >= 0)) return count;
  int found = threads_from_environment();
  wanted.compare_exchange_strong(count, found);
  return wanted.load(std::memory_order_relaxed);
}

int quota() {
  int cpus = known_quota.load(std::memory_order_relaxed);
  if (cpus < 0) known_quota.store(cpus = cgroup_quota(), std::memory_order_relaxed);
  return cpus;
}

int threads_for(int cpus) {
  if (int count = wanted_threads()) return count;
  int limit = quota();
  return limit && limit < cpus ? limit : cpus;
}

void* worker_main(void* self) {
  inside_chunk = true;
  pool.work_until_stopped(*static_cast<Worker*>(self));
  return nullptr;
}

void Pool::lock() {
  while (!try_lock()) {
    timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
}

void Pool::run(Job job) noexcept {
  if (!prepare()) return run_alone(job);
  choose_excluded();
  if (sleepers() > 0 && job.chunks - job.first >= kMeasuredChunks) {
    // Work that is over before a parked worker arrives is not worth the wake-up call.
    int64_t start = now_ns();
    job.run_chunk(job.first++);
    if ((job.chunks - job.first) * (now_ns() - start) < kWakeNs) return run_alone(job);
  }
  int64_t chunks = job.chunks - job.first;
  job.chunks_per_claim = (chunks + kMaxClaims - 1) / kMaxClaims;
  int64_t claims = (chunks + job.chunks_per_claim - 1) / job.chunks_per_claim;
  publish(job, claims);
  if (sleepers() > 0) wake(claims - 1);
  int64_t own = work();
  wait_for_claims(uint32_t(claims - own));
}

void Pool::publish(const Job& job, int64_t claims) {
  job_ = job;
  done_.store(0, std::memory_order_relaxed);
  uint64_t epoch = Ticket{ticket_.load(std::memory_order_relaxed)}.epoch() + 1u;
  // Ordered against the read of parked_ that follows: a worker about to sleep either is counted or
  // sees the new epoch.
  ticket_.store(epoch << 32 | uint64_t(claims) << 16, std::memory_order_seq_cst);
}

int64_t Pool::work() {
  for (int64_t own = 0;; own++) {
    Ticket ticket{ticket_.fetch_add(1, std::memory_order_acq_rel)};
    if (!ticket.open()) return own;
    job_.run_claim(ticket.next());
  }
}

void Pool::wait_for_claims(uint32_t count) {
  int64_t limit = spins_ ? kSpinNs : kShortSpinNs;
  int64_t deadline = 0;
  for (uint32_t turn = 1; done_.load(std::memory_order_acquire) != count; turn++) {
    relax();
    if (turn % 32) continue;
    if (!deadline) deadline = now_ns() + limit;
    if (now_ns() < deadline) continue;
    caller_sleeps_.store(true, std::memory_order_seq_cst);
    uint32_t done = done_.load(std::memory_order_seq_cst);
    if (done != count) futex(&done_, FUTEX_WAIT, done, 0);
    caller_sleeps_.store(false, std::memory_order_relaxed);
  }
}

void Pool::work_until_stopped(Worker& self) {
  self.tid.store(pid_t(syscall(SYS_gettid)), std::memory_order_relaxed);
  while (wait_for_job(self)) {
    for (;;) {
      Ticket ticket{ticket_.fetch_add(1, std::memory_order_acq_rel)};
      if (!ticket.open()) break;
      set_float_mode(job_.float_mode);
      job_.run_claim(ticket.next());
      done_.fetch_add(1, std::memory_order_seq_cst);
      if (caller_sleeps_.load(std::memory_order_seq_cst)) futex(&done_, FUTEX_WAKE, 1, 0);
    }
  }
}

bool Pool::wait_for_job(Worker& self) {
  int64_t deadline = spins_ ? now_ns() + kSpinNs : 0;
  for (uint32_t turn = 1;; turn++) {
    Ticket ticket{ticket_.load(std::memory_order_seq_cst)};
    if (stopping_.load(std::memory_order_acquire)) return false;
    bool excluded = excluded_.load(std::memory_order_relaxed) == self.id;
    if (ticket.open() && !excluded) return true;
    bool keep_spinning = spins_ && !excluded && (turn % 16 || now_ns() < deadline);
    if (keep_spinning) {
      relax();
      continue;
    }
    park(self, ticket.epoch());
    if (spins_) deadline = now_ns() + kSpinNs;
  }
}

// The flag is inside the count at every moment, so sleepers() may count one too many, never one too
// few.
void Pool::park(Worker& self, uint32_t epoch) {
  parked_.fetch_add(1, std::memory_order_seq_cst);
  self.parked.store(true, std::memory_order_relaxed);
  futex(epoch_word(), FUTEX_WAIT_BITSET, epoch, 1u << (self.id % 32));
  self.parked.store(false, std::memory_order_relaxed);
  parked_.fetch_sub(1, std::memory_order_seq_cst);
}

int Pool::sleepers() const {
  int excluded = excluded_.load(std::memory_order_relaxed);
  int parked = parked_.load(std::memory_order_seq_cst);
  if (excluded >= 0 && workers_[excluded].parked.load(std::memory_order_relaxed)) parked--;
  return parked;
}

void Pool::wake(int64_t count) {
  int excluded = excluded_.load(std::memory_order_relaxed);
  bool named = excluded >= 0 && worker_count_ <= 32;  // beyond 32 workers a bit stands for several
  futex(epoch_word(), FUTEX_WAKE_BITSET, uint32_t(count < kMaxThreads ? count : kMaxThreads),
        named ? ~(1u << excluded) : ~0u);
}

void Pool::choose_excluded() {
  if (!pinned_) return;
  int cpu = sched_getcpu();
  int worker = cpu >= 0 && cpu < CPU_SETSIZE ? worker_on_[cpu] : -1;
  if (worker < 0) worker = pinned_ - 1;
  if (excluded_.load(std::memory_order_relaxed) != worker) {
    excluded_.store(worker, std::memory_order_relaxed);
  }
}

// True when workers stand ready. While some are parked the CPU mask is read again, now and then:
// that costs a microsecond, waking them far more.
bool Pool::prepare() {
  bool same_count = wanted_threads() == 0 || wanted_threads() == threads_;
  if (FL_LIKELY(worker_count_ && same_count && sleepers() == 0)) return true;
  int64_t now = now_ns();
  if (threads_ && same_count && now < next_look_) return worker_count_ > 0;
  next_look_ = now + kLookNs;
  cpu_set_t cpus = allowed_cpus();
  int threads = threads_for(CPU_COUNT(&cpus));
  if (threads > kMaxThreads) threads = kMaxThreads;
  if (threads == threads_ && CPU_EQUAL(&cpus, &cpus_)) return worker_count_ > 0;
  stop();
  cpus_ = cpus;
  start(threads);
  return worker_count_ > 0;
}

void Pool::start(int threads) {
  threads_ = threads;
  if (threads < 2) return;
  if (!handles_fork_) {
    handles_fork_ = pthread_atfork(nullptr, nullptr, [] { pool.forget_workers(); }) == 0;
  }
  int cpus = CPU_COUNT(&cpus_);
  int limit = quota();
  spins_ = threads <= cpus && (!limit || threads <= limit);
  bool pin = threads >= cpus && cpus > 1;
  workers_ = new (std::nothrow) Worker[threads];
  if (!workers_) return;
  for (int16_t& worker : worker_on_) worker = -1;
  for (int cpu = 0; pin && cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &cpus_)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (!add_worker(one)) return;
    worker_on_[cpu] = int16_t(worker_count_ - 1);
    pinned_++;
  }
  // One pinned worker sits out, so as many are needed as there are threads; unpinned ones all work
  // beside the caller.
  int needed = pin ? threads : threads - 1;
  while (worker_count_ < needed && add_worker(cpus_)) {
  }
}

bool Pool::add_worker(const cpu_set_t& cpus) {
  Worker& worker = workers_[worker_count_];
  worker.id = worker_count_;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
  // Signals belong to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&worker.thread, &attributes, worker_main, &worker);
  if (error == EINVAL) error = pthread_create(&worker.thread, nullptr, worker_main, &worker);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error) return false;
  char name[16];
  std::snprintf(name, sizeof name, "flambeau-%d", worker.id);
  pthread_setname_np(worker.thread, name);
  worker_count_++;
  return true;
}

void Pool::stop() {
  if (worker_count_) {
    stopping_.store(true, std::memory_order_seq_cst);
    publish(Job{}, 0);
    futex(epoch_word(), FUTEX_WAKE_BITSET, kMaxThreads, ~0u);
  }
  pid_t process = getpid();
  for (int i = 0; i < worker_count_; i++) {
    pthread_join(workers_[i].thread, nullptr);
    // The kernel lists a thread for a moment after it can be joined; whoever shrinks the pool may
    // count threads.
    pid_t tid = workers_[i].tid.load(std::memory_order_relaxed);
    for (int turn = 0; turn < 1000 && syscall(SYS_tgkill, process, tid, 0) == 0; turn++) {
      sched_yield();
    }
  }
  delete[] workers_;
  workers_ = nullptr;
  worker_count_ = pinned_ = threads_ = 0;
  excluded_.store(-1, std::memory_order_relaxed);
  stopping_.store(false, std::memory_order_seq_cst);
}

// In a forked child the workers do not exist; the next job starts new ones. The old array is left
// alone: another thread of the parent may have been changing it.
void Pool::forget_workers() {
  workers_ = nullptr;
  worker_count_ = pinned_ = threads_ = 0;
  excluded_.store(-1);
  parked_.store(0);
  stopping_.store(false);
  caller_sleeps_.store(false);
  ticket_.store(uint64_t(Ticket{ticket_.load()}.epoch()) << 32);
  busy_.store(false);
}

void Pool::resize_to(int threads) {
  if (threads_ && threads_ != threads) stop();
}

}  // namespace

int num_threads() {
  if (int count = wanted_threads()) return count;
  cpu_set_t cpus = allowed_cpus();
  return threads_for(CPU_COUNT(&cpus));
}

void set_num_threads(int count) {
  FL_CHECK(count >= 1, Error, "set_num_threads: count must be at least 1, got {}", count);
  wanted.store(count);
  if (inside_chunk) return;  // the next job changes the pool
  pool.lock();
  pool.resize_to(count);
  pool.unlock();
}

Alone::Alone() : before_(alone) { alone = true; }
Alone::~Alone() { alone = before_; }

namespace {

// Before the pool's lock is taken and after it is given back: whoever waits for one must not hold
// the other.
class LongWork {
 public:
  LongWork() {
    if (long_work_hooks.begin && !inside_chunk && !alone) begun_ = long_work_hooks.begin();
  }
  ~LongWork() {
    if (begun_) long_work_hooks.end(begun_);
  }
  LongWork(const LongWork&) = delete;

 private:
  void* begun_ = nullptr;
};

}  // namespace

void detail::run_chunks(int64_t total, int64_t grain, ChunkFn fn, void* body) {
  LongWork others_run;
  if (grain < 1) grain = 1;
  Job job{fn, body, total, grain, 0, (total - 1) / grain + 1, 1, float_mode()};
  // Another thread has the pool, or this is a chunk already: the caller does it alone.
  if (inside_chunk || wanted.load(std::memory_order_relaxed) == 1 || !pool.try_lock()) {
    for (int64_t chunk = 0; chunk < job.chunks; chunk++) job.run_chunk(chunk);
    return;
  }
  inside_chunk = true;
  pool.run(job);
  inside_chunk = false;
  pool.unlock();
}

}  // namespace flambeau
