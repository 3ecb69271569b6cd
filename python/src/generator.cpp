// torch.Generator: a source of random numbers with a state that can be saved.
#include "python/src/generator.h"

#include <memory>

#include "flambeau/core/generator.h"
#include "python/src/arguments.h"
#include "python/src/dtypes.h"
#include "python/src/module.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

struct PyGenerator {
  PyObject_HEAD Generator* generator;
  bool owned;
};
PyTypeObject* generator_type;
PyObject* default_object;

Generator& generator_of(PyObject* o) { return *reinterpret_cast<PyGenerator*>(o)->generator; }

PyObject* make(PyTypeObject* type, Generator* generator, bool owned) {
  auto* object = PyObject_New(PyGenerator, type);
  if (!object) throw ErrorSet{};
  object->generator = generator;
  object->owned = owned;
  return reinterpret_cast<PyObject*>(object);
}

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* names[] = {"device", nullptr};
    PyObject* place = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names),
                                     &place))
      throw ErrorSet{};
    Device device;
    FL_CHECK(!given(place) || as_device(place, device), TypeError,
             "Generator: device must be device, got {}", type_name(place));
    FL_CHECK(device.type == DeviceType::CPU || device.type == DeviceType::Fake, RuntimeError,
             "Generator: none for the device {}", device);
    return make(type, new Generator(Generator::kDefaultSeed, device), true);
  });
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* object = reinterpret_cast<PyGenerator*>(self);
  if (object->owned) delete object->generator;
  PyObject_Free(self);
  Py_DECREF(type);
}

// Any 64 bits: negative seeds count from the top.
uint64_t seed_of(PyObject* o) {
  Ref number = own(PyNumber_Long(o));
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  if (!overflow) return uint64_t(v);
  unsigned long long u = overflow > 0 ? PyLong_AsUnsignedLongLong(number.get()) : ~0ull;
  bool failed = overflow < 0 || PyErr_Occurred();
  PyErr_Clear();
  FL_CHECK(!failed, ValueError, "manual_seed: the seed must fit into 64 bits, got {}",
           repr_text(number.get()));
  return u;
}

PyObject* manual_seed(PyObject* self, PyObject* seed) {
  return guarded([&] {
    Generator& g = generator_of(self);
    g.manual_seed(seed_of(seed));
    return Py_NewRef(self);
  });
}
PyObject* new_seed(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(generator_of(self).seed()); });
}
PyObject* initial_seed(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(generator_of(self).initial_seed());
}

PyObject* get_state(PyObject* self, PyObject*) {
  return guarded([&] {
    std::vector<uint8_t> state = generator_of(self).get_state();
    Tensor t = new_tensor({int64_t(state.size())}, DType::UInt8);
    std::memcpy(t->data, state.data(), state.size());
    return wrap(std::move(t));
  });
}
void set_state_of(Generator& g, PyObject* state) {
  FL_CHECK(is_tensor(state) && tensor_of(state).dtype() == DType::UInt8, TypeError,
           "set_state: the state must be a uint8 Tensor, got {}", type_name(state));
  const Tensor& t = tensor_of(state);
  FL_CHECK(t.is_contiguous() && t.device().type == DeviceType::CPU, TypeError,
           "set_state: the state must be contiguous and on the CPU");
  g.set_state({reinterpret_cast<const uint8_t*>(t->data), size_t(t.numel())});
}
PyObject* set_state(PyObject* self, PyObject* state) {
  return guarded([&] {
    set_state_of(generator_of(self), state);
    return Py_NewRef(self);
  });
}
PyObject* clone_state(PyObject* self, PyObject*) {
  return guarded([&] { return make(Py_TYPE(self), new Generator(generator_of(self)), true); });
}

PyObject* device(PyObject* self, void*) {
  return guarded([&] { return to_python(generator_of(self).device()); });
}

// Pickles as Generator(device) with the seed and the state.
PyObject* rebuild(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* state;
    if (!PyArg_ParseTuple(args, "O", &state)) throw ErrorSet{};
    auto fresh = std::make_unique<Generator>();
    set_state_of(*fresh, state);
    return make(generator_type, fresh.release(), true);
  });
}
PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    Ref function = import_from("flambeau._C", "_rebuild_generator");
    Ref state = own(get_state(self, nullptr));
    return Py_BuildValue("O(O)", function.get(), state.get());
  });
}

PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O, "Starts the numbers anew from a seed; returns self."},
    {"seed", new_seed, METH_NOARGS, "Starts anew from a seed of the system's; returns it."},
    {"initial_seed", initial_seed, METH_NOARGS, "The seed that was set last."},
    {"get_state", get_state, METH_NOARGS, "The state as a tensor of bytes."},
    {"set_state", set_state, METH_O, "Goes on from a state that get_state gave."},
    {"clone_state", clone_state, METH_NOARGS, "A generator of its own in the same state."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {}};
PyGetSetDef getset[] = {{"device", device, nullptr, nullptr, nullptr}, {}};
PyType_Slot slots[] = {
    {Py_tp_new, slot(construct)},
    {Py_tp_dealloc, slot(dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_doc, const_cast<char*>("Generator(device='cpu')\n--\n\nA source of random numbers.")},
    {0, nullptr}};
PyType_Spec spec = {"flambeau._C.Generator", sizeof(PyGenerator), 0, Py_TPFLAGS_DEFAULT, slots};

PyMethodDef functions[] = {{"_rebuild_generator", rebuild, METH_VARARGS, nullptr}, {}};

}  // namespace

PyObject* to_python(Generator* generator) {
  if (generator == &default_generator()) return Py_NewRef(default_object);
  return make(generator_type, generator, false);
}

bool as_generator(PyObject* o, Generator*& out) {
  if (!PyType_IsSubtype(Py_TYPE(o), generator_type)) return false;
  out = &generator_of(o);
  return true;
}

void init_generator(PyObject* module) {
  generator_type = make_type(spec);
  add(module, "Generator", Py_NewRef(reinterpret_cast<PyObject*>(generator_type)));
  default_object = make(generator_type, &default_generator(), false);
  add(module, "default_generator", Py_NewRef(default_object));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
