// Tensors made of a few vectors or pairs: grids and their points, one-hot codes, complex numbers of
// their parts.
#include <algorithm>

#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

std::vector<Tensor> meshgrid_impl(TensorList tensors, std::string_view indexing) {
  FL_CHECK(!tensors.empty(), RuntimeError, "meshgrid: at least one tensor is needed, got none");
  FL_CHECK(indexing == "ij" || indexing == "xy", RuntimeError,
           "meshgrid: indexing must be \"ij\" or \"xy\", got \"{}\"", indexing);
  Ints sizes;
  for (const Tensor& t : tensors) {
    FL_CHECK(t.ndim() <= 1, RuntimeError, "meshgrid: tensors have at most one dim, got shape {}",
             t.sizes());
    FL_CHECK(t.dtype() == tensors[0].dtype(), RuntimeError,
             "meshgrid: all tensors must have one dtype, got {} and {}", tensors[0].dtype(),
             t.dtype());
    sizes.push_back(t.numel());
  }
  list_device("meshgrid", tensors);
  bool swap = indexing == "xy" && tensors.size() > 1;
  if (swap) std::swap(sizes[0], sizes[1]);
  std::vector<Tensor> grids;
  for (size_t i = 0; i < tensors.size(); i++) {
    Ints shape(sizes.size(), 1);
    shape[swap && i < 2 ? 1 - i : i] = tensors[i].numel();
    grids.push_back(expand(view(tensors[i], IntList(shape)), sizes));
  }
  return grids;
}

std::vector<Tensor> meshgrid_impl(TensorList tensors) { return meshgrid_impl(tensors, "ij"); }

Tensor cartesian_prod_impl(TensorList tensors) {
  FL_CHECK(!tensors.empty(), RuntimeError,
           "cartesian_prod: at least one tensor is needed, got none");
  for (const Tensor& t : tensors) {
    FL_CHECK(t.ndim() == 1, RuntimeError, "cartesian_prod: tensors must have one dim, got shape {}",
             t.sizes());
  }
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> columns = meshgrid(tensors);
  for (Tensor& c : columns) c = flatten(c, 0, -1);
  return stack(columns, 1);
}

Tensor one_hot_impl(const Tensor& self, int64_t num_classes) {
  FL_CHECK(self.dtype() == DType::Int64, RuntimeError, "one_hot: classes must be int64, got {}",
           self.dtype());
  bool counted = num_classes >= 0;
  FL_CHECK(counted || num_classes == -1, RuntimeError,
           "one_hot: num_classes must not be negative, or -1 to count them, got {}", num_classes);
  FL_CHECK(self.numel() > 0 || num_classes > 0, RuntimeError,
           "one_hot: the classes of an empty tensor cannot be counted, give num_classes");
  FL_CHECK(counted || has_memory(self), NotImplementedError,
           "one_hot: a meta tensor has no classes to count, give num_classes");
  Tensor classes = dense(self);
  const auto* index = classes.data<int64_t>();
  int64_t largest = -1;
  for (int64_t i = 0, n = has_memory(self) ? self.numel() : 0; i < n; i++) {
    FL_CHECK(index[i] >= 0, RuntimeError, "one_hot: classes must not be negative, got {} at {}",
             index[i], i);
    FL_CHECK(!counted || index[i] < num_classes, RuntimeError,
             "one_hot: classes must be below num_classes = {}, got {} at {}", num_classes, index[i],
             i);
    largest = std::max(largest, index[i]);
  }
  if (!counted) num_classes = add_sat(largest, 1);
  Ints sizes(self.sizes());
  sizes.push_back(num_classes);
  Tensor result = zeros(sizes, DType::Int64, std::nullopt, self.device());
  if (has_memory(self)) {
    auto* out = result.data<int64_t>();
    for (int64_t i = 0; i < self.numel(); i++) out[i * num_classes + index[i]] = 1;
  }
  return result;
}

namespace {

// How many combinations of r out of n elements there are, or a number that no memory holds.
int64_t count_combinations(int64_t n, int64_t r, bool again) {
  if (n == 0 || (!again && r > n)) return 0;
  const int64_t top = again ? add_sat(n, r - 1) : n, rounds = std::min(r, top - r);
  __int128 count = 1;
  for (int64_t i = 1; i <= rounds && count < kMostInt; i++) count = count * (top - rounds + i) / i;
  return count < kMostInt ? int64_t(count) : kMostInt;
}

// The r indices of each of `count` combinations, in lexicographic order.
void write_combinations(int64_t* out, int64_t count, int64_t n, int64_t r, bool again) {
  std::vector<int64_t> now(size_t(r), 0);
  for (int64_t i = 0; !again && i < r; i++) now[size_t(i)] = i;
  for (;;) {
    out = std::copy(now.begin(), now.end(), out);
    if (--count == 0) return;
    int64_t at = r - 1;  // the last index that can still grow
    while (now[size_t(at)] == (again ? n - 1 : n - r + at)) at--;
    now[size_t(at)]++;
    for (int64_t i = at + 1; i < r; i++) now[size_t(i)] = now[size_t(i - 1)] + !again;
  }
}

}  // namespace

Tensor combinations_impl(const Tensor& self, int64_t r, bool with_replacement) {
  FL_CHECK(self.ndim() == 1, RuntimeError, "combinations: self must have one dim, got shape {}",
           self.sizes());
  FL_CHECK(r >= 0, RuntimeError, "combinations: r must not be negative, got {}", r);
  if (r == 0) return new_tensor({0}, self.dtype(), self.device());
  int64_t n = self.numel(), count = count_combinations(n, r, with_replacement);
  Tensor indices = new_tensor({count, r}, DType::Int64, self.device());
  if (has_memory(indices) && count)
    write_combinations(indices.data<int64_t>(), count, n, r, with_replacement);
  return view(gather(self, 0, view(indices, {-1})), {count, r});
}

// ---- complex numbers ----

namespace {

void check_parts(std::string_view op, const Tensor& a, const Tensor& b) {
  FL_CHECK(is_float(a.dtype()) && a.dtype() != DType::BFloat16, RuntimeError,
           "{}: parts must be float16, float32 or float64, got {} and {}", op, a.dtype(),
           b.dtype());
  FL_CHECK(a.dtype() == b.dtype(), RuntimeError,
           "{}: both parts must have one dtype, got {} and {}", op, a.dtype(), b.dtype());
}

}  // namespace

DType complex_of_parts(const Tensor& real, const Tensor& imag) {
  check_parts("complex", real, imag);
  FL_CHECK(real.dtype() != DType::Float16, NotImplementedError,
           "complex: there is no complex dtype of float16 parts");
  return real.dtype() == DType::Float64 ? DType::Complex128 : DType::Complex64;
}

void interleave_parts(Tensor& result, const Tensor& real, const Tensor& imag) {
  Ints sizes(result.sizes()), strides(result.strides());
  for (int64_t& s : strides) s *= 2;
  for (int64_t part = 0; part < 2; part++) {
    Tensor to = make_view_as(result, real_of(result.dtype()), {sizes, strides, 0});
    to->data += part * itemsize(to.dtype());
    copy_elements(to, part ? imag : real);
  }
}

Tensor polar_impl(const Tensor& abs, const Tensor& angle) {
  check_parts("polar", abs, angle);
  Tensor size = recording(abs) ? _piecewise(abs) : abs;
  return complex(size * cos(angle), size * sin(angle));
}

// ---- powers ----

Tensor vander_impl(const Tensor& x, std::optional<int64_t> N, bool increasing) {
  FL_CHECK(x.ndim() == 1, RuntimeError, "vander: x must have one dim, got shape {}", x.sizes());
  int64_t columns = N.value_or(x.size(0));
  FL_CHECK(columns >= 0, RuntimeError, "vander: N must not be negative, got {}", columns);
  Tensor exponents = arange(Scalar(columns), DType::Int64, std::nullopt, x.device());
  if (!increasing) exponents = rsub(exponents, Scalar(columns - 1));
  return pow(unsqueeze(x, 1), exponents);
}

}  // namespace flambeau::ops
