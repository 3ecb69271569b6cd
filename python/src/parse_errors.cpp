// The TypeError of a call that no overload takes: which argument of which form did not fit, and
// what it got.
#include "python/src/parse.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

// "Tensor", "int", "tuple of (int, float)": an argument as a message names it.
std::string described(PyObject* o) {
  if (is_tensor(o) && is_exact_tensor(o)) return "Tensor";
  std::string name = o == Py_None ? "None" : type_name(o);
  if (!PyTuple_Check(o) && !PyList_Check(o)) return name;
  Py_ssize_t size = PySequence_Size(o);
  if (size == 0) return "an empty " + name;
  // The first element of another type than the one before it tells most.
  std::string inner;
  for (Py_ssize_t i = 0; i < size && i < 8; i++) {
    Ref item = own(PySequence_GetItem(o, i));
    std::string kind = item.get() == Py_None ? "None" : type_name(item.get());
    if (inner.find(kind) == std::string::npos) inner += (inner.empty() ? "" : ", ") + kind;
  }
  return name + " of " + inner;
}

std::string arguments(const Call& call) {
  std::string text;
  for (Py_ssize_t i = 0; i < call.nargs; i++) text += (i ? ", " : "") + described(call.args[i]);
  for (Py_ssize_t k = 0, n = call.kwnames ? PyTuple_Size(call.kwnames) : 0; k < n; k++) {
    text += text.empty() ? "" : ", ";
    text += std::string(text_of(PyTuple_GetItem(call.kwnames, k))) + "=" +
            described(call.args[call.nargs + k]);
  }
  return "(" + text + ")";
}

std::string explain(const Signature& s, const Call& call, const Mismatch& why) {
  auto param = [&](int i) { return std::string(text_of(s.params[size_t(i)].key)); };
  switch (why.kind) {
    case Mismatch::TooMany:
      return format("takes {} positional arguments, got {}", why.index, int64_t(call.nargs));
    case Mismatch::Unexpected:
      return format("has no argument '{}'", text_of(why.object));
    case Mismatch::Duplicate:
      return format("argument '{}' is given twice", param(why.index));
    case Mismatch::Missing:
      return format("argument '{}' is missing", param(why.index));
    default:
      return format("argument '{}' must be {}, got {}", param(why.index),
                    kind_text(*s.params[size_t(why.index)].param), described(why.object));
  }
}

}  // namespace

void fail_to_resolve(const SignatureSet& set, const Call& call,
                     const std::vector<Mismatch>& reasons) {
  std::string name = set.op->name;
  if (set.overloads.size() == 1)
    throw TypeError(name + ": " + explain(set.overloads[0], call, reasons[0]) + "\n  " +
                    set.overloads[0].text);
  std::string text = name + ": no form takes " + arguments(call);
  for (size_t i = 0; i < set.overloads.size(); i++)
    text += "\n  " + set.overloads[i].text + ": " + explain(set.overloads[i], call, reasons[i]);
  throw TypeError(text);
}

}  // namespace flambeau::python
