// Bags of embeddings: rows picked by index, then reduced bag by bag.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/operators.h"

namespace flambeau::ops {

namespace {

enum BagMode : int64_t { kSum, kMean, kMax };

// The bag of each of n indices; offsets start at 0 and do not fall.
Tensor bag_of_each(const Tensor& offsets, int64_t bags, int64_t n) {
  Tensor starts = dense(as_int64(offsets)), result = new_tensor({n}, DType::Int64);
  auto* start = starts.data<int64_t>();
  auto* bag = result.data<int64_t>();
  FL_CHECK(starts.numel() == 0 || start[0] == 0, RuntimeError,
           "embedding_bag: offsets must start at 0, got {}", start[0]);
  for (int64_t b = 0; b < bags; b++) {
    int64_t end = b + 1 < bags ? start[b + 1] : n;  // whatever a last offset says, as in torch
    FL_CHECK(start[b] <= end && end <= n, RuntimeError,
             "embedding_bag: offsets must not fall nor exceed the {} indices, got {} after {}", n,
             end, start[b]);
    for (int64_t i = start[b]; i < end; i++) bag[i] = b;
  }
  return result;
}

void check_bags(const Tensor& weight, const Tensor& indices, const Tensor& offsets, int64_t mode,
                const Tensor& per_sample_weights) {
  constexpr auto op = "embedding_bag";
  FL_CHECK(weight.ndim() == 2 && indices.ndim() == 1 && offsets.ndim() == 1, RuntimeError,
           "{}: weight must have 2 dims, indices and offsets 1, got shapes {}, {} and {}", op,
           weight.sizes(), indices.sizes(), offsets.sizes());
  FL_CHECK(is_float(weight.dtype()), RuntimeError, "{}: weight must be floating, got {}", op,
           weight.dtype());
  FL_CHECK(is_integer(indices.dtype()) && is_integer(offsets.dtype()), RuntimeError,
           "{}: indices and offsets must be integers, got {} and {}", op, indices.dtype(),
           offsets.dtype());
  FL_CHECK(mode >= kSum && mode <= kMax, RuntimeError, "{}: mode must be 0, 1 or 2, got {}", op,
           mode);
  if (!per_sample_weights.defined()) return;
  FL_CHECK(mode == kSum, RuntimeError, "{}: per_sample_weights need mode 0 (sum), got {}", op,
           mode);
  FL_CHECK(
      per_sample_weights.sizes() == indices.sizes() && per_sample_weights.dtype() == weight.dtype(),
      RuntimeError, "{}: per_sample_weights must be {} of shape {}, got {} of {}", op,
      weight.dtype(), indices.sizes(), per_sample_weights.dtype(), per_sample_weights.sizes());
}

template <class T>
void largest_rows(const Tensor& rows, const int64_t* bag, const bool* used, int64_t* best) {
  int64_t n = rows.size(0), columns = rows.size(1);
  const T* x = rows.data<T>();
  for (int64_t i = 0; i < n; i++) {
    if (!used[i]) continue;
    for (int64_t c = 0; c < columns; c++) {
      int64_t& row = best[bag[i] * columns + c];
      if (row < 0 || x[i * columns + c] > x[row * columns + c]) row = i;
    }
  }
}

}  // namespace

Ints bag_max_rows_shape(const Tensor& rows, const Tensor& bags, const Tensor& used, int64_t count) {
  FL_CHECK(rows.ndim() == 2 && bags.sizes() == IntList({rows.size(0)}) &&
               used.sizes() == bags.sizes() && bags.dtype() == DType::Int64 &&
               used.dtype() == DType::Bool && count >= 0,
           RuntimeError,
           "_bag_max_rows: rows (n, d), int64 bags (n,), bool used (n,), got {}, {} and {}",
           rows.sizes(), bags.sizes(), used.sizes());
  FL_CHECK(rows.dtype() == DType::Float32 || rows.dtype() == DType::Float64, NotImplementedError,
           "_bag_max_rows: rows must be float32 or float64, got {}", rows.dtype());
  return {count, rows.size(1)};
}

void bag_max_rows_kernel(Tensor& result, const Tensor& rows, const Tensor& bags, const Tensor& used,
                         int64_t count) {
  fill_into(result, -1);
  Tensor places = checked_index<IndexError>("_bag_max_rows", bags, count, 0);
  auto* bag = places.data<int64_t>();
  auto* best = result.data<int64_t>();
  if (rows.dtype() == DType::Float64)
    largest_rows<double>(rows, bag, used.data<bool>(), best);
  else
    largest_rows<float>(rows, bag, used.data<bool>(), best);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> embedding_bag_impl(
    const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_grad_by_freq,
    int64_t mode, bool sparse, const Tensor& per_sample_weights, bool include_last_offset,
    std::optional<int64_t> padding_idx) {
  one_device("embedding_bag", {&weight, &indices, &offsets, &per_sample_weights});
  check_bags(weight, indices, offsets, mode, per_sample_weights);
  FL_CHECK(has_memory(offsets), NotImplementedError,
           "embedding_bag: the bags are not known on the meta device");
  FL_CHECK(!include_last_offset || offsets.numel() > 0, RuntimeError,
           "embedding_bag: include_last_offset needs at least one offset");
  int64_t pad = padding_idx.value_or(-1), count = offsets.numel() - include_last_offset;
  if (padding_idx && pad < 0) pad += weight.size(0);
  FL_CHECK(!padding_idx || (pad >= 0 && pad < weight.size(0)), RuntimeError,
           "embedding_bag: padding_idx must be one of the {} rows, got {}", weight.size(0),
           *padding_idx);
  Tensor places = as_int64(indices);
  Tensor bags = bag_of_each(offsets, count, places.numel());
  Tensor used = padding_idx ? ne(places, pad) : ones(places.sizes(), DType::Bool);
  bool half = is_half(weight.dtype());
  Tensor rows = embedding(weight, places, pad, scale_grad_by_freq, sparse);
  if (half) rows = to(rows, DType::Float32);
  Tensor sizes = index_add(zeros({count}, DType::Int64), 0, bags, to(used, DType::Int64));
  Tensor result, best = zeros({mode == kMax ? count : 0, weight.size(1)}, DType::Int64);
  if (mode == kMax) {
    Tensor winner = _bag_max_rows(detach(rows), bags, used, count);
    Tensor found = winner >= 0, row = clamp_min(winner, 0);
    if (rows.size(0) == 0) {
      result = new_zeros(rows, {count, weight.size(1)});
    } else {
      result = where(found, gather(rows, 0, row), 0);
      Tensor index = expand(unsqueeze(places, 1), rows.sizes());
      best = where(found, gather(index, 0, row), 0);
    }
  } else {
    rows = where(unsqueeze(used, 1), rows, 0);
    if (per_sample_weights.defined()) rows = rows * unsqueeze(per_sample_weights, 1);
    result = index_add(new_zeros(rows, {count, weight.size(1)}), 0, bags, rows);
    if (mode == kMean) result = result / unsqueeze(to(clamp_min(sizes, 1), result.dtype()), 1);
  }
  if (half) result = to(result, weight.dtype());
  return {result, bags, sizes, best};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> embedding_bag_impl(
    const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_grad_by_freq,
    int64_t mode, bool sparse, const Tensor& per_sample_weights, bool include_last_offset) {
  return embedding_bag_impl(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                            per_sample_weights, include_last_offset, std::nullopt);
}

}  // namespace flambeau::ops
