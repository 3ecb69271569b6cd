// torch.dtype, torch.layout and torch.memory_format: constants that are compared by identity.
#include "python/src/dtypes.h"

#include "flambeau/core/promote.h"
#include "python/src/module.h"

namespace flambeau::python {

PyTypeObject *dtype_type, *layout_type, *memory_format_type;

namespace {

// Names that scripts mention and that have no kernels here: objects for comparisons, sets and
// messages. Bytes of an element, then f float, c complex, u unsigned, i signed.
struct Foreign {
  const char* name;
  uint8_t size;
  char category;
};
constexpr Foreign kForeign[] = {{"complex32", 4, 'c'},
                                {"float8_e4m3fn", 1, 'f'},
                                {"float8_e4m3fnuz", 1, 'f'},
                                {"float8_e5m2", 1, 'f'},
                                {"float8_e5m2fnuz", 1, 'f'},
                                {"float8_e8m0fnu", 1, 'f'},
                                {"float4_e2m1fn_x2", 1, 'f'},
                                {"qint8", 1, 'i'},
                                {"quint8", 1, 'u'},
                                {"qint32", 4, 'i'},
                                {"quint4x2", 1, 'u'},
                                {"quint2x4", 1, 'u'},
                                {"uint1", 1, 'u'},
                                {"uint2", 1, 'u'},
                                {"uint3", 1, 'u'},
                                {"uint4", 1, 'u'},
                                {"uint5", 1, 'u'},
                                {"uint6", 1, 'u'},
                                {"uint7", 1, 'u'},
                                {"int1", 1, 'i'},
                                {"int2", 1, 'i'},
                                {"int3", 1, 'i'},
                                {"int4", 1, 'i'},
                                {"int5", 1, 'i'},
                                {"int6", 1, 'i'},
                                {"int7", 1, 'i'},
                                {"bits8", 1, 'u'}};
constexpr const char* kLayouts[] = {"strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                    "sparse_bsr", "sparse_bsc", "jagged",     "_mkldnn"};
constexpr int kOwnLayouts = 4;
constexpr const char* kFormats[] = {"contiguous_format", "preserve_format", "channels_last",
                                    "channels_last_3d"};

PyObject* dtype_objects[kDTypes];
PyObject* layout_objects[kOwnLayouts];
PyObject* format_objects[std::size(kFormats)];

PyConstant* as_constant(PyObject* o) { return reinterpret_cast<PyConstant*>(o); }

Foreign facts(PyObject* self) {
  int code = code_of(self);
  if (code >= kDTypes) return kForeign[code - kDTypes];
  const DTypeInfo& known = info(DType(code));
  return {nullptr, known.size, known.category};
}

PyObject* repr(PyObject* self) { return PyUnicode_FromFormat("torch.%s", as_constant(self)->name); }

// A string: pickle stores the constant as a global of this module.
PyObject* reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(as_constant(self)->name);
}
PyObject* itself(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* is_floating_point(PyObject* self, void*) { return to_bool(facts(self).category == 'f'); }
PyObject* is_complex(PyObject* self, void*) { return to_bool(facts(self).category == 'c'); }
PyObject* is_signed(PyObject* self, void*) {
  char category = facts(self).category;
  return to_bool(category != 'u' && category != 'b');
}
PyObject* get_itemsize(PyObject* self, void*) { return PyLong_FromLong(facts(self).size); }

PyObject* to_real(PyObject* self, PyObject*) {
  return guarded([&] {
    DType dtype{};
    as_dtype(self, dtype);
    return to_python(real_of(dtype));
  });
}

PyObject* to_complex(PyObject* self, PyObject*) {
  return guarded([&] {
    DType dtype{};
    as_dtype(self, dtype);
    FL_CHECK(is_inexact(dtype) && dtype != DType::Float16, RuntimeError,
             "to_complex: no complex type is made of {}", dtype);
    bool wide = dtype == DType::Float64 || dtype == DType::Complex128;
    return to_python(wide ? DType::Complex128 : DType::Complex64);
  });
}

PyMethodDef plain_methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                               {"__copy__", itself, METH_NOARGS, nullptr},
                               {"__deepcopy__", itself, METH_O, nullptr},
                               {}};
PyMethodDef dtype_methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__copy__", itself, METH_NOARGS, nullptr},
    {"__deepcopy__", itself, METH_O, nullptr},
    {"to_real", to_real, METH_NOARGS, "The dtype of the real part."},
    {"to_complex", to_complex, METH_NOARGS, "The complex dtype made of two of this one."},
    {}};
PyGetSetDef dtype_getset[] = {
    {"is_floating_point", is_floating_point, nullptr, "Is it one of the real floating types?",
     nullptr},
    {"is_complex", is_complex, nullptr, nullptr, nullptr},
    {"is_signed", is_signed, nullptr, "Can it hold negative values?", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {}};

PyType_Slot dtype_slots[] = {{Py_tp_repr, slot(repr)},
                             {Py_tp_methods, dtype_methods},
                             {Py_tp_getset, dtype_getset},
                             {Py_tp_doc, const_cast<char*>("The type of a tensor's elements.")},
                             {0, nullptr}};
PyType_Slot plain_slots[] = {
    {Py_tp_repr, slot(repr)}, {Py_tp_methods, plain_methods}, {0, nullptr}};
constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
PyType_Spec dtype_spec = {"flambeau.dtype", sizeof(PyConstant), 0, kFlags, dtype_slots};
PyType_Spec layout_spec = {"flambeau.layout", sizeof(PyConstant), 0, kFlags, plain_slots};
PyType_Spec format_spec = {"flambeau.memory_format", sizeof(PyConstant), 0, kFlags, plain_slots};

PyObject* make(PyObject* module, PyTypeObject* type, const char* name, int code) {
  PyConstant* object = PyObject_New(PyConstant, type);
  if (!object) throw ErrorSet{};
  object->code = code;
  object->name = name;
  add(module, name, Py_NewRef(reinterpret_cast<PyObject*>(object)));
  return reinterpret_cast<PyObject*>(object);
}

}  // namespace

bool as_dtype(PyObject* o, DType& out) {
  if (FL_LIKELY(Py_TYPE(o) == dtype_type)) {
    int code = code_of(o);
    FL_CHECK(code < kDTypes, NotImplementedError, "dtype: {} has no kernels in this library",
             as_constant(o)->name);
    out = DType(code);
    return true;
  }
  auto* type = reinterpret_cast<PyTypeObject*>(o);
  if (type == &PyFloat_Type)
    out = DType::Float64;
  else if (type == &PyLong_Type)
    out = DType::Int64;
  else if (type == &PyBool_Type)
    out = DType::Bool;
  else if (type == &PyComplex_Type)
    out = DType::Complex128;
  else
    return false;
  return true;
}

bool as_layout(PyObject* o, Layout& out) {
  if (Py_TYPE(o) != layout_type) return false;
  FL_CHECK(code_of(o) < kOwnLayouts, NotImplementedError, "layout: {} is not supported",
           as_constant(o)->name);
  out = Layout(code_of(o));
  return true;
}

bool as_memory_format(PyObject* o, MemoryFormat& out) {
  if (Py_TYPE(o) != memory_format_type) return false;
  out = MemoryFormat(code_of(o));
  return true;
}

PyObject* to_python(DType dtype) { return Py_NewRef(dtype_objects[int(dtype)]); }
PyObject* to_python(Layout layout) { return Py_NewRef(layout_objects[int(layout)]); }
PyObject* to_python(MemoryFormat format) { return Py_NewRef(format_objects[int(format)]); }

void init_dtypes(PyObject* module) {
  dtype_type = make_type(dtype_spec);
  layout_type = make_type(layout_spec);
  memory_format_type = make_type(format_spec);
  add(module, "dtype", Py_NewRef(reinterpret_cast<PyObject*>(dtype_type)));
  add(module, "layout", Py_NewRef(reinterpret_cast<PyObject*>(layout_type)));
  add(module, "memory_format", Py_NewRef(reinterpret_cast<PyObject*>(memory_format_type)));
  int code = 0;
  for (const DTypeInfo& known : kDTypeInfo) {
    dtype_objects[code] = make(module, dtype_type, known.name.data(), code);
    code++;
  }
  for (const Foreign& foreign : kForeign) Py_DECREF(make(module, dtype_type, foreign.name, code++));
  for (int i = 0; i < int(std::size(kLayouts)); i++) {
    PyObject* layout = make(module, layout_type, kLayouts[i], i);
    if (i < kOwnLayouts) layout_objects[i] = layout;
  }
  for (int i = 0; i < int(std::size(kFormats)); i++)
    format_objects[i] = make(module, memory_format_type, kFormats[i], i);
  struct {
    const char *alias, *name;
  } aliases[] = {{"float", "float32"},    {"double", "float64"},
                 {"half", "float16"},     {"short", "int16"},
                 {"int", "int32"},        {"long", "int64"},
                 {"cfloat", "complex64"}, {"cdouble", "complex128"},
                 {"chalf", "complex32"},  {"legacy_contiguous_format", "contiguous_format"}};
  for (auto& a : aliases) add(module, a.alias, PyObject_GetAttrString(module, a.name));
}

}  // namespace flambeau::python
