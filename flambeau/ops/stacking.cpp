// Composites that join or split along customary dims: hstack, vstack, tensor_split, atleast_2d ...
#include "flambeau/generated/impl.h"
#include "flambeau/ops/parts.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

Tensor atleast_1d_impl(const Tensor& self) { return self.ndim() == 0 ? reshape(self, {1}) : self; }

Tensor atleast_2d_impl(const Tensor& self) {
  if (self.ndim() >= 2) return self;
  return self.ndim() == 0 ? reshape(self, {1, 1}) : unsqueeze(self, 0);
}

Tensor atleast_3d_impl(const Tensor& self) {
  if (self.ndim() >= 3) return self;
  if (self.ndim() == 0) return reshape(self, {1, 1, 1});
  if (self.ndim() == 1) return unsqueeze(unsqueeze(self, 0), -1);
  return unsqueeze(self, -1);
}

namespace {

std::vector<Tensor> each(TensorList tensors, Tensor (*f)(const Tensor&)) {
  std::vector<Tensor> out;
  out.reserve(tensors.size());
  for (const Tensor& t : tensors) out.push_back(f(t));
  return out;
}

void need_tensors(std::string_view op, TensorList tensors) {
  FL_CHECK(!tensors.empty(), RuntimeError, "{}: at least one tensor is needed", op);
}

}  // namespace

std::vector<Tensor> atleast_1d_impl(TensorList tensors) {
  return each(tensors, static_cast<Tensor (*)(const Tensor&)>(atleast_1d_impl));
}
std::vector<Tensor> atleast_2d_impl(TensorList tensors) {
  return each(tensors, static_cast<Tensor (*)(const Tensor&)>(atleast_2d_impl));
}
std::vector<Tensor> atleast_3d_impl(TensorList tensors) {
  return each(tensors, static_cast<Tensor (*)(const Tensor&)>(atleast_3d_impl));
}

Tensor hstack_impl(TensorList tensors) {
  need_tensors("hstack", tensors);
  std::vector<Tensor> rows = atleast_1d_impl(tensors);
  return cat(rows, rows[0].ndim() == 1 ? 0 : 1);
}

Tensor vstack_impl(TensorList tensors) {
  need_tensors("vstack", tensors);
  return cat(atleast_2d_impl(tensors), 0);
}

Tensor dstack_impl(TensorList tensors) {
  need_tensors("dstack", tensors);
  return cat(atleast_3d_impl(tensors), 2);
}

Tensor column_stack_impl(TensorList tensors) {
  need_tensors("column_stack", tensors);
  std::vector<Tensor> columns;
  for (const Tensor& t : tensors) columns.push_back(t.ndim() <= 1 ? reshape(t, {t.numel(), 1}) : t);
  return hstack(columns);
}

// ---- splits ----

std::vector<Tensor> tensor_split_impl(const Tensor& self, IntList indices, int64_t dim) {
  FL_CHECK(self.ndim() > 0, RuntimeError, "tensor_split: at least one dim is needed, got none");
  dim = wrap_dim("tensor_split", dim, self.ndim());
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t end : indices) {
    parts.push_back(slice(self, dim, start, end, 1));
    start = end;
  }
  parts.push_back(slice(self, dim, start, self.size(dim), 1));
  return parts;
}

std::vector<Tensor> tensor_split_impl(const Tensor& self, int64_t sections, int64_t dim) {
  FL_CHECK(self.ndim() > 0, RuntimeError, "tensor_split: at least one dim is needed, got none");
  dim = wrap_dim("tensor_split", dim, self.ndim());
  FL_CHECK(sections > 0, RuntimeError, "tensor_split: sections must be positive, got {}", sections);
  check_parts("tensor_split", sections);
  int64_t size = self.size(dim), start = 0;
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < sections; i++) {
    int64_t length = size / sections + (i < size % sections);
    parts.push_back(slice(self, dim, start, start + length, 1));
    start += length;
  }
  return parts;
}

std::vector<Tensor> tensor_split_impl(const Tensor& self, const Tensor& tensor_indices_or_sections,
                                      int64_t dim) {
  const Tensor& given = tensor_indices_or_sections;
  FL_CHECK(given.dtype() == DType::Int64 && given.ndim() <= 1, RuntimeError,
           "tensor_split: indices must be an int64 tensor of at most one dim, got {} of shape {}",
           given.dtype(), given.sizes());
  FL_CHECK(has_memory(given), NotImplementedError,
           "tensor_split: the indices are not known on the meta device");
  FL_CHECK(!(given->flags & kBatched), RuntimeError,
           "tensor_split: inside vmap indices that differ by example give results of different "
           "sizes");
  Tensor values = dense(given);
  const int64_t* data = values.data<int64_t>();
  if (given.ndim() == 0) return tensor_split_impl(self, data[0], dim);
  return tensor_split_impl(self, IntList(data, size_t(values.numel())), dim);
}

namespace {

int64_t split_dim(std::string_view op, const Tensor& self, int64_t ndim, int64_t dim) {
  FL_CHECK(self.ndim() >= ndim, RuntimeError, "{}: at least {} dims are needed, got shape {}", op,
           ndim, self.sizes());
  return dim;
}

int64_t even_sections(std::string_view op, const Tensor& self, int64_t sections, int64_t dim) {
  FL_CHECK(sections > 0 && self.size(dim) % sections == 0, RuntimeError,
           "{}: dim {} of size {} must divide into {} equal sections", op, dim, self.size(dim),
           sections);
  return sections;
}

int64_t hsplit_dim(const Tensor& self) {
  return split_dim("hsplit", self, 1, self.ndim() == 1 ? 0 : 1);
}

}  // namespace

std::vector<Tensor> hsplit_impl(const Tensor& self, int64_t sections) {
  int64_t dim = hsplit_dim(self);
  return tensor_split(self, even_sections("hsplit", self, sections, dim), dim);
}
std::vector<Tensor> hsplit_impl(const Tensor& self, IntList indices) {
  return tensor_split(self, indices, hsplit_dim(self));
}
std::vector<Tensor> vsplit_impl(const Tensor& self, int64_t sections) {
  int64_t dim = split_dim("vsplit", self, 2, 0);
  return tensor_split(self, even_sections("vsplit", self, sections, dim), dim);
}
std::vector<Tensor> vsplit_impl(const Tensor& self, IntList indices) {
  return tensor_split(self, indices, split_dim("vsplit", self, 2, 0));
}
std::vector<Tensor> dsplit_impl(const Tensor& self, int64_t sections) {
  int64_t dim = split_dim("dsplit", self, 3, 2);
  return tensor_split(self, even_sections("dsplit", self, sections, dim), dim);
}
std::vector<Tensor> dsplit_impl(const Tensor& self, IntList indices) {
  return tensor_split(self, indices, split_dim("dsplit", self, 3, 2));
}

}  // namespace flambeau::ops
