// The product of bfloat16 matrices, or of floats that may be rounded to it, by instructions that
// take pairs along k: tiles of 16 x 16 pairs (AMX), or vectors of 16 pairs (AVX512_BF16). Both read
// the same packed panels; sums are floats.
#include "flambeau/core/threadpool.h"
#include "flambeau/kernels/cpu/gemm_pack.h"
#include "flambeau/kernels/cpu/gemm_product.h"
#include "flambeau/kernels/cpu/scratch.h"
#include "flambeau/kernels/pair_unit.h"

namespace flambeau::FL_ISA {

#if defined(__AVX512F__)
namespace {

using namespace tile;

// A packed tile holds 16 lines of 32 elements of k (of a), or for each of 16 pairs of k 16 columns
// (of b): 1 KB either way. A panel is two tiles beside each other for each step of k.
inline constexpr int64_t kLines = 16, kStep = 32, kTile = kLines * kStep, kPanel = 2 * kLines;
inline constexpr int64_t kSteps = 64;  // of k in one run: a panel is 128 KB at the most
inline constexpr int64_t kSide = 1024, kRowSide = 2048;  // of what is computed at a time
inline constexpr int64_t kGroup = 384;  // steps of all panels of a that stay in the second cache
inline constexpr int64_t kNear = 16;    // steps of a panel of b that stay in the first

using Pairs = Raw<float>;  // 16 pairs, moved and never computed with

// Where an operand's elements lie: line i at i * line, element p of k at p * k_step.
template <class S>
struct Lines {
  const S* data;
  int64_t line, k_step;
};

// The first `count` of 16 elements.
__m256i sixteen(const BFloat16* p, int64_t count) {
  const auto mask = __mmask16(count >= 16 ? 0xffff : (1 << most(0, count)) - 1);
  return _mm256_maskz_loadu_epi16(mask, p);
}
__m256i sixteen(const float* p, int64_t count) {
  return (__m256i)narrow_bfloat16(Vec<float>(load(p, EdgeMask<float>(count))));
}

// 16 lines of 32 elements, as they are.
template <class S>
void load_lines(const Lines<S>& from, int64_t lines, int64_t elements, Pairs (&out)[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    const S* line = from.data + (i < lines ? i * from.line : 0);
    const int64_t count = i < lines ? elements : 0;
    out[i] = (Pairs)_mm512_inserti64x4(_mm512_castsi256_si512(sixteen(line, count)),
                                       sixteen(line + 16, count - 16), 1);
  }
}

// The same of lines that lie side by side: out[i] has pair i of every line.
template <class S>
void load_sides(const Lines<S>& from, int64_t lines, int64_t elements, Pairs (&out)[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    auto half = [&](int p) {
      return p < elements ? sixteen(from.data + p * from.k_step, lines) : _mm256_setzero_si256();
    };
    const __m512i low = _mm512_cvtepu16_epi32(half(2 * i));
    const __m512i high = _mm512_cvtepu16_epi32(half(2 * i + 1));
    out[i] = (Pairs)_mm512_or_si512(low, _mm512_slli_epi32(high, 16));
  }
}

// One tile. kTurned: with the pairs of k as its lines, as b is read.
template <bool kTurned, class S>
void pack_tile(const Lines<S>& from, int64_t lines, int64_t elements, BFloat16* out) {
  Pairs rows[16];
  if (from.line == 1 && from.k_step != 1) {
    load_sides(from, lines, elements, rows);
    if (!kTurned) transpose<float>(rows);
  } else if (from.k_step == 1) {
    load_lines(from, lines, elements, rows);
    if (kTurned) transpose<float>(rows);
  } else {
    BFloat16 copy[kTile] = {};
    for (int64_t i = 0; i < least(lines, 16); i++) {
      for (int64_t p = 0; p < least(elements, kStep); p++)
        copy[i * kStep + p] =
            narrow_one<BFloat16>(float(widen_one(from.data[i * from.line + p * from.k_step])));
    }
    return pack_tile<kTurned>(Lines<BFloat16>{copy, kStep, 1}, 16, kStep, out);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) __builtin_memcpy(out + i * kStep, &rows[i], 64);
}

// Panels [begin, end) of an operand of which `lines` lines and `elements` of k are left.
template <bool kTurned, class S>
void pack_lines(const Lines<S>& from, int64_t lines, int64_t elements, int64_t begin, int64_t end,
                BFloat16* out) {
  for (int64_t i = begin * kPanel; i < end * kPanel; i += kPanel) {
    for (int64_t p = 0; p < elements; p += kStep) {
      for (int64_t half = i; half < i + kPanel; half += kLines, out += kTile) {
        // A tile that begins past the last line is never looked at where it lies.
        const int64_t first = least(half, lines);
        const S* at = from.data + first * from.line + p * from.k_step;
        pack_tile<kTurned>(Lines<S>{at, from.line, from.k_step}, lines - first, elements - p, out);
      }
    }
  }
}

// The shape of all tiles: 16 lines of 64 bytes.
struct alignas(64) TileShape {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// out = a panel of a times a panel of b, 32 x 32.
#define FL_TILES [[gnu::target("amx-tile,amx-bf16")]]
FL_TILES void start_tiles() {
  static constexpr TileShape shape;
  _tile_loadconfig(&shape);
}
FL_TILES void stop_tiles() { _tile_release(); }
FL_TILES void multiply_tiles(const BFloat16* a, const BFloat16* b, int64_t steps, int64_t rows,
                             bool add, float* out) {
  constexpr int64_t row = kPanel * sizeof(float);
  if (add) {
    _tile_loadd(0, out, row);
    _tile_loadd(1, out + kLines, row);
    _tile_loadd(2, out + kLines * kPanel, row);
    _tile_loadd(3, out + kLines * kPanel + kLines, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const bool both = rows > kLines;
  for (int64_t s = 0; s < steps; s++, a += 2 * kTile, b += 2 * kTile) {
    _tile_stream_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + kTile, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!both) continue;
    _tile_stream_loadd(5, a + kTile, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, out, row);
  _tile_stored(1, out + kLines, row);
  _tile_stored(2, out + kLines * kPanel, row);
  _tile_stored(3, out + kLines * kPanel + kLines, row);
}

// The same by vectors, eight rows at a time.
[[gnu::target("avx512bf16")]] void multiply_vectors(const BFloat16* a, const BFloat16* b,
                                                    int64_t steps, int64_t rows, bool add,
                                                    float* out) {
  constexpr int kRowsTogether = 8;
  for (int64_t r = 0; r < rows; r += kRowsTogether, out += kRowsTogether * kPanel) {
    __m512 sums[kRowsTogether][2] = {};
#pragma GCC unroll 8
    for (int i = 0; add && i < kRowsTogether; i++) {
      sums[i][0] = _mm512_loadu_ps(out + i * kPanel);
      sums[i][1] = _mm512_loadu_ps(out + i * kPanel + kLines);
    }
    const BFloat16 *x = a + r / kLines * kTile + r % kLines * kStep, *y = b;
    for (int64_t s = 0; s < steps; s++, x += 2 * kTile, y += 2 * kTile) {
      for (int64_t p = 0; p < 16; p++) {
        const auto low = (__m512bh)_mm512_loadu_si512(y + p * kStep);
        const auto high = (__m512bh)_mm512_loadu_si512(y + kTile + p * kStep);
#pragma GCC unroll 8
        for (int i = 0; i < kRowsTogether; i++) {
          int32_t pair;
          __builtin_memcpy(&pair, x + i * kStep + 2 * p, sizeof(pair));
          const auto factor = (__m512bh)_mm512_set1_epi32(pair);
          sums[i][0] = _mm512_dpbf16_ps(sums[i][0], factor, low);
          sums[i][1] = _mm512_dpbf16_ps(sums[i][1], factor, high);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRowsTogether; i++) {
      _mm512_storeu_ps(out + i * kPanel, sums[i][0]);
      _mm512_storeu_ps(out + i * kPanel + kLines, sums[i][1]);
    }
  }
}

template <class T>
T* room(Scratch slot, int64_t count) {
  return static_cast<T*>(scratch(slot, size_t(count) * sizeof(T)));
}

// Some rows and columns of c, and some of k.
template <class S>
struct Part {
  const Product<S>& g;
  int64_t i, m, j, n, p = 0, k = 0;
  int64_t steps = 0, groups = 0;  // of k; of rows
  const BFloat16* b = nullptr;    // packed, if several groups of rows read it
  float* sums = nullptr;          // of earlier parts of k, m x n

  bool first() const { return p == 0; }
  bool last() const { return p + k == g.k; }
  int64_t panel() const { return steps * 2 * kTile; }
  int64_t group_panels() const { return most(4, kGroup / steps); }
  Lines<S> rows() const { return {g.a + i * g.a_row + p * g.a_col, g.a_row, g.a_col}; }
  Lines<S> columns() const { return {g.b + j * g.b_col + p * g.b_row, g.b_col, g.b_row}; }
};

// Sums of a block of c to where they go.
template <class S>
void finish_block(const Part<S>& t, int64_t row, int64_t col, float* block) {
  const int64_t rows = least(kPanel, t.m - row), cols = least(kPanel, t.n - col);
  const bool plain = t.g.alpha == 1 && t.g.beta == 0 && !t.g.bias && !t.g.relu;
  for (int64_t r = 0; r < rows; r++) {
    float* line = block + r * kPanel;
    if (t.sums) {
      float* sums = t.sums + (row + r) * t.n + col;
      for (int64_t c = 0; c < cols; c++) {
        if (!t.first()) line[c] += sums[c];
        if (!t.last()) sums[c] = line[c];
      }
    }
    if (!t.last()) continue;
    if (plain && cols == kPanel) {
      S* c = t.g.c + (t.i + row + r) * t.g.c_row + t.j + col;
      store(c, load(line));
      store(c + kLines, load(line + kLines));
    } else {
      settle_row(t.g, t.i + row + r, t.j + col, cols, line);
    }
  }
}

// A panel of b by a group of panels of a, a few steps of k at a time.
template <class S>
void multiply_group(const Part<S>& t, int64_t group, const BFloat16* a, const BFloat16* b,
                    int64_t col, bool tiles) {
  const int64_t begin = group * t.group_panels(),
                end = least(ceil_div(t.m, kPanel), begin + t.group_panels());
  float* blocks = room<float>(Scratch::GemmC, t.group_panels() * kPanel * kPanel);
  for (int64_t s = 0; s < t.steps; s += kNear) {
    const int64_t steps = least(kNear, t.steps - s), at = s * 2 * kTile;
    for (int64_t p = begin; p < end; p++) {
      const int64_t rows = least(kPanel, t.m - p * kPanel);
      const BFloat16* x = a + (p - begin) * t.panel() + at;
      float* block = blocks + (p - begin) * kPanel * kPanel;
      tiles ? multiply_tiles(x, b + at, steps, rows, s > 0, block)
            : multiply_vectors(x, b + at, steps, rows, s > 0, block);
      if (s + kNear >= t.steps) finish_block(t, p * kPanel, col * kPanel, block);
    }
  }
}

// An item is a group of rows by a panel of columns. A thread packs the rows of its group, and the
// columns if nobody else needs them.
template <class S>
void multiply_part(const Part<S>& t) {
  const bool tiles = pair_unit() == PairUnit::Tile;
  const int64_t cols = ceil_div(t.n, kPanel);
  // One chunk to a thread: each packs its rows again.
  const int64_t items = t.groups * cols, grain = most(ceil_div(items, num_threads()), 64 / t.steps);
  parallel_for(items, grain, [&](int64_t begin, int64_t end) {
    BFloat16* a = room<BFloat16>(Scratch::GemmA, t.group_panels() * t.panel());
    BFloat16* own = t.b ? nullptr : room<BFloat16>(Scratch::GemmColumn, t.panel());
    if (tiles) start_tiles();
    for (int64_t item = begin; item < end; item++) {
      const int64_t group = item / cols, col = item % cols;
      if (item == begin || col == 0) {
        const int64_t panel = group * t.group_panels(),
                      stop = least(ceil_div(t.m, kPanel), panel + t.group_panels());
        pack_lines<false>(t.rows(), t.m, t.k, panel, stop, a);
      }
      if (own) pack_lines<true>(t.columns(), t.n, t.k, col, col + 1, own);
      multiply_group(t, group, a, own ? own : t.b + col * t.panel(), col, tiles);
    }
    if (tiles) stop_tiles();
  });
}

template <class S>
void pack_columns(Part<S>& t) {
  BFloat16* b = room<BFloat16>(Scratch::GemmB, (t.n + kPanel) * t.steps * kStep);
  parallel_for(ceil_div(t.n, kPanel), most(1, 16 / t.steps), [&](int64_t begin, int64_t end) {
    pack_lines<true>(t.columns(), t.n, t.k, begin, end, b + begin * t.panel());
  });
  t.b = b;
}

template <class S>
bool multiply(const Product<S>& g) {
  if (g.work() < 1 << 17 || g.m < 4 || pair_unit() == PairUnit::None) return false;
  const int64_t parts = ceil_div(g.k, kSteps * kStep);
  const int64_t depth = ceil_div(ceil_div(g.k, parts), kStep) * kStep;
  for (int64_t j = 0; j < g.n; j += kSide) {
    for (int64_t i = 0; i < g.m; i += kRowSide) {
      Part<S> t{g, i, least(kRowSide, g.m - i), j, least(kSide, g.n - j)};
      if (parts > 1) t.sums = room<float>(Scratch::GemmSums, t.m * t.n);
      for (t.p = 0; t.p < g.k; t.p += depth) {
        t.k = least(depth, g.k - t.p);
        t.steps = ceil_div(t.k, kStep);
        t.groups = ceil_div(ceil_div(t.m, kPanel), t.group_panels());
        if (t.groups > 1) pack_columns(t);
        multiply_part(t);
      }
    }
  }
  return true;
}

}  // namespace

bool multiply_pairs(const Product<BFloat16>& g) { return multiply(g); }
bool multiply_pairs(const Product<float>& g) { return multiply(g); }

#else
bool multiply_pairs(const Product<BFloat16>&) { return false; }
bool multiply_pairs(const Product<float>&) { return false; }
#endif

}  // namespace flambeau::FL_ISA
