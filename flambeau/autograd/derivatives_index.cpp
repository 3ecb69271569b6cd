// Derivatives of ops that pick, write or reorder elements by indices.
#include "flambeau/autograd/derivatives.h"
#include "flambeau/ops/sparse.h"

namespace flambeau {

Tensor rows_of(const Tensor& g, int64_t dim, const Tensor& index, IntList sizes) {
  if (g.ndim() == 0) return ops::reshape(g, sizes);
  return ops::reshape(ops::index_select(g, dim, ops::reshape(index, {-1})), sizes);
}

Tensor part_of(const Tensor& x, IntList sizes) {
  if (x.sizes() == sizes) return x;
  if (x.numel() == 1 && numel_of(sizes) == 1) return ops::reshape(x, sizes);
  Ints pad;
  for (int64_t d = x.ndim() - 1; d >= 0; d--) {
    pad.push_back(0);
    pad.push_back(sizes[size_t(d)] - x.size(d));
  }
  return ops::constant_pad_nd(x, pad, Scalar(int64_t{0}));
}

Tensor filled_grad(const Tensor& g, int64_t dim, const Tensor& index) {
  return ops::sum(g - ops::index_fill(g, dim, index, Scalar(int64_t{0})));
}

Tensor masked_select_backward(const Tensor& g, IntList sizes, const Tensor& mask) {
  Tensor zeros = zeros_for(g, sizes);
  return sum_to(ops::masked_scatter(zeros, mask, g), sizes);
}

Tensor masked_source(const Tensor& g, const Tensor& mask, IntList sizes) {
  Tensor picked = ops::masked_select(g, mask);
  int64_t missing = numel_of(sizes) - picked.numel();
  return ops::reshape(ops::constant_pad_nd(picked, {0, missing}, Scalar(int64_t{0})), sizes);
}

Tensor embedding_twice(const Tensor& g, const Tensor& indices, int64_t padding_idx,
                       bool scale_grad_by_freq) {
  Tensor rows = ops::embedding(g, indices);
  if (scale_grad_by_freq) {
    Tensor flat = ops::reshape(ops::to(indices, DType::Int64), {-1});
    Tensor ones = ops::zeros_like(flat);
    ones = ops::add(ones, Scalar(int64_t{1}));
    Tensor counts =
        ops::index_add(ops::zeros({g.size(0)}, DType::Int64, {}, g.device()), 0, flat, ones);
    Tensor times = ops::reshape(ops::index_select(counts, 0, flat), indices.sizes());
    rows = rows / ops::unsqueeze(times, -1);
  }
  if (padding_idx < 0) return rows;
  Tensor padding = ops::eq(indices, Scalar(padding_idx));
  return ops::masked_fill(rows, ops::unsqueeze(padding, -1), Scalar(int64_t{0}));
}

// ---- scatter_reduce ----

namespace {

struct ReduceCall {
  const Tensor &g, &self;
  int64_t dim;
  const Tensor &index, &src, &result;
  bool include_self;

  Tensor gathered(const Tensor& x) const { return ops::gather(x, dim, index); }
  // What gather leaves of src, its corner that index covers.
  Tensor covered() const {
    if (src.sizes() == index.sizes()) return src;
    Tensor part = src;
    for (int64_t d = 0; d < src.ndim(); d++) part = ops::narrow(part, d, 0, index.size(d));
    return part;
  }
};

using Pair = std::tuple<Tensor, Tensor>;

// A product without one factor: divided by it where it is not zero, taken again without it where it
// is the only zero.
Pair product_backward(const ReduceCall& c) {
  const Tensor src = c.covered();
  auto is_zero = [](const Tensor& x) { return ops::eq(x, Scalar(int64_t{0})); };
  auto one_for_zero = [&](const Tensor& x, const Tensor& zero) {
    return ops::masked_fill(x, zero, Scalar(int64_t{1}));
  };
  Tensor self_one = one_for_zero(c.self, is_zero(c.self));
  Tensor without_self = ops::scatter_reduce(self_one, c.dim, c.index, src, "prod", c.include_self);
  Tensor grad_self = c.g * without_self / self_one;
  Tensor zero = is_zero(src);
  Tensor zeros =
      ops::scatter_add(ops::zeros_like(c.self), c.dim, c.index, ops::to(zero, c.self.dtype()));
  Tensor only = ops::logical_and(zero, ops::eq(c.gathered(zeros), Scalar(int64_t{1})));
  Tensor rest =
      ops::scatter_reduce(c.self, c.dim, c.index, one_for_zero(src, only), "prod", c.include_self);
  Tensor divided = c.gathered(c.g * c.result) / one_for_zero(src, zero);
  return {grad_self, ops::where(only, c.gathered(c.g * rest), divided)};
}

Pair mean_backward(const ReduceCall& c) {
  Tensor ones = ops::ones_like(c.g);
  Tensor counts = ops::scatter_add(c.include_self ? ones : ops::zeros_like(c.g), c.dim, c.index,
                                   ops::ones_like(c.covered()));
  counts = ops::masked_fill(counts, ops::eq(counts, Scalar(int64_t{0})), Scalar(int64_t{1}));
  return {c.g / counts, c.gathered(c.g) / c.gathered(counts)};
}

Pair extreme_backward(const ReduceCall& c) {
  const Tensor src = c.covered();
  Tensor own = ops::to(ops::eq(c.self, c.result), c.self.dtype());
  Tensor others = ops::to(ops::eq(src, c.gathered(c.result)), src.dtype());
  Tensor start = c.include_self ? own : ops::zeros_like(own);
  Tensor sharers = ops::scatter_add(start, c.dim, c.index, others);
  Tensor share =
      c.g / ops::masked_fill(sharers, ops::eq(sharers, Scalar(int64_t{0})), Scalar(int64_t{1}));
  return {own * share, others * c.gathered(share)};
}

}  // namespace

Pair scatter_reduce_backward(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& index,
                             const Tensor& src, std::string_view reduce, bool include_self,
                             const Tensor& result) {
  ReduceCall c{g, self, dim, index, src, result, include_self};
  Pair found = reduce == "sum"    ? Pair{g, c.gathered(g)}
               : reduce == "prod" ? product_backward(c)
               : reduce == "mean" ? mean_backward(c)
                                  : extreme_backward(c);
  auto& [of_self, of_src] = found;
  if (!include_self) of_self = ops::scatter(of_self, dim, index, Scalar(int64_t{0}));
  return {of_self, part_of(of_src, src.sizes())};
}

Pair index_reduce_backward(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& index,
                           const Tensor& source, std::string_view reduce, bool include_self,
                           const Tensor& result) {
  Ints ones(static_cast<size_t>(source.ndim()), 1);
  if (source.ndim()) ones[size_t(wrap_dim("index_reduce", dim, source.ndim()))] = index.numel();
  Tensor along = ops::expand(ops::reshape(ops::to(index, DType::Int64), ones), source.sizes());
  return scatter_reduce_backward(g, self, dim, along, source, reduce, include_self, result);
}

// ---- order ----

Tensor place_along(const Tensor& g, IntList sizes, int64_t dim, const Tensor& indices, bool kept) {
  if (kept || sizes.empty()) return ops::scatter(zeros_for(g, sizes), dim, indices, g);
  return ops::scatter(zeros_for(g, sizes), dim, ops::unsqueeze(indices, dim),
                      ops::unsqueeze(g, dim));
}

Tensor embedding_grad(const Tensor& g, const Tensor& indices, int64_t rows, int64_t padding_idx,
                      bool scale_grad_by_freq, bool sparse) {
  if (!sparse)
    return ops::embedding_dense_backward(g, indices, rows, padding_idx, scale_grad_by_freq);
  FL_CHECK(!scale_grad_by_freq, RuntimeError,
           "embedding: sparse gradients cannot be scaled by frequency; use one of the two");
  Tensor places = ops::to(ops::reshape(indices, {indices.numel()}), DType::Int64);
  Tensor values = ops::reshape(g, {indices.numel(), g.size(-1)});
  if (padding_idx >= 0) {
    Tensor kept = ops::squeeze(ops::nonzero(places != Scalar(padding_idx)), 1);
    places = ops::index_select(places, 0, kept);
    values = ops::index_select(values, 0, kept);
  }
  return make_sparse(Layout::Sparse, {rows, g.size(-1)}, {ops::unsqueeze(places, 0), values},
                     false);
}

Tensor share_evenly(const Tensor& g, const Tensor& self, const Tensor& chosen) {
  Tensor same = ops::eq(self, chosen);
  Tensor nan = ops::logical_and(ops::ne(self, self), ops::ne(chosen, chosen));
  Tensor mask = ops::to(ops::logical_or(same, nan), g.dtype());
  return mask * (g / ops::sum(mask));
}

Tensor repeat_backward(const Tensor& g, IntList sizes, IntList repeats) {
  // Each dim of the result is (repeat, size): summing over the first brings the size back.
  Ints split, dims;
  size_t extra = repeats.size() - sizes.size();
  if (g.numel() == 0) return zeros_for(g, sizes);
  for (size_t d = 0; d < repeats.size(); d++) {
    dims.push_back(int64_t(split.size()));
    split.push_back(repeats[d]);
    if (d >= extra) split.push_back(sizes[d - extra]);
  }
  if (dims.empty()) return g;
  return ops::sum(ops::reshape(g, split), IntList(dims), false);
}

namespace {

// The element of the result that each place goes into.
Tensor resample_targets(const Tensor& starts) {
  Tensor counts = ops::diff(starts);
  return ops::repeat_interleave(ops::arange(Scalar(counts.numel())), counts);
}

}  // namespace

Tensor resample_backward(const Tensor& g, IntList sizes, int64_t dim, const Tensor& starts,
                         const Tensor& places, const Tensor& weights) {
  const int64_t n = sizes[size_t(wrap_dim("_resample", dim, int64_t(sizes.size())))];
  Tensor ends = ops::cumsum(ops::bincount(places, {}, n), 0);
  Tensor order = ops::argsort(places, true);
  return ops::_resample(g, dim, ops::constant_pad_nd(ends, {1, 0}),
                        ops::index_select(resample_targets(starts), 0, order),
                        weights.defined() ? ops::index_select(weights, 0, order) : weights);
}

Tensor resample_weights(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& starts,
                        const Tensor& places) {
  Tensor products =
      ops::index_select(g, dim, resample_targets(starts)) * ops::index_select(self, dim, places);
  if (products.ndim() == 1) return products;
  return ops::sum(ops::flatten(ops::movedim(products, dim, 0), 1), IntList{1});
}

Tensor roll_backward(const Tensor& g, IntList shifts, IntList dims) {
  Ints back(shifts);
  for (int64_t& n : back) n = -n;
  return ops::roll(g, back, dims);
}

}  // namespace flambeau
