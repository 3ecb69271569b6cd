// Tensors put together.
#include <cstring>

#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

bool is_left_out(const Tensor& t) { return t.ndim() == 1 && t.size(0) == 0; }

const Tensor& first_counted(TensorList tensors) {
  for (const Tensor& t : tensors) {
    if (!is_left_out(t)) return t;
  }
  return tensors[0];
}

}  // namespace

Ints cat_shape(TensorList tensors, int64_t dim) {
  const Tensor& first = first_counted(tensors);
  FL_CHECK(first.ndim() > 0, RuntimeError, "cat: a 0-d tensor cannot be joined; use stack()");
  dim = wrap_dim("cat", dim, first.ndim());
  Ints sizes(first.sizes());
  if (is_left_out(first)) return sizes;
  sizes[size_t(dim)] = 0;
  for (size_t i = 0; i < tensors.size(); i++) {
    const Tensor& t = tensors[i];
    if (is_left_out(t)) continue;
    bool fits = t.ndim() == first.ndim();
    for (int64_t d = 0; fits && d < t.ndim(); d++) fits = d == dim || t.size(d) == first.size(d);
    FL_CHECK(fits, RuntimeError,
             "cat: all sizes but that of dim {} must match, got {} and {} (tensor {})", dim,
             first.sizes(), t.sizes(), i);
    int64_t& joined = sizes[size_t(dim)];
    FL_CHECK(!__builtin_add_overflow(joined, t.size(dim), &joined), RuntimeError,
             "cat: the sizes along dim {} add up to more than 63 bits at tensor {}", dim, i);
  }
  return sizes;
}

DType cat_dtype(TensorList tensors, int64_t) {
  ResultType type;
  for (const Tensor& t : tensors) type.add(t);
  return type.get();
}

namespace {

constexpr int64_t kSmallCat = 4096;  // bytes; larger pieces are worth the engine and its threads

// Few bytes, all contiguous and of one dtype: every piece is a block of each of the outer rows.
bool cat_small(Tensor& result, TensorList tensors, int64_t dim) {
  int64_t size = itemsize(result.dtype()), row = size, outer = 1;
  if (result.numel() * size > kSmallCat) return false;
  for (const Tensor& t : tensors)
    if (t.dtype() != result.dtype() || !t->contiguous()) return false;
  for (int64_t d = 0; d < result.ndim(); d++) (d < dim ? outer : row) *= result.size(d);
  char* to = result->data;
  for (const Tensor& t : tensors) {
    if (t.numel() == 0) continue;
    int64_t block = t.numel() * size / outer;
    for (int64_t r = 0; r < outer; r++)
      std::memcpy(to + r * row, t->data + r * block, size_t(block));
    to += block;
  }
  return true;
}

}  // namespace

void cat_pieces(Tensor& result, TensorList tensors, int64_t dim) {
  dim = wrap_dim("cat", dim, result.ndim());
  if (cat_small(result, tensors, dim)) return;
  int64_t start = 0;
  for (const Tensor& t : tensors) {
    if (is_left_out(t) || t.numel() == 0) continue;
    Geometry g{Ints(t.sizes()), Ints(result.strides()),
               result->offset() + start * result.stride(dim)};
    copy_elements(alias(result, g), t);
    start += t.size(dim);
  }
}

Tensor stack_impl(TensorList tensors, int64_t dim) {
  FL_CHECK(!tensors.empty(), RuntimeError, "stack: at least one tensor is needed");
  dim = wrap_dim("stack", dim, tensors[0].ndim() + 1);
  std::vector<Tensor> rows;
  rows.reserve(tensors.size());
  for (const Tensor& t : tensors) {
    FL_CHECK(t.sizes() == tensors[0].sizes(), RuntimeError,
             "stack: all sizes must match, got {} and {} (tensor {})", tensors[0].sizes(),
             t.sizes(), rows.size());
    rows.push_back(unsqueeze(t, dim));
  }
  return cat(rows, dim);
}

Tensor pad_sequence_impl(TensorList sequences, bool batch_first, double padding_value,
                         std::string_view padding_side) {
  FL_CHECK(!sequences.empty(), RuntimeError, "pad_sequence: at least one sequence is needed");
  FL_CHECK(padding_side == "right" || padding_side == "left", RuntimeError,
           "pad_sequence: padding_side must be 'right' or 'left', got '{}'", padding_side);
  int64_t longest = 0;
  for (const Tensor& t : sequences) {
    FL_CHECK(t.ndim() > 0, RuntimeError, "pad_sequence: a 0-d tensor is no sequence");
    longest = std::max(longest, t.size(0));
  }
  std::vector<Tensor> padded;
  for (const Tensor& t : sequences) {
    Ints pad(static_cast<size_t>(2 * t.ndim()), 0);
    pad[pad.size() - (padding_side == "right" ? 1 : 2)] = longest - t.size(0);
    padded.push_back(constant_pad_nd(t, pad, Scalar(padding_value)));
  }
  return stack(padded, batch_first ? 0 : 1);
}

Tensor constant_pad_nd_impl(const Tensor& self, IntList pad, const Scalar& value) {
  FL_CHECK(pad.size() % 2 == 0 && int64_t(pad.size()) <= 2 * self.ndim(), RuntimeError,
           "constant_pad_nd: pad must list two numbers for each of at most {} dims, got {}",
           self.ndim(), pad);
  Ints sizes(self.sizes());
  Tensor inside = self;
  for (size_t i = 0; i < pad.size() / 2; i++) {
    int64_t d = self.ndim() - 1 - int64_t(i), before = pad[2 * i], behind = pad[2 * i + 1];
    sizes[size_t(d)] = add_sat(sizes[size_t(d)], add_sat(before, behind));
    FL_CHECK(sizes[size_t(d)] >= 0, RuntimeError,
             "constant_pad_nd: pad {} leaves size {} in dim {} of shape {}", pad, sizes[size_t(d)],
             d, self.sizes());
    int64_t cut = std::max<int64_t>(neg_sat(before), 0),
            kept = add_sat(self.size(d) - cut, -std::max<int64_t>(neg_sat(behind), 0));
    if (cut || kept != self.size(d))
      inside = slice(inside, d, cut, cut + std::max<int64_t>(kept, 0), 1);
  }
  Tensor out = new_tensor(sizes, self.dtype(), self.device());
  fill_(out, value);
  Tensor place = out;
  for (size_t i = 0; i < pad.size() / 2; i++) {
    int64_t d = self.ndim() - 1 - int64_t(i), before = std::max<int64_t>(pad[2 * i], 0);
    place = slice(place, d, before, before + inside.size(d), 1);
  }
  copy_elements(place, inside);
  return out;
}

}  // namespace flambeau::ops
