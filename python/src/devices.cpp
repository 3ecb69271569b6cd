// torch.device: a small value object, also a context manager that sets where factories put tensors.
#include <vector>

#include "python/src/dtypes.h"
#include "python/src/module.h"

namespace flambeau::python {

PyTypeObject* device_type;

namespace {

constexpr const char* kTypeNames[kDeviceTypes] = {"cpu", "meta", "fake", "cuda"};

Device device_of(PyObject* o) { return reinterpret_cast<PyDevice*>(o)->device; }
const char* type_text(Device device) { return kTypeNames[int(device.type)]; }

int8_t checked_index(PyObject* o) {
  long index = PyLong_AsLong(o);
  if (index == -1 && PyErr_Occurred()) throw ErrorSet{};
  FL_CHECK(0 <= index && index < 128, RuntimeError, "device: index must be in [0, 127], got {}",
           index);
  return int8_t(index);
}

PyObject* construct(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"type", "index", nullptr};
    static const char* short_names[] = {"device", nullptr};
    PyObject *type, *index = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names), &type,
                                     &index)) {
      PyErr_Clear();
      if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:device", const_cast<char**>(short_names),
                                       &type))
        throw ErrorSet{};
    }
    Device device;
    FL_CHECK(as_device(type, device), TypeError,
             "device: must be a name, an index or a device, got {}", type_name(type));
    if (index && index != Py_None) {
      FL_CHECK(device.index < 0 && PyUnicode_Check(type), RuntimeError,
               "device: the index stands in '{}' already", to_string(device));
      device.index = checked_index(index);
    }
    return to_python(device);
  });
}

PyObject* repr(PyObject* self) {
  Device device = device_of(self);
  if (device.index < 0) return PyUnicode_FromFormat("device(type='%s')", type_text(device));
  return PyUnicode_FromFormat("device(type='%s', index=%d)", type_text(device), int(device.index));
}
PyObject* str(PyObject* self) {
  return guarded([&] { return to_str(to_string(device_of(self))); });
}
Py_hash_t hash(PyObject* self) {
  Device device = device_of(self);
  return Py_hash_t(int(device.type) * 1000 + device.index + 2);
}
PyObject* compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != device_type || (op != Py_EQ && op != Py_NE))
    return Py_NewRef(Py_NotImplemented);
  return to_bool((device_of(a) == device_of(b)) == (op == Py_EQ));
}

PyObject* get_type(PyObject* self, void*) {
  return PyUnicode_FromString(type_text(device_of(self)));
}
PyObject* get_index(PyObject* self, void*) {
  int index = device_of(self).index;
  return index < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(index);
}

PyObject* reduce(PyObject* self, PyObject*) {
  Device device = device_of(self);
  if (device.index < 0) return Py_BuildValue("O(s)", device_type, type_text(device));
  return Py_BuildValue("O(si)", device_type, type_text(device), int(device.index));
}

// `with device:`; the same object may be entered again inside.
std::vector<Device> entered;
PyObject* enter(PyObject* self, PyObject*) {
  return guarded([&] {
    entered.push_back(default_device());
    set_default_device(device_of(self));
    return Py_NewRef(self);
  });
}
PyObject* leave(PyObject*, PyObject*) {
  return guarded([&] {
    FL_CHECK(!entered.empty(), RuntimeError, "device: __exit__ without __enter__");
    set_default_device(entered.back());
    entered.pop_back();
    return Py_NewRef(Py_None);
  });
}
// As a decorator: the function runs with this device as the default.
PyObject* call(PyObject* self, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* function;
    if (!PyArg_ParseTuple(args, "O", &function)) throw ErrorSet{};
    Ref decorate = import_from("flambeau.utils._contextlib", "context_decorator");
    return PyObject_CallFunctionObjArgs(decorate.get(), self, function, nullptr);
  });
}

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                         {"__enter__", enter, METH_NOARGS, nullptr},
                         {"__exit__", leave, METH_VARARGS, nullptr},
                         {}};
PyGetSetDef getset[] = {
    {"type", get_type, nullptr, "'cpu', 'cuda', 'meta' or 'fake'.", nullptr},
    {"index", get_index, nullptr, "Its number, None for the current one.", nullptr},
    {}};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("device(type, index=None)\n--\n\nWhere tensors live.")},
    {Py_tp_new, slot(construct)},
    {Py_tp_repr, slot(repr)},
    {Py_tp_str, slot(str)},
    {Py_tp_hash, slot(hash)},
    {Py_tp_richcompare, slot(compare)},
    {Py_tp_call, slot(call)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0, nullptr}};
PyType_Spec spec = {"flambeau.device", sizeof(PyDevice), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

bool as_device(PyObject* o, Device& out) {
  if (Py_TYPE(o) == device_type)
    out = device_of(o);
  else if (PyUnicode_Check(o))
    out = parse_device(text_of(o));
  else if (PyLong_Check(o) && !PyBool_Check(o))
    out = Device{DeviceType::CUDA, checked_index(o)};
  else
    return false;
  return true;
}

PyObject* to_python(Device device) {
  PyDevice* object = PyObject_New(PyDevice, device_type);
  if (!object) throw ErrorSet{};
  object->device = device;
  return reinterpret_cast<PyObject*>(object);
}

void init_devices(PyObject* module) {
  device_type = make_type(spec);
  add(module, "device", Py_NewRef(reinterpret_cast<PyObject*>(device_type)));
}

}  // namespace flambeau::python
