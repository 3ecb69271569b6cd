// Searching sorted rows, distinct elements, and counting: searchsorted, unique, bincount,
// histograms, isin.
#include <cmath>

#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/kernels/cpu/sort.h"
#include "flambeau/ops/factory.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/operators.h"

namespace flambeau::ops {

namespace {

Tensor cast_to(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor out = new_tensor(t.sizes(), dtype, t.device());
  copy_elements(out, t);
  return out;
}

bool search_right(bool right, std::optional<std::string_view> side) {
  if (!side) return right;
  FL_CHECK(*side == "left" || *side == "right", RuntimeError,
           "searchsorted: side must be 'left' or 'right', got '{}'", *side);
  FL_CHECK(!right || *side == "right", RuntimeError,
           "searchsorted: right=True and side='left' contradict each other");
  return *side == "right";
}

void check_search(const Tensor& sorted, const Tensor& self, const Tensor& sorter) {
  FL_CHECK(sorted.ndim() > 0, RuntimeError,
           "searchsorted: sorted_sequence must have at least one dim");
  bool fits = sorted.ndim() == 1 || sorted.ndim() == self.ndim();
  for (int64_t d = 0; fits && d < sorted.ndim() - 1; d++) fits = sorted.size(d) == self.size(d);
  FL_CHECK(fits, RuntimeError,
           "searchsorted: sorted_sequence must have one dim or the values' leading sizes, got {} "
           "and {}",
           sorted.sizes(), self.sizes());
  FL_CHECK(!is_complex(sorted.dtype()) && !is_complex(self.dtype()), NotImplementedError,
           "searchsorted: complex numbers have no order");
  if (!sorter.defined()) return;
  FL_CHECK(sorter.dtype() == DType::Int64 && sorter.sizes() == sorted.sizes(), RuntimeError,
           "searchsorted: sorter must be int64 with the shape {} of sorted_sequence, got {} of {}",
           sorted.sizes(), sorter.dtype(), sorter.sizes());
}

}  // namespace

Tensor searchsorted_impl(const Tensor& sorted_sequence, const Tensor& self, bool out_int32,
                         bool right, std::optional<std::string_view> side, const Tensor& sorter) {
  one_device("searchsorted", {&sorted_sequence, &self, &sorter});
  bool upper = search_right(right, side);
  check_search(sorted_sequence, self, sorter);
  Tensor result = new_tensor(self.sizes(), DType::Int64, self.device());
  if (has_memory(self) && self.numel()) {
    ResultType type;
    type.add(sorted_sequence);
    type.add(self);
    Tensor rows = sorter.defined() ? gather(sorted_sequence, -1, sorter) : sorted_sequence;
    rows = dense(cast_to(rows, type.get()));
    Tensor values = dense(cast_to(self, type.get()));
    bool shared = rows.ndim() == 1;
    int64_t size = rows.size(-1), per_row = shared ? values.numel() : values.size(-1);
    searchsorted_rows(rows.dtype(), rows->data, shared, size, values->data,
                      values.numel() / per_row, per_row, upper, result.data<int64_t>());
  }
  return out_int32 ? cast_to(result, DType::Int32) : result;
}

Tensor searchsorted_impl(const Tensor& sorted_sequence, const Scalar& self, bool out_int32,
                         bool right, std::optional<std::string_view> side, const Tensor& sorter) {
  FL_CHECK(sorted_sequence.ndim() == 1, RuntimeError,
           "searchsorted: a number can be searched for in one row, got shape {}",
           sorted_sequence.sizes());
  Tensor value = number_tensor(self, sorted_sequence.device());
  return searchsorted_impl(sorted_sequence, value, out_int32, right, side, sorter);
}

Tensor bucketize_impl(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
  FL_CHECK(boundaries.ndim() == 1, RuntimeError, "bucketize: boundaries must be 1-d, got shape {}",
           boundaries.sizes());
  return searchsorted_impl(boundaries, self, out_int32, right, std::nullopt, Tensor());
}

Tensor bucketize_impl(const Scalar& self, const Tensor& boundaries, bool out_int32, bool right) {
  return bucketize_impl(number_tensor(self, boundaries.device()), boundaries, out_int32, right);
}

// ---- distinct elements ----

namespace {

using Unique = std::tuple<Tensor, Tensor, Tensor>;

void need_values(std::string_view op, const Tensor& self) {
  FL_CHECK(has_memory(self), NotImplementedError,
           "{}: how many elements differ is not known on the meta device", op);
  FL_CHECK(!is_complex(self.dtype()), NotImplementedError, "{}: not defined for {}", op,
           self.dtype());
}

Tensor first_elements(const Tensor& t, int64_t n) {
  Tensor part = new_tensor({n}, t.dtype(), t.device());
  copy_elements(part, alias(t, {{n}, {1}, t->offset()}));
  return part;
}

using UniqueKernel = int64_t (*)(DType, const void*, int64_t, void*, int64_t*, int64_t*);

Unique unique_flat(UniqueKernel kernel, const Tensor& self, bool want_inverse, bool want_counts) {
  Tensor x = dense(self), values = new_tensor({x.numel()}, x.dtype(), x.device());
  Tensor inverse = new_tensor(want_inverse ? x.sizes() : IntList({0}), DType::Int64, x.device());
  Tensor counts = new_tensor({want_counts ? x.numel() : 0}, DType::Int64, x.device());
  int64_t n = x.numel() ? kernel(x.dtype(), x->data, x.numel(), values->data,
                                 want_inverse ? inverse.data<int64_t>() : nullptr,
                                 want_counts ? counts.data<int64_t>() : nullptr)
                        : 0;
  return {first_elements(values, n), inverse, want_counts ? first_elements(counts, n) : counts};
}

Unique unique_slices(std::string_view op, const Tensor& self, int64_t dim, bool consecutive,
                     bool want_inverse, bool want_counts) {
  dim = wrap_dim(op, dim, self.ndim());
  int64_t n = size_of(self, dim), m = n ? self.numel() / n : 0;
  if (self.numel() == 0 && self.ndim()) {
    FL_CHECK(n == 0, RuntimeError, "{}: slices of shape {} along dim {} have no elements", op,
             self.sizes(), dim);
    Tensor none = new_tensor({0}, DType::Int64, self.device());
    return {clone_impl(self, std::nullopt), none, none};
  }
  Geometry g{Ints(self.sizes()), Ints(self.strides()), self->offset()};
  for (int64_t d = dim; d > 0; d--) {
    std::swap(g.sizes[size_t(d)], g.sizes[size_t(d - 1)]);
    std::swap(g.strides[size_t(d)], g.strides[size_t(d - 1)]);
  }
  Tensor x = dense(alias(self, g));
  Tensor firsts = new_tensor({n}, DType::Int64), inverse = new_tensor({n}, DType::Int64),
         counts = new_tensor({n}, DType::Int64);
  int64_t distinct = unique_rows(x.dtype(), x->data, n, m, consecutive, firsts.data<int64_t>(),
                                 inverse.data<int64_t>(), counts.data<int64_t>());
  Tensor none = new_tensor({0}, DType::Int64);
  Tensor values =
      self.ndim() ? index_select(self, dim, first_elements(firsts, distinct)) : reshape(self, {1});
  return {values, want_inverse ? inverse : none,
          want_counts ? first_elements(counts, distinct) : none};
}

}  // namespace

Unique unique2_impl(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  need_values("unique", self);
  return unique_flat(unique_sorted, self, return_inverse, return_counts);
}

Unique unique_consecutive_impl(const Tensor& self, bool return_inverse, bool return_counts,
                               std::optional<int64_t> dim) {
  need_values("unique_consecutive", self);
  if (!dim) return unique_flat(flambeau::unique_consecutive, self, return_inverse, return_counts);
  return unique_slices("unique_consecutive", self, *dim, true, return_inverse, return_counts);
}

Unique unique_dim_impl(const Tensor& self, int64_t dim, bool, bool return_inverse,
                       bool return_counts) {
  need_values("unique_dim", self);
  return unique_slices("unique_dim", self, dim, false, return_inverse, return_counts);
}

namespace {

// Few candidates: one comparison each is cheaper than a sort.
Tensor is_any_of(const Tensor& elements, const Tensor& tests) {
  Tensor found = new_tensor(elements.sizes(), DType::Bool, elements.device());
  zero_into(found);
  Tensor flat = reshape(tests, {-1});
  for (int64_t i = 0; i < flat.numel(); i++)
    found = logical_or(found, eq(elements, select(flat, 0, i)));
  return found;
}

Tensor is_in_sorted(const Tensor& elements, const Tensor& tests) {
  ResultType type;
  type.add(elements);
  type.add(tests);
  Tensor x = dense(cast_to(elements, type.get()));
  Tensor sorted = std::get<0>(sort(cast_to(reshape(tests, {-1}), type.get()), int64_t{0}, false));
  Tensor place = searchsorted_impl(sorted, x, false, false, std::nullopt, Tensor());
  place = masked_fill(place, ge(place, Scalar(sorted.numel())), Scalar(sorted.numel() - 1));
  return eq(take(sorted, place), x);
}

}  // namespace

Tensor isin_impl(const Tensor& elements, const Tensor& test_elements, bool, bool invert) {
  FL_CHECK(!is_complex(elements.dtype()) && !is_complex(test_elements.dtype()), RuntimeError,
           "isin: not defined for {}",
           is_complex(elements.dtype()) ? elements.dtype() : test_elements.dtype());
  one_device("isin", {&elements, &test_elements});
  if (elements.numel() == 0 || !has_memory(elements))
    return new_tensor(elements.sizes(), DType::Bool, elements.device());
  bool few = test_elements.numel() <= 8;
  Tensor found = few ? is_any_of(elements, test_elements) : is_in_sorted(elements, test_elements);
  return invert ? logical_not(found) : found;
}

Tensor isin_impl(const Tensor& elements, const Scalar& test_element, bool, bool invert) {
  return invert ? ne(elements, test_element) : eq(elements, test_element);
}

Tensor isin_impl(const Scalar& element, const Tensor& test_elements, bool unique, bool invert) {
  return isin_impl(number_tensor(element, test_elements.device()), test_elements, unique, invert);
}

// ---- counting ----

constexpr int64_t kMostBins = int64_t{1} << 48;  // more than memory has

Tensor bincount_impl(const Tensor& self, const Tensor& weights, int64_t minlength) {
  FL_CHECK(minlength >= 0, RuntimeError, "bincount: minlength must not be negative, got {}",
           minlength);
  FL_CHECK(is_integer(self.dtype()), NotImplementedError, "bincount: not defined for {}",
           self.dtype());
  FL_CHECK(self.ndim() == 1, RuntimeError, "bincount: self must be 1-d, got shape {}",
           self.sizes());
  FL_CHECK(!weights.defined() || weights.sizes() == self.sizes(), RuntimeError,
           "bincount: weights must have self's shape {}, got {}", self.sizes(), weights.sizes());
  one_device("bincount", {&self, &weights});
  FL_CHECK(has_memory(self), NotImplementedError,
           "bincount: the largest element is not known on the meta device");
  Tensor x = dense(as_int64(self));
  const int64_t* values = x.data<int64_t>();
  int64_t bins = minlength;
  for (int64_t i = 0; i < x.numel(); i++) {
    FL_CHECK(values[i] >= 0, RuntimeError, "bincount: elements must not be negative, got {} at {}",
             values[i], i);
    FL_CHECK(values[i] < kMostBins, RuntimeError,
             "bincount: elements must be below 2^48, got {} at {}", values[i], i);
    bins = std::max(bins, values[i] + 1);
  }
  bool weighted = weights.defined() && x.numel();
  DType type =
      weights.defined() && weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  Tensor result = new_tensor({bins}, weighted ? type : DType::Int64, self.device());
  zero_into(result);
  if (weighted) {
    Tensor w = dense(cast_to(weights, type));
    bincount_weighted(type, values, w->data, x.numel(), bins, result->data);
  } else {
    bincount_items(values, x.numel(), bins, result.data<int64_t>());
  }
  return result;
}

namespace {

struct Span {
  double low, high;
};

// The bounds of a histogram: those given, else those of the data; a single value gets room.
Span histogram_span(std::string_view op, const Tensor& x, double low, double high, double room) {
  if (low == high && x.numel()) {
    low = reduce_one(op, ReduceOp::AMin, x, std::nullopt, false, x.dtype(), {}).item().to_double();
    high = reduce_one(op, ReduceOp::AMax, x, std::nullopt, false, x.dtype(), {}).item().to_double();
  }
  FL_CHECK(std::isfinite(low) && std::isfinite(high), RuntimeError,
           "{}: the range [{}, {}] must be finite", op, low, high);
  FL_CHECK(low <= high, RuntimeError, "{}: max must not be less than min, got {} and {}", op, high,
           low);
  if (low == high) return {low - room, high + room};
  return {low, high};
}

void check_histogram(std::string_view op, const Tensor& self, int64_t bins) {
  FL_CHECK(is_float(self.dtype()), NotImplementedError, "{}: not defined for {}", op, self.dtype());
  FL_CHECK(bins > 0, RuntimeError, "{}: bins must be positive, got {}", op, bins);
}

// Equally spaced edges, computed from both ends so that the last one is exact.
Tensor even_edges(DType dtype, Span s, int64_t bins) {
  Tensor edges = new_tensor({add_sat(bins, 1)}, DType::Float64);
  double step = (s.high - s.low) / double(bins);
  for (int64_t i = 0; i <= bins; i++) {
    edges.data<double>()[i] =
        i < (bins + 1) / 2 ? s.low + step * double(i) : s.high - step * double(bins - i);
  }
  return cast_to(edges, dtype);
}

Tensor count_between(const Tensor& self, const Tensor& edges, const Tensor& weight, bool density) {
  int64_t bins = edges.numel() - 1;
  Tensor x = reshape(self, {-1});
  Tensor place = searchsorted_impl(edges, x, false, true, std::nullopt, Tensor());
  Tensor inside = logical_and(ge(x, select(edges, 0, 0)), le(x, select(edges, 0, bins)));
  // The last bin takes its upper edge too; edges that do not rise lead anywhere.
  place = clamp(sub(place, Scalar(int64_t{1})), Scalar(int64_t{0}), Scalar(bins - 1));
  Tensor kept = masked_select(place, inside);
  Tensor weights = weight.defined() ? masked_select(reshape(weight, {-1}), inside) : Tensor();
  Tensor hist = cast_to(bincount_impl(kept, weights, bins), self.dtype());
  if (!density) return hist;
  Tensor widths = sub(slice(edges, 0, 1, bins + 1, 1), slice(edges, 0, 0, bins, 1));
  return div(hist, mul(widths, sum(hist)));
}

void check_weight(const Tensor& self, const Tensor& weight) {
  FL_CHECK(!weight.defined() || (weight.sizes() == self.sizes() && weight.dtype() == self.dtype()),
           RuntimeError, "histogram: weight must have self's shape {} and dtype {}, got {} of {}",
           self.sizes(), self.dtype(), weight.sizes(), weight.dtype());
}

}  // namespace

Tensor histc_impl(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  check_histogram("histc", self, bins);
  DType counted = is_half(self.dtype()) ? DType::Float32 : self.dtype();
  Tensor result = new_tensor({bins}, counted, self.device());
  if (has_memory(self)) {
    Tensor x = dense(cast_to(self, counted));
    Span s = histogram_span("histc", x, min.to_double(), max.to_double(), 1);
    histc_items(x.dtype(), x->data, x.numel(), s.low, s.high, bins, result->data);
  }
  return cast_to(result, self.dtype());
}

std::tuple<Tensor, Tensor> histogram_impl(const Tensor& self, int64_t bins,
                                          std::optional<DoubleList> range, const Tensor& weight,
                                          bool density) {
  check_histogram("histogram", self, bins);
  check_weight(self, weight);
  FL_CHECK(!range || range->size() == 2, RuntimeError,
           "histogram: range must hold two numbers, got {}", range ? range->size() : 0);
  if (!has_memory(self)) {
    return {new_tensor({bins}, self.dtype(), self.device()),
            new_tensor({bins + 1}, self.dtype(), self.device())};
  }
  Span s{0, 1};  // as torch, where there are no elements
  if (range || self.numel())
    s = histogram_span("histogram", self, range ? (*range)[0] : 0, range ? (*range)[1] : 0, 0.5);
  Tensor edges = even_edges(self.dtype(), s, bins);
  return {count_between(self, edges, weight, density), edges};
}

std::tuple<Tensor, Tensor> histogram_impl(const Tensor& self, const Tensor& bins,
                                          const Tensor& weight, bool density) {
  FL_CHECK(bins.ndim() == 1 && bins.numel() > 0 && bins.dtype() == self.dtype(), RuntimeError,
           "histogram: bins must be a 1-d tensor of self's dtype {}, got {} of shape {}",
           self.dtype(), bins.dtype(), bins.sizes());
  check_histogram("histogram", self, 1);
  check_weight(self, weight);
  Tensor edges = clone_impl(bins, MemoryFormat::Contiguous);
  return {count_between(self, edges, weight, density), edges};
}

}  // namespace flambeau::ops
