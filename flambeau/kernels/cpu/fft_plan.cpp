// Plans of Fourier transforms: factors, the cut of long ones, tables of roots, and the plans kept.
#include "flambeau/kernels/cpu/fft_plan.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <list>
#include <mutex>
#include <new>
#include <vector>

#include "flambeau/kernels/cpu/fft.h"

namespace flambeau {
namespace {

using Root = std::complex<double>;

constexpr int64_t kLargestInGrid = 31;  // a chirp is faster than a lone line with larger factors
constexpr int64_t kLongestWhole = 1 << 13;  // longer ones side by side leave the caches
constexpr int64_t kFullGrid = 1 << 14;      // larger grids take their roots from two tables
constexpr int kFoldBits = 9;
constexpr int64_t kKeptBytes = 64 << 20;
constexpr size_t kKeptPlans = 64;

// exp(-2 pi i k / n), the angle reduced to an eighth of the circle before it is rounded.
Root root_of(int64_t k, int64_t n) {
  k %= n;
  int64_t eighth = 8 * k / n, rest = 8 * k - eighth * n;
  double angle = M_PI / 4 * (double(eighth % 2 ? n - rest : rest) / double(n));
  double c = std::cos(angle), s = std::sin(angle);
  if ((eighth + 1) / 2 % 2) std::swap(c, s);
  return {(eighth + 2) / 4 % 2 ? -c : c, eighth / 4 ? s : -s};
}

struct OwnedPlan : FftPlan {
  bool doubles;
  int lanes;
  int64_t bytes = 0;
  std::vector<std::shared_ptr<void>> tables;
  std::shared_ptr<const OwnedPlan> owned_padded;

  void* table(int64_t numbers) {
    size_t size = size_t(numbers) * (doubles ? 16 : 8);
    void* data = ::operator new(size, std::align_val_t(kCacheLine));
    tables.emplace_back(data, [](void* p) { ::operator delete(p, std::align_val_t(kCacheLine)); });
    bytes += int64_t(size);
    return data;
  }
  // Real and imaginary part stand `apart` numbers from each other.
  void put(void* at, int64_t place, int64_t apart, Root value) const {
    if (doubles) {
      static_cast<double*>(at)[place] = value.real();
      static_cast<double*>(at)[place + apart] = value.imag();
    } else {
      static_cast<float*>(at)[place] = float(value.real());
      static_cast<float*>(at)[place + apart] = float(value.imag());
    }
  }
  template <class F>
  const void* filled(int64_t count, const F& root) {
    void* data = table(count);
    for (int64_t i = 0; i < count; i++) put(data, 2 * i, 1, root(i));
    return data;
  }
  // count rows of `columns` roots, in vectors of re and im: root(row, column).
  template <class F>
  const void* filled_vectors(int64_t columns, int64_t count, const F& root) {
    int64_t groups = (columns + lanes - 1) / lanes;
    void* data = table(groups * count * lanes);
    for (int64_t g = 0, at = 0; g < groups; g++)
      for (int64_t i = 0; i < count; i++, at += 2 * lanes)
        for (int64_t l = 0; l < lanes; l++) put(data, at + l, lanes, root(i, g * lanes + l));
    return data;
  }
};

// Fours and eights for powers of two: a pass of two moves as much and computes least.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> radices;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) twos++;
  for (; twos > 4 || twos == 3; twos -= 3) radices.push_back(8);
  for (; twos >= 2; twos -= 2) radices.push_back(4);
  if (twos) radices.push_back(2);
  for (int64_t r = 3; r <= kFftLargestRadix; r += 2)
    for (; n % r == 0; n /= r) radices.push_back(r);
  if (n > 1) radices.push_back(n);
  return radices;
}

int64_t largest_factor(int64_t n) {
  std::vector<int64_t> radices = radices_of(n);
  return radices.empty() ? 1 : radices.back();
}

FftPasses make_passes(OwnedPlan& plan, int64_t n) {
  FftPasses passes;
  passes.n = n;
  int64_t done = 1, rest = n;
  for (int64_t r : radices_of(n)) {
    rest /= r;
    FftPass& pass = passes.pass[passes.count++];
    pass = {r, done, rest, nullptr, nullptr};
    pass.twiddles = plan.filled(rest * (r - 1), [=](int64_t i) {
      return root_of(i / (r - 1) * (i % (r - 1) + 1), r * rest);
    });
    if (r % 2) pass.roots = plan.filled(r, [=](int64_t i) { return root_of(i, r); });
    done *= r;
  }
  return passes;
}

// Rough cycles for a vector of transforms of n points.
double cost_of(int64_t n, int lanes, bool doubles) {
  double cost = 3;  // loads and stores at both ends
  for (int64_t r : radices_of(n)) cost += r <= 8 ? 2 + 0.5 * double(r) : 2 + double(r);
  double bytes = double(n) * lanes * (doubles ? 32 : 16);
  if (bytes > 32e3) cost *= 1.2;
  if (bytes > 1e6) cost *= 2;
  return cost * double(n);
}

// The grid's rows: of all divisors the one that keeps lanes and caches full.
int64_t best_rows(int64_t n, int lanes, bool doubles, double* best_cost) {
  std::vector<int64_t> divisors{1};
  for (int64_t rest = n, p = 2; rest > 1; p++) {
    size_t count = divisors.size();
    for (; rest % p == 0; rest /= p)
      for (size_t i = divisors.size() - count, end = divisors.size(); i < end; i++)
        divisors.push_back(divisors[i] * p);
  }
  int64_t best = n;
  *best_cost = HUGE_VAL;
  for (int64_t rows : divisors) {
    int64_t columns = n / rows;
    double cost = cost_of(rows, lanes, doubles) * double((columns + lanes - 1) / lanes) +
                  cost_of(columns, lanes, doubles) * double((rows + lanes - 1) / lanes);
    if (cost < *best_cost) *best_cost = cost, best = rows;
  }
  return best;
}

void make_grid(OwnedPlan& plan) {
  double cost;
  int64_t n = plan.n, rows = best_rows(n, plan.lanes, plan.doubles, &cost), columns = n / rows;
  plan.down = make_passes(plan, rows);
  plan.along = make_passes(plan, columns);
  FftRoots& grid = plan.grid;
  int64_t least = n <= kFullGrid ? rows : int64_t(std::sqrt(double(rows)));
  while (grid.step() < least) grid.bits++;
  grid.coarse_count = (rows + grid.step() - 1) / grid.step();
  auto root = [=](int64_t row, int64_t column) { return root_of(row * (column % columns), n); };
  grid.fine = plan.filled_vectors(columns, std::min(rows, grid.step()), root);
  if (grid.coarse_count > 1) {
    grid.coarse = plan.filled_vectors(columns, grid.coarse_count, [&](int64_t i, int64_t column) {
      return root(i * grid.step(), column);
    });
  }
}

// The cheapest length of at least n with small factors.
int64_t padded_length(int64_t n, int lanes, bool doubles) {
  int64_t best = 0;
  double best_cost = HUGE_VAL;
  for (int64_t odd : {1, 3, 5, 9, 15, 25, 27, 45, 75, 81, 125}) {
    int64_t m = odd;
    while (m < n) m *= 2;
    double cost;
    best_rows(m, lanes, doubles, &cost);
    if (cost < best_cost) best_cost = cost, best = m;
  }
  return best;
}

std::shared_ptr<const OwnedPlan> kept_plan(int64_t n, bool doubles);

// With 2 j k = j^2 + k^2 - (j - k)^2 and c[j] = exp(-pi i j^2 / n) a transform is x[j] c[j],
// convolved with conj(c), times c[k].
void make_chirp(OwnedPlan& plan) {
  int64_t n = plan.n, m = padded_length(2 * n - 1, plan.lanes, plan.doubles);
  plan.owned_padded = kept_plan(m, plan.doubles);
  plan.padded = plan.owned_padded.get();
  std::vector<Root> chirp(static_cast<size_t>(n));
  for (int64_t j = 0, square = 0; j < n; square = (square + 2 * j + 1) % (2 * n), j++)
    chirp[size_t(j)] = root_of(square, 2 * n);
  plan.chirp = plan.filled(n, [&](int64_t j) { return chirp[size_t(j)]; });
  std::vector<Root> around(static_cast<size_t>(m)), spectrum(static_cast<size_t>(m));
  for (int64_t j = 0; j < n; j++)
    around[size_t(j)] = around[size_t((m - j) % m)] = std::conj(chirp[size_t(j)]) / double(m);
  auto exact = kept_plan(m, true);  // in doubles also for floats
  FftArgs args;
  args.plan = exact.get();
  args.doubles = true;
  args.n = m;
  args.in = around.data();
  args.out = spectrum.data();
  fft_lines(args);
  plan.spectrum = plan.filled(m, [&](int64_t j) { return spectrum[size_t(j)]; });
}

std::shared_ptr<const OwnedPlan> make_plan(int64_t n, bool doubles) {
  auto plan = std::make_shared<OwnedPlan>();
  plan->n = n;
  plan->doubles = doubles;
  plan->lanes = (16 << int(active_isa)) / (doubles ? 8 : 4);
  const int64_t factor = largest_factor(n);
  plan->has_whole = n <= kLongestWhole && factor <= kFftLargestRadix;
  if (plan->has_whole) plan->whole = make_passes(*plan, n);
  if (factor <= kLargestInGrid) {
    make_grid(*plan);
  } else {
    make_chirp(*plan);
  }
  FftRoots& fold = plan->fold;
  fold.bits = kFoldBits;
  fold.coarse_count = (n / 2 >> kFoldBits) + 1;
  // A vector may begin at the last of them.
  fold.fine = plan->filled(std::min(n / 2 + 1, fold.step()) + plan->lanes,
                           [=](int64_t k) { return root_of(k, 2 * n); });
  fold.coarse =
      plan->filled(fold.coarse_count, [=](int64_t k) { return root_of(k << kFoldBits, 2 * n); });
  return plan;
}

struct Plans {
  std::mutex mutex;
  std::list<std::shared_ptr<const OwnedPlan>> kept;  // the last used in front
  int64_t bytes = 0;
};
Plans& plans() {
  static Plans* all = new Plans;  // never destroyed: threads may outlive the statics
  return *all;
}

std::shared_ptr<const OwnedPlan> find_plan(int64_t n, bool doubles) {
  Plans& all = plans();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (auto p = all.kept.begin(); p != all.kept.end(); ++p) {
    if ((*p)->n != n || (*p)->doubles != doubles) continue;
    all.kept.splice(all.kept.begin(), all.kept, p);
    return all.kept.front();
  }
  return nullptr;
}

std::shared_ptr<const OwnedPlan> kept_plan(int64_t n, bool doubles) {
  if (auto found = find_plan(n, doubles)) return found;
  std::shared_ptr<const OwnedPlan> made = make_plan(n, doubles);  // two threads may both make it
  Plans& all = plans();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.kept.push_front(made);
  all.bytes += made->bytes;
  while (all.kept.size() > 1 && (all.kept.size() > kKeptPlans || all.bytes > kKeptBytes)) {
    all.bytes -= all.kept.back()->bytes;
    all.kept.pop_back();
  }
  return made;
}

}  // namespace

std::shared_ptr<const FftPlan> fft_plan(int64_t n, bool doubles) { return kept_plan(n, doubles); }

}  // namespace flambeau
