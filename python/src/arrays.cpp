// NumPy arrays become tensors and back without a copy, through the buffer protocol; NumPy itself is
// imported only when a program asks for an array.
#include "python/src/arrays.h"

#include <memory>

#include "python/src/arguments.h"
#include "python/src/dtypes.h"
#include "python/src/module.h"
#include "python/src/overridable.h"
#include "python/src/recording.h"
#include "python/src/tensor_methods.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

struct Format {
  DType dtype;
  const char* text;  // as the struct module and PEP 3118 write it
};
constexpr Format kFormats[] = {
    {DType::Bool, "?"},       {DType::UInt8, "B"},       {DType::Int8, "b"},
    {DType::Int16, "h"},      {DType::Int32, "i"},       {DType::Int64, "l"},
    {DType::UInt16, "H"},     {DType::UInt32, "I"},      {DType::UInt64, "L"},
    {DType::Float16, "e"},    {DType::Float32, "f"},     {DType::Float64, "d"},
    {DType::Complex64, "Zf"}, {DType::Complex128, "Zd"}, {DType::Int64, "q"},
    {DType::UInt64, "Q"}};

const char* format_of(DType dtype) {
  for (const Format& f : kFormats)
    if (f.dtype == dtype) return f.text;
  return nullptr;
}

bool dtype_of_format(const char* text, DType& dtype) {
  std::string_view format = text ? text : "B";
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<'))
    format.remove_prefix(1);
  for (const Format& f : kFormats)
    if (format == f.text) {
      dtype = f.dtype;
      return true;
    }
  return false;
}

// ---- a tensor as a buffer ----

void fill_buffer(const Tensor& t, Py_buffer* view, int flags) {
  int64_t item = itemsize(t.dtype()), n = t.ndim();
  static char nowhere;
  view->buf = t->data ? t->data : &nowhere;
  view->len = t.numel() * item;
  view->itemsize = item;
  view->readonly = 0;
  view->ndim = int(n);
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format_of(t.dtype())) : nullptr;
  auto* dims = new Py_ssize_t[2 * n + 1];
  for (int64_t d = 0; d < n; d++) {
    dims[d] = t->sizes[d];
    dims[n + d] = t->strides[d] * item;
  }
  view->internal = dims;
  view->shape = flags & PyBUF_ND ? dims : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims + n : nullptr;
  view->suboffsets = nullptr;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& t = tensor_of(self);
  const char* problem = nullptr;
  if (t->flags & kBatched)
    problem = "buffer: inside vmap a tensor has no memory to export";
  else if (t->flags & kSparse)
    problem = "buffer: the elements of a sparse tensor do not lie in one block; use to_dense()";
  else if (t.device().type != DeviceType::CPU)
    problem = "buffer: the tensor is not on the CPU";
  else if (t.requires_grad())
    problem = "buffer: the tensor requires grad; use detach()";
  else if (!format_of(t.dtype()))
    problem = "buffer: bfloat16 has no buffer format";
  else if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !t.is_contiguous())
    problem = "buffer: the tensor is not contiguous";
  if (problem) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, problem);
    return -1;
  }
  fill_buffer(t, view, flags);
  view->obj = Py_NewRef(self);
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) {
  delete[] static_cast<Py_ssize_t*>(view->internal);
}

// ---- a buffer as a tensor ----

struct DropBuffer {
  void operator()(Py_buffer* view) const {
    PyBuffer_Release(view);
    delete view;
  }
};
using Buffer = std::unique_ptr<Py_buffer, DropBuffer>;

// A storage's deleter: runs on any thread.
void drop_buffer(void* context) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Buffer dropped(static_cast<Py_buffer*>(context));
  dropped.reset();
  PyGILState_Release(gil);
}

Buffer buffer_of(PyObject* o, int flags) {
  Buffer view(new Py_buffer{});
  if (PyObject_GetBuffer(o, view.get(), flags) < 0) throw ErrorSet{};
  return view;
}

void warn_read_only() {
  checked(
      PyErr_WarnEx(PyExc_UserWarning,
                   "the memory is read-only and the tensor would write to it all the same; make "
                   "a copy, or only read the tensor",
                   1));
}

int64_t checked_stride(Py_ssize_t bytes, int64_t item, Py_ssize_t size) {
  if (size <= 1 && bytes % item) return 0;
  FL_CHECK(bytes >= 0, ValueError,
           "from_numpy: strides must not be negative, got {} bytes; copy the array first",
           int64_t(bytes));
  FL_CHECK(bytes % item == 0, ValueError,
           "from_numpy: strides must be multiples of the element's {} bytes, got {}", item,
           int64_t(bytes));
  return bytes / item;
}

Tensor adopt(Buffer view, DType dtype) {
  int64_t item = itemsize(dtype), last = 0, numel = 1;
  Ints sizes, strides;
  for (int d = 0; d < view->ndim; d++) {
    sizes.push_back(view->shape[d]);
    strides.push_back(checked_stride(view->strides[d], item, view->shape[d]));
    last += (view->shape[d] - 1) * strides.back();
    numel *= view->shape[d];
  }
  size_t bytes = numel ? size_t((last + 1) * item) : 0;
  void* data = view->buf;
  StoragePtr storage(wrap_storage(data, bytes, Device{}, drop_buffer, view.get()));
  (void)view.release();
  return from_storage(std::move(storage), sizes, strides, 0, dtype);
}

PyObject* numpy_attribute(const char* name) { return import_from("numpy", name).release(); }

// ---- tensor to array ----

void check_for_numpy(const Tensor& t) {
  FL_CHECK(!(t->flags & kBatched), RuntimeError,
           "numpy: inside vmap a tensor has no memory to export, each example has its own values");
  check_elements("numpy", t);
  FL_CHECK(!t.requires_grad(), RuntimeError,
           "numpy: the tensor requires grad, which an array cannot carry; use x.detach().numpy()");
  FL_CHECK(t.device().type == DeviceType::CPU, TypeError,
           "numpy: the tensor must be on the CPU, got {}; use x.cpu()", t.device());
  FL_CHECK(format_of(t.dtype()), TypeError, "numpy: NumPy has no {}; use x.float()", t.dtype());
}

PyObject* to_array(PyObject* self) {
  refuse_while_recording("numpy()");
  check_for_numpy(tensor_of(self));
  static PyObject* asarray = numpy_attribute("asarray");
  Ref view = own(PyMemoryView_FromObject(self));
  return checked(PyObject_CallFunctionObjArgs(asarray, view.get(), nullptr));
}

PyObject* numpy(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    PyObject* force = parse_arguments("numpy", {"force"}, args, nargs, kwnames, 0)[0];
    if (!bool_argument("numpy", "force", force, false)) return to_array(self);
    Ref plain = own(PyObject_CallMethod(self, "detach", nullptr));
    Ref host = own(PyObject_CallMethod(plain.get(), "to", "s", "cpu"));
    return to_array(host.get());
  });
}

// __array__(dtype=None, copy=None)
PyObject* array(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    auto [dtype, copy] = parse_arguments("__array__", {"dtype", "copy"}, args, nargs, kwnames);
    Ref result(to_array(self));
    if (given(dtype)) {
      Ref same = own(PyObject_GetAttrString(result.get(), "dtype"));
      int equal = PyObject_RichCompareBool(same.get(), dtype, Py_EQ);
      checked(equal);
      FL_CHECK(equal || copy != Py_False, ValueError,
               "__array__: another dtype needs a copy, and copy=False forbids it");
      if (!equal) return checked(PyObject_CallMethod(result.get(), "astype", "O", dtype));
    }
    if (copy == Py_True) return checked(PyObject_CallMethod(result.get(), "copy", nullptr));
    return result.release();
  });
}

// NumPy functions of a tensor give tensors: __array_wrap__(array, context=None,
// return_scalar=False)
PyObject* array_wrap(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    FL_CHECK(PyTuple_Size(args) >= 1, TypeError, "__array_wrap__: needs an array");
    return wrap(from_array(PyTuple_GetItem(args, 0)));
  });
}

const PyMethodDef kMethods[] = {
    {"numpy", as_function(numpy), kFast,
     "numpy($self, *, force=False)\n--\n\nThe same memory as a NumPy array."},
    {"__array__", as_function(array), kFast, nullptr},
    {"__array_wrap__", array_wrap, METH_VARARGS, nullptr}};

// ---- functions of the module ----

PyObject* from_numpy(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    FL_CHECK(is_ndarray(o), TypeError, "from_numpy: must be a numpy.ndarray, got {}", type_name(o));
    return wrap(from_array(o));
  });
}

PyObject* frombuffer(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    auto [buffer, type, count_given, offset_given, grad] =
        parse_arguments("frombuffer", {"buffer", "dtype", "count", "offset", "requires_grad"}, args,
                        nargs, kwnames, 1);
    FL_CHECK(buffer && type, TypeError, "frombuffer: needs a buffer and dtype=");
    DType dtype;
    FL_CHECK(as_dtype(type, dtype), TypeError, "frombuffer: dtype must be dtype, got {}",
             type_name(type));
    FL_CHECK(PyObject_CheckBuffer(buffer), ValueError, "frombuffer: {} does not export a buffer",
             type_name(buffer));
    auto view = buffer_of(buffer, PyBUF_SIMPLE);
    int64_t item = itemsize(dtype), offset = int_argument("frombuffer", "offset", offset_given, 0);
    int64_t count = int_argument("frombuffer", "count", count_given, -1), length = view->len;
    auto refuse = [&](bool ok, std::string_view text) {
      if (!ok) fail<ValueError>(text, length, offset, count, item);
    };
    refuse(length > 0 && count != 0,
           "frombuffer: needs at least one byte and one element, got {} bytes");
    refuse(offset >= 0 && offset < length,
           "frombuffer: offset must be inside the buffer of {} bytes, got {}");
    refuse(count > 0 || (length - offset) % item == 0,
           "frombuffer: what follows the offset must be whole elements, got {} bytes, offset {}");
    if (count < 0) count = (length - offset) / item;
    refuse(offset + count * item <= length,
           "frombuffer: the buffer of {} bytes ends before offset {} plus {} elements of {} bytes");
    if (view->readonly) warn_read_only();
    char* data = static_cast<char*>(view->buf) + offset;
    StoragePtr storage(wrap_storage(data, size_t(count * item), Device{}, drop_buffer, view.get()));
    (void)view.release();
    Tensor t = from_storage(std::move(storage), {count}, {1}, 0, dtype);
    if (bool_argument("frombuffer", "requires_grad", grad, false)) t.set_requires_grad(true);
    return wrap(std::move(t));
  });
}

PyMethodDef functions[] = {
    {"from_numpy", from_numpy, METH_O,
     "from_numpy(ndarray, /)\n--\n\nA tensor on the memory of a NumPy array."},
    {"frombuffer", as_function(frombuffer), kFast,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\nA 1-d tensor on "
     "the memory of a buffer."},
    {}};

}  // namespace

bool is_ndarray(PyObject* o) {
  if (!PyType_GetSlot(Py_TYPE(o), Py_bf_getbuffer)) return false;
  static PyTypeObject* known;
  if (Py_TYPE(o) == known) return true;
  if (is_numpy(Py_TYPE(o)) && type_name(o) == "ndarray") {
    known = Py_TYPE(o);
    return true;
  }
  if (known) return PyType_IsSubtype(Py_TYPE(o), known);
  if (!PyDict_GetItemString(PyImport_GetModuleDict(), "numpy")) return false;
  Ref type(numpy_attribute("ndarray"));
  return PyType_IsSubtype(Py_TYPE(o), reinterpret_cast<PyTypeObject*>(type.get()));
}

Tensor from_array(PyObject* o) {
  Buffer view;
  try {
    view = buffer_of(o, PyBUF_STRIDES | PyBUF_FORMAT);
  } catch (const ErrorSet&) {
    PyErr_Clear();
    Ref dtype = own(PyObject_GetAttrString(o, "dtype"));
    fail<TypeError>("from_numpy: arrays of {} cannot be tensors", repr_text(dtype.get()));
  }
  DType dtype;
  std::string format = view->format ? view->format : "B";
  if (!dtype_of_format(format.c_str(), dtype)) {
    FL_CHECK(format[0] != '>', ValueError,
             "from_numpy: the array must have the machine's byte order, got format '{}'", format);
    fail<TypeError>("from_numpy: arrays of format '{}' cannot be tensors", format);
  }
  if (view->readonly) warn_read_only();
  return adopt(std::move(view), dtype);
}

bool is_array_like(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyList_Type || type == &PyTuple_Type || type == &PyFloat_Type ||
      type == &PyLong_Type || is_tensor(o))
    return false;
  return is_ndarray(o) || PyObject_HasAttrString(o, "__array_interface__") ||
         PyObject_HasAttrString(o, "__array__");
}

Tensor from_array_like(PyObject* o) {
  if (is_ndarray(o)) return from_array(o);
  static PyObject* asarray = numpy_attribute("asarray");
  Ref array = own(PyObject_CallFunctionObjArgs(asarray, o, nullptr));
  return from_array(array.get());
}

bool numpy_scalar_dtype(PyObject* o, DType& dtype) {
  if (!is_numpy(Py_TYPE(o))) return false;
  std::string name = type_name(o);
  if (name == "bool_") name = "bool";
  if (name == "longlong") name = "int64";
  if (name == "ulonglong") name = "uint64";
  for (int i = 0; i < kDTypes; i++)
    if (flambeau::name(DType(i)) == name) {
      dtype = DType(i);
      return true;
    }
  return false;
}

void append_numpy(Methods& table, Slots& slots) {
  table.insert(table.end(), std::begin(kMethods), std::end(kMethods));
  slots.push_back({Py_bf_getbuffer, slot(get_buffer)});
  slots.push_back({Py_bf_releasebuffer, slot(release_buffer)});
}

void init_arrays(PyObject* module) {
  keep_functions(functions, "frombuffer");
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
