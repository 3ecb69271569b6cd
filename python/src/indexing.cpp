// x[...] and x[...] = v: views for ints, slices, None and Ellipsis without a detour; everything
// else through index_keys.
#include "python/src/indexing.h"

#include "flambeau/generated/ops.h"
#include "flambeau/ops/runtime.h"
#include "python/src/elements.h"
#include "python/src/index_keys.h"
#include "python/src/parse.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

// ---- the short way: a view put together on the stack ----

struct Shape {
  explicit Shape(const TensorImpl* t) : x(t) {}
  const TensorImpl* x;
  int64_t sizes[kMaxDims], strides[kMaxDims];
  int64_t offset = 0;  // elements from x's first
  int ndim = 0, from = 0;

  bool keep(int64_t count) {
    for (; count > 0; count--, from++) add(x->sizes[from], x->strides[from]);
    return true;
  }
  void add(int64_t size, int64_t stride) {
    sizes[ndim] = size;
    strides[ndim++] = stride;
  }
};

[[gnu::noinline, gnu::cold, noreturn]] void out_of_range(const TensorImpl* x, int64_t index,
                                                         int dim) {
  if (x->ndim == 0) fail<IndexError>("index: a 0-d tensor takes no int index, use item()");
  fail<IndexError>("index: {} is out of range for dim {} of size {} (shape {})", index, dim,
                   x->sizes[dim], IntList(x->sizes, x->ndim));
}

// False: not a key of the short way, or a mistake that the long way explains.
bool add_int(Shape& s, PyObject* key) {
  int64_t i = PyLong_AsLongLong(key);
  if (FL_UNLIKELY(i == -1 && PyErr_Occurred())) {
    PyErr_Clear();
    return false;
  }
  int64_t size = s.x->sizes[s.from], at = i < 0 ? i + size : i;
  if (FL_UNLIKELY(uint64_t(at) >= uint64_t(size))) out_of_range(s.x, i, s.from);
  s.offset += at * s.x->strides[s.from++];
  return true;
}

bool add_slice(Shape& s, PyObject* key) {
  Py_ssize_t start, stop, step;
  checked(PySlice_Unpack(key, &start, &stop, &step));
  if (step <= 0) return false;
  int64_t size = s.x->sizes[s.from], stride = s.x->strides[s.from];
  Py_ssize_t length = PySlice_AdjustIndices(size, &start, &stop, step);
  s.offset += start * stride;
  s.add(std::max<Py_ssize_t>(length, 0), stride * step);
  s.from++;
  return true;
}

// `rest`: keys still to come that take a dim.
bool add_key(Shape& s, PyObject* key, int rest) {
  if (Py_TYPE(key) == &PyLong_Type) return s.from < s.x->ndim && add_int(s, key);
  if (PySlice_Check(key)) return s.from < s.x->ndim && add_slice(s, key);
  if (key == Py_Ellipsis) return s.keep(s.x->ndim - s.from - rest);
  if (key != Py_None || s.ndim >= kMaxDims - 1) return false;
  int64_t stride = s.from < s.x->ndim ? s.x->sizes[s.from] * s.x->strides[s.from] : 1;
  s.add(1, stride);
  return true;
}

bool add_tuple(Shape& s, PyObject* key) {
  Py_ssize_t n = PyTuple_Size(key);
  int takes = 0, ellipses = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* k = PyTuple_GetItem(key, i);
    takes += Py_TYPE(k) == &PyLong_Type || PySlice_Check(k);
    ellipses += k == Py_Ellipsis;
  }
  if (takes > s.x->ndim || ellipses > 1 || n > kMaxDims / 2) return false;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* k = PyTuple_GetItem(key, i);
    if (!add_key(s, k, takes)) return false;
    takes -= Py_TYPE(k) == &PyLong_Type || PySlice_Check(k);
  }
  return true;
}

bool short_shape(Shape& s, PyObject* key) {
  bool done = PyTuple_Check(key) ? add_tuple(s, key) : add_key(s, key, 0);
  return done && s.ndim + s.x->ndim - s.from <= kMaxDims && s.keep(s.x->ndim - s.from);
}

Tensor short_view(const Tensor& x, const Shape& s) {
  return view_of(x, IntList(s.sizes, size_t(s.ndim)), IntList(s.strides, size_t(s.ndim)), s.offset);
}

// x[i], the most frequent key by far: x's own dims without the first.
Tensor row_view(const Tensor& x, int64_t i) {
  const TensorImpl* from = x.impl();
  int64_t size = from->sizes[0], at = i < 0 ? i + size : i;
  if (FL_UNLIKELY(uint64_t(at) >= uint64_t(size))) out_of_range(from, i, 0);
  Tensor view = alias(x);
  TensorImpl* to = view.impl();
  int64_t offset = at * from->strides[0], numel = 1;
  to->ndim--;
  for (int d = 0; d < to->ndim; d++) {
    numel *= to->sizes[d] = from->sizes[d + 1];
    to->strides[d] = from->strides[d + 1];
  }
  to->numel = numel;
  to->meta_offset += offset;
  if (to->data) to->data += offset * itemsize(from->dtype);
  if (!from->contiguous()) to->refresh();
  note_base(view, x);
  return view;
}

bool is_row_key(const Tensor& x, PyObject* key, int64_t& i) {
  if (Py_TYPE(key) != &PyLong_Type || x.ndim() == 0) return false;
  i = PyLong_AsLongLong(key);
  if (FL_LIKELY(i != -1 || !PyErr_Occurred())) return true;
  PyErr_Clear();  // beyond 64 bits: the long way says so
  return false;
}

bool is_index_tensor(PyObject* key) {
  if (!is_exact_tensor(key)) return false;
  return tensor_of(key).ndim() > 0;
}

Tensor get(const Tensor& x, PyObject* key) {
  if (is_index_tensor(key)) return ops::index(x, {&tensor_of(key), 1});
  Indexed found = apply_keys(x, key);
  if (!found.indices.empty()) return ops::index(found.part, found.indices);
  return found.part.is(x) ? ops::view(x, x.sizes()) : found.part;
}

// ---- assignment ----

// Does writing a number at one place need nothing but the store?
bool store_short(const Tensor& x, const Shape& s, const Scalar& number) {
  for (int d = 0; d < s.ndim; d++)
    if (s.sizes[d] != 1) return false;
  if (!x->data || (number.is_complex() && !is_complex(x.dtype()))) return false;
  if (x->flags & kInference || tls.inference) return false;
  check_inplace("fill_", x);
  store_element(x->data + s.offset * itemsize(x.dtype()), x.dtype(), number);
  x->bump_version();
  return true;
}

// Leading dims of size 1 may be too many.
Tensor without_leading_ones(const Tensor& value, int64_t ndim) {
  int64_t extra = 0;
  while (value.ndim() - extra > ndim && value.size(extra) == 1) extra++;
  if (!extra) return value;
  return ops::reshape(value, IntList(value->sizes + extra, size_t(value.ndim() - extra)));
}

bool broadcasts(IntList from, IntList to) {
  if (from.size() > to.size()) return false;
  for (size_t d = 1; d <= from.size(); d++) {
    int64_t n = from[from.size() - d];
    if (n != 1 && n != to[to.size() - d]) return false;
  }
  return true;
}

Tensor value_tensor(const Tensor& x, PyObject* value) {
  if (is_tensor(value)) return tensor_of(value);
  Scalar number;
  FL_CHECK(as_scalar(value, number), TypeError,
           "index: a Tensor or a number can be assigned, got {}", type_name(value));
  FL_CHECK(!number.is_complex() || is_complex(x.dtype()), RuntimeError,
           "index: {} cannot be stored as {}", number, x.dtype());
  Tensor one = scalar_tensor(number, x.dtype());
  return x.device().type == DeviceType::CPU ? one : ops::to(one, x.device());
}

void write_part(Tensor part, PyObject* value) {
  Scalar number;
  if (!is_tensor(value)) {
    FL_CHECK(as_scalar(value, number), TypeError,
             "index: a Tensor or a number can be assigned, got {}", type_name(value));
    ops::fill_(part, number);
    return;
  }
  Tensor from = without_leading_ones(tensor_of(value), part.ndim());
  FL_CHECK(broadcasts(from.sizes(), part.sizes()), RuntimeError,
           "index: a value of shape {} does not broadcast to the indexed shape {}",
           tensor_of(value).sizes(), part.sizes());
  ops::copy_(part, from);
}

void set(const Tensor& x, PyObject* key, PyObject* value) {
  Indexed found = apply_keys(x, key);
  if (found.indices.empty()) return write_part(found.part, value);
  // The dims of the indexed shape are not known before the masks are read: drop all leading ones.
  Tensor from = without_leading_ones(value_tensor(x, value), 0);
  if (!(from.device() == x.device()) && from.ndim() == 0) from = ops::to(from, x.device());
  ops::index_put_(found.part, found.indices, from, false);
}

bool set_short(const Tensor& x, PyObject* key, PyObject* value) {
  Shape s(x.impl());
  if (!short_shape(s, key)) return false;
  Scalar number;
  if (!is_tensor(value) && as_scalar(value, number) && store_short(x, s, number)) return true;
  write_part(short_view(x, s), value);
  return true;
}

}  // namespace

PyObject* tensor_get_item(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    if (modes_active()) return ask_modes("__getitem__", {self, key});
    if (FL_UNLIKELY(!is_exact_tensor(self) || (is_tensor(key) && !is_exact_tensor(key)))) {
      if (PyObject* answer = ask_operands("__getitem__", {self, key})) return answer;
      return as_operands(wrap(get(x, key)), {self});
    }
    if (FL_LIKELY(is_plain(x))) {
      int64_t i;
      if (is_row_key(x, key, i)) return wrap(row_view(x, i));
      Shape s(x.impl());
      if (FL_LIKELY(short_shape(s, key))) return wrap(short_view(x, s));
    }
    return wrap(get(x, key));
  });
}

int tensor_set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    FL_CHECK(value, TypeError, "index: elements of a tensor cannot be deleted");
    if (modes_active()) {
      Ref answer(ask_modes("__setitem__", {self, key, value}));
      return 0;
    }
    const Tensor& x = tensor_of(self);
    if (!is_exact_tensor(self) || (is_tensor(value) && !is_exact_tensor(value)) ||
        (is_tensor(key) && !is_exact_tensor(key))) {
      if (PyObject* answer = ask_operands("__setitem__", {self, key, value})) {
        Py_DECREF(answer);
        return 0;
      }
    }
    if (!is_plain(x) || !set_short(x, key, value)) set(x, key, value);
    return 0;
  });
}

}  // namespace flambeau::python
