// What the allocators report, and how they are asked to give memory back.
#include "flambeau/core/allocator.h"
#include "python/src/dtypes.h"
#include "python/src/module.h"

namespace flambeau::python {
namespace {

Allocator& allocator_of(PyObject* o) {
  Device device;
  FL_CHECK(as_device(o, device), TypeError, "memory: device must be device, got {}", type_name(o));
  return allocator(device.type);
}

// _memory_stats(device): a dict of bytes and counts.
PyObject* stats(PyObject*, PyObject* device) {
  return guarded([&] {
    MemoryStats s = allocator_of(device).stats();
    const std::pair<const char*, int64_t> entries[] = {
        {"live_bytes", s.live_bytes},       {"peak_bytes", s.peak_bytes},
        {"cached_bytes", s.cached_bytes},   {"small_bytes", s.small_bytes},
        {"limit_bytes", s.limit_bytes},     {"live_blocks", s.live_blocks},
        {"cached_blocks", s.cached_blocks}, {"largest_cached", s.largest_cached},
        {"allocations", s.allocations}};
    Ref dict = own(PyDict_New());
    for (auto [name, value] : entries) {
      Ref number = own(PyLong_FromLongLong(value));
      checked(PyDict_SetItemString(dict.get(), name, number.get()));
    }
    return dict.release();
  });
}
PyObject* reset_peak(PyObject*, PyObject* device) {
  return guarded([&] {
    allocator_of(device).reset_peak();
    return Py_NewRef(Py_None);
  });
}
PyObject* empty_cache(PyObject*, PyObject* device) {
  return guarded([&] {
    allocator_of(device).empty_cache();
    return Py_NewRef(Py_None);
  });
}
PyObject* set_fake_limit(PyObject*, PyObject* bytes) {
  return guarded([&] {
    size_t limit = PyLong_AsSize_t(bytes);
    if (PyErr_Occurred()) throw ErrorSet{};
    set_fake_memory_limit(limit);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {{"_memory_stats", stats, METH_O, nullptr},
                           {"_reset_peak_memory", reset_peak, METH_O, nullptr},
                           {"_empty_cache", empty_cache, METH_O, nullptr},
                           {"_set_fake_memory_limit", set_fake_limit, METH_O, nullptr},
                           {}};

}  // namespace

void init_memory(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
