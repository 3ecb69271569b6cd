// Making sparse tensors, looking at them, and changing layouts; composed of ops on their parts.
#include "flambeau/ops/sparse.h"

#include "flambeau/core/saturate.h"
#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"
#include "flambeau/ops/sparse_parts.h"

namespace flambeau {

Tensor make_sparse(Layout layout, IntList sizes, std::vector<Tensor> parts, bool is_coalesced) {
  (void)numel_of(sizes);  // throws on overflow
  for (const Tensor& part : parts)
    FL_CHECK(
        !(part->flags & (kBatched | kDual)), NotImplementedError,
        "sparse: inside vmap or forward mode no sparse tensor can be made, got parts of shape {}",
        part.sizes());
  Tensor values = parts.back();
  Tensor zero = ops::zeros(IntList(), values.dtype(), std::nullopt, values.device());
  Tensor shell = alias(zero, Geometry{sizes, Ints(sizes.size()), 0});
  shell->layout = layout;
  shell->flags |= kSparse;
  if (values.requires_grad()) shell->flags |= kRequiresGrad;
  TensorMeta& meta = meta_of(shell.impl());
  meta.parts = std::move(parts);
  meta.is_coalesced = is_coalesced;
  return shell;
}

Tensor with_values(const Tensor& like, const Tensor& values) {
  std::vector<Tensor> parts = like->meta->parts;
  parts.back() = values;
  for (Tensor& part : parts)
    if (part.device() != values.device()) part = ops::to(part, values.device());
  return make_sparse(like->layout, like.sizes(), std::move(parts), like->meta->is_coalesced);
}

Tensor values_at(const Tensor& t, const Tensor& places_of) {
  Tensor indices = ops::coordinates(places_of);
  int64_t dims = indices.size(0);
  Tensor rows = ops::flat_rows(is_sparse(t) ? ops::to_dense(t) : t, dims);
  return ops::index_select(rows, 0, ops::flat_places(indices, places_of.sizes()));
}

namespace ops {

// ---- parts ----

Tensor coordinates(const Tensor& sparse) {
  const std::vector<Tensor>& parts = sparse->meta->parts;
  if (sparse->layout == Layout::Sparse) return parts[0];
  Tensor starts = to(parts[0], DType::Int64), others = to(parts[1], DType::Int64);
  Tensor lines = repeat_interleave(diff(starts));
  bool rows = sparse->layout == Layout::SparseCsr;
  return stack(std::vector{rows ? lines : others, rows ? others : lines});
}

Tensor flat_places(const Tensor& indices, IntList sizes) {
  Tensor flat = zeros({indices.size(1)}, DType::Int64, std::nullopt, indices.device());
  for (int64_t d = 0; d < indices.size(0); d++)
    flat = flat * Scalar(sizes[size_t(d)]) + select(indices, 0, d);
  return flat;
}

Tensor unflattened(const Tensor& places, IntList sizes) {
  if (sizes.empty()) return zeros({0, places.numel()}, DType::Int64, std::nullopt, places.device());
  std::vector<Tensor> lines(sizes.size());
  Tensor rest = places;
  for (size_t d = sizes.size(); d-- > 0;) {
    Scalar size(std::max<int64_t>(sizes[d], 1));
    lines[d] = remainder(rest, size);
    rest = floor_divide(rest, size);
  }
  return stack(lines);
}

Tensor flat_rows(const Tensor& dense, int64_t dims) {
  Ints sizes{numel_of(IntList(dense->sizes, size_t(dims)))};
  for (int64_t d = dims; d < dense.ndim(); d++) sizes.push_back(dense.size(d));
  return reshape(dense, sizes);
}

Tensor summed_rows(int64_t rows, const Tensor& places, const Tensor& values) {
  Ints sizes(values.sizes());
  sizes[0] = rows;
  bool truth = values.dtype() == DType::Bool;  // a sum of bools is their disjunction
  DType dtype = truth ? DType::Int32 : values.dtype();
  Tensor base = zeros(sizes, dtype, std::nullopt, values.device());
  Tensor sums = index_add(base, 0, places, truth ? to(values, dtype) : values);
  return truth ? to(sums, DType::Bool) : sums;
}

Tensor tensor_of_ints(IntList list, Device device) {
  Tensor t = new_tensor({int64_t(list.size())}, DType::Int64);
  std::copy(list.begin(), list.end(), t.data<int64_t>());
  return to(t, device);
}

void check_sparse(std::string_view op, const Tensor& t) {
  FL_CHECK(is_sparse(t), RuntimeError, "{}: a sparse tensor is needed, got a strided one", op);
}
void check_coo(std::string_view op, const Tensor& t) {
  FL_CHECK(t->layout == Layout::Sparse, RuntimeError,
           "{}: a tensor of layout sparse_coo is needed, got {}", op, layout_name(t));
}

std::string_view layout_name(const Tensor& t) {
  constexpr std::string_view kNames[] = {"strided", "sparse_coo", "sparse_csr", "sparse_csc"};
  return kNames[size_t(t->layout)];
}

int64_t sparse_dims(const Tensor& sparse) {
  return sparse->layout == Layout::Sparse ? sparse->meta->parts[0].size(0) : 2;
}

// ---- making ----

namespace {

void check_index_tensor(std::string_view op, std::string_view name, const Tensor& t, int64_t ndim) {
  FL_CHECK(is_integer(t.dtype()) && t.ndim() == ndim, RuntimeError,
           "{}: {} must be integers of {} dims, got {} of shape {}", op, name, ndim, t.dtype(),
           t.sizes());
  FL_CHECK(has_values(t), NotImplementedError, "{}: {} without values cannot be checked", op, name);
}

// Every index of a dim lies below its size.
void check_range(std::string_view op, const Tensor& line, int64_t dim, int64_t size) {
  if (line.numel() == 0) return;
  int64_t low = min(line).item().to_int(), high = max(line).item().to_int();
  FL_CHECK(low >= 0 && high < size, RuntimeError,
           "{}: indices of dim {} must be in [0, {}), got {}", op, dim, size, low < 0 ? low : high);
}

// The smallest size that holds all indices of a dim.
int64_t size_for(std::string_view op, const Tensor& line, int64_t dim) {
  check_range(op, line, dim, kMostInt);
  return line.numel() ? max(line).item().to_int() + 1 : 0;
}
Ints sizes_for(std::string_view op, const Tensor& indices, const Tensor& values) {
  Ints sizes;
  for (int64_t d = 0; d < indices.size(0); d++)
    sizes.push_back(size_for(op, select(indices, 0, d), d));
  for (int64_t d = 1; d < values.ndim(); d++) sizes.push_back(values.size(d));
  return sizes;
}

// What a shell keeps: with the tape off, or of values without a gradient, memory without history.
Tensor kept_values(const Tensor& values) {
  return tls.grad && values.requires_grad() ? values : detach(values);
}

}  // namespace

Tensor sparse_coo_impl(const Tensor& indices, const Tensor& values, std::optional<IntList> size,
                       bool is_coalesced) {
  constexpr auto op = "sparse_coo_tensor";
  one_device(op, {&indices, &values});
  check_index_tensor(op, "indices", indices, 2);
  int64_t dims = indices.size(0);
  FL_CHECK(values.ndim() >= 1 && values.size(0) == indices.size(1), RuntimeError,
           "{}: indices of shape (dims, n) need values of shape (n, *), got {} and {}", op,
           indices.sizes(), values.sizes());
  Tensor places = to(detach(indices), DType::Int64);
  if (!size)
    return make_sparse(Layout::Sparse, sizes_for(op, places, values), {places, kept_values(values)},
                       is_coalesced);
  bool fits = int64_t(size->size()) == dims + values.ndim() - 1;
  for (int64_t d = dims; fits && d < int64_t(size->size()); d++)
    fits = (*size)[size_t(d)] == values.size(d - dims + 1);
  FL_CHECK(fits, RuntimeError,
           "{}: a size of {} sparse dims and those of values beyond the first is needed, got {} "
           "for values of shape {}",
           op, dims, *size, values.sizes());
  for (int64_t d = 0; d < dims; d++) check_range(op, select(places, 0, d), d, (*size)[size_t(d)]);
  return make_sparse(Layout::Sparse, *size, {places, kept_values(values)}, is_coalesced);
}

Tensor sparse_compressed_impl(const Tensor& starts, const Tensor& others, const Tensor& values,
                              std::optional<IntList> size, bool by_columns) {
  std::string_view op = by_columns ? "sparse_csc_tensor" : "sparse_csr_tensor";
  one_device(op, {&starts, &others, &values});
  FL_CHECK(starts.ndim() <= 1, NotImplementedError,
           "{}: batches are not supported, got indices of shape {}", op, starts.sizes());
  check_index_tensor(op, by_columns ? "ccol_indices" : "crow_indices", starts, 1);
  check_index_tensor(op, by_columns ? "row_indices" : "col_indices", others, 1);
  FL_CHECK(values.ndim() == 1 && others.numel() == values.numel() && starts.numel() > 0,
           RuntimeError,
           "{}: starts (lines + 1,) and as many indices as values are needed, got {}, {} and {}",
           op, starts.sizes(), others.sizes(), values.sizes());
  int64_t lines = starts.numel() - 1, across = by_columns ? 0 : 1;
  int64_t first = select(starts, 0, 0).item().to_int(),
          last = select(starts, 0, -1).item().to_int();
  FL_CHECK(first == 0 && last == values.numel() &&
               (lines == 0 || min(diff(starts)).item().to_int() >= 0),
           RuntimeError, "{}: starts must rise from 0 to the {} values, got {} to {}", op,
           values.numel(), first, last);
  Ints sizes;
  if (size) {
    sizes = Ints(*size);
    FL_CHECK(sizes.size() == 2 && sizes[size_t(1 - across)] == lines, RuntimeError,
             "{}: {} starts need a matrix of {} {}, got size {}", op, lines + 1, lines,
             by_columns ? "columns" : "rows", *size);
    check_range(op, others, across, sizes[size_t(across)]);
  } else {
    int64_t least = size_for(op, others, across);
    sizes = by_columns ? Ints{least, lines} : Ints{lines, least};
  }
  return make_sparse(by_columns ? Layout::SparseCsc : Layout::SparseCsr, sizes,
                     {detach(starts), detach(others), kept_values(values)}, true);
}

// ---- looking ----

Tensor plain_indices_impl(const Tensor& self) {
  check_coo("_indices", self);
  return self->meta->parts[0];
}
Tensor plain_values_impl(const Tensor& self) {
  check_coo("_values", self);
  return detach(sparse_values(self));
}
Tensor indices_impl(const Tensor& self) {
  check_coo("indices", self);
  FL_CHECK(
      self->meta->is_coalesced, RuntimeError,
      "indices: those of a tensor with {} uncoalesced elements are not unique; call coalesce() "
      "first",
      sparse_values(self).size(0));
  return self->meta->parts[0];
}
Tensor values_impl(const Tensor& self) {
  check_sparse("values", self);
  FL_CHECK(self->meta->is_coalesced, RuntimeError,
           "values: those of a tensor with {} uncoalesced elements are not sums yet; call "
           "coalesce() first",
           sparse_values(self).size(0));
  return sparse_values(self);
}
int64_t nnz_impl(const Tensor& self) {
  check_sparse("_nnz", self);
  return sparse_values(self).size(0);
}
bool is_coalesced_impl(const Tensor& self) {
  check_coo("is_coalesced", self);
  return self->meta->is_coalesced;
}
int64_t sparse_dim_impl(const Tensor& self) { return is_sparse(self) ? sparse_dims(self) : 0; }
int64_t dense_dim_impl(const Tensor& self) {
  return is_sparse(self) ? sparse_values(self).ndim() - 1 : self.ndim();
}

namespace {

const Tensor& compressed_part(std::string_view op, const Tensor& t, Layout layout, size_t part) {
  FL_CHECK(t->layout == layout, RuntimeError, "{}: a matrix of layout {} is needed, got {}", op,
           layout == Layout::SparseCsr ? "sparse_csr" : "sparse_csc", layout_name(t));
  return t->meta->parts[part];
}

}  // namespace

Tensor crow_indices_impl(const Tensor& self) {
  return compressed_part("crow_indices", self, Layout::SparseCsr, 0);
}
Tensor col_indices_impl(const Tensor& self) {
  return compressed_part("col_indices", self, Layout::SparseCsr, 1);
}
Tensor ccol_indices_impl(const Tensor& self) {
  return compressed_part("ccol_indices", self, Layout::SparseCsc, 0);
}
Tensor row_indices_impl(const Tensor& self) {
  return compressed_part("row_indices", self, Layout::SparseCsc, 1);
}

// ---- other layouts ----

Tensor coalesce_impl(const Tensor& self) {
  check_coo("coalesce", self);
  if (self->meta->is_coalesced) return self;
  Tensor indices = self->meta->parts[0], values = sparse_values(self);
  auto [flat, inverse, counts] = _unique2(flat_places(indices, self.sizes()), true, true);
  Tensor sums = summed_rows(flat.numel(), inverse, values);
  Tensor places = unflattened(flat, IntList(self->sizes, size_t(indices.size(0))));
  return make_sparse(Layout::Sparse, self.sizes(), {places, sums}, true);
}

Tensor to_dense_impl(const Tensor& self, std::optional<DType> dtype, std::optional<bool>) {
  Tensor result = self;
  if (is_sparse(self)) {
    Tensor indices = coordinates(self);
    int64_t rows = numel_of(IntList(self->sizes, size_t(indices.size(0))));
    Tensor places = flat_places(indices, self.sizes());
    result = reshape(summed_rows(rows, places, sparse_values(self)), self.sizes());
  }
  return dtype ? to(result, *dtype) : result;
}

Tensor to_sparse_impl(const Tensor& self, int64_t sparse_dim) {
  constexpr auto op = "to_sparse";
  if (is_sparse(self)) {
    FL_CHECK(sparse_dim == sparse_dims(self), RuntimeError,
             "{}: the tensor has {} sparse dims, which cannot become {}", op, sparse_dims(self),
             sparse_dim);
    return to_sparse(self);
  }
  FL_CHECK(0 <= sparse_dim && sparse_dim <= self.ndim(), RuntimeError,
           "{}: sparse_dim must be in [0, {}], got {}", op, self.ndim(), sparse_dim);
  FL_CHECK(has_values(self), NotImplementedError,
           "{}: which elements are zero is not known of a tensor without values", op);
  Tensor rows = flat_rows(self, sparse_dim), nonzeros = detach(rows) != Scalar(int64_t{0});
  if (rows.ndim() > 1) nonzeros = any(flatten(nonzeros, 1), 1);
  Tensor places = squeeze(nonzero(nonzeros), 1), values = index_select(rows, 0, places);
  Tensor indices = unflattened(places, IntList(self->sizes, size_t(sparse_dim)));
  return make_sparse(Layout::Sparse, self.sizes(), {indices, values}, true);
}

Tensor to_sparse_impl(const Tensor& self, std::optional<Layout> layout,
                      std::optional<IntList> blocksize, std::optional<int64_t> dense_dim) {
  FL_CHECK(!blocksize, NotImplementedError, "to_sparse: blocks are not supported, got {}",
           blocksize.value_or(IntList()));
  switch (layout.value_or(Layout::Sparse)) {
    case Layout::SparseCsr:
      return to_sparse_csr(self, dense_dim);
    case Layout::SparseCsc:
      return to_sparse_csc(self, dense_dim);
    case Layout::Sparse:
      break;
    case Layout::Strided:
      fail<RuntimeError>("to_sparse: layout must be a sparse one, got {}", "strided");
  }
  if (!is_sparse(self)) return to_sparse(self, self.ndim() - dense_dim.value_or(0));
  if (self->layout == Layout::Sparse) return self;
  Tensor coo = make_sparse(Layout::Sparse, self.sizes(), {coordinates(self), sparse_values(self)},
                           self->layout == Layout::SparseCsr);
  return coalesce(coo);
}

namespace {

// Rows of a coalesced matrix, or the columns of one whose transposed is.
Tensor compressed(const Tensor& coalesced, IntList sizes, Layout layout) {
  const Tensor& indices = coalesced->meta->parts[0];
  Tensor counts = bincount(select(indices, 0, 0), {}, coalesced.size(0));
  Tensor zero = zeros({1}, DType::Int64, std::nullopt, indices.device());
  Tensor starts = cat(std::vector{zero, cumsum(counts, 0)});
  return make_sparse(layout, sizes, {starts, select(indices, 0, 1), sparse_values(coalesced)},
                     true);
}

Tensor as_matrix(std::string_view op, const Tensor& t, std::optional<int64_t> dense_dim) {
  FL_CHECK(dense_dim.value_or(0) == 0, NotImplementedError,
           "{}: dense dims are not supported, got dense_dim {}", op, dense_dim.value_or(0));
  FL_CHECK(t.ndim() == 2, RuntimeError, "{}: a matrix is needed, got shape {}", op, t.sizes());
  return to_sparse(t);
}

}  // namespace

Tensor to_sparse_csr_impl(const Tensor& self, std::optional<int64_t> dense_dim) {
  if (self->layout == Layout::SparseCsr) return self;
  Tensor coo = coalesce(as_matrix("to_sparse_csr", self, dense_dim));
  return compressed(coo, self.sizes(), Layout::SparseCsr);
}
Tensor to_sparse_csc_impl(const Tensor& self, std::optional<int64_t> dense_dim) {
  if (self->layout == Layout::SparseCsc) return self;
  Tensor turned = transpose(as_matrix("to_sparse_csc", self, dense_dim), 0, 1);
  return compressed(coalesce(turned), self.sizes(), Layout::SparseCsc);
}

Tensor sparse_mask_impl(const Tensor& self, const Tensor& mask) {
  check_sparse("sparse_mask", mask);
  FL_CHECK(self.sizes() == mask.sizes(), RuntimeError,
           "sparse_mask: both must have one shape, got {} and {}", self.sizes(), mask.sizes());
  return with_values(mask, values_at(self, mask));
}

}  // namespace ops
}  // namespace flambeau
