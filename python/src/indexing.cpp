// x[...] with ints, slices, None and Ellipsis: one view, whatever the number of keys.
#include "python/src/indexing.h"

#include "flambeau/generated/ops.h"
#include "python/src/parse.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

// The view so far: dims done on the left, dims of the tensor still to come on the right.
struct Cursor {
  const Tensor& t;
  Ints sizes, strides;
  int64_t offset;
  int64_t dim = 0;
};

void keep_dims(Cursor& c, int64_t count) {
  for (; count > 0; count--, c.dim++) {
    c.sizes.push_back(c.t->sizes[c.dim]);
    c.strides.push_back(c.t->strides[c.dim]);
  }
}

void select(Cursor& c, int64_t index) {
  int64_t size = c.t->sizes[c.dim];
  FL_CHECK(-size <= index && index < size, IndexError,
           "index: must be in [{}, {}) for dim {} of size {}, got {}", -size, size, c.dim, size,
           index);
  c.offset += (index < 0 ? index + size : index) * c.t->strides[c.dim];
  c.dim++;
}

void slice(Cursor& c, PyObject* key) {
  Py_ssize_t start, stop, step;
  checked(PySlice_Unpack(key, &start, &stop, &step));
  FL_CHECK(step > 0, ValueError, "index: the step of a slice must be positive, got {}",
           int64_t(step));
  Py_ssize_t count = PySlice_AdjustIndices(c.t->sizes[c.dim], &start, &stop, step);
  c.sizes.push_back(std::max<Py_ssize_t>(count, 0));
  c.strides.push_back(c.t->strides[c.dim] * step);
  c.offset += start * c.t->strides[c.dim];
  c.dim++;
}

int64_t consumed(PyObject* const* keys, size_t count) {
  int64_t n = 0;
  for (size_t i = 0; i < count; i++) n += keys[i] != Py_None && keys[i] != Py_Ellipsis;
  return n;
}

void apply(Cursor& c, PyObject* key, int64_t rest) {
  int64_t index;
  if (key == Py_None) {
    c.sizes.push_back(1);
    c.strides.push_back(1);
  } else if (key == Py_Ellipsis) {
    keep_dims(c, c.t.ndim() - c.dim - rest);
  } else if (PySlice_Check(key)) {
    slice(c, key);
  } else if (as_int(key, index)) {
    select(c, index);
  } else {
    fail<NotImplementedError>("index: {} cannot be an index yet", type_name(key));
  }
}

Tensor basic_index(const Tensor& t, PyObject* key) {
  std::vector<PyObject*> keys;
  if (PyTuple_Check(key))
    for (Py_ssize_t i = 0, n = PyTuple_Size(key); i < n; i++)
      keys.push_back(PyTuple_GetItem(key, i));
  else
    keys.push_back(key);
  int64_t used = consumed(keys.data(), keys.size());
  FL_CHECK(used <= t.ndim(), IndexError, "index: {} indices for a tensor of {} dims", used,
           t.ndim());
  Cursor c{.t = t, .sizes = {}, .strides = {}, .offset = t->offset()};
  for (size_t i = 0; i < keys.size(); i++)
    apply(c, keys[i], consumed(keys.data() + i + 1, keys.size() - i - 1));
  keep_dims(c, t.ndim() - c.dim);
  return ops::as_strided(t, c.sizes, c.strides, c.offset);
}

}  // namespace

PyObject* tensor_get_item(PyObject* self, PyObject* key) {
  return guarded([&] { return wrap(basic_index(tensor_of(self), key)); });
}

int tensor_set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    FL_CHECK(value, TypeError, "index: elements of a tensor cannot be deleted");
    Tensor part = basic_index(tensor_of(self), key);
    Scalar number;
    if (is_tensor(value))
      ops::copy_(part, tensor_of(value));
    else if (as_scalar(value, number))
      ops::fill_(part, number);
    else
      fail<TypeError>("index: a Tensor or a number can be assigned, got {}", type_name(value));
    return 0;
  });
}

}  // namespace flambeau::python
