// torch.UntypedStorage: bytes behind tensors, one Python object per storage. The typed view of it
// is Python (flambeau/storage.py).
#include "python/src/storage.h"

#include "flambeau/core/allocator.h"
#include "flambeau/serialize/crc32.h"
#include "python/src/arguments.h"
#include "python/src/dtypes.h"
#include "python/src/module.h"
#include "python/src/tensor_methods.h"
#include "python/src/wrap.h"

namespace flambeau::python {

PyTypeObject* storage_type;

namespace {

struct PyStorage {
  PyObject_HEAD PyObject* dict;
  PyObject* weak;
  Storage* storage;  // one reference
};
PyStorage* as_py_storage(PyObject* o) { return reinterpret_cast<PyStorage*>(o); }

PyObject* make(PyTypeObject* type, Storage* steal) {
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* object = checked(allocate(type, 0));
  as_py_storage(object)->storage = steal;
  steal->py = object;
  return object;
}

void dealloc(PyObject* self) {
  auto* object = as_py_storage(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (object->weak) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->dict);
  if (object->storage) {
    object->storage->py = nullptr;
    object->storage->decref();
  }
  auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(self);
  Py_DECREF(type);
}
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_py_storage(self)->dict);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(as_py_storage(self)->dict);
  return 0;
}

// UntypedStorage(), UntypedStorage(bytes), UntypedStorage([1, 2, 3])
PyObject* construct(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"size", "device", nullptr};
    PyObject *size = nullptr, *place = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", const_cast<char**>(names), &size, &place))
      throw ErrorSet{};
    Device device = default_device();
    FL_CHECK(!given(place) || as_device(place, device), TypeError,
             "UntypedStorage: device must be device, got {}", type_name(place));
    if (!size) return make(type, new_storage(0, device));
    if (PyLong_Check(size)) {
      int64_t bytes = int_argument("UntypedStorage", "size", size, 0);
      FL_CHECK(bytes >= 0, RuntimeError, "UntypedStorage: size must not be negative, got {}",
               bytes);
      return make(type, new_storage(size_t(bytes), device));
    }
    FL_CHECK(PySequence_Check(size), TypeError,
             "UntypedStorage: needs a size or a sequence of bytes, got {}", type_name(size));
    Ref bytes = own(PyBytes_FromObject(size));
    StoragePtr storage(new_storage(size_t(PyBytes_Size(bytes.get())), Device{}));
    if (storage->bytes) std::memcpy(storage->data, PyBytes_AsString(bytes.get()), storage->bytes);
    return make(type, storage.release());
  });
}

Storage& host(PyObject* self, const char* what) {
  Storage* s = storage_of(self);
  FL_CHECK(s->device.type == DeviceType::CPU, NotImplementedError, "{}: not on the device {}", what,
           s->device);
  return *s;
}

PyObject* nbytes(PyObject* self, PyObject*) { return PyLong_FromSize_t(storage_of(self)->bytes); }
Py_ssize_t length(PyObject* self) { return Py_ssize_t(storage_of(self)->bytes); }
PyObject* data_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(storage_of(self)->data); }
PyObject* element_size(PyObject*, PyObject*) { return PyLong_FromLong(1); }
PyObject* resizable(PyObject* self, PyObject*) { return to_bool(storage_of(self)->resizable); }
PyObject* device(PyObject* self, void*) {
  return guarded([&] { return to_python(storage_of(self)->device); });
}
PyObject* is_cuda(PyObject* self, void*) {
  return to_bool(storage_of(self)->device.type == DeviceType::CUDA);
}

PyObject* item(PyObject* self, Py_ssize_t i) {
  return guarded([&] {
    Storage& s = host(self, "storage");
    FL_CHECK(i >= 0 && size_t(i) < s.bytes, IndexError, "storage: index must be in [0, {}), got {}",
             s.bytes, int64_t(i));
    return PyLong_FromLong(uint8_t(s.data[i]));
  });
}
PyObject* slice_of(PyTypeObject* type, Storage& s, PyObject* key) {
  Py_ssize_t start, stop, step;
  checked(PySlice_Unpack(key, &start, &stop, &step));
  Py_ssize_t count = PySlice_AdjustIndices(Py_ssize_t(s.bytes), &start, &stop, step);
  FL_CHECK(step == 1, RuntimeError, "storage: slices must have step 1, got {}", int64_t(step));
  StoragePtr owner = StoragePtr::borrow(&s);
  Storage* view = wrap_storage(
      s.data + start, size_t(std::max<Py_ssize_t>(count, 0)), s.device,
      [](void* p) { static_cast<Storage*>(p)->decref(); }, owner.release());
  return make(type, view);
}
PyObject* subscript(PyObject* self, PyObject* key) {
  return guarded([&] {
    if (PySlice_Check(key)) return slice_of(Py_TYPE(self), host(self, "storage"), key);
    Py_ssize_t i = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred()) throw ErrorSet{};
    return checked(item(self, i < 0 ? i + length(self) : i));
  });
}
int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    Storage& s = host(self, "storage");
    FL_CHECK(value, TypeError, "storage: elements cannot be deleted");
    Py_ssize_t start = 0, stop = 0, step = 1;
    if (PySlice_Check(key)) {
      checked(PySlice_Unpack(key, &start, &stop, &step));
      PySlice_AdjustIndices(Py_ssize_t(s.bytes), &start, &stop, step);
    } else {
      start = PyNumber_AsSsize_t(key, PyExc_IndexError);
      if (start == -1 && PyErr_Occurred()) throw ErrorSet{};
      if (start < 0) start += Py_ssize_t(s.bytes);
      stop = start + 1;
    }
    FL_CHECK(start >= 0 && stop <= Py_ssize_t(s.bytes), IndexError,
             "storage: index must be in [0, {}), got {}", s.bytes, int64_t(start));
    char byte = char(PyLong_AsLong(value));
    if (PyErr_Occurred()) throw ErrorSet{};
    for (Py_ssize_t i = start; i < stop; i += step) s.data[i] = byte;
    return 0;
  });
}

PyObject* tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    Storage& s = host(self, "tolist");
    Ref list = own(PyList_New(Py_ssize_t(s.bytes)));
    for (size_t i = 0; i < s.bytes; i++)
      PyList_SetItem(list.get(), Py_ssize_t(i), PyLong_FromLong(uint8_t(s.data[i])));
    return list.release();
  });
}
PyObject* resize(PyObject* self, PyObject* size) {
  return guarded([&] {
    Storage* storage = storage_of(self);
    FL_CHECK(storage->refs.load() == 1, RuntimeError,
             "resize_: tensors use this storage of {} bytes; resize them instead", storage->bytes);
    resize_storage(*storage, size_t(int_argument("resize_", "size", size, 0)));
    return Py_NewRef(self);
  });
}
PyObject* fill(PyObject* self, PyObject* value) {
  return guarded([&] {
    Storage& s = host(self, "fill_");
    long byte = PyLong_AsLong(value);
    if (byte == -1 && PyErr_Occurred()) throw ErrorSet{};
    if (s.bytes) std::memset(s.data, int(byte), s.bytes);
    return Py_NewRef(self);
  });
}
PyObject* copy_from(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [source, ignored] =
        parse_arguments("copy_", {"source", "non_blocking"}, args, nargs, kwnames);
    (void)ignored;
    FL_CHECK(source && is_storage(source), TypeError, "copy_: source must be UntypedStorage");
    Storage &to = host(self, "copy_"), &from = host(source, "copy_");
    FL_CHECK(to.bytes == from.bytes, RuntimeError, "copy_: sizes must match, got {} and {} bytes",
             to.bytes, from.bytes);
    if (to.bytes) std::memmove(to.data, from.data, to.bytes);
    return Py_NewRef(self);
  });
}
PyObject* cloned(PyObject* self, PyObject*) {
  return guarded([&] {
    Storage& s = host(self, "clone");
    Storage* copy = new_storage(s.bytes, s.device);
    if (s.bytes) std::memcpy(copy->data, s.data, s.bytes);
    return make(Py_TYPE(self), copy);
  });
}

// The bytes of a storage, for serialisation: shared, not copied.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  Storage* s = storage_of(self);
  static char nowhere;
  if (s->device.type != DeviceType::CPU) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "buffer: the storage is not on the CPU");
    return -1;
  }
  return PyBuffer_FillInfo(view, self, s->data ? s->data : &nowhere, Py_ssize_t(s->bytes), 0,
                           flags);
}

PyObject* identity(PyObject* self, void*) { return PyLong_FromVoidPtr(storage_of(self)); }

PyMethodDef methods[] = {{"nbytes", nbytes, METH_NOARGS, "Bytes of memory."},
                         {"size", nbytes, METH_NOARGS, "Bytes of memory."},
                         {"data_ptr", data_ptr, METH_NOARGS, "Address of the memory."},
                         {"element_size", element_size, METH_NOARGS, nullptr},
                         {"resizable", resizable, METH_NOARGS, nullptr},
                         {"tolist", tolist, METH_NOARGS, "The bytes as a list."},
                         {"resize_", resize, METH_O, "Grows or shrinks the memory in place."},
                         {"fill_", fill, METH_O, nullptr},
                         {"copy_", as_function(copy_from), kFast, nullptr},
                         {"clone", cloned, METH_NOARGS, nullptr},
                         {}};
PyGetSetDef getset[] = {{"device", device, nullptr, nullptr, nullptr},
                        {"is_cuda", is_cuda, nullptr, nullptr, nullptr},
                        {"_cdata", identity, nullptr, "Equal for equal memory.", nullptr},
                        {}};
PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(PyStorage, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyStorage, weak), READONLY, nullptr},
    {}};
PyType_Slot slots[] = {{Py_tp_new, slot(construct)},
                       {Py_tp_dealloc, slot(dealloc)},
                       {Py_tp_traverse, slot(traverse)},
                       {Py_tp_clear, slot(clear)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {Py_tp_members, members},
                       {Py_mp_length, slot(length)},
                       {Py_sq_item, slot(item)},
                       {Py_mp_subscript, slot(subscript)},
                       {Py_mp_ass_subscript, slot(set_item)},
                       {Py_bf_getbuffer, slot(get_buffer)},
                       {0, nullptr}};
PyType_Spec spec = {"flambeau._C.StorageBase", sizeof(PyStorage), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

// What storages of tensors are wrapped in: flambeau.storage.UntypedStorage once it exists.
PyTypeObject* wrapper_type;
PyObject* set_wrapper(PyObject*, PyObject* type) {
  wrapper_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  return Py_NewRef(Py_None);
}

PyObject* untyped_storage(PyObject* self, PyObject*) {
  return guarded([&] {
    check_elements("untyped_storage", tensor_of(self));
    return wrap_storage_object(tensor_of(self)->storage);
  });
}

// _tensor_on(storage, dtype, offset, size, stride): a tensor on a storage's memory.
PyObject* tensor_on(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *object, *type, *size, *stride;
    long long offset;
    if (!PyArg_ParseTuple(args, "OOLO!O!", &object, &type, &offset, &PyTuple_Type, &size,
                          &PyTuple_Type, &stride))
      throw ErrorSet{};
    DType dtype;
    FL_CHECK(is_storage(object) && as_dtype(type, dtype), TypeError,
             "_tensor_on: needs a storage and a dtype");
    Ints sizes, strides;
    int64_t last = 0;
    for (Py_ssize_t d = 0, n = PyTuple_Size(size); d < n; d++) {
      sizes.push_back(PyLong_AsLongLong(PyTuple_GetItem(size, d)));
      strides.push_back(PyLong_AsLongLong(PyTuple_GetItem(stride, d)));
      last += (sizes.back() - 1) * strides.back();
    }
    if (PyErr_Occurred()) throw ErrorSet{};
    Storage* s = storage_of(object);
    int64_t need = numel_of(sizes) ? (offset + last + 1) * itemsize(dtype) : 0;
    FL_CHECK(offset >= 0 && need <= int64_t(s->bytes), RuntimeError,
             "storage: sizes {} with strides {} at offset {} need {} bytes, the storage has {}",
             sizes, strides, int64_t(offset), need, s->bytes);
    return wrap(from_storage(StoragePtr::borrow(s), sizes, strides, offset, dtype));
  });
}

// _crc32(buffer): the checksum of zip files.
PyObject* crc32(PyObject*, PyObject* object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) return nullptr;
  uint32_t crc;
  Py_BEGIN_ALLOW_THREADS;
  crc = serialize::crc32(0, view.buf, size_t(view.len));
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&view);
  return PyLong_FromUnsignedLong(crc);
}

PyMethodDef functions[] = {{"_crc32", crc32, METH_O, "The checksum of zip files."},
                           {"_tensor_on", tensor_on, METH_VARARGS, nullptr},
                           {"_set_storage_type", set_wrapper, METH_O, nullptr},
                           {}};

}  // namespace

bool is_storage(PyObject* o) { return PyType_IsSubtype(Py_TYPE(o), storage_type); }
Storage* storage_of(PyObject* o) { return as_py_storage(o)->storage; }

PyObject* wrap_storage_object(Storage* storage) {
  if (storage->py) return Py_NewRef(static_cast<PyObject*>(storage->py));
  storage->incref();
  return make(wrapper_type ? wrapper_type : storage_type, storage);
}

void append_storage_methods(Methods& table) {
  table.push_back(
      {"untyped_storage", untyped_storage, METH_NOARGS, "The memory behind the tensor."});
}

void init_storage(PyObject* module) {
  storage_type = make_type(spec);
  add(module, "StorageBase", Py_NewRef(reinterpret_cast<PyObject*>(storage_type)));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
