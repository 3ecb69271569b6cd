// Methods that only look at a tensor: size, stride, is_contiguous. No dispatch, no tape.
#include "python/src/arguments.h"
#include "python/src/dtypes.h"
#include "python/src/parse.h"
#include "python/src/recording.h"
#include "python/src/size.h"
#include "python/src/tensor_methods.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

PyObject* from_int(int64_t v) { return checked(PyLong_FromLongLong(v)); }

// size() and stride(): all of them, or of one dim.
template <class All, class One>
PyObject* of_dims(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                  PyObject* kwnames, All all, One one) {
  return guarded([&]() -> PyObject* {
    PyObject* dim = nullptr;
    if (FL_LIKELY(nargs == 1 && !kwnames))
      dim = args[0];
    else
      dim = parse_arguments(name, {"dim"}, args, nargs, kwnames)[0];
    const Tensor& t = tensor_of(self);
    if (!given(dim)) return all(t);
    int64_t d;
    FL_CHECK(as_int(dim, d), TypeError, "{}: dim must be int, got {}", name, type_name(dim));
    FL_CHECK(t.ndim() > 0, IndexError, "{}: a 0-d tensor has no dim {}", name, d);
    return one(t, wrap_dim(name, d, t.ndim()));
  });
}

PyObject* size(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (nargs == 0 && !kwnames) return PyObject_GetAttrString(self, "shape");
  return of_dims(
      "size", self, args, nargs, kwnames, [](const Tensor& t) { return new_size(t.sizes()); },
      [self](const Tensor& t, int64_t d) {
        if (!is_recording()) return from_int(t->sizes[d]);
        Ref all(recorded_shape(self));
        return Py_NewRef(PyTuple_GetItem(all.get(), Py_ssize_t(d)));
      });
}
PyObject* stride(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return of_dims(
      "stride", self, args, nargs, kwnames, [](const Tensor& t) { return int_tuple(t.strides()); },
      [](const Tensor& t, int64_t d) { return from_int(t->strides[d]); });
}

template <int64_t (*f)(const Tensor&)>
PyObject* count(PyObject* self, PyObject*) {
  return guarded([&] { return from_int(f(tensor_of(self))); });
}
template <bool (*f)(const Tensor&)>
PyObject* test(PyObject* self, PyObject*) {
  return guarded([&] { return to_bool(f(tensor_of(self))); });
}

PyObject* numel(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (!is_recording()) return from_int(tensor_of(self).numel());
    Ref all(recorded_shape(self));
    return checked(PyObject_CallMethod(all.get(), "numel", nullptr));
  });
}

int64_t ndim_of(const Tensor& t) { return t.ndim(); }
int64_t offset_of(const Tensor& t) { return t->offset(); }
int64_t element_size_of(const Tensor& t) { return itemsize(t.dtype()); }
int64_t device_of(const Tensor& t) {
  return t.device().type == DeviceType::CPU ? -1 : t.device().index;
}
int64_t pointer_of(const Tensor& t) {
  check_elements("data_ptr", t);
  return t.numel() ? reinterpret_cast<int64_t>(t->data) : 0;
}
bool floating(const Tensor& t) { return is_float(t.dtype()); }
bool is_complex_tensor(const Tensor& t) { return is_complex(t.dtype()); }
bool is_signed_tensor(const Tensor& t) {
  char c = info(t.dtype()).category;
  return c != 'u' && c != 'b';
}
bool is_inference_tensor(const Tensor& t) { return t->flags & kInference; }
bool never(const Tensor&) { return false; }

PyObject* is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  return guarded([&] {
    PyObject* given_format =
        parse_arguments("is_contiguous", {"memory_format"}, args, nargs, kwnames)[0];
    const Tensor& t = tensor_of(self);
    if (!given_format) return to_bool(t.is_contiguous());
    MemoryFormat format;
    FL_CHECK(as_memory_format(given_format, format), TypeError,
             "is_contiguous: memory_format must be memory_format, got {}", type_name(given_format));
    FL_CHECK(format != MemoryFormat::Preserve, RuntimeError,
             "is_contiguous: preserve_format is not a format that a tensor has");
    return to_bool(is_contiguous_as(t.sizes(), t.strides(), format));
  });
}

PyObject* dim_order(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    (void)parse_arguments("dim_order", {"ambiguity_check"}, args, nargs, kwnames, 0);
    const Tensor& t = tensor_of(self);
    Ints order(size_t(t.ndim()));
    for (size_t d = 0; d < order.size(); d++) order[d] = int64_t(d);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return t->strides[a] > t->strides[b]; });
    return int_tuple(order);
  });
}

PyObject* is_same_size(PyObject* self, PyObject* other) {
  return guarded([&] {
    return to_bool(tensor_of(self).sizes() == expect_tensor(other, "is_same_size: other").sizes());
  });
}
PyObject* is_set_to(PyObject* self, PyObject* other) {
  return guarded([&] {
    const Tensor &a = tensor_of(self), &b = expect_tensor(other, "is_set_to: other");
    return to_bool(a->storage == b->storage && a->offset() == b->offset() &&
                   a.sizes() == b.sizes() && a.strides() == b.strides());
  });
}

PyObject* requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                         PyObject* kwnames) {
  return guarded([&] {
    PyObject* on = parse_arguments("requires_grad_", {"requires_grad"}, args, nargs, kwnames)[0];
    mutable_tensor_of(self).set_requires_grad(
        bool_argument("requires_grad_", "requires_grad", on, true));
    return Py_NewRef(self);
  });
}

const PyMethodDef kTable[] = {
    {"size", as_function(size), kFast,
     "size($self, dim=None)\n--\n\nThe sizes, or the size of one dim."},
    {"stride", as_function(stride), kFast,
     "stride($self, dim=None)\n--\n\nSteps between neighbours, in elements."},
    {"dim", count<ndim_of>, METH_NOARGS, "The number of dims."},
    {"ndimension", count<ndim_of>, METH_NOARGS, "The number of dims."},
    {"numel", numel, METH_NOARGS, "The number of elements."},
    {"nelement", numel, METH_NOARGS, "The number of elements."},
    {"storage_offset", count<offset_of>, METH_NOARGS, "Where the first element is in the storage."},
    {"element_size", count<element_size_of>, METH_NOARGS, "Bytes of one element."},
    {"get_device", count<device_of>, METH_NOARGS, "The device's index, -1 for the CPU."},
    {"data_ptr", count<pointer_of>, METH_NOARGS, "Address of the first element."},
    {"const_data_ptr", count<pointer_of>, METH_NOARGS, "Address of the first element."},
    {"is_floating_point", test<floating>, METH_NOARGS, nullptr},
    {"is_complex", test<is_complex_tensor>, METH_NOARGS, nullptr},
    {"is_signed", test<is_signed_tensor>, METH_NOARGS, nullptr},
    {"is_inference", test<is_inference_tensor>, METH_NOARGS, nullptr},
    {"is_conj", test<never>, METH_NOARGS, nullptr},
    {"is_neg", test<never>, METH_NOARGS, nullptr},
    {"is_distributed", test<never>, METH_NOARGS, nullptr},
    {"is_pinned", test<never>, METH_VARARGS, nullptr},
    {"is_contiguous", as_function(is_contiguous), kFast,
     "is_contiguous($self, memory_format=None)\n--\n\nDo the elements follow each other in memory "
     "in the order of their indices?"},
    {"dim_order", as_function(dim_order), kFast,
     "dim_order($self, *, ambiguity_check=False)\n--\n\nThe dims from the outermost in memory to "
     "the innermost."},
    {"is_same_size", is_same_size, METH_O, nullptr},
    {"is_set_to", is_set_to, METH_O, nullptr},
    {"requires_grad_", as_function(requires_grad_), kFast,
     "requires_grad_($self, requires_grad=True)\n--\n\nTells the tape to record what is done with "
     "the tensor; returns it."}};

}  // namespace

void append_metadata_methods(Methods& table) {
  table.insert(table.end(), std::begin(kTable), std::end(kTable));
}

}  // namespace flambeau::python
