// Life of the Python object of a tensor: identity, attributes, garbage collection, resurrection.
#include "python/src/tensor_object.h"

#include "python/src/dispatch.h"
#include "python/src/tape.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {

PyTypeObject* tensor_type;
PyTypeObject* parameter_type;

namespace {

// Freed plain objects wait here, untracked and with their reference to the type: to take one is to
// set its count. It saves a trip through the collector's allocator.
constexpr int kCached = 256;
PyTensor* cache[kCached];
int cached = 0;

PyObject* existing(Tensor t) {
  TensorImpl* impl = t.impl();
  auto* object = static_cast<PyObject*>(impl->py);
  if (impl->py_owned) {  // C++'s reference to the object and ours to the tensor change hands
    impl->py_owned = 0;
    t.release();
    return object;
  }
  return Py_NewRef(object);
}

void adopt(PyTensor* object, Tensor t) {
  TensorImpl* impl = t.release();
  new (&object->tensor) Tensor(impl);
  impl->py = object;
}

// Could anybody tell this object from a fresh one?
bool has_identity(PyObject* self) {
  return (Py_TYPE(self) != tensor_type && Py_TYPE(self) != parameter_type) || as_py(self)->dict ||
         as_py(self)->weak;
}

}  // namespace

PyObject* wrap(Tensor t) {
  if (FL_UNLIKELY(!t.defined())) return Py_NewRef(Py_None);
  if (FL_UNLIKELY(t->py != nullptr)) return existing(std::move(t));
  PyTensor* object;
  if (FL_LIKELY(cached && !t->is_parameter)) {
    object = cache[--cached];
    object->ob_base.ob_refcnt = 1;  // the whole word, whose upper half later versions use for flags
  } else {
    object = PyObject_GC_New(PyTensor, t->is_parameter ? parameter_type : tensor_type);
    if (!object) throw ErrorSet{};
  }
  object->dict = object->weak = object->shape = nullptr;
  adopt(object, std::move(t));
  return reinterpret_cast<PyObject*>(object);
}

PyObject* wrap_as(Tensor t, PyTypeObject* type) {
  FL_ASSERT(!t->py);
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = checked(allocate(type, 0));
  adopt(as_py(object), std::move(t));
  note_class(object);
  note_override(object);
  return object;
}

Tensor take_tensor(PyObject* o) {
  TensorImpl* impl = as_py(o)->tensor.release();
  impl->py = nullptr;
  return Tensor(impl);
}

PyObject* wrap_list(const std::vector<Tensor>& list, bool tuple) {
  Py_ssize_t size = Py_ssize_t(list.size());
  Ref result = own(tuple ? PyTuple_New(size) : PyList_New(size));
  for (Py_ssize_t i = 0; i < size; i++) {
    if (tuple)
      PyTuple_SetItem(result.get(), i, wrap(list[i]));
    else
      PyList_SetItem(result.get(), i, wrap(list[i]));
  }
  return result.release();
}

void tensor_dealloc(PyObject* self) {
  auto* object = as_py(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (TensorImpl* impl = object->tensor.impl()) {
    if (impl->refs.load(std::memory_order_acquire) > 1 && has_identity(self)) {
      // C++ keeps the object: attributes, class and weak references survive. The count is raised
      // with Py_INCREF, since later versions keep flags in the same word.
      Py_INCREF(self);
      impl->py_owned = 1;
      if (object->dict || type != tensor_type) PyObject_GC_Track(self);
      impl->decref();  // may free at once if C++ let go meanwhile
      return;
    }
    impl->py = nullptr;
    Tensor dropped(object->tensor.release());
  }
  if (object->weak) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->dict);
  Py_CLEAR(object->shape);
  if (FL_LIKELY(type == tensor_type && cached < kCached)) {
    cache[cached++] = object;
    return;
  }
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(self);
  Py_DECREF(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* object = as_py(self);
  Py_VISIT(Py_TYPE(self));
  // While C++ can still reach the object, what it holds is live.
  TensorImpl* impl = object->tensor.impl();
  if (impl && impl->refs.load() > (impl->py_owned ? 0 : 1)) return 0;
  Py_VISIT(object->dict);
  return impl && !impl->py_owned ? visit_tape(impl, visit, arg) : 0;
}

int tensor_clear(PyObject* self) {
  Py_CLEAR(as_py(self)->dict);
  return 0;
}

// Plain tensors are not tracked by the collector until they get a dict.
int tensor_setattro(PyObject* self, PyObject* name, PyObject* value) {
  int status = PyObject_GenericSetAttr(self, name, value);
  if (as_py(self)->dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return status;
}

PyObject* tensor_get_dict(PyObject* self, void*) {
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return dict;
}

int tensor_set_dict(PyObject* self, PyObject* value, void*) {
  int status = PyObject_GenericSetDict(self, value, nullptr);
  if (as_py(self)->dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return status;
}

// The last C++ reference went away while C++ owned the object.
bool drop_python_object(TensorImpl* impl) {
  if (!Py_IsInitialized()) return false;
  PyGILState_STATE gil = PyGILState_Ensure();
  auto* object = static_cast<PyTensor*>(impl->py);
  impl->py = nullptr;
  impl->py_owned = 0;
  object->tensor.release();
  Py_DECREF(reinterpret_cast<PyObject*>(object));
  PyGILState_Release(gil);
  return false;  // the impl itself is C++'s to free
}

}  // namespace flambeau::python
