// The type flambeau.Tensor and its base, where the life (tensor_object.cpp), operators, attributes
// and methods of tensors are put together.
#include "python/src/indexing.h"
#include "python/src/module.h"
#include "python/src/operators.h"
#include "python/src/ops.h"
#include "python/src/overridable.h"
#include "python/src/tensor_methods.h"
#include "python/src/tensor_object.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

PyMemberDef members[] = {
    // Declared by the base type, so that a subclass leaves both to it (tensor_object.cpp).
    {"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weak), READONLY, nullptr},
    {}};

// The tables live as long as the type.
Methods methods;
Getters getters;
Slots slots;

void collect() {
  slots = {{Py_tp_dealloc, slot(tensor_dealloc)},
           {Py_tp_traverse, slot(tensor_traverse)},
           {Py_tp_clear, slot(tensor_clear)},
           {Py_tp_setattro, slot(tensor_setattro)},
           {Py_mp_subscript, slot(tensor_get_item)},
           {Py_mp_ass_subscript, slot(tensor_set_item)},
           {Py_tp_members, members}};
  append_operator_slots(slots);
  append_constructors(methods, slots);
  append_conversions(methods, slots);
  append_numpy(methods, slots);
  append_metadata_methods(methods);
  append_data_methods(methods);
  append_cast_methods(methods);
  append_tape_methods(methods);
  append_storage_methods(methods);
  append_dlpack(methods);
  append_attributes(getters);
  append_hook_attributes(getters);
  // What is written by hand wins over an op of the same name.
  std::unordered_set<std::string_view> taken;
  for (const PyMethodDef& m : methods) taken.insert(m.ml_name);
  for (const PyGetSetDef& g : getters) taken.insert(g.name);
  size_t written = methods.size();
  append_op_methods(methods, taken);
  methods.push_back({});
  getters.push_back({});
  keep_tables(methods, written, getters);
  slots.push_back({Py_tp_methods, methods.data()});
  slots.push_back({Py_tp_getset, getters.data()});
  slots.push_back({0, nullptr});
}

// The base holds what C++ defines, Tensor what Python adds to it.
PyTypeObject* make_base() {
  collect();
  PyType_Spec spec = {"flambeau._C.TensorBase", sizeof(PyTensor), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  return make_type(spec);
}

PyTypeObject* make_tensor(PyTypeObject* base) {
  // Named again: a type without them would go through the interpreter's own deallocation.
  PyType_Slot life[] = {
      {Py_tp_dealloc, slot(tensor_dealloc)},
      {Py_tp_traverse, slot(tensor_traverse)},
      {Py_tp_clear, slot(tensor_clear)},
      {Py_tp_doc, const_cast<char*>("An array of numbers of one type that the tape can follow.")},
      {0, nullptr}};
  PyType_Spec spec = {"flambeau.Tensor", sizeof(PyTensor), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, life};
  return make_type(spec, base);
}

}  // namespace

void init_tensor(PyObject* module) {
  PyTypeObject* base = make_base();
  tensor_type = make_tensor(base);
  auto* type = reinterpret_cast<PyObject*>(tensor_type);
  Ref priority = own(PyLong_FromLong(1000));  // NumPy leaves mixed arithmetic to us
  checked(PyObject_SetAttrString(type, "__array_priority__", priority.get()));
  add(module, "Tensor", Py_NewRef(type));
  add(module, "TensorBase", reinterpret_cast<PyObject*>(base));
  core_hooks.drop_python = drop_python_object;
}

}  // namespace flambeau::python
