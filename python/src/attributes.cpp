// Properties of a tensor: x.shape, x.grad, x.data.
#include "flambeau/generated/ops.h"
#include "flambeau/ops/sparse.h"
#include "flambeau/tape/view.h"
#include "python/src/dtypes.h"
#include "python/src/recording.h"
#include "python/src/size.h"
#include "python/src/tape.h"
#include "python/src/tensor_methods.h"
#include "python/src/tensor_object.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

template <class F>
PyObject* get(PyObject* self, F f) {
  return guarded([&]() -> PyObject* { return f(tensor_of(self)); });
}

PyObject* shape(PyObject* self, void*) {
  if (is_recording()) return guarded([&] { return recorded_shape(self); });
  auto* object = as_py(self);
  const Tensor& t = object->tensor;
  int64_t ndim = t.ndim();
  if (FL_LIKELY(object->shape && PyTuple_Size(object->shape) == ndim) &&
      t.sizes() == IntList(object->kept, size_t(ndim)))
    return Py_NewRef(object->shape);
  return guarded([&] {
    PyObject* fresh = new_size(t.sizes());
    Py_CLEAR(object->shape);
    if (ndim <= PyTensor::kKeptSizes) {
      std::copy(t->sizes, t->sizes + ndim, object->kept);
      object->shape = Py_NewRef(fresh);
    }
    return fresh;
  });
}

PyObject* dtype(PyObject* self, void*) { return to_python(tensor_of(self).dtype()); }
PyObject* device(PyObject* self, void*) {
  return get(self, [](const Tensor& t) { return to_python(t.device()); });
}
PyObject* layout(PyObject* self, void*) { return to_python(tensor_of(self)->layout); }
PyObject* ndim(PyObject* self, void*) { return PyLong_FromLongLong(tensor_of(self).ndim()); }
PyObject* item_size(PyObject* self, void*) {
  return PyLong_FromLongLong(itemsize(tensor_of(self).dtype()));
}
PyObject* nbytes(PyObject* self, void*) {
  const Tensor& t = tensor_of(self);
  return PyLong_FromLongLong(t.numel() * itemsize(t.dtype()));
}
PyObject* version(PyObject* self, void*) {
  return get(self, [](const Tensor& t) {
    FL_CHECK(!(t->flags & kInference), RuntimeError,
             "_version: tensors made in inference_mode count no versions");
    return checked(PyLong_FromUnsignedLong(t->version()));
  });
}
PyObject* output_nr(PyObject* self, void*) {
  return PyLong_FromUnsignedLong(tensor_of(self)->output_nr);
}
template <DeviceType type>
PyObject* on(PyObject* self, void*) {
  return to_bool(tensor_of(self).device().type == type);
}
PyObject* never(PyObject*, void*) { return to_bool(false); }
PyObject* nothing(PyObject*, void*) { return Py_NewRef(Py_None); }
template <Layout layout>
PyObject* has_layout(PyObject* self, void*) {
  return to_bool(tensor_of(self)->layout == layout);
}

PyObject* requires_grad(PyObject* self, void*) { return to_bool(tensor_of(self).requires_grad()); }
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    FL_CHECK(value && PyBool_Check(value), RuntimeError, "requires_grad: must be bool, got {}",
             value ? type_name(value) : "nothing");
    mutable_tensor_of(self).set_requires_grad(value == Py_True);
    return 0;
  });
}

// The node that made a tensor, after the history of a written view was brought up to date.
Node* node_of(const Tensor& t) {
  if (FL_UNLIKELY(is_sparse(t))) return node_of(sparse_values(t));
  if (is_stale(t.impl())) refresh_view(t);
  return t->grad_fn;
}
PyObject* grad_fn(PyObject* self, void*) {
  return get(self, [](const Tensor& t) { return wrap_node(node_of(t)); });
}
PyObject* is_leaf(PyObject* self, void*) {
  return get(self, [](const Tensor& t) { return to_bool(!node_of(t)); });
}
PyObject* retains_grad(PyObject* self, void*) {
  const Tensor& t = tensor_of(self);
  return to_bool(t->meta && t->meta->retains_grad);
}
PyObject* base(PyObject* self, void*) {
  return get(self, [](const Tensor& t) { return wrap(Tensor::borrow(t->base)); });
}

PyObject* grad(PyObject* self, void*) {
  return get(self, [](const Tensor& t) { return t->meta ? wrap(t.grad()) : Py_NewRef(Py_None); });
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    const Tensor& t = tensor_of(self);
    if (is_sparse(t)) {
      FL_CHECK(!value || value == Py_None, NotImplementedError,
               "grad: that of a sparse tensor can only be set to None");
      meta_of(sparse_values(t).impl()).grad = Tensor();
      return 0;
    }
    if (!value || value == Py_None) {
      if (t->meta) t->meta->grad = Tensor();
      return 0;
    }
    const Tensor& g = expect_tensor(value, "grad");
    FL_CHECK(g.impl() != t.impl(), RuntimeError, "grad: a tensor cannot be its own gradient");
    FL_CHECK(g.dtype() == t.dtype(), RuntimeError, "grad: must be {} like the tensor, got {}",
             t.dtype(), g.dtype());
    FL_CHECK(g.device() == t.device(), RuntimeError, "grad: must be on {} like the tensor, got {}",
             t.device(), g.device());
    FL_CHECK(g.sizes() == t.sizes(), RuntimeError,
             "grad: must have shape {} like the tensor, got {}", t.sizes(), g.sizes());
    meta_of(t.impl()).grad = g;
    return 0;
  });
}

PyObject* data(PyObject* self, void*) {
  return guarded([&] {
    PyObject* plain = wrap(data_of(tensor_of(self)));
    return is_exact_tensor(self) ? plain : as_operands(plain, {self});
  });
}
int set_data_attribute(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    FL_CHECK(value, RuntimeError, "data: cannot be deleted");
    set_data(tensor_of(self), expect_tensor(value, "data"));
    return 0;
  });
}

// Attributes that are ops: the method of another name, called with these arguments.
PyObject* call_method(PyObject* self, const char* name, int a, int b) {
  return PyObject_CallMethod(self, name, "ii", a, b);
}
PyObject* reversed_dims(PyObject* self) {
  Py_ssize_t n = tensor_of(self).ndim();
  Ref dims(PyTuple_New(n));
  for (Py_ssize_t i = 0; dims && i < n; i++)
    PyTuple_SetItem(dims.get(), i, PyLong_FromSsize_t(n - 1 - i));
  return dims ? PyObject_CallMethod(self, "permute", "(O)", dims.get()) : nullptr;
}
PyObject* transposed(PyObject* self, void*) {
  int64_t n = tensor_of(self).ndim();
  if (n == 2) return call_method(self, "transpose", 0, 1);
  if (n > 2 && PyErr_WarnEx(PyExc_UserWarning,
                            "x.T of a tensor with more than 2 dims reverses them all; write x.mT "
                            "for batches of matrices, x.permute(*range(x.ndim)[::-1]) for this",
                            1) < 0)
    return nullptr;
  return reversed_dims(self);
}
PyObject* adjoint(PyObject* self) {
  Ref t(call_method(self, "transpose", -2, -1));
  if (!t || !is_complex(tensor_of(self).dtype())) return t.release();
  return PyObject_CallMethod(t.get(), "conj", nullptr);
}
bool is_matrix(PyObject* self, const char* name, bool batches) {
  int64_t n = tensor_of(self).ndim();
  if (batches ? n >= 2 : n == 2) return true;
  PyErr_Format(PyExc_RuntimeError, "%s: the tensor must have %s 2 dims, got %d", name,
               batches ? "at least" : "exactly", int(n));
  return false;
}
PyObject* matrix_transposed(PyObject* self, void*) {
  return is_matrix(self, "mT", true) ? call_method(self, "transpose", -2, -1) : nullptr;
}
PyObject* conjugate_transposed(PyObject* self, void*) {
  if (tensor_of(self).ndim() == 0) return Py_NewRef(self);
  return is_matrix(self, "H", false) ? adjoint(self) : nullptr;
}
PyObject* matrix_adjoint(PyObject* self, void*) {
  return is_matrix(self, "mH", true) ? adjoint(self) : nullptr;
}
Ref torch_function(const char* name) { return import_from("flambeau", name); }
PyObject* real(PyObject* self, void*) {
  if (!is_complex(tensor_of(self).dtype())) return Py_NewRef(self);
  return guarded([&] {
    Ref function = torch_function("real");
    return PyObject_CallFunctionObjArgs(function.get(), self, nullptr);
  });
}
PyObject* imag(PyObject* self, void*) {
  return guarded([&] {
    FL_CHECK(is_complex(tensor_of(self).dtype()), RuntimeError,
             "imag: the tensor must be complex, got {}", tensor_of(self).dtype());
    Ref function = torch_function("imag");
    return PyObject_CallFunctionObjArgs(function.get(), self, nullptr);
  });
}
template <const char* name>
int set_part(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    FL_CHECK(value, RuntimeError, "{}: cannot be deleted", name);
    Ref part = own(PyObject_GetAttrString(self, name));
    Ref done = own(PyObject_CallMethod(part.get(), "copy_", "O", value));
    return 0;
  });
}
constexpr char kReal[] = "real", kImag[] = "imag";

constexpr PyGetSetDef kTable[] = {
    {"shape", shape, nullptr, "The sizes of the dims, a torch.Size.", nullptr},
    {"dtype", dtype, nullptr, "The type of the elements.", nullptr},
    {"device", device, nullptr, "Where the memory is.", nullptr},
    {"layout", layout, nullptr, nullptr, nullptr},
    {"ndim", ndim, nullptr, "The number of dims.", nullptr},
    {"itemsize", item_size, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"requires_grad", requires_grad, set_requires_grad,
     "Does the tape record what is done with it?", nullptr},
    {"grad", grad, set_grad, "The gradient that backward accumulated, or None.", nullptr},
    {"_grad", grad, set_grad, nullptr, nullptr},
    {"grad_fn", grad_fn, nullptr, "The node of the tape that made the tensor, None for a leaf.",
     nullptr},
    {"is_leaf", is_leaf, nullptr, "Was it made by the user rather than by a recorded op?", nullptr},
    {"retains_grad", retains_grad, nullptr, nullptr, nullptr},
    {"output_nr", output_nr, nullptr, nullptr, nullptr},
    {"data", data, set_data_attribute,
     "The same memory without history; assigning swaps the memory.", nullptr},
    {"_base", base, nullptr, "What the tensor is a view of, or None.", nullptr},
    {"_version", version, nullptr, "How often the memory was written in place.", nullptr},
    {"name", nothing, nullptr, nullptr, nullptr},
    {"is_cpu", on<DeviceType::CPU>, nullptr, nullptr, nullptr},
    {"is_cuda", on<DeviceType::CUDA>, nullptr, nullptr, nullptr},
    {"is_meta", on<DeviceType::Meta>, nullptr, nullptr, nullptr},
    {"is_mps", never, nullptr, nullptr, nullptr},
    {"is_xpu", never, nullptr, nullptr, nullptr},
    {"is_xla", never, nullptr, nullptr, nullptr},
    {"is_ipu", never, nullptr, nullptr, nullptr},
    {"is_maia", never, nullptr, nullptr, nullptr},
    {"is_mtia", never, nullptr, nullptr, nullptr},
    {"is_vulkan", never, nullptr, nullptr, nullptr},
    {"is_mkldnn", never, nullptr, nullptr, nullptr},
    {"is_quantized", never, nullptr, nullptr, nullptr},
    {"is_nested", never, nullptr, nullptr, nullptr},
    {"is_sparse", has_layout<Layout::Sparse>, nullptr, nullptr, nullptr},
    {"is_sparse_csr", has_layout<Layout::SparseCsr>, nullptr, nullptr, nullptr},
    {"T", transposed, nullptr, "The dims in reverse order.", nullptr},
    {"mT", matrix_transposed, nullptr, "The last two dims exchanged.", nullptr},
    {"H", conjugate_transposed, nullptr, "The conjugate transpose of a matrix.", nullptr},
    {"mH", matrix_adjoint, nullptr, "The conjugate transposes of a batch of matrices.", nullptr},
    {"real", real, set_part<kReal>, "The real parts, a view.", nullptr},
    {"imag", imag, set_part<kImag>, "The imaginary parts, a view.", nullptr},
    {"__dict__", tensor_get_dict, tensor_set_dict, nullptr, nullptr}};

}  // namespace

void append_attributes(Getters& table) {
  table.insert(table.end(), std::begin(kTable), std::end(kTable));
}

}  // namespace flambeau::python
