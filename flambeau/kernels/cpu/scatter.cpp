// gather, scatter and their reductions. Slices along `dim` have targets of their own: they are what
// threads share.
#include "flambeau/kernels/cpu/scatter.h"

#include "flambeau/kernels/cpu/elements.h"
#include "flambeau/kernels/cpu/items.h"

namespace flambeau::FL_ISA {
namespace {

constexpr int64_t kGrain = 16384;  // elements per chunk
constexpr int64_t kLanes = 64;     // neighbouring slices walked together

// The places of x, index and src at a slice; slices are numbered along the dims [0, ndim).
struct Place {
  int64_t x = 0, index = 0, src = 0;

  Place(const DimArgs& a, int64_t slice) {
    for (int d = a.ndim - 1; d >= 0; --d) {
      int64_t at = slice % a.sizes[d];
      slice /= a.sizes[d];
      x += at * a.x_strides[d];
      index += at * a.index_strides[d];
      src += at * a.src_strides[d];
    }
  }
};

int64_t slice_count(const DimArgs& a) {
  int64_t slices = 1;
  for (int d = 0; d < a.ndim; ++d) slices *= a.sizes[d];
  return slices;
}

// One slice, or, where neighbouring slices lie closer together than the elements of one, up to
// kLanes of them.
template <class T>
struct Bundle {
  T* x;
  const int64_t* index;
  T* src;
  int64_t n, x_stride, index_stride, src_stride;  // along a slice
  int64_t lanes, x_lane, index_lane, src_lane;    // across slices

  Bundle lane(int64_t j) const {
    Bundle b = *this;
    b.x += j * x_lane;
    b.index += j * index_lane;
    b.src += j * src_lane;
    b.lanes = 1;
    return b;
  }

  // Calls f(element of x, element of src); those of one slice come in order.
  template <class F>
  void each(const F& f) const {
    if (lanes == 1 && index_stride == 1 && src_stride == 1) {
      for (int64_t i = 0; i < n; ++i) f(x[index[i] * x_stride], src[i]);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t* at = index + i * index_stride;
      T* from = src + i * src_stride;
      for (int64_t j = 0; j < lanes; ++j)
        f(x[j * x_lane + at[j * index_lane] * x_stride], from[j * src_lane]);
    }
  }
};

template <class T>
Bundle<T> bundle_at(const DimArgs& a, int64_t slice, int64_t most_lanes) {
  const Place p(a, slice);
  const int last = a.ndim - 1;
  Bundle<T> b{static_cast<T*>(a.x) + p.x,
              a.index + p.index,
              static_cast<T*>(a.src) + p.src,
              a.n,
              a.x_stride,
              a.index_stride,
              a.src_stride,
              1,
              0,
              0,
              0};
  if (last >= 0 && a.index_strides[last] < a.index_stride) {
    b.lanes = least(least(kLanes, most_lanes), a.sizes[last] - slice % a.sizes[last]);
    b.x_lane = a.x_strides[last];
    b.index_lane = a.index_strides[last];
    b.src_lane = a.src_strides[last];
  }
  return b;
}

template <class T, class F>
void each_bundle(const DimArgs& a, const F& body) {
  if (a.n == 0) return;
  parallel_for(slice_count(a), most<int64_t>(1, kGrain / a.n), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      Bundle<T> b = bundle_at<T>(a, begin, end - begin);
      body(b);
      begin += b.lanes;
    }
  });
}

template <class W>
bool is_nan(W x) {
  return x != x;
}

template <Combine kOp, class E>
typename E::Wide combine(typename E::Wide a, typename E::Wide b) {
  using W = typename E::Wide;
  if constexpr (E::is_bool) {
    return kOp == Combine::Sum || kOp == Combine::Max ? W(a | b) : W(a & b);
  } else if constexpr (kOp == Combine::Sum) {
    return add(a, b);
  } else if constexpr (kOp == Combine::Prod) {
    return multiply(a, b);
  } else if constexpr (E::is_complex) {
    return a;  // not ordered: the op refuses complex
  } else if constexpr (kOp == Combine::Max) {
    return is_nan(b) || a < b ? b : a;
  } else {
    return is_nan(b) || b < a ? b : a;
  }
}

// Calls f with the operation as a template argument: f.template operator()<kOp>().
template <class F>
void with_combine(Combine op, const F& f) {
  switch (op) {
    case Combine::Sum:
      return f.template operator()<Combine::Sum>();
    case Combine::Prod:
      return f.template operator()<Combine::Prod>();
    case Combine::Max:
      return f.template operator()<Combine::Max>();
    case Combine::Min:
      return f.template operator()<Combine::Min>();
  }
}

constexpr int64_t kTile = 8192;

// One slice of half values, summed in float and rounded once: a running bfloat16 sum of ones sticks
// at 256.
template <Combine kOp, class E>
void combine_half_slice(const Bundle<typename E::Storage>& b, int64_t x_size, float* tile) {
  for (int64_t i = 0; i < x_size; ++i) tile[i] = E::load(b.x[i * b.x_stride]);
  for (int64_t i = 0; i < b.n; ++i) {
    float& to = tile[b.index[i * b.index_stride]];
    to = combine<kOp, E>(to, E::load(b.src[i * b.src_stride]));
  }
  for (int64_t i = 0; i < x_size; ++i) b.x[i * b.x_stride] = E::store(tile[i]);
}

template <Combine kOp, class E>
void combine_slices(const DimArgs& a) {
  using T = typename E::Storage;
  if constexpr (E::is_half && (kOp == Combine::Sum || kOp == Combine::Prod)) {
    // A tile for much more than is touched would cost more than it saves.
    if (a.x_size <= kTile && a.x_size <= 8 * a.n) {
      return each_bundle<T>(a, [&](const Bundle<T>& b) {
        float tile[kTile];
        for (int64_t j = 0; j < b.lanes; ++j) combine_half_slice<kOp, E>(b.lane(j), a.x_size, tile);
      });
    }
  }
  each_bundle<T>(a, [](const Bundle<T>& b) {
    b.each([](T& x, const T& src) { x = E::store(combine<kOp, E>(E::load(x), E::load(src))); });
  });
}

// Rows of src joined to rows of x; n is a run that is contiguous in both.
template <Combine kOp, class E>
void combine_run(typename E::Storage* __restrict x, const typename E::Storage* __restrict src,
                 int64_t n) {
  constexpr int64_t kUnroll = 16;  // a fixed count is what the compiler makes vectors of
  int64_t i = 0;
  for (; i + kUnroll <= n; i += kUnroll) {
    for (int64_t j = 0; j < kUnroll; ++j) {
      x[i + j] = E::store(combine<kOp, E>(E::load(x[i + j]), E::load(src[i + j])));
    }
  }
  for (; i < n; ++i) x[i] = E::store(combine<kOp, E>(E::load(x[i]), E::load(src[i])));
}

template <Combine kOp, class E>
void combine_rows(const RowsArgs& a, typename E::Storage* x, const typename E::Storage* src) {
  int64_t columns =
      most<int64_t>(1, least<int64_t>(num_threads(), a.inner * int64_t(sizeof(*x)) / 256));
  if (a.n * a.inner < kGrain) columns = 1;
  const int64_t grain = most<int64_t>(1, kGrain / most<int64_t>(1, a.n * a.inner));
  parallel_for(a.outer * columns, grain, [&](int64_t unit, int64_t end) {
    for (; unit < end; ++unit) {
      int64_t o = unit / columns, part = unit % columns;
      int64_t first = a.inner * part / columns, last = a.inner * (part + 1) / columns;
      auto* to = x + o * a.x_size * a.inner + first;
      const auto* from = src + o * a.n * a.inner + first;
      for (int64_t i = 0; i < a.n; ++i) {
        if (i + 8 < a.n) __builtin_prefetch(to + a.index[i + 8] * a.inner, 1);
        combine_run<kOp, E>(to + a.index[i] * a.inner, from + i * a.inner, last - first);
      }
    }
  });
}

template <class W>
W divide(W x, int64_t count) {
  if constexpr (std::is_same_v<W, uint64_t>) {
    return x / uint64_t(count);
  } else if constexpr (std::is_integral_v<W>) {
    // Rounds down: C++ rounds towards zero.
    int64_t wide = x;
    return W(wide / count - (wide < 0 && wide % count != 0));
  } else if constexpr (std::is_floating_point_v<W>) {
    return x / W(count);
  } else {
    return {x.re / typename W::Real(count), x.im / typename W::Real(count)};
  }
}

}  // namespace

void gather_dim(int64_t itemsize, const DimArgs& a) {
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    each_bundle<T>(a, [](const Bundle<T>& b) { b.each([](const T& x, T& out) { out = x; }); });
  });
}

void scatter_dim(int64_t itemsize, const DimArgs& a) {
  with_item(itemsize, [&](auto item) {
    using T = decltype(item);
    each_bundle<T>(a, [](const Bundle<T>& b) { b.each([](T& x, const T& src) { x = src; }); });
  });
}

void scatter_combine_dim(Combine op, DType dtype, const DimArgs& a) {
  with_element(dtype, [&](auto element) {
    with_combine(op, [&]<Combine kOp>() { combine_slices<kOp, decltype(element)>(a); });
  });
}

void index_combine_rows(Combine op, DType dtype, const RowsArgs& a, void* x, const void* src) {
  with_element(dtype, [&](auto element) {
    using E = decltype(element);
    using T = typename E::Storage;
    with_combine(op, [&]<Combine kOp>() {
      combine_rows<kOp, E>(a, static_cast<T*>(x), static_cast<const T*>(src));
    });
  });
}

void divide_counts(DType dtype, void* data, const int64_t* count, int64_t n) {
  with_element(dtype, [&](auto element) {
    using E = decltype(element);
    auto* x = static_cast<typename E::Storage*>(data);
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (count[i] > 1) x[i] = E::store(divide(E::load(x[i]), count[i]));
      }
    });
  });
}

}  // namespace flambeau::FL_ISA
