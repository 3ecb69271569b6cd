// Which ops take sparse tensors, and how: arithmetic on values, products, sums, views of the
// indices.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"
#include "flambeau/ops/sparse_parts.h"

namespace flambeau {
namespace ops {
namespace {

const Tensor& indices_of(const Tensor& t) { return t->meta->parts[0]; }

// Two sparse tensors of one shape as COO tensors.
void check_same_shape(std::string_view op, const Tensor& a, const Tensor& b) {
  FL_CHECK(a.sizes() == b.sizes(), RuntimeError,
           "{}: a sparse tensor does not broadcast, got shapes {} and {}", op, a.sizes(),
           b.sizes());
}

Tensor in_layout(const Tensor& coo, const Tensor& like) {
  return to_sparse(coo, like->layout, std::nullopt, std::nullopt);
}

// ---- sums ----

Tensor add_sparse(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  check_same_shape("add", self, other);
  if (!is_sparse(self)) return add(self, to_dense(other), alpha);
  if (!is_sparse(other)) return add(to_dense(self), other, alpha);
  Tensor a = to_sparse(self), b = to_sparse(other);
  FL_CHECK(sparse_dims(a) == sparse_dims(b), RuntimeError,
           "add: both must have as many sparse dims, got {} and {}", sparse_dims(a),
           sparse_dims(b));
  Tensor second = sparse_values(b) * alpha;
  DType dtype = promoted_dtype({&sparse_values(a), &second});
  Tensor values = cat(std::vector{to(sparse_values(a), dtype), to(second, dtype)});
  Tensor indices = cat(std::vector{indices_of(a), indices_of(b)}, 1);
  return in_layout(make_sparse(Layout::Sparse, a.sizes(), {indices, values}, false), self);
}
Tensor sub_sparse(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return add_sparse(self, neg(other), alpha);
}

// Takes over the parts of another sparse tensor.
void become(Tensor& self, const Tensor& value) {
  FL_CHECK(self->layout == value->layout && self.dtype() == value.dtype(), RuntimeError,
           "sparse: a result of {} and {} does not fit in one of {} and {}", layout_name(value),
           value.dtype(), layout_name(self), self.dtype());
  self->meta->parts = value->meta->parts;
  self->meta->is_coalesced = value->meta->is_coalesced;
  if (value.requires_grad()) self->flags |= kRequiresGrad;
  self->bump_version();
}

// Only the rows that have values are touched.
Tensor& add_sparse_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  check_same_shape("add_", self, other);
  if (is_sparse(self)) {
    become(self, add_sparse(self, other, alpha));
    return self;
  }
  if (!self.is_contiguous()) return add_(self, to_dense(other), alpha);
  Tensor indices = coordinates(other), rows = flat_rows(self, indices.size(0));
  Tensor values = to(sparse_values(other), self.dtype());
  index_add_(rows, 0, flat_places(indices, self.sizes()), values, alpha);
  return self;
}
Tensor& sub_sparse_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  return add_sparse_(self, neg(other), alpha);
}

Tensor sum_sparse(const Tensor& self, std::optional<DType> dtype) {
  return sum(sparse_values(self), dtype);
}

// Over some dims: sparse as long as sparse dims are left.
Tensor sum_dims_sparse(const Tensor& self, std::optional<IntList> dim, bool keepdim,
                       std::optional<DType> dtype) {
  FL_CHECK(!keepdim, NotImplementedError, "sum: keepdim of a sparse tensor is not supported");
  if (!dim || dim->empty()) return sum_sparse(self, dtype);
  check_coo("sum", self);
  int64_t dims = sparse_dims(self);
  std::vector<bool> gone(size_t(self.ndim()));
  Ints of_values;
  for (int64_t d : *dim) {
    int64_t at = wrap_dim("sum", d, self.ndim());
    gone[size_t(at)] = true;
    if (at >= dims) of_values.push_back(at - dims + 1);
  }
  Tensor values = of_values.empty() ? sparse_values(self) : sum(sparse_values(self), of_values);
  if (dtype) values = to(values, *dtype);
  Ints sizes;
  std::vector<Tensor> lines;
  for (int64_t d = 0; d < self.ndim(); d++) {
    if (gone[size_t(d)]) continue;
    sizes.push_back(self.size(d));
    if (d < dims) lines.push_back(select(indices_of(self), 0, d));
  }
  if (lines.empty()) return sum(values, IntList{0});
  return coalesce(make_sparse(Layout::Sparse, sizes, {stack(lines), values}, false));
}

Tensor norm_sparse(const Tensor& self, const Scalar& p) {
  return norm(sparse_values(is_sparse(self) ? coalesce(to_sparse(self)) : self), p);
}

// ---- products ----

bool is_number(const Tensor& t) { return !is_sparse(t) && t.ndim() == 0; }

Tensor mul_sparse(const Tensor& self, const Tensor& other) {
  if (!is_sparse(self)) return mul_sparse(other, self);
  if (is_number(other)) return with_values(self, sparse_values(self) * other);
  Tensor a = self->layout == Layout::Sparse ? coalesce(self) : self;
  Tensor b = is_sparse(other) ? other : expand(other, self.sizes());
  check_same_shape("mul", a, b);
  return with_values(a, sparse_values(a) * values_at(b, a));
}
Tensor& mul_sparse_(Tensor& self, const Tensor& other) {
  check_sparse("mul_", self);
  become(self, mul_sparse(self, other));
  return self;
}
Tensor div_sparse(const Tensor& self, const Tensor& other) {
  FL_CHECK(is_sparse(self) && is_number(other), NotImplementedError,
           "div: a sparse tensor can be divided by a number alone, got shapes {} and {}",
           self.sizes(), other.sizes());
  return with_values(self, sparse_values(self) / other);
}
Tensor& div_sparse_(Tensor& self, const Tensor& other) {
  become(self, div_sparse(self, other));
  return self;
}

void check_product(const Tensor& a, const Tensor& b) {
  FL_CHECK(a.ndim() == 2 && b.ndim() == 2 && a.size(1) == b.size(0), RuntimeError,
           "mm: matrices with inner sizes that match are needed, got {} @ {}", a.sizes(),
           b.sizes());
  FL_CHECK(a.dtype() == b.dtype(), RuntimeError, "mm: both must be of one dtype, got {} and {}",
           a.dtype(), b.dtype());
  for (const Tensor* t : {&a, &b})
    FL_CHECK(!is_sparse(*t) || sparse_values(*t).ndim() == 1, NotImplementedError,
             "mm: a sparse matrix with dense dims is not supported, got shape {}", t->sizes());
}

// The products of a's elements with b's rows, and the rows that they belong to. Half types are
// summed in float32.
struct Terms {
  Tensor rows, products;
  Terms(const Tensor& a, const Tensor& b) {
    check_product(a, b);
    DType wide = is_half(a.dtype()) ? DType::Float32 : a.dtype();
    Tensor indices = coordinates(a);
    rows = select(indices, 0, 0);
    Tensor factors = unsqueeze(to(sparse_values(a), wide), 1);
    products = factors * index_select(to(b, wide), 0, select(indices, 0, 1));
  }
};

Tensor sparse_times_dense(const Tensor& a, const Tensor& b) {
  Terms terms(a, b);
  return to(summed_rows(a.size(0), terms.rows, terms.products), a.dtype());
}

// Every element (i, k) of a meets row k of b.
Tensor sparse_times_sparse(const Tensor& a, const Tensor& b) {
  check_product(a, b);
  Tensor indices = coordinates(a), right = to_sparse_csr(b), middle = select(indices, 0, 1);
  Tensor starts = to(right->meta->parts[0], DType::Int64), others = right->meta->parts[1];
  Tensor first = index_select(starts, 0, middle), counts = index_select(diff(starts), 0, middle);
  Tensor element = repeat_interleave(counts);
  Tensor nth = arange(Scalar(element.numel()), DType::Int64, std::nullopt, a.device()) -
               index_select(cumsum(counts, 0) - counts, 0, element);
  Tensor place = index_select(first, 0, element) + nth;
  Tensor rows = index_select(select(indices, 0, 0), 0, element);
  Tensor columns = to(index_select(others, 0, place), DType::Int64);
  Tensor values =
      index_select(sparse_values(a), 0, element) * index_select(sparse_values(right), 0, place);
  Tensor product = make_sparse(Layout::Sparse, {a.size(0), b.size(1)},
                               {stack(std::vector{rows, columns}), values}, false);
  return in_layout(coalesce(product), a);
}

Tensor mm_sparse(const Tensor& self, const Tensor& mat2) {
  if (!is_sparse(self)) {
    check_product(self, mat2);
    return transpose(mm_sparse(transpose(mat2, 0, 1), transpose(self, 0, 1)), 0, 1);
  }
  return is_sparse(mat2) ? sparse_times_sparse(self, mat2) : sparse_times_dense(self, mat2);
}
Tensor mv_sparse(const Tensor& self, const Tensor& vec) {
  FL_CHECK(!is_sparse(vec) && vec.ndim() == 1, NotImplementedError,
           "mv: a sparse matrix needs a dense vector, got shape {}", vec.sizes());
  return squeeze(mm_sparse(self, unsqueeze(vec, 1)), 1);
}
Tensor matmul_sparse(const Tensor& self, const Tensor& other) {
  return other.ndim() == 1 ? mv_sparse(self, other) : mm_sparse(self, other);
}
Tensor addmm_sparse(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                    const Scalar& alpha) {
  return add(mul(self, beta), mm_sparse(mat1, mat2), alpha);
}

// ---- views and copies ----

Tensor permute_sparse(const Tensor& self, IntList dims) {
  int64_t sparse = sparse_dims(self), n = self.ndim();
  FL_CHECK(int64_t(dims.size()) == n, RuntimeError, "permute: {} dims are needed, got {}", n, dims);
  Ints order, sizes, lines, rest{0};
  std::vector<bool> seen(static_cast<size_t>(n));
  for (size_t i = 0; i < dims.size(); i++) {
    int64_t d = wrap_dim("permute", dims[i], n);
    bool fits = !seen[size_t(d)] && (int64_t(i) < sparse) == (d < sparse);
    FL_CHECK(fits, RuntimeError,
             "permute: every dim once, the {} sparse ones first, is needed, got {}", sparse, dims);
    seen[size_t(d)] = true;
    sizes.push_back(self.size(d));
    (d < sparse ? lines : rest).push_back(d < sparse ? d : d - sparse + 1);
  }
  if (self->layout != Layout::Sparse) {
    if (lines[0] == 0) return self;
    bool rows = self->layout == Layout::SparseCsr;
    return make_sparse(rows ? Layout::SparseCsc : Layout::SparseCsr, sizes, self->meta->parts,
                       true);
  }
  Tensor chosen = tensor_of_ints(lines, self.device());
  return make_sparse(
      Layout::Sparse, sizes,
      {index_select(indices_of(self), 0, chosen), permute(sparse_values(self), rest)}, false);
}
Tensor transpose_sparse(const Tensor& self, int64_t dim0, int64_t dim1) {
  Ints dims;
  for (int64_t d = 0; d < self.ndim(); d++) dims.push_back(d);
  std::swap(dims[size_t(wrap_dim("transpose", dim0, self.ndim()))],
            dims[size_t(wrap_dim("transpose", dim1, self.ndim()))]);
  return permute_sparse(self, dims);
}
Tensor t_sparse(const Tensor& self) {
  FL_CHECK(self.ndim() <= 2, RuntimeError, "t: at most 2 dims are supported, got shape {}",
           self.sizes());
  return self.ndim() == 2 ? transpose_sparse(self, 0, 1) : self;
}

// The elements at one index of a sparse dim.
Tensor select_sparse(const Tensor& self, int64_t dim, int64_t index) {
  Tensor coo = to_sparse(self);
  dim = wrap_dim("select", dim, self.ndim());
  int64_t size = self.size(dim), dims = sparse_dims(coo);
  FL_CHECK(-size <= index && index < size, IndexError,
           "select: index must be in [{}, {}) for dim {} of shape {}, got {}", -size, size, dim,
           self.sizes(), index);
  index = index < 0 ? index + size : index;
  Ints sizes(self.sizes());
  sizes.erase(size_t(dim));
  if (dim >= dims)
    return make_sparse(Layout::Sparse, sizes,
                       {indices_of(coo), select(sparse_values(coo), dim - dims + 1, index)},
                       coo->meta->is_coalesced);
  Tensor here = squeeze(nonzero(select(indices_of(coo), 0, dim) == Scalar(index)), 1);
  Tensor values = index_select(sparse_values(coo), 0, here);
  if (dims == 1) return sum(values, IntList{0});
  std::vector<Tensor> lines;
  for (int64_t d = 0; d < dims; d++)
    if (d != dim) lines.push_back(index_select(select(indices_of(coo), 0, d), 0, here));
  return make_sparse(Layout::Sparse, sizes, {stack(lines), values}, coo->meta->is_coalesced);
}

Tensor cat_sparse(TensorList tensors, int64_t dim) {
  for (const Tensor& t : tensors)
    FL_CHECK(is_sparse(t) && t->layout == Layout::Sparse && t.ndim() == tensors[0].ndim() &&
                 sparse_dims(t) == sparse_dims(tensors[0]),
             NotImplementedError,
             "cat: all must be sparse_coo tensors with as many sparse dims, got shapes {} and {}",
             tensors[0].sizes(), t.sizes());
  dim = wrap_dim("cat", dim, tensors[0].ndim());
  int64_t dims = sparse_dims(tensors[0]), before = 0;
  FL_CHECK(dim < dims, NotImplementedError, "cat: along dense dim {} is not supported", dim);
  Ints sizes(tensors[0].sizes());
  std::vector<Tensor> indices, values;
  for (const Tensor& t : tensors) {
    for (int64_t d = 0; d < t.ndim(); d++)
      FL_CHECK(d == dim || t.size(d) == sizes[size_t(d)], RuntimeError,
               "cat: sizes must agree but in dim {}, got {} and {}", dim, tensors[0].sizes(),
               t.sizes());
    Ints shift(static_cast<size_t>(dims));
    shift[size_t(dim)] = before;
    indices.push_back(indices_of(t) + unsqueeze(tensor_of_ints(shift, t.device()), 1));
    values.push_back(sparse_values(t));
    before += t.size(dim);
  }
  sizes[size_t(dim)] = before;
  return make_sparse(Layout::Sparse, sizes, {cat(indices, 1), cat(values)}, false);
}

Tensor zeros_like_sparse(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>,
                         std::optional<Device>, std::optional<bool>, std::optional<MemoryFormat>) {
  Tensor coo = to_sparse(self);
  Tensor none = narrow(detach(sparse_values(coo)), 0, 0, 0);
  Tensor empty =
      make_sparse(Layout::Sparse, self.sizes(),
                  {narrow(indices_of(coo), 1, 0, 0), dtype ? to(none, *dtype) : none}, true);
  return in_layout(empty, self);
}
Tensor& zero_sparse_(Tensor& self) {
  become(self, zeros_like(self));
  return self;
}
Tensor contiguous_sparse(const Tensor& self, MemoryFormat) { return self; }

}  // namespace

// ---- what is made for them alone ----

Tensor sampled_addmm_impl(const Tensor& self, const Tensor& mat1, const Tensor& mat2,
                          const Scalar& beta, const Scalar& alpha) {
  constexpr auto op = "sparse.sampled_addmm";
  check_sparse(op, self);
  FL_CHECK(!is_sparse(mat1) && !is_sparse(mat2) && mat1.ndim() == 2 && mat2.ndim() == 2 &&
               mat1.size(1) == mat2.size(0) && self.size(0) == mat1.size(0) &&
               self.size(-1) == mat2.size(1) && self.ndim() == 2,
           RuntimeError, "{}: the product of {} and {} does not have the shape {}", op,
           mat1.sizes(), mat2.sizes(), self.sizes());
  FL_CHECK(self.dtype() == mat1.dtype() && self.dtype() == mat2.dtype(), RuntimeError,
           "{}: all must be of one dtype, got {}, {} and {}", op, self.dtype(), mat1.dtype(),
           mat2.dtype());
  Tensor indices = coordinates(self);
  Tensor rows = index_select(mat1, 0, select(indices, 0, 0));
  Tensor columns = index_select(transpose(mat2, 0, 1), 0, select(indices, 0, 1));
  Tensor products = sum(rows * columns, IntList{1});
  return with_values(self, sparse_values(self) * beta + products * alpha);
}

Tensor sparse_mm_reduce_impl(const Tensor& sparse, const Tensor& dense, std::string_view reduce) {
  constexpr auto op = "sparse.mm";
  check_sparse(op, sparse);
  FL_CHECK(!is_sparse(dense), NotImplementedError, "{}: reduce needs a dense second matrix", op);
  FL_CHECK(reduce == "sum" || reduce == "mean" || reduce == "amax" || reduce == "amin",
           RuntimeError, "{}: reduce must be 'sum', 'mean', 'amax' or 'amin', got '{}'", op,
           reduce);
  if (reduce == "sum") return sparse_times_dense(sparse, dense);
  Terms terms(sparse, dense);
  Tensor base =
      zeros({sparse.size(0), dense.size(1)}, terms.products.dtype(), std::nullopt, dense.device());
  return to(index_reduce(base, 0, terms.rows, terms.products, reduce, /*include_self=*/false),
            dense.dtype());
}

}  // namespace ops

namespace {

using Handler = void (*)(const OpInfo& op, const Value* arguments, Returns& results);

template <auto function>
void typed(const OpInfo&, const Value* arguments, Returns& results) {
  AdapterOf<decltype(function)>::call(reinterpret_cast<void*>(function), arguments, results);
}

// The op itself on the values of its first argument, the others as they are.
void on_values(const OpInfo& op, const Value* arguments, Returns& results) {
  const Tensor& self = *arguments[0].tensor;
  std::vector<Value> changed(arguments, arguments + op.param_count);
  changed[0].tensor = &sparse_values(self);
  if (op.inplace) {
    op.call(op.function, changed.data(), results);
    self->bump_version();
    results.written = &self;
    return;
  }
  Returns found;
  op.call(op.function, changed.data(), found);
  put(results, with_values(self, found.tensors[0]));
}

// Where f(a + b) is not f(a) + f(b), elements are added up first.
void on_sums(const OpInfo& op, const Value* arguments, Returns& results) {
  const Tensor& self = *arguments[0].tensor;
  if (self->layout != Layout::Sparse || self->meta->is_coalesced)
    return on_values(op, arguments, results);
  FL_CHECK(!op.inplace, RuntimeError,
           "{}: in place needs a coalesced tensor; call coalesce() first", op.name);
  Tensor sums = ops::coalesce(self);
  std::vector<Value> changed(arguments, arguments + op.param_count);
  changed[0].tensor = &sums;
  on_values(op, changed.data(), results);
}

struct Entry {
  std::string_view name, overload;
  Handler handler;  // null: the op knows sparse tensors
};

// Names of ops that keep zeros, whatever the overload.
constexpr std::string_view kLinear[] = {"clone",   "conj", "deg2rad", "detach",
                                        "imag",    "neg",  "neg_",    "positive",
                                        "rad2deg", "real", "to",      "_to_copy"};
constexpr std::string_view kZeroKeeping[] = {
    "abs",    "abs_",   "asin",    "asin_",   "asinh",  "asinh_",     "atan",   "atan_", "atanh",
    "ceil",   "ceil_",  "erf",     "erf_",    "erfinv", "expm1",      "expm1_", "floor", "floor_",
    "frac",   "isinf",  "isnan",   "log1p",   "log1p_", "nan_to_num", "relu",   "relu_", "round",
    "round_", "sgn",    "sign",    "signbit", "sin",    "sin_",       "sinh",   "sinh_", "sqrt",
    "sqrt_",  "square", "square_", "tan",     "tan_",   "tanh",       "tanh_",  "trunc", "trunc_"};
constexpr std::string_view kKnowing[] = {
    "_indices",     "_nnz",        "_sparse_mm_reduce", "_values",       "ccol_indices",
    "coalesce",     "col_indices", "crow_indices",      "dense_dim",     "indices",
    "is_coalesced", "row_indices", "sparse_dim",        "sparse_mask",   "sparse_sampled_addmm",
    "to_dense",     "to_sparse",   "to_sparse_csc",     "to_sparse_csr", "values"};

constexpr Entry kTable[] = {{"add", "Tensor", typed<&ops::add_sparse>},
                            {"add_", "Tensor", typed<&ops::add_sparse_>},
                            {"addmm", "", typed<&ops::addmm_sparse>},
                            {"cat", "", typed<&ops::cat_sparse>},
                            {"contiguous", "", typed<&ops::contiguous_sparse>},
                            {"div", "Scalar", on_values},
                            {"div", "Tensor", typed<&ops::div_sparse>},
                            {"div_", "Scalar", on_values},
                            {"div_", "Tensor", typed<&ops::div_sparse_>},
                            {"matmul", "", typed<&ops::matmul_sparse>},
                            {"mm", "", typed<&ops::mm_sparse>},
                            {"mul", "Scalar", on_values},
                            {"mul", "Tensor", typed<&ops::mul_sparse>},
                            {"mul_", "Scalar", on_values},
                            {"mul_", "Tensor", typed<&ops::mul_sparse_>},
                            {"mv", "", typed<&ops::mv_sparse>},
                            {"norm", "Scalar", typed<&ops::norm_sparse>},
                            {"permute", "", typed<&ops::permute_sparse>},
                            {"pow", "Tensor_Scalar", on_sums},
                            {"select", "int", typed<&ops::select_sparse>},
                            {"sub", "Tensor", typed<&ops::sub_sparse>},
                            {"sub_", "Tensor", typed<&ops::sub_sparse_>},
                            {"sum", "", typed<&ops::sum_sparse>},
                            {"sum", "dim_IntList", typed<&ops::sum_dims_sparse>},
                            {"t", "", typed<&ops::t_sparse>},
                            {"transpose", "int", typed<&ops::transpose_sparse>},
                            {"zero_", "", typed<&ops::zero_sparse_>},
                            {"zeros_like", "", typed<&ops::zeros_like_sparse>}};

template <size_t N>
bool lists(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The handler, and whether the op takes sparse tensors at all.
std::pair<Handler, bool> find_handler(const OpInfo& op) {
  if (lists(kKnowing, op.name)) return {nullptr, true};
  if (lists(kLinear, op.name)) return {on_values, true};
  if (lists(kZeroKeeping, op.name)) return {on_sums, true};
  for (const Entry& e : kTable)
    if (e.name == op.name && e.overload == op.overload) return {e.handler, true};
  return {nullptr, false};
}

}  // namespace

bool call_sparse(const OpInfo& op, const Value* arguments, Returns& results) {
  const Tensor* sparse = find_tensor(op, arguments, is_sparse);
  if (!sparse) return false;
  auto [handler, known] = find_handler(op);
  // Those that work on the values need them in the first argument.
  bool fits = handler != on_values && handler != on_sums;
  FL_CHECK(known && (fits || is_sparse(*arguments[0].tensor)), NotImplementedError,
           "{}: has no form for tensors of layout {}, got one of shape {}; use to_dense()", op.name,
           ops::layout_name(*sparse), sparse->sizes());
  if (handler) handler(op, arguments, results);
  return handler != nullptr;
}

}  // namespace flambeau
