// C++ exceptions become Python ones here, and Python ones travel through C++.
#include "python/src/module.h"

namespace flambeau::python {
namespace {

PyObject* out_of_memory;  // torch.OutOfMemoryError, a RuntimeError
PyObject* linalg_error;   // torch.linalg.LinAlgError, a RuntimeError

// Lines that lower layers left beside the error: e.__notes__, shown below the message.
void attach_notes() {
  std::string notes = take_error_notes();
  if (notes.empty()) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref result(PyObject_CallMethod(value, "add_note", "s#", notes.data(), Py_ssize_t(notes.size())));
  if (!result) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

void restore(const PythonError& error) {
  auto* value = static_cast<PyObject*>(error.state);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
}

std::string last_text;  // of the latest error that was born in C++; under the GIL

void set(PyObject* type, const std::exception& error) {
  last_text = error.what();
  PyErr_SetString(type, error.what());
}

}  // namespace

void translate() noexcept {
  try {
    throw;
  } catch (const ErrorSet&) {
  } catch (const PythonError& e) {
    restore(e);
  } catch (const IndexError& e) {
    set(PyExc_IndexError, e);
  } catch (const TypeError& e) {
    set(PyExc_TypeError, e);
  } catch (const ValueError& e) {
    set(PyExc_ValueError, e);
  } catch (const OverflowError& e) {
    set(PyExc_OverflowError, e);
  } catch (const NotImplementedError& e) {
    set(PyExc_NotImplementedError, e);
  } catch (const OutOfMemoryError& e) {
    set(out_of_memory, e);
  } catch (const LinAlgError& e) {
    set(linalg_error, e);
  } catch (const std::bad_alloc&) {
    PyErr_SetString(out_of_memory, "host memory: no room for what the call lists or counts");
  } catch (const std::length_error&) {
    PyErr_SetString(out_of_memory, "host memory: a list would be longer than any memory");
  } catch (const std::exception& e) {
    set(PyExc_RuntimeError, e);
  }
  attach_notes();
}

void throw_python_error() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Ref text(PyObject_Str(value));
  const char* chars = text ? PyUnicode_AsUTF8AndSize(text.get(), nullptr) : nullptr;
  if (!chars) PyErr_Clear();
  std::string message = chars ? chars : "Python exception";
  Py_XDECREF(type);
  Py_XDECREF(trace);
  throw PythonError(std::move(message), value);
}

bool is_library_error(std::string_view text) { return text == last_text; }

std::string type_name(PyObject* o) {
  Ref name(PyType_GetName(Py_TYPE(o)));
  if (!name) throw ErrorSet{};
  return std::string(text_of(name.get()));
}

std::string repr_text(PyObject* o) {
  Ref text = own(PyObject_Repr(o));
  return std::string(text_of(text.get()));
}

bool is_numpy(PyTypeObject* type) {
  Ref module(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  if (!module || !PyUnicode_Check(module.get())) {
    PyErr_Clear();
    return false;
  }
  std::string_view name = text_of(module.get());
  return name == "numpy" || name.starts_with("numpy.");
}

Ref import_from(const char* module, const char* name) {
  Ref m = own(PyImport_ImportModule(module));
  return own(PyObject_GetAttrString(m.get(), name));
}

void init_errors(PyObject* module) {
  out_of_memory =
      checked(PyErr_NewException("flambeau.OutOfMemoryError", PyExc_RuntimeError, nullptr));
  linalg_error =
      checked(PyErr_NewException("flambeau._C._LinAlgError", PyExc_RuntimeError, nullptr));
  add(module, "OutOfMemoryError", Py_NewRef(out_of_memory));
  add(module, "_LinAlgError", Py_NewRef(linalg_error));
}

}  // namespace flambeau::python
