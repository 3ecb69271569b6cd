// DLPack: tensors exchanged with other libraries without a copy. The structures are the standard's
// (dmlc/dlpack, version 1).
#include "python/src/arguments.h"
#include "python/src/module.h"
#include "python/src/tensor_methods.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;  // 1: read-only, 2: copied
  DLTensor tensor;
};
constexpr int32_t kCpu = 1;
enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

DLDataType type_of(DType t) {
  Code code = t == DType::BFloat16      ? kBfloat
              : t == DType::Bool        ? kBool
              : info(t).category == 'u' ? kUInt
              : info(t).category == 'i' ? kInt
              : info(t).category == 'c' ? kComplex
                                        : kFloat;
  return {code, uint8_t(8 * itemsize(t)), 1};
}

DType dtype_of(DLDataType type) {
  for (int i = 0; i < kDTypes; i++) {
    DLDataType known = type_of(DType(i));
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return DType(i);
  }
  fail<TypeError>("from_dlpack: elements of code {} with {} bits are not supported", type.code,
                  type.bits);
}

// What a capsule owns: the tensor, and copies of its sizes and strides.
template <class Managed>
struct Export {
  Managed managed;
  Tensor tensor;
  Ints sizes, strides;
};
// Called by whoever took the capsule, on any thread.
template <class Managed>
void drop_export(Managed* managed) {
  bool python = Py_IsInitialized();
  PyGILState_STATE gil{};
  if (python) gil = PyGILState_Ensure();
  delete static_cast<Export<Managed>*>(managed->context);
  if (python) PyGILState_Release(gil);
}

template <class Managed>
Managed* make_export(const Tensor& t) {
  FL_CHECK(!(t->flags & kBatched), RuntimeError,
           "tensor: inside vmap one has no memory to export, each example has its own values");
  check_elements("dlpack", t);
  auto* e = new Export<Managed>{{}, t, t.sizes(), t.strides()};
  e->managed.context = e;
  e->managed.deleter = drop_export<Managed>;
  e->managed.tensor = {
      t->data,           {kCpu, 0}, int32_t(t.ndim()), type_of(t.dtype()), e->sizes.data(),
      e->strides.data(), 0};
  return &e->managed;
}

// A capsule that nobody has taken still owns its tensor.
template <class Managed>
void drop_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter) managed->deleter(managed);
}
constexpr const char *kName = "dltensor", *kVersionedName = "dltensor_versioned";
void drop_plain(PyObject* c) { drop_capsule<DLManagedTensor>(c, kName); }
void drop_versioned(PyObject* c) { drop_capsule<DLManagedTensorVersioned>(c, kVersionedName); }

PyObject* to_capsule(const Tensor& t, bool versioned, bool copied) {
  FL_CHECK(!t.requires_grad(), RuntimeError,
           "__dlpack__: the tensor requires grad; export x.detach()");
  FL_CHECK(t.device().type == DeviceType::CPU, RuntimeError,
           "__dlpack__: the tensor must be on the CPU, got {}", t.device());
  if (!versioned) return checked(PyCapsule_New(make_export<DLManagedTensor>(t), kName, drop_plain));
  auto* managed = make_export<DLManagedTensorVersioned>(t);
  managed->major = 1;
  managed->flags = copied ? 2 : 0;
  return checked(PyCapsule_New(managed, kVersionedName, drop_versioned));
}

// __dlpack__(*, stream=-1, max_version=None, dl_device=None, copy=None)
PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    auto [stream, version, device, copy] = parse_arguments(
        "__dlpack__", {"stream", "max_version", "dl_device", "copy"}, args, nargs, kwnames);
    (void)stream;
    if (given(device)) {
      PyObject* type = PyTuple_Check(device) ? PyTuple_GetItem(device, 0) : nullptr;
      FL_CHECK(type && PyLong_AsLong(type) == kCpu, RuntimeError,
               "__dlpack__: the tensor is on the CPU, asked for device {}", repr_text(device));
    }
    bool versioned =
        given(version) && PyTuple_Check(version) && PyLong_AsLong(PyTuple_GetItem(version, 0)) >= 1;
    if (copy != Py_True) return to_capsule(tensor_of(self), versioned, false);
    Ref fresh = own(PyObject_CallMethod(self, "clone", nullptr));
    return to_capsule(tensor_of(fresh.get()), versioned, true);
  });
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    FL_CHECK(t.device().type == DeviceType::CPU, RuntimeError,
             "__dlpack_device__: only the CPU can be shared, got {}", t.device());
    return Py_BuildValue("(ii)", kCpu, 0);
  });
}

template <class Managed>
Tensor take(PyObject* capsule, const char* name, const char* used) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (!managed) throw ErrorSet{};
  const DLTensor& from = managed->tensor;
  FL_CHECK(from.device.type == kCpu, RuntimeError,
           "from_dlpack: only memory of the CPU can be shared, got device type {}",
           from.device.type);
  DType dtype = dtype_of(from.dtype);
  Ints sizes(IntList(from.shape, size_t(from.ndim)));
  Ints strides =
      from.strides ? Ints(IntList(from.strides, size_t(from.ndim))) : contiguous_strides(sizes);
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); d++) {
    FL_CHECK(strides[d] >= 0, RuntimeError, "from_dlpack: strides must not be negative, got {}",
             strides);
    last += (sizes[d] - 1) * strides[d];
  }
  size_t bytes = numel_of(sizes) ? size_t(last + 1) * size_t(itemsize(dtype)) : 0;
  checked(PyCapsule_SetName(capsule, used));
  auto drop = [](void* context) {
    auto* m = static_cast<Managed*>(context);
    if (m->deleter) m->deleter(m);
  };
  char* data = static_cast<char*>(from.data) + from.byte_offset;
  StoragePtr storage(wrap_storage(data, bytes, Device{}, drop, managed));
  return from_storage(std::move(storage), sizes, strides, 0, dtype);
}

Ref capsule_of(PyObject* source) {
  if (PyCapsule_CheckExact(source)) return Ref::borrow(source);
  FL_CHECK(PyObject_HasAttrString(source, "__dlpack__"), RuntimeError,
           "from_dlpack: {} has no __dlpack__", type_name(source));
  Ref method = own(PyObject_GetAttrString(source, "__dlpack__"));
  Ref none = own(PyTuple_New(0));
  Ref version = own(Py_BuildValue("{s:(ii)}", "max_version", 1, 0));
  if (PyObject* capsule = PyObject_Call(method.get(), none.get(), version.get()))
    return Ref(capsule);
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw ErrorSet{};
  PyErr_Clear();  // an older exporter knows no versions
  return own(PyObject_Call(method.get(), none.get(), nullptr));
}

// from_dlpack(ext_tensor, *, device=None, copy=None)
PyObject* from_dlpack(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    auto [source, device, copy] =
        parse_arguments("from_dlpack", {"ext_tensor", "device", "copy"}, args, nargs, kwnames, 1);
    FL_CHECK(source, TypeError, "from_dlpack: argument 'ext_tensor' is missing");
    Ref capsule = capsule_of(source);
    bool versioned = PyCapsule_IsValid(capsule.get(), kVersionedName);
    Tensor t = versioned ? take<DLManagedTensorVersioned>(capsule.get(), kVersionedName,
                                                          "used_dltensor_versioned")
                         : take<DLManagedTensor>(capsule.get(), kName, "used_dltensor");
    Ref result(wrap(std::move(t)));
    if (given(device)) result = own(PyObject_CallMethod(result.get(), "to", "O", device));
    if (copy == Py_True) result = own(PyObject_CallMethod(result.get(), "clone", nullptr));
    return result.release();
  });
}

PyObject* to_dlpack(PyObject*, PyObject* o) {
  return guarded([&] { return to_capsule(expect_tensor(o, "to_dlpack: tensor"), false, false); });
}

PyMethodDef functions[] = {{"from_dlpack", as_function(from_dlpack), kFast,
                            "from_dlpack(ext_tensor, *, device=None, copy=None)\n--\n\nA tensor on "
                            "another library's memory."},
                           {"_to_dlpack", to_dlpack, METH_O, nullptr},
                           {}};

}  // namespace

void append_dlpack(Methods& table) {
  table.push_back({"__dlpack__", as_function(dlpack), kFast, nullptr});
  table.push_back({"__dlpack_device__", dlpack_device, METH_NOARGS, nullptr});
}

void init_dlpack(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
