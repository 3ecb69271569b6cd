// The source line of every tape node: a code object and an instruction offset, read straight from
// the interpreter's frame, resolved to text only when something fails.
#include <mutex>

#include "flambeau/tape/node.h"
#include "python/src/module.h"

// Exported by every CPython, though not part of the limited API.
extern "C" int PyGILState_Check(void) __attribute__((weak));

namespace flambeau::python {
namespace {

// Where a version keeps the running frame: offsets of the frame in the thread state (through an
// intermediate struct where `cframe` is not -1), of code and instruction in the frame, and of the
// bytecode in the code object.
struct Layout {
  int version;
  long state, cframe, code, instruction, bytecode;
};
constexpr Layout kLayouts[] = {
    {0x030b, 56, 8, 32, 56, 184}, {0x030c, 56, 0, 0, 56, 192}, {0x030d, 72, -1, 0, 56, 200}};
const Layout* layout;
PyTypeObject* code_type;
PyThreadState* importer;  // of the thread that counts alone, until the interpreter ends

char* at(const void* place, long offset) {
  return *reinterpret_cast<char* const*>(static_cast<const char*>(place) + offset);
}

// Borrowed code object, null where no Python code is running.
inline bool read_frame(PyObject*& code, int32_t& offset) {
  PyThreadState* state = tls.counts_alone ? importer : PyGILState_GetThisThreadState();
  if (!state) return false;
  char* frame = at(state, layout->state);
  if (frame && layout->cframe >= 0) frame = at(frame, layout->cframe);
  if (!frame) return false;
  char* object = at(frame, layout->code);
  // Frames of other languages and of the interpreter itself have no code object here.
  if (!object || Py_TYPE(reinterpret_cast<PyObject*>(object)) != code_type) return false;
  code = reinterpret_cast<PyObject*>(object);
  offset = int32_t(at(frame, layout->instruction) - (object + layout->bytecode));
  return true;
}

// A graph of a backward names the forward lines: its nodes take them from the node that is running.
bool inherit(Location& where) {
  auto* node = static_cast<Node*>(tls.engine);
  if (FL_LIKELY(!node) || !node->location.code) return false;
  where = node->location;
  Py_INCREF(static_cast<PyObject*>(where.code));
  return true;
}

void locate_fast(Location& where) {
  if (inherit(where)) return;
  PyObject* code;
  if (!read_frame(code, where.offset)) return;
  Py_INCREF(code);
  where.code = code;
}

// Any version: asks for the frame object, which costs tens of nanoseconds.
void locate_slow(Location& where) {
  if (inherit(where)) return;
  if (!PyGILState_GetThisThreadState()) return;
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return;
  Ref last(PyObject_GetAttrString(reinterpret_cast<PyObject*>(frame), "f_lasti"));
  if (!last) return PyErr_Clear();
  where.offset = int32_t(PyLong_AsLong(last.get()));
  where.code = PyFrame_GetCode(frame);
}

// Nodes die on any thread, with or without the GIL. Without it the reference waits in a list.
std::mutex waiting_mutex;
std::vector<PyObject*> waiting;
std::atomic<bool> any_waiting;

void drop(Location& where) {
  auto* code = static_cast<PyObject*>(std::exchange(where.code, nullptr));
  if (!code || !importer) return;
  bool held = tls.counts_alone || (PyGILState_Check && PyGILState_Check());
  if (FL_LIKELY(held)) {
    Py_DECREF(code);
    if (FL_LIKELY(!any_waiting.load(std::memory_order_relaxed))) return;
    std::vector<PyObject*> list;
    {
      std::lock_guard lock(waiting_mutex);
      list.swap(waiting);
      any_waiting = false;
    }
    for (PyObject* other : list) Py_DECREF(other);
    return;
  }
  std::lock_guard lock(waiting_mutex);
  waiting.push_back(code);
  any_waiting = true;
}

int line_of(PyObject* code, int32_t offset) {
  Ref positions = own(PyObject_CallMethod(code, "co_positions", nullptr));
  for (int32_t i = 0; i < offset / 2; i++) {
    Ref skipped(PyIter_Next(positions.get()));
    if (!skipped) return -1;
  }
  Ref position(PyIter_Next(positions.get()));
  if (!position) return -1;
  PyObject* line = PyTuple_GetItem(position.get(), 0);
  return line && PyLong_Check(line) ? int(PyLong_AsLong(line)) : -1;
}

std::string attribute(PyObject* o, const char* name) {
  Ref value = own(PyObject_GetAttrString(o, name));
  return std::string(text_of(value.get()));
}

// "train.py:12 in forward"
std::string describe(const Location& where) {
  if (!where.code || !importer) return {};
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  std::string text;
  try {
    auto* code = static_cast<PyObject*>(where.code);
    text = attribute(code, "co_filename") + ':' + std::to_string(line_of(code, where.offset));
    std::string function = attribute(code, "co_qualname");
    if (function != "<module>") text += " in " + function;
  } catch (const ErrorSet&) {
    PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
  return text;
}

// Does the table's layout give what the interpreter itself says of the running frame?
bool layout_holds() {
  Ref frame(PyObject_CallFunction(PySys_GetObject("_getframe"), nullptr));
  if (!frame) {
    PyErr_Clear();
    return false;
  }
  Ref code = own(PyObject_GetAttrString(frame.get(), "f_code"));
  Ref last = own(PyObject_GetAttrString(frame.get(), "f_lasti"));
  PyObject* found = nullptr;
  int32_t offset = -1;
  return read_frame(found, offset) && found == code.get() && offset == PyLong_AsLong(last.get());
}

// _here(): "file:line in function" of the caller, as a node would record it.
PyObject* here(PyObject*, PyObject*) {
  return guarded([] {
    Location where;
    location_hooks.locate(where);
    std::string text = describe(where);
    drop(where);
    return to_str(text);
  });
}
PyObject* reads_frames(PyObject*, PyObject*) { return to_bool(layout != nullptr); }

PyMethodDef functions[] = {{"_here", here, METH_NOARGS, nullptr},
                           {"_reads_frames", reads_frames, METH_NOARGS, nullptr},
                           {}};

}  // namespace

void init_location(PyObject* module) {
  Ref types = own(PyImport_ImportModule("types"));
  code_type =
      reinterpret_cast<PyTypeObject*>(checked(PyObject_GetAttrString(types.get(), "CodeType")));
  importer = PyThreadState_Get();
  if (Py_AtExit([] { importer = nullptr; }) != 0) fail<RuntimeError>("too many exit functions");
  long version = PyLong_AsLong(PySys_GetObject("hexversion")) >> 16;
  for (const Layout& known : kLayouts)
    if (known.version == version) layout = &known;
  if (layout && !layout_holds()) layout = nullptr;
  location_hooks = {layout ? locate_fast : locate_slow, describe, drop};
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
