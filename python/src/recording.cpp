// flambeau._record: a recording is a capsule; sizes that carry symbols are Python's business
// (flambeau/_recording.py).
#include "python/src/recording.h"

#include "flambeau/jit/recorder.h"
#include "python/src/dispatch.h"
#include "python/src/module.h"
#include "python/src/size.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

struct Active {
  jit::Recorder recorder;
  LevelScope scope{recorder};
  Restore<uint8_t> mode{tls.mode, uint8_t(tls.mode | kModeRecord)};
  PyObject* shape_of;  // (tensor, sizes) -> Size
};
thread_local Active* active;

constexpr const char* kGraph = "flambeau.graph";

std::vector<Tensor> tensors_from(PyObject* list) {
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0, n = PyList_Size(list); i < n; i++)
    tensors.push_back(expect_tensor(PyList_GetItem(list, i), "recording: an input"));
  return tensors;
}

Active& current() {
  FL_CHECK(active, RuntimeError, "recording: none is going on");
  return *active;
}

const jit::Graph& graph_of(PyObject* capsule) {
  void* graph = PyCapsule_GetPointer(capsule, kGraph);
  if (!graph) throw ErrorSet{};
  return *static_cast<const jit::Graph*>(graph);
}

// (inputs, shape_of): starts recording this thread.
PyObject* start(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *inputs, *shape_of;
    if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &inputs, &shape_of)) throw ErrorSet{};
    FL_CHECK(!active, RuntimeError, "recording: one is going on already");
    active = new Active{.recorder = jit::Recorder(tensors_from(inputs)),
                        .shape_of = Py_NewRef(shape_of)};
    return Py_NewRef(Py_None);
  });
}

void stop() {
  Py_CLEAR(active->shape_of);
  delete std::exchange(active, nullptr);
}

// (outputs or None, symbols): ends it; the graph, unless the code failed.
PyObject* finish(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *outputs, *symbols;
    if (!PyArg_ParseTuple(args, "OO!", &outputs, &PyList_Type, &symbols)) throw ErrorSet{};
    current();
    if (outputs == Py_None) {
      stop();
      return Py_NewRef(Py_None);
    }
    std::vector<jit::Id> sizes;
    for (Py_ssize_t i = 0; i < PyList_Size(symbols); i++)
      sizes.push_back(jit::Id(PyLong_AsLong(PyList_GetItem(symbols, i))));
    auto graph = std::make_unique<jit::Graph>(
        active->recorder.finish(tensors_from(outputs), std::move(sizes)));
    stop();
    return checked(PyCapsule_New(graph.release(), kGraph, [](PyObject* capsule) {
      delete static_cast<jit::Graph*>(PyCapsule_GetPointer(capsule, kGraph));
    }));
  });
}

PyObject* text(PyObject*, PyObject* capsule) {
  return guarded([&] { return to_str(graph_of(capsule).text()); });
}

// (graph, inputs): (tensors, sizes).
PyObject* replay(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject *capsule, *inputs;
    if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyList_Type, &inputs)) throw ErrorSet{};
    jit::Graph::Results results = graph_of(capsule).run(tensors_from(inputs));
    Ref tensors(wrap_list(results.tensors, false)), sizes(new_size(results.sizes));
    return checked(PyTuple_Pack(2, tensors.get(), sizes.get()));
  });
}

// (tensor, dim): the symbol of a size.
PyObject* size_symbol(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* tensor;
    long long dim;
    if (!PyArg_ParseTuple(args, "OL", &tensor, &dim)) throw ErrorSet{};
    const Tensor& t = expect_tensor(tensor, "recording: a size's tensor");
    return checked(PyLong_FromLong(current().recorder.size_symbol(t, dim)));
  });
}

// (kind, a, b): the symbol of a literal (kind 0) or of two symbols joined.
PyObject* add_symbol(PyObject*, PyObject* args) {
  return guarded([&] {
    int kind;
    long long a, b;
    if (!PyArg_ParseTuple(args, "iLL", &kind, &a, &b)) throw ErrorSet{};
    jit::Symbol symbol{jit::Symbol::Kind(kind), a, b};
    return checked(PyLong_FromLong(current().recorder.add_symbol(symbol)));
  });
}

// (kind, a, b, taken)
PyObject* add_guard(PyObject*, PyObject* args) {
  return guarded([&] {
    int kind, a, b, taken;
    if (!PyArg_ParseTuple(args, "iiip", &kind, &a, &b, &taken)) throw ErrorSet{};
    current().recorder.add_guard(jit::Guard::Kind(kind), a, b, taken);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {{"_record_start", start, METH_VARARGS, nullptr},
                           {"_record_finish", finish, METH_VARARGS, nullptr},
                           {"_record_text", text, METH_O, nullptr},
                           {"_record_replay", replay, METH_VARARGS, nullptr},
                           {"_record_size", size_symbol, METH_VARARGS, nullptr},
                           {"_record_symbol", add_symbol, METH_VARARGS, nullptr},
                           {"_record_guard", add_guard, METH_VARARGS, nullptr},
                           {}};

void note(int parameter, size_t element, PyObject* o, int passing) {
  if (PyLong_CheckExact(o) || !PyLong_Check(o) || PyBool_Check(o)) return;
  Ref symbol(PyObject_GetAttrString(o, "_symbol"));
  if (!symbol) return PyErr_Clear();
  active->recorder.note(parameter, element, jit::Id(PyLong_AsLong(symbol.get())), passing);
}

}  // namespace

PyObject* recorded_shape(PyObject* tensor) {
  Ref sizes(new_size(tensor_of(tensor).sizes()));
  return checked(PyObject_CallFunctionObjArgs(current().shape_of, tensor, sizes.get(), nullptr));
}

void refuse_while_recording(const char* what) {
  FL_CHECK(!is_recording(), NotImplementedError,
           "recording: {} takes values out of what is recorded; item() takes one and is recorded",
           what);
}

Scalar read_item(const Tensor& t) {
  static const Param self{"self", ArgKind::Tensor};
  using Read = Scalar (*)(const Tensor&);
  static const OpInfo op{
      .name = "item",
      .overload = "",
      .schema = "item(Tensor self) -> Scalar",
      .kind = OpKind::Other,
      .params = &self,
      .param_count = 1,
      .positional = 1,
      .result_names = "",
      .function = reinterpret_cast<void*>(Read([](const Tensor& t) { return t.item(); })),
      .call = AdapterOf<Read>::call,
      .out_function = nullptr,
      .call_out = nullptr,
      .out_count = 0,
      .inplace = false};
  Scalar answer;
  bool asked = tls.mode & kModeBelow || is_foreign(t);
  if (FL_UNLIKELY(asked) && ask_dispatch_item(t, answer)) return answer;
  if (!is_recording() || !active) return t.item();
  Value value;
  Boxed<const Tensor&>::set(value, t);
  Returns result;
  active->recorder.handle(op, &value, result);
  return result.scalar;
}

void note_sizes(int parameter, PyObject* o, int passing) {
  if (!active) return;
  bool tuple = PyTuple_Check(o);
  if (!tuple && !PyList_Check(o)) return note(parameter, 0, o, passing);
  for (Py_ssize_t i = 0, n = PySequence_Size(o); i < n; i++)
    note(parameter, size_t(i), tuple ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i), passing);
}

void init_recording(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
