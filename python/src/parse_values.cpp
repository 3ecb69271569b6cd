// One Python argument as a Value: exact types first, then NumPy numbers, 0-d tensors and the rest.
#include <cstring>

#include "flambeau/core/promote.h"
#include "python/src/dtypes.h"
#include "python/src/elements.h"
#include "python/src/generator.h"
#include "python/src/parse.h"
#include "python/src/recording.h"
#include "python/src/wrap.h"

namespace flambeau::python {

Scalar int_scalar(PyObject* o) {
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (FL_LIKELY(!overflow)) {
    if (v == -1 && PyErr_Occurred()) throw ErrorSet{};
    return Scalar(int64_t(v));
  }
  if (overflow > 0) {
    unsigned long long u = PyLong_AsUnsignedLongLong(o);
    if (!(u == ~0ull && PyErr_Occurred())) return Scalar(uint64_t(u));
  }
  PyErr_Clear();
  fail<OverflowError>("int: must fit into 64 bits, got {}", repr_text(o));
}

namespace {

// A NumPy scalar that counts as an integer; its bool does not.
Ref numpy_index(PyObject* o) {
  if (PyType_GetSlot(Py_TYPE(o), Py_nb_index) == nullptr || !is_numpy(Py_TYPE(o))) return Ref();
  Ref index(PyNumber_Index(o));
  if (!index) PyErr_Clear();
  return index;
}

bool is_numpy_bool(PyObject* o) {
  std::string name = type_name(o);
  return (name == "bool_" || name == "bool") && is_numpy(Py_TYPE(o));
}

// NumPy's other scalars: float16, float32, complex64. Its double is a Python float already.
bool numpy_float(PyObject* o, Scalar& out) {
  if (!PyType_GetSlot(Py_TYPE(o), Py_nb_float) || !is_numpy(Py_TYPE(o))) return false;
  std::string name = type_name(o);
  if (name == "ndarray") return false;
  if (name.starts_with("complex")) {
    Ref z =
        own(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyComplex_Type), o, nullptr));
    out = Scalar(
        std::complex<double>(PyComplex_RealAsDouble(z.get()), PyComplex_ImagAsDouble(z.get())));
    return true;
  }
  out = Scalar(PyFloat_AsDouble(o));
  if (PyErr_Occurred()) throw ErrorSet{};
  return true;
}

// The value of a tensor that may stand for a number: 0-d, with no gradient to lose.
bool number_in_tensor(PyObject* o, Scalar& out) {
  if (!is_tensor(o)) return false;
  const Tensor& t = tensor_of(o);
  if (t.ndim() != 0 || t.requires_grad()) return false;
  out = read_item(t);
  return true;
}

bool as_double(PyObject* o, double& out) {
  if (Py_TYPE(o) == &PyFloat_Type || PyFloat_Check(o)) {
    out = PyFloat_AsDouble(o);
    return true;
  }
  if (PyLong_Check(o)) {
    out = PyLong_AsDouble(o);
    if (out == -1 && PyErr_Occurred()) throw ErrorSet{};
    return true;
  }
  Scalar s;
  if (!as_scalar(o, s) || s.is_complex()) return false;
  out = s.to_double();
  return true;
}

bool set_scalar(PyObject* o, Value& v, Call& call) {
  Scalar* place = call.arena.array<Scalar>(1);
  if (!as_scalar(o, *place)) return false;
  v.kind = Value::Number;
  v.scalar = place;
  return true;
}

bool set_number_tensor(PyObject* o, Value& v, Call& call) {
  Scalar s;
  if (is_tensor(o) || !as_scalar(o, s)) return false;
  Ref object(wrap(number_tensor(s)));
  v.kind = Value::TensorRef;
  v.tensor = &tensor_of(object.get());
  call.arena.hold(std::move(object));
  return true;
}

bool set_tensor(PyObject* o, Value& v, Call& call) {
  if (FL_LIKELY(is_exact_tensor(o))) {
    v.kind = Value::TensorRef;
    v.tensor = &tensor_of(o);
    return true;
  }
  if (is_tensor(o)) {
    call.subclass = true;
    v.kind = Value::TensorRef;
    v.tensor = &tensor_of(o);
    return true;
  }
  return call.numbers && set_number_tensor(o, v, call);
}

// Lists and tuples, their subclasses included; nothing else is a sequence to an op.
class Sequence {
 public:
  explicit Sequence(PyObject* o) : o_(o) {
    tuple_ = Py_TYPE(o) == &PyTuple_Type;
    list_ = !tuple_ && PyList_Check(o);
    if (FL_UNLIKELY(!tuple_ && !list_)) tuple_ = PyTuple_Check(o);
  }
  bool valid() const { return list_ || tuple_; }
  Py_ssize_t size() const { return list_ ? PyList_Size(o_) : PyTuple_Size(o_); }
  PyObject* operator[](Py_ssize_t i) const {
    return list_ ? PyList_GetItem(o_, i) : PyTuple_GetItem(o_, i);
  }

 private:
  PyObject* o_;
  bool list_, tuple_;
};

template <class T, class Convert>
bool fill_run(const Sequence& items, T* out, Convert convert) {
  for (Py_ssize_t i = 0, n = items.size(); i < n; i++)
    if (!convert(items[i], out[i])) return false;
  return true;
}

bool set_ints(const Param& p, PyObject* o, Value& v, Call& call) {
  v.kind = Value::IntRun;
  Sequence items(o);
  if (items.valid()) {
    int64_t* ints = call.arena.array<int64_t>(size_t(items.size()));
    v.ints = ints;
    v.count = uint32_t(items.size());
    return fill_run(items, ints, as_int);
  }
  int64_t one;
  if (!p.size || !as_int(o, one)) return false;
  int64_t* ints = call.arena.array<int64_t>(p.size);
  std::fill(ints, ints + p.size, one);
  v.ints = ints;
  v.count = p.size;
  return true;
}

bool set_tensors(const BoundParam& p, PyObject* o, Value& v, Call& call) {
  Sequence items(o);
  if (!items.valid()) return false;
  Py_ssize_t size = items.size();
  TensorImpl** impls = call.arena.array<TensorImpl*>(size_t(size));
  for (Py_ssize_t i = 0; i < size; i++) {
    PyObject* item = items[i];
    if (item == Py_None && p.holes) {
      impls[i] = nullptr;
      continue;
    }
    if (!is_tensor(item)) return false;
    if (!is_exact_tensor(item)) call.subclass = true;
    call.arena.hold(Ref::borrow(item));
    impls[i] = tensor_of(item).impl();
  }
  static_assert(sizeof(Tensor) == sizeof(TensorImpl*));
  v.kind = Value::TensorRun;
  v.tensor = reinterpret_cast<const Tensor*>(impls);
  v.count = uint32_t(size);
  return true;
}

bool set_scalars(PyObject* o, Value& v, Call& call) {
  Sequence items(o);
  if (!items.valid()) return false;
  Scalar* scalars = call.arena.array<Scalar>(size_t(items.size()));
  v.kind = Value::NumberRun;
  v.scalar = scalars;
  v.count = uint32_t(items.size());
  return fill_run(items, scalars, as_scalar);
}

bool set_doubles(PyObject* o, Value& v, Call& call) {
  Sequence items(o);
  if (!items.valid()) return false;
  double* doubles = call.arena.array<double>(size_t(items.size()));
  v.kind = Value::DoubleRun;
  v.doubles = doubles;
  v.count = uint32_t(items.size());
  return fill_run(items, doubles, as_double);
}

bool as_flag(PyObject* o, int64_t& out) {
  if (!PyBool_Check(o) && !is_numpy_bool(o)) return false;
  out = PyObject_IsTrue(o);
  return true;
}

bool set_flags(PyObject* o, Value& v, Call& call) {
  Sequence items(o);
  if (!items.valid()) return false;
  int64_t* flags = call.arena.array<int64_t>(size_t(items.size()));
  v.kind = Value::BoolRun;
  v.ints = flags;
  v.count = uint32_t(items.size());
  return fill_run(items, flags, as_flag);
}

bool set_rare(const Param& p, PyObject* o, Value& v) {
  switch (p.kind) {
    case ArgKind::String:
      if (!PyUnicode_Check(o)) return false;
      Boxed<std::string_view>::set(v, text_of(o));
      return true;
    case ArgKind::DType: {
      DType dtype;
      if (!as_dtype(o, dtype)) return false;
      Boxed<DType>::set(v, dtype);
      return true;
    }
    case ArgKind::Device: {
      Device device;
      if (!as_device(o, device)) return false;
      Boxed<Device>::set(v, device);
      return true;
    }
    case ArgKind::Layout: {
      Layout layout;
      if (!as_layout(o, layout)) return false;
      Boxed<Layout>::set(v, layout);
      return true;
    }
    case ArgKind::MemoryFormat: {
      MemoryFormat format;
      if (!as_memory_format(o, format)) return false;
      Boxed<MemoryFormat>::set(v, format);
      return true;
    }
    default: {
      Generator* generator;
      if (!as_generator(o, generator)) return false;
      Boxed<Generator*>::set(v, generator);
      return true;
    }
  }
}

}  // namespace

bool as_int(PyObject* o, int64_t& out) {
  if (FL_LIKELY(Py_TYPE(o) == &PyLong_Type) || PyLong_Check(o)) {
    if (PyBool_Check(o)) return false;
    out = PyLong_AsLongLong(o);
    if (out == -1 && PyErr_Occurred()) throw ErrorSet{};
    return true;
  }
  if (PyFloat_Check(o) || PyTuple_Check(o) || PyList_Check(o) || PyUnicode_Check(o) || o == Py_None)
    return false;
  Scalar s;
  if (is_tensor(o)) {
    if (!is_integer(tensor_of(o).dtype()) || !number_in_tensor(o, s)) return false;
    out = s.to_int();
    return true;
  }
  Ref index = numpy_index(o);
  if (!index) return false;
  out = PyLong_AsLongLong(index.get());
  if (out == -1 && PyErr_Occurred()) throw ErrorSet{};
  return true;
}

bool as_scalar(PyObject* o, Scalar& out) {
  if (Py_TYPE(o) == &PyLong_Type)
    out = int_scalar(o);
  else if (FL_LIKELY(PyFloat_Check(o)))
    out = Scalar(PyFloat_AsDouble(o));
  else if (PyBool_Check(o))
    out = Scalar(o == Py_True);
  else if (PyLong_Check(o))
    out = int_scalar(o);
  else if (PyComplex_Check(o))
    out = Scalar(std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
  else if (is_tensor(o))
    return number_in_tensor(o, out);
  else if (PyTuple_Check(o) || PyList_Check(o) || PyUnicode_Check(o) || o == Py_None)
    return false;
  else if (Ref index = numpy_index(o); index)
    out = int_scalar(index.get());
  else if (is_numpy_bool(o))
    out = Scalar(PyObject_IsTrue(o) == 1);
  else
    return numpy_float(o, out);
  return true;
}

bool fold_ints(PyObject* const* items, Py_ssize_t count, Value& v, Call& call) {
  int64_t* ints = call.arena.array<int64_t>(size_t(count));
  for (Py_ssize_t i = 0; i < count; i++)
    if (!as_int(items[i], ints[i])) return false;
  v.kind = Value::IntRun;
  v.ints = ints;
  v.count = uint32_t(count);
  return true;
}

bool to_value(const BoundParam& p, PyObject* o, Value& v, Call& call) {
  const Param& param = *p.param;
  if (FL_LIKELY(param.kind == ArgKind::Tensor)) {
    if (FL_LIKELY(set_tensor(o, v, call))) return true;
  }
  if (o == Py_None && param.optional) {
    v = Value();
    return true;
  }
  switch (param.kind) {
    case ArgKind::Tensor:
      return false;
    case ArgKind::Scalar:
      return set_scalar(o, v, call);
    case ArgKind::Int:
      v.kind = Value::Int;
      return as_int(o, v.integer);
    case ArgKind::Bool:
      v.kind = Value::Bool;
      return as_flag(o, v.integer);
    case ArgKind::Double:
      v.kind = Value::Double;
      return as_double(o, v.real);
    case ArgKind::IntList:
      return set_ints(param, o, v, call);
    case ArgKind::TensorList:
      return set_tensors(p, o, v, call);
    case ArgKind::ScalarList:
      return set_scalars(o, v, call);
    case ArgKind::DoubleList:
      return set_doubles(o, v, call);
    case ArgKind::BoolList:
      return set_flags(o, v, call);
    default:
      return set_rare(param, o, v);
  }
}

PyObject* to_python(const Scalar& s) {
  switch (s.kind()) {
    case Scalar::Kind::Bool:
      return to_bool(s.to_bool());
    case Scalar::Kind::Int:
      return checked(PyLong_FromLongLong(s.to_int()));
    case Scalar::Kind::UInt:
      return checked(PyLong_FromUnsignedLongLong(uint64_t(s.to_int())));
    case Scalar::Kind::Double:
      return checked(PyFloat_FromDouble(s.to_double()));
    default: {
      auto z = s.to_complex();
      return checked(PyComplex_FromDoubles(z.real(), z.imag()));
    }
  }
}

const char* kind_text(const Param& p) {
  switch (p.kind) {
    case ArgKind::Tensor:
      return "Tensor";
    case ArgKind::Scalar:
      return "a number";
    case ArgKind::Int:
      return "int";
    case ArgKind::Bool:
      return "bool";
    case ArgKind::Double:
      return "float";
    case ArgKind::IntList:
      return p.size ? "int or tuple of ints" : "tuple of ints";
    case ArgKind::TensorList:
      return "tuple of Tensors";
    case ArgKind::ScalarList:
      return "tuple of numbers";
    case ArgKind::DoubleList:
      return "tuple of floats";
    case ArgKind::BoolList:
      return "tuple of bools";
    case ArgKind::String:
      return "str";
    case ArgKind::DType:
      return "dtype";
    case ArgKind::Device:
      return "device";
    case ArgKind::Layout:
      return "layout";
    case ArgKind::MemoryFormat:
      return "memory_format";
    default:
      return "Generator";
  }
}

}  // namespace flambeau::python
