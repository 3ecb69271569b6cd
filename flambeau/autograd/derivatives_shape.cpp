// Derivatives of ops that only move or repeat elements.
#include "flambeau/autograd/derivatives.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace flambeau {

Tensor sum_to(const Tensor& g, IntList sizes) { return ops::sum_to_size(g, sizes); }

Tensor expand_reduced(const Tensor& g, IntList sizes, const Dims& dim, bool keepdim) {
  int64_t n = int64_t(sizes.size());
  if (n == 0) return g;
  if (keepdim || !dim || dim->empty()) return ops::expand(g, sizes);
  uint64_t mask = 0;
  for (int64_t d : *dim) mask |= uint64_t{1} << wrap_dim("sum", d, n);
  Ints kept;
  for (int64_t d = 0; d < n; d++) kept.push_back(mask >> d & 1 ? 1 : sizes[size_t(d)]);
  return ops::expand(ops::reshape(g, kept), sizes);
}

Tensor mean_backward(const Tensor& g, IntList sizes, const Dims& dim, bool keepdim) {
  Tensor spread = expand_reduced(g, sizes, dim, keepdim);
  int64_t kept = std::max<int64_t>(g.numel(), 1), all = numel_of(sizes);
  return spread / Scalar(double(all) / double(kept));
}

namespace {

// The last element that a geometry reaches, counted from its offset.
int64_t reach_of(IntList sizes, IntList strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); d++) last += (sizes[d] - 1) * strides[d];
  return last;
}

// May two indices share an element? Taken by stride, each dim must step past all before it.
bool overlaps(IntList sizes, IntList strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < sizes.size(); d++)
    if (sizes[d] > 1) dims.push_back({strides[d], sizes[d]});
  std::sort(dims.begin(), dims.end());
  int64_t covered = 0;
  for (auto [stride, size] : dims) {
    if (stride <= covered) return true;
    covered += stride * (size - 1);
  }
  return false;
}

// Adds g to the elements of `memory` that the geometry names, those named twice once for each.
void add_to_region(const Tensor& memory, const Tensor& g, IntList sizes, IntList strides,
                   int64_t offset) {
  if (!overlaps(sizes, strides)) {
    Tensor region = ops::as_strided(memory, sizes, strides, offset);
    ops::add_(region, g, Scalar(int64_t{1}));
    return;
  }
  IntList inner_sizes(sizes.data() + 1, sizes.size() - 1);
  IntList inner_strides(strides.data() + 1, strides.size() - 1);
  for (int64_t i = 0; i < sizes[0]; i++)
    add_to_region(memory, ops::select(g, 0, i), inner_sizes, inner_strides,
                  offset + i * strides[0]);
}

}  // namespace

// The gradient of the memory that both geometries lie in, seen through the base's geometry.
Tensor as_strided_backward(const Tensor& g, IntList base_sizes, IntList base_strides,
                           int64_t base_offset, IntList size, IntList stride,
                           std::optional<int64_t> storage_offset) {
  if (numel_of(base_sizes) == 0 || g.numel() == 0)
    return ops::zeros(base_sizes, g.dtype(), {}, g.device());
  int64_t offset = storage_offset.value_or(base_offset), low = std::min(offset, base_offset);
  int64_t room =
      std::max(base_offset + reach_of(base_sizes, base_strides), offset + reach_of(size, stride)) -
      low + 1;
  Tensor memory = ops::new_zeros(g, {room});
  add_to_region(memory, g, size, stride, offset - low);
  if (overlaps(base_sizes, base_strides)) {
    // The base's own gradient will be summed over what shares an element.
    Tensor counts = ops::zeros({room}, g.dtype(), {}, g.device());
    Tensor ones = ops::ones(base_sizes, g.dtype(), {}, g.device());
    add_to_region(counts, ones, base_sizes, base_strides, base_offset - low);
    memory = memory / counts;
  }
  return ops::as_strided(memory, base_sizes, base_strides, base_offset - low);
}

namespace {

// Zeros of `sizes` in which the part that `view` shows is g. Out of place where a graph is being
// made.
template <class View>
Tensor embed(const Tensor& g, IntList sizes, View view) {
  Tensor zeros = ops::new_zeros(g, sizes);
  Tensor part = view(zeros);
  ops::copy_(part, g);
  return zeros;
}

}  // namespace

Tensor select_backward(const Tensor& g, IntList sizes, int64_t dim, int64_t index) {
  return embed(g, sizes, [&](const Tensor& z) { return ops::select(z, dim, index); });
}

Tensor slice_backward(const Tensor& g, IntList sizes, int64_t dim, std::optional<int64_t> start,
                      std::optional<int64_t> end, int64_t step) {
  return embed(g, sizes, [&](const Tensor& z) { return ops::slice(z, dim, start, end, step); });
}

Tensor diagonal_backward(const Tensor& g, IntList sizes, int64_t offset, int64_t dim1,
                         int64_t dim2) {
  return embed(g, sizes, [&](const Tensor& z) { return ops::diagonal(z, offset, dim1, dim2); });
}

Tensor permute_backward(const Tensor& g, IntList dims) {
  Ints inverse(dims.size());
  int64_t n = int64_t(dims.size());
  for (int64_t i = 0; i < n; i++) inverse[size_t(wrap_dim("permute", dims[size_t(i)], n))] = i;
  return ops::permute(g, inverse);
}

namespace {

// Joins the gradients of pieces along a dim; those that nobody used are zeros of `piece(i)` sizes.
template <class Sizes>
std::vector<Tensor> fill_gaps(TensorList gs, Sizes piece) {
  const Tensor* known = nullptr;
  for (const Tensor& g : gs) {
    if (g.defined()) known = &g;
  }
  std::vector<Tensor> full;
  for (size_t i = 0; i < gs.size(); i++) {
    full.push_back(gs[i].defined() ? gs[i]
                                   : ops::zeros(piece(i), known->dtype(), {}, known->device()));
  }
  return full;
}

}  // namespace

Tensor split_backward(TensorList gs, IntList sizes, IntList split_size, int64_t dim) {
  dim = wrap_dim("split", dim, int64_t(sizes.size()));
  auto full = fill_gaps(gs, [&](size_t i) {
    Ints s(sizes);
    s[size_t(dim)] = split_size[i];
    return s;
  });
  return ops::cat(full, dim);
}

Tensor split_backward(TensorList gs, IntList sizes, int64_t split_size, int64_t dim) {
  dim = wrap_dim("split", dim, int64_t(sizes.size()));
  Ints each;
  for (size_t i = 0; i < gs.size(); i++)
    each.push_back(std::min(split_size, sizes[size_t(dim)] - int64_t(i) * split_size));
  return split_backward(gs, sizes, IntList(each), dim);
}

Tensor unbind_backward(TensorList gs, IntList sizes, DType, int64_t dim) {
  dim = wrap_dim("unbind", dim, int64_t(sizes.size()));
  Ints s(sizes);
  s.erase(size_t(dim));
  return ops::stack(fill_gaps(gs, [&](size_t) { return s; }), dim);
}

Tensor unfold_backward(const Tensor& g, IntList sizes, int64_t dimension, int64_t size,
                       int64_t step) {
  if (sizes.empty()) return size ? ops::reshape(g, {}) : ops::zeros({}, g.dtype(), {}, g.device());
  int64_t dim = wrap_dim("unfold", dimension, int64_t(sizes.size()));
  // Windows overlap: each offset inside the window is a slice without overlap.
  Tensor total = ops::new_zeros(g, sizes);
  int64_t windows = (sizes[size_t(dim)] - size) / step + 1;
  for (int64_t k = 0; k < size; k++) {
    Tensor part = ops::slice(total, dim, k, k + (windows - 1) * step + 1, step);
    ops::add_(part, ops::select(g, -1, k));
  }
  return total;
}

std::vector<Tensor> cat_backward(const Tensor& g, const std::vector<Ints>& sizes,
                                 const std::vector<DType>& dtypes, int64_t dim) {
  dim = wrap_dim("cat", dim, g.ndim());
  std::vector<Tensor> pieces;
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); i++) {
    bool left_out = sizes[i].size() == 1 && sizes[i][0] == 0;
    int64_t length = left_out ? 0 : sizes[i][size_t(dim)];
    Tensor piece = left_out ? ops::zeros(sizes[i], g.dtype(), {}, g.device())
                            : ops::narrow(g, dim, start, length);
    start += length;
    pieces.push_back(fit_grad(piece, piece.sizes(), dtypes[i]));
  }
  return pieces;
}

Tensor constant_pad_backward(const Tensor& g, IntList pad) {
  Ints opposite(pad);
  for (int64_t& n : opposite) n = -n;
  return ops::constant_pad_nd(g, opposite, Scalar(int64_t{0}));
}

}  // namespace flambeau
