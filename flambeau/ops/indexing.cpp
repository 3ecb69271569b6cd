// x[i, :, mask] and its assignment: index tensors anywhere among the dims, broadcast together.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/indices.h"
#include "flambeau/ops/operators.h"

namespace flambeau::ops {

namespace {

bool is_mask(const Tensor& index) {
  return index.dtype() == DType::Bool || index.dtype() == DType::UInt8;
}

// One index tensor per dim of x, undefined where the dim is kept whole; a mask becomes the
// coordinates of its true elements.
struct Indices {
  std::vector<Tensor> list;
  int64_t count = 0;  // how many are defined
};

void add_mask(std::string_view op, const Tensor& self, const Tensor& mask, Indices& out) {
  int64_t dim = int64_t(out.list.size());
  bool fits = dim + mask.ndim() <= self.ndim();
  for (int64_t d = 0; fits && d < mask.ndim(); d++) fits = mask.size(d) == self.size(dim + d);
  FL_CHECK(fits, IndexError,
           "{}: a mask must have the sizes of the dims it selects from, got {} at dim {} of {}", op,
           mask.sizes(), dim, self.sizes());
  Tensor where = nonzero_impl(mask);
  for (int64_t d = 0; d < mask.ndim(); d++) {
    Geometry g{{where.size(0)}, {mask.ndim()}, where->offset() + d};
    out.list.push_back(alias(where, g));
    out.count++;
  }
}

Indices resolve(std::string_view op, const Tensor& self, TensorList indices) {
  Indices out;
  for (const Tensor& index : indices) {
    if (!index.defined()) {
      out.list.emplace_back();
      continue;
    }
    FL_CHECK(is_mask(index) || index.dtype() == DType::Int64 || index.dtype() == DType::Int32,
             IndexError, "{}: index tensors must be int64, int32, bool or uint8, got {}", op,
             index.dtype());
    if (is_mask(index)) {
      add_mask(op, self, index, out);
      continue;
    }
    out.list.push_back(as_int64(index));
    out.count++;
  }
  FL_CHECK(int64_t(out.list.size()) <= self.ndim(), IndexError,
           "{}: {} indices for a tensor of {} dims, shape {}", op, out.list.size(), self.ndim(),
           self.sizes());
  out.list.resize(size_t(self.ndim()));
  return out;
}

Ints broadcast_index_sizes(std::string_view op, const Indices& indices) {
  Ints sizes;
  for (const Tensor& index : indices.list) {
    if (!index.defined()) continue;
    int64_t extra = index.ndim() - int64_t(sizes.size());
    for (; extra > 0; extra--) sizes.insert(0, 1);
    for (int64_t d = 1; d <= index.ndim(); d++) {
      int64_t have = index.size(-d), &want = sizes[sizes.size() - size_t(d)];
      if (want == 1) want = have;
      if (have == want || have == 1) continue;
      std::string shapes;
      for (const Tensor& t : indices.list)
        if (t.defined()) shapes += (shapes.empty() ? "" : ", ") + format("{}", t.sizes());
      fail<IndexError>("{}: index tensors must broadcast together, got shapes {}", op, shapes);
    }
  }
  return sizes;
}

// The iteration space of an indexed access: the dims of the result, x's strides along those it
// keeps, and for each indexed dim its index tensor expanded over all of them.
struct Access {
  Ints sizes, x_strides;
  struct Indexed {
    Tensor index;
    Ints strides;  // per dim of the result
    int64_t size, x_stride, dim;
  };
  std::vector<Indexed> indexed;
  int64_t first = 0;  // where the dims of the index tensors stand in the result
};

void keep_dim(Access& a, const Tensor& self, int64_t d) {
  a.sizes.push_back(self.size(d));
  a.x_strides.push_back(self.stride(d));
}

Access plan(std::string_view op, const Tensor& self, const Indices& indices) {
  Access a;
  Ints shape = broadcast_index_sizes(op, indices);
  int64_t begin = self.ndim(), end = 0;
  for (int64_t d = 0; d < self.ndim(); d++) {
    if (!indices.list[size_t(d)].defined()) continue;
    begin = std::min(begin, d);
    end = d + 1;
  }
  // Index dims that do not stand together put the result's index dims in front.
  bool together = end - begin == indices.count;
  for (int64_t d = 0; together && d < begin; d++) keep_dim(a, self, d);
  a.first = int64_t(a.sizes.size());
  for (int64_t n : shape) {
    a.sizes.push_back(n);
    a.x_strides.push_back(0);
  }
  for (int64_t d = together ? end : 0; d < self.ndim(); d++)
    if (!indices.list[size_t(d)].defined()) keep_dim(a, self, d);
  for (int64_t d = begin; d < end; d++) {
    const Tensor& index = indices.list[size_t(d)];
    if (!index.defined()) continue;
    Access::Indexed i{index, Ints(a.sizes.size(), 0), self.size(d), self.stride(d), d};
    int64_t last = a.first + int64_t(shape.size()) - 1;
    for (int64_t k = 0; k < index.ndim(); k++) {
      if (index.size(-1 - k) != 1) i.strides[size_t(last - k)] = index.stride(-1 - k);
    }
    a.indexed.push_back(std::move(i));
  }
  return a;
}

void check_values(std::string_view op, const Access& a) {
  for (const Access::Indexed& i : a.indexed) {
    Tensor flat = dense(i.index);
    int64_t at = find_bad_index(flat.data<int64_t>(), flat.numel(), -i.size, i.size);
    FL_CHECK(at < 0, IndexError,
             "{}: index {} (element {} of the index) is out of range for dim {} of size {}", op,
             flat.data<int64_t>()[at], at, i.dim, i.size);
  }
}

// Strides of a fresh result: dims ordered as x and the index tensors lie in memory, like torch.
Ints result_strides(const Access& a) {
  size_t n = a.sizes.size();
  Ints order(n);
  for (size_t d = 0; d < n; d++) order[d] = int64_t(d);
  auto before = [&](size_t p, size_t q) {  // does p vary slower than q? 0: cannot tell
    auto compare = [&](IntList s) {
      return s[p] && s[q] && s[p] != s[q] ? (s[p] > s[q] ? 1 : -1) : 0;
    };
    int found = compare(a.x_strides);
    for (const Access::Indexed& i : a.indexed) found = found ? found : compare(i.strides);
    return found;
  };
  for (size_t i = 1; i < n; i++) {  // insertion keeps the order of dims that do not compare
    for (size_t j = i; j > 0; j--) {
      int found = before(size_t(order[j - 1]), size_t(order[j]));
      if (found >= 0) break;
      std::swap(order[j - 1], order[j]);
    }
  }
  Ints strides(n);
  int64_t step = 1;
  for (size_t i = n; i-- > 0;) {
    strides[size_t(order[i])] = step;
    step *= std::max<int64_t>(a.sizes[size_t(order[i])], 1);
  }
  return strides;
}

// Dims that all operands walk as one are joined.
IndexArgs kernel_args(std::string_view op, const Access& a, const Tensor& self, const Tensor& out) {
  IndexArgs k{};
  int64_t item = itemsize(self.dtype());
  k.itemsize = item;
  k.n_index = int(a.indexed.size());
  FL_CHECK(k.n_index <= kIndexDims, NotImplementedError, "{}: at most {} index tensors, got {}", op,
           kIndexDims, k.n_index);
  auto joins = [&](size_t d) {  // d with the dim that was added last
    int last = k.ndim - 1;
    int64_t n = a.sizes[d];
    bool ok = k.x_strides[last] == a.x_strides[d] * item * n &&
              k.out_strides[last] == out->strides[d] * item * n;
    for (int i = 0; ok && i < k.n_index; i++)
      ok = k.index_strides[i][last] == a.indexed[size_t(i)].strides[d] * n;
    return ok;
  };
  for (size_t d = 0; d < a.sizes.size(); d++) {
    if (a.sizes[d] == 1) continue;
    bool join = k.ndim > 0 && joins(d);
    FL_CHECK(join || k.ndim < kIndexDims, NotImplementedError, "{}: at most {} dims, got {}", op,
             kIndexDims, a.sizes.size());
    int at = join ? k.ndim - 1 : k.ndim++;
    k.sizes[at] = (join ? k.sizes[at] : 1) * a.sizes[d];
    k.x_strides[at] = a.x_strides[d] * item;
    k.out_strides[at] = out->strides[d] * item;
    for (int i = 0; i < k.n_index; i++) k.index_strides[i][at] = a.indexed[size_t(i)].strides[d];
  }
  for (int i = 0; i < k.n_index; i++) {
    const Access::Indexed& from = a.indexed[size_t(i)];
    k.index[i] = from.index.data<int64_t>();
    k.index_size[i] = from.size;
    k.index_x_stride[i] = from.x_stride * item;
  }
  k.x = self->data;
  k.out = out->data;
  return k;
}

// One index tensor on a contiguous x: whole rows move.
bool is_row_access(const Tensor& self, const Access& a) {
  return self->contiguous() && a.indexed.size() == 1 && a.indexed[0].index->contiguous() &&
         inner_of(self.sizes(), a.indexed[0].dim) * itemsize(self.dtype()) >= 16;
}

Tensor copy_rows(const Tensor& self, const Access& a) {
  const Access::Indexed& i = a.indexed[0];
  Tensor out = new_tensor(a.sizes, self.dtype(), self.device());
  Tensor where = checked_index<IndexError>("index", i.index, i.size, i.dim, true);
  if (out.numel()) {
    RowsArgs rows{itemsize(self.dtype()),
                  outer_of(self.sizes(), i.dim),
                  i.size,
                  inner_of(self.sizes(), i.dim),
                  where.numel(),
                  where.data<int64_t>()};
    index_select_rows(rows, self->data, out->data);
  }
  return out;
}

// x[mask] where the mask covers all of x.
bool is_whole_mask(const Tensor& self, TensorList indices) {
  return indices.size() == 1 && indices[0].defined() && is_mask(indices[0]) && self.ndim() > 0 &&
         indices[0].sizes() == self.sizes();
}

void check_index_devices(std::string_view op, const Tensor& self, TensorList indices) {
  for (const Tensor& index : indices) {
    FL_CHECK(!index.defined() || index.device() == self.device() ||
                 (index.ndim() == 0 && has_memory(index)) || index.device().type == DeviceType::CPU,
             RuntimeError, "{}: indices must be on {} or on the cpu, got {}", op, self.device(),
             index.device());
    FL_CHECK(!index.defined() || !is_mask(index) || has_memory(index), NotImplementedError,
             "{}: how many elements a mask selects is not known on the meta device", op);
  }
}

}  // namespace

Tensor index_impl(const Tensor& self, TensorList indices) {
  check_index_devices("index", self, indices);
  if (is_whole_mask(self, indices) && has_memory(self))
    return masked_select_impl(self, as_bool(indices[0]));
  Access a = plan("index", self, resolve("index", self, indices));
  if (!has_memory(self)) return new_tensor(a.sizes, self.dtype(), self.device());
  if (a.indexed.empty()) return clone_impl(self, std::nullopt);
  if (is_row_access(self, a)) return copy_rows(self, a);
  check_values("index", a);
  Tensor out = self->contiguous() && a.indexed[0].index->contiguous()
                   ? new_tensor(a.sizes, self.dtype(), self.device())
                   : new_strided(a.sizes, result_strides(a), self.dtype(), self.device());
  if (out.numel()) index_get(kernel_args("index", a, self, out));
  return out;
}

// ---- assignment ----

Ints index_put_shape(const Tensor& self, TensorList indices, const Tensor& values, bool) {
  FL_CHECK(self.dtype() == values.dtype(), RuntimeError,
           "index_put: values must have self's dtype {}, got {}", self.dtype(), values.dtype());
  check_index_devices("index_put", self, indices);
  return self.sizes();
}

namespace {

// Values as a tensor with the sizes of the access; leading dims of size 1 may be too many.
Tensor fitted(const Access& a, const Tensor& values) {
  Geometry g{Ints(a.sizes), Ints(a.sizes.size()), values->offset()};
  int64_t extra = int64_t(a.sizes.size()) - values.ndim();
  bool fits = true;
  for (int64_t d = 0; d < values.ndim(); d++) {
    int64_t have = values.size(d), to = d + extra;
    int64_t want = to < 0 ? 1 : a.sizes[size_t(to)];
    fits = fits && (have == want || have == 1);
    if (to >= 0 && have != 1) g.strides[size_t(to)] = values.stride(d);
  }
  FL_CHECK(fits, RuntimeError,
           "index_put: values of shape {} do not broadcast to the indexed shape {}", values.sizes(),
           a.sizes);
  return alias(values, g);
}

// One value at the true places of a mask. The machinery counts the write, not the op inside.
void masked_write(Tensor& result, const Tensor& mask, const Tensor& values) {
  NoGradGuard no_grad;
  uint32_t& version = result->counter->version;
  Restore<uint32_t> kept(version, version);
  _masked_fill_(result, as_bool(mask), alias(values, {{}, {}, values->offset()}));
}

}  // namespace

void index_put_kernel(Tensor& result, TensorList indices, const Tensor& values, bool accumulate) {
  check_unshared("index_put", result);
  if (!accumulate && values.numel() == 1 && is_whole_mask(result, indices))
    return masked_write(result, indices[0], values);
  Access a = plan("index_put", result, resolve("index_put", result, indices));
  Tensor from = fitted(a, memory_overlap(result, values) == Overlap::None
                              ? values
                              : base_copy(values, values.sizes()));
  check_values("index_put", a);
  if (a.indexed.empty()) {
    if (accumulate) {
      NoGradGuard no_grad;
      from = add(result, from);
    }
    copy_elements(result, from);
    return;
  }
  if (from.numel() == 0) return;
  IndexArgs args = kernel_args("index_put", a, result, from);
  accumulate ? index_accumulate(result.dtype(), args) : index_set(args);
}

// ---- flat positions ----

namespace {

void check_flat(std::string_view op, const Tensor& self, const Tensor& index) {
  FL_CHECK(index.dtype() == DType::Int64, RuntimeError, "{}: index must be int64, got {}", op,
           index.dtype());
  FL_CHECK(self.numel() > 0 || index.numel() == 0, IndexError,
           "{}: self of shape {} is empty, but there are {} indices", op, self.sizes(),
           index.numel());
}

Tensor flat_index(std::string_view op, const Tensor& self, const Tensor& index) {
  Tensor flat = dense(index);
  int64_t n = self.numel(), at = find_bad_index(flat.data<int64_t>(), flat.numel(), -n, n);
  FL_CHECK(at < 0, IndexError, "{}: index {} (element {} of index) is out of range for {} elements",
           op, flat.data<int64_t>()[at], at, n);
  return flat;
}

}  // namespace

Ints take_shape(const Tensor& self, const Tensor& index) {
  check_flat("take", self, index);
  return index.sizes();
}

void take_kernel(Tensor& result, const Tensor& self, const Tensor& index) {
  Tensor where = flat_index("take", self, index);
  take_items(itemsize(self.dtype()), self->data, self.numel(), where.data<int64_t>(), where.numel(),
             result->data);
}

Ints put_shape(const Tensor& self, const Tensor& index, const Tensor& source, bool) {
  check_flat("put", self, index);
  FL_CHECK(self.dtype() == source.dtype(), RuntimeError,
           "put: source must have self's dtype {}, got {}", self.dtype(), source.dtype());
  FL_CHECK(index.numel() == source.numel(), RuntimeError,
           "put: source must have as many elements as index, got {} and {}", source.numel(),
           index.numel());
  return self.sizes();
}

void put_kernel(Tensor& result, const Tensor& index, const Tensor& source, bool accumulate) {
  check_unshared("put", result);
  Tensor where = flat_index("put", result, index), from = dense(source);
  if (memory_overlap(result, from) != Overlap::None) from = base_copy(from, from.sizes());
  write_dense(result, [&](const Tensor& x) {
    const int64_t* index_data = where.data<int64_t>();
    if (accumulate)
      put_add_items(x.dtype(), x->data, x.numel(), index_data, where.numel(), from->data);
    else
      put_items(itemsize(x.dtype()), x->data, x.numel(), index_data, where.numel(), from->data);
  });
}

namespace {

// Negative indices count from the end of the dim here, unlike in gather.
Tensor wrapped(const Tensor& indices, int64_t size) {
  if (!has_memory(indices)) return indices;
  if (!(indices->flags & kBatched)) {
    Tensor flat = dense(indices);
    if (find_bad_index(flat.data<int64_t>(), flat.numel(), 0, size) < 0) return indices;
  }
  return where(lt(indices, Scalar(int64_t{0})), add(indices, Scalar(size)), indices);
}

}  // namespace

Tensor take_along_dim_impl(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  FL_CHECK(indices.dtype() == DType::Int64, RuntimeError,
           "take_along_dim: indices must be int64, got {}", indices.dtype());
  if (!dim) {
    return gather(reshape(self, {-1}), 0, wrapped(reshape(indices, {-1}), self.numel()));
  }
  FL_CHECK(self.ndim() == indices.ndim(), RuntimeError,
           "take_along_dim: indices must have as many dims as self, got {} and {}", indices.sizes(),
           self.sizes());
  int64_t d = wrap_dim("take_along_dim", *dim, self.ndim());
  Ints x_sizes(self.sizes()), index_sizes(indices.sizes());
  for (int64_t k = 0; k < self.ndim(); k++) {
    if (k == d) continue;
    int64_t a = self.size(k), b = indices.size(k), n = a == 1 ? b : a;
    FL_CHECK(b == n || b == 1, RuntimeError,
             "take_along_dim: sizes outside dim {} must broadcast, got {} and {}", d, self.sizes(),
             indices.sizes());
    x_sizes[size_t(k)] = index_sizes[size_t(k)] = n;
  }
  Tensor where = wrapped(indices, size_of(self, d));
  return gather(expand(self, x_sizes), d, expand(where, index_sizes));
}

}  // namespace flambeau::ops
