// What an op gives back, as Python objects; the named tuples of torch.return_types.
#include <map>

#include "python/src/dtypes.h"
#include "python/src/parse.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t space = std::min(text.find(' '), text.size());
    if (space) parts.emplace_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return parts;
}

PyObject* get_field(PyObject* self, void* index) {
  PyObject* item = PyTuple_GetItem(self, Py_ssize_t(reinterpret_cast<intptr_t>(index)));
  return item ? Py_NewRef(item) : nullptr;
}

PyObject* repr_fields(PyObject* self) {
  return guarded([&] {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(self));
    Ref name = own(PyObject_GetAttrString(type, "__name__"));
    Ref fields = own(PyObject_GetAttrString(type, "_fields"));
    std::string text = "torch.return_types." + std::string(text_of(name.get())) + "(";
    for (Py_ssize_t i = 0, n = PyTuple_Size(self); i < n; i++) {
      text += i ? ",\n" : "\n";
      text += std::string(text_of(PyTuple_GetItem(fields.get(), i))) + "=";
      text += repr_text(PyTuple_GetItem(self, i));
    }
    return to_str(text + ")");
  });
}

PyObject* plain_tuple(PyObject* self) {
  Py_ssize_t size = PyTuple_Size(self);
  PyObject* plain = checked(PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; i++)
    PyTuple_SetItem(plain, i, Py_NewRef(PyTuple_GetItem(self, i)));
  return plain;
}

PyObject* reduce_fields(PyObject* self, PyObject*) {
  return guarded([&] {
    Ref plain(plain_tuple(self));
    return Py_BuildValue("O(O)", Py_TYPE(self), plain.get());
  });
}

// max((values, indices)); pickles of torch pass an empty dict besides.
PyObject* new_fields(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject *values, *ignored = nullptr;
    if (!PyArg_ParseTuple(args, "O|O", &values, &ignored)) throw ErrorSet{};
    Ref fields = own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "_fields"));
    Ref list = own(PySequence_Tuple(values));
    Py_ssize_t count = PyTuple_Size(list.get()), want = PyTuple_Size(fields.get());
    FL_CHECK(count == want, TypeError, "return_types: takes {} values, got {}", int64_t(want),
             int64_t(count));
    Ref one = own(PyTuple_Pack(1, list.get()));
    auto make = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
    return checked(make(type, one.get(), nullptr));
  });
}

PyMethodDef methods[] = {{"__reduce__", reduce_fields, METH_NOARGS, nullptr}, {}};

// A tuple subclass with a property per field; its tables live as long as the process.
PyTypeObject* make_return_type(const char* name, const std::vector<std::string>& fields) {
  auto* getset = new std::vector<PyGetSetDef>;
  for (size_t i = 0; i < fields.size(); i++) {
    char* field = strdup(fields[i].c_str());
    getset->push_back({field, get_field, nullptr, nullptr, reinterpret_cast<void*>(i)});
  }
  getset->push_back({});
  PyType_Slot slots[] = {{Py_tp_new, slot(new_fields)},
                         {Py_tp_repr, slot(repr_fields)},
                         {Py_tp_getset, getset->data()},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  std::string full = std::string("flambeau.return_types.") + name;
  PyType_Spec spec = {strdup(full.c_str()), 0, 0, Py_TPFLAGS_DEFAULT, slots};
  PyTypeObject* type = make_type(spec, &PyTuple_Type);
  Ref names = own(PyTuple_New(Py_ssize_t(fields.size())));
  for (size_t i = 0; i < fields.size(); i++)
    PyTuple_SetItem(names.get(), Py_ssize_t(i), to_str(fields[i]));
  auto* object = reinterpret_cast<PyObject*>(type);
  checked(PyObject_SetAttrString(object, "_fields", names.get()));
  checked(PyObject_SetAttrString(object, "__match_args__", names.get()));
  for (const char* count : {"n_fields", "n_sequence_fields"}) {
    Ref number = own(PyLong_FromSize_t(fields.size()));
    checked(PyObject_SetAttrString(object, count, number.get()));
  }
  return type;
}

PyObject* tuple_of(Returns& r, const OpInfo& op) {
  PyObject* result;
  if (*op.result_names) {
    PyObject* type = return_type(op);
    auto allocate = reinterpret_cast<allocfunc>(
        PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type), Py_tp_alloc));
    result = checked(allocate(reinterpret_cast<PyTypeObject*>(type), r.count));
  } else {
    result = checked(PyTuple_New(r.count));
  }
  for (int i = 0; i < r.count; i++) PyTuple_SetItem(result, i, wrap(std::move(r.tensors[i])));
  return result;
}

}  // namespace

PyObject* return_type(const OpInfo& op) {
  static std::map<std::string, PyTypeObject*> types;
  std::string key = std::string(op.name) + ' ' + op.result_names;
  auto& type = types[key];
  if (!type) type = make_return_type(op.name, words(op.result_names));
  return reinterpret_cast<PyObject*>(type);
}

PyObject* to_python(Returns& r, const OpInfo& op) {
  switch (r.kind) {
    case Returns::One:
      return wrap(std::move(r.tensors[0]));
    case Returns::Written:
      if (auto* object = static_cast<PyObject*>((*r.written)->py);
          object && !(*r.written)->py_owned)
        return Py_NewRef(object);
      return wrap(*r.written);
    case Returns::Nothing:
      return Py_NewRef(Py_None);
    case Returns::Tuple:
      return tuple_of(r, op);
    case Returns::List:
      return wrap_list(r.list, /*tuple=*/true);
    case Returns::Int:
      return checked(PyLong_FromLongLong(r.integer));
    case Returns::Bool:
      return to_bool(r.integer != 0);
    case Returns::Double:
      return checked(PyFloat_FromDouble(r.real));
    case Returns::Number:
      return to_python(r.scalar);
    default:
      return to_python(DType(r.integer));
  }
}

}  // namespace flambeau::python
