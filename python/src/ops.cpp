// The generated ops as Python functions and methods: one thunk per op set, made over an index
// sequence; no list by hand.
#include "python/src/ops.h"

#include <array>
#include <map>

#include "flambeau/generated/infos.h"
#include "python/src/module.h"
#include "python/src/parse.h"

namespace flambeau::python {
namespace {

template <size_t I>
PyObject* method(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return call_set(*all_ops()[I], I, self, args, nargs, kwnames);
}
template <size_t I>
PyObject* function(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return call_set(*all_ops()[I], I, nullptr, args, nargs, kwnames);
}

template <size_t... I>
constexpr std::array<FastCall, sizeof...(I)> methods_of(std::index_sequence<I...>) {
  return {method<I>...};
}
template <size_t... I>
constexpr std::array<FastCall, sizeof...(I)> functions_of(std::index_sequence<I...>) {
  return {function<I>...};
}
constexpr auto kMethods = methods_of(std::make_index_sequence<kOpSets>());
constexpr auto kFunctions = functions_of(std::make_index_sequence<kOpSets>());

bool has_form(const OpSet& op, std::string_view form) {
  std::string_view forms = op.forms;
  for (size_t at = forms.find(form); at != forms.npos; at = forms.find(form, at + 1)) {
    size_t end = at + form.size();
    if ((at == 0 || forms[at - 1] == ' ') && (end == forms.size() || forms[end] == ' '))
      return true;
  }
  return false;
}

PyMethodDef definition(const OpSet& op, FastCall call) {
  return {op.name, as_function(call), kFast, *op.doc ? op.doc : nullptr};
}

// Functions of one namespace, as attributes of the submodule flambeau._C._<name>.
void add_functions(PyObject* module, std::string_view form) {
  auto* table = new std::vector<PyMethodDef>;  // builtins point into it for ever
  auto ops = all_ops();
  for (size_t i = 0; i < ops.size(); i++)
    if (has_form(*ops[i], form)) table->push_back(definition(*ops[i], kFunctions[i]));
  table->push_back({});
  checked(PyModule_AddFunctions(module, table->data()));
}

PyObject* new_room(PyObject* parent, const char* name) {
  std::string full = std::string("flambeau._C._") + name;
  PyObject* room = checked(PyImport_AddModule(full.c_str()));  // borrowed from sys.modules
  add(parent, full.c_str() + std::string_view("flambeau._C.").size(), Py_NewRef(room));
  return room;
}

// The schema with what Python adds to it: out= and, for factories, requires_grad=.
std::string python_schema(const OpInfo& op) {
  std::string text = op.schema;
  std::string extra;
  if (op.out_function) extra += ", Tensor? out=None";
  if (text.find("pin_memory") != text.npos) extra += ", bool requires_grad=False";
  if (extra.empty()) return text;
  size_t end = text.rfind(") ->");
  bool starred = text.find("*, ") != text.npos;
  return text.insert(end, starred ? extra : ", *" + extra);
}

// _schema("add"), _schema("torch.Tensor.add"): the schemas of an op, None for anything else.
PyObject* schema(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    FL_CHECK(PyUnicode_Check(name), TypeError, "_schema: name must be str, got {}",
             type_name(name));
    std::string_view text = text_of(name);
    for (std::string_view prefix : {"flambeau.", "torch.", "Tensor.", "nn.functional."})
      if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
    std::string key(text);
    if (size_t dot = key.find('.'); dot != key.npos) key[dot] = '_';  // linalg.svd
    const OpSet* op = find_op(key);
    if (!op && text.find('.') != text.npos) op = find_op(text.substr(text.rfind('.') + 1));
    if (!op) return Py_NewRef(Py_None);
    Ref list = own(PyList_New(0));
    for (int i = 0; i < op->count; i++) {
      Ref one(to_str(python_schema(op->overloads[i])));
      checked(PyList_Append(list.get(), one.get()));
    }
    return list.release();
  });
}

// _op_names(): name -> forms of every op.
PyObject* op_names(PyObject*, PyObject*) {
  return guarded([&] {
    Ref dict = own(PyDict_New());
    for (const OpSet* op : all_ops()) {
      Ref forms(to_str(op->forms));
      checked(PyDict_SetItemString(dict.get(), op->name, forms.get()));
    }
    return dict.release();
  });
}

// _op_entries("add"): where the op stands, and (schema, has out=) of every overload.
PyObject* op_entries(PyObject*, PyObject* name) {
  return guarded([&] {
    const OpSet* op = find_op(text_of(name));
    FL_CHECK(op, IndexError, "ops: there is no op {}", repr_text(name));
    Ref list = own(PyList_New(0));
    for (int i = 0; i < op->count; i++) {
      const OpInfo& one = op->overloads[i];
      Ref entry = own(Py_BuildValue("sO", one.schema, one.out_function ? Py_True : Py_False));
      checked(PyList_Append(list.get(), entry.get()));
    }
    return Py_BuildValue("nO", Py_ssize_t(op_index(op->name)), list.get());
  });
}

// _return_type("max"): the named tuple of an op, None where it has none.
PyObject* named_result(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    FL_CHECK(PyUnicode_Check(name), TypeError, "_return_type: name must be str, got {}",
             type_name(name));
    const OpSet* op = find_op(text_of(name));
    for (int i = 0; op && i < op->count; i++)
      if (*op->overloads[i].result_names) return Py_NewRef(return_type(op->overloads[i]));
    return Py_NewRef(Py_None);
  });
}

PyMethodDef own_functions[] = {{"_schema", schema, METH_O, "The schemas of an op, by name."},
                               {"_op_names", op_names, METH_NOARGS, "Every op with its forms."},
                               {"_op_entries", op_entries, METH_O, "An op's overloads."},
                               {"_return_type", named_result, METH_O, "An op's named tuple."},
                               {}};

}  // namespace

void append_op_methods(std::vector<PyMethodDef>& table,
                       const std::unordered_set<std::string_view>& taken) {
  auto ops = all_ops();
  for (size_t i = 0; i < ops.size(); i++)
    if (has_form(*ops[i], "method") && !taken.contains(ops[i]->name))
      table.push_back(definition(*ops[i], kMethods[i]));
}

size_t op_index(std::string_view name) {
  auto ops = all_ops();
  size_t i = 0;
  while (i < ops.size() && name != ops[i]->name) i++;
  FL_ASSERT(i < ops.size());
  return i;
}

void init_ops(PyObject* module) {
  checked(PyModule_AddFunctions(module, own_functions));
  Ref functions = Ref::borrow(new_room(module, "VariableFunctions"));
  add_functions(functions.get(), "function");
  for (const char* room : {"nn", "linalg", "fft", "special", "sparse", "nested"})
    add_functions(new_room(module, room), room);
}

}  // namespace flambeau::python
