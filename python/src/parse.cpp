// Overload resolution: binds a call's arguments to the parameters of each overload in turn.
#include "python/src/parse.h"

#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {

void* Arena::allocate(size_t bytes) {
  bytes = (bytes + 15) & ~size_t{15};
  if (FL_LIKELY(used_ + bytes <= sizeof(inline_))) {
    void* place = inline_ + used_;
    used_ += bytes;
    return place;
  }
  more().blocks.push_back(std::make_unique<char[]>(bytes + 16));
  auto address = reinterpret_cast<uintptr_t>(more_->blocks.back().get());
  return reinterpret_cast<void*>((address + 15) & ~uintptr_t{15});
}

namespace {

// The arguments of one overload: objects first, then values. Room for out= tensors lies before.
struct Bound {
  Bound() {}
  PyObject* slots[kMaxParams];
  bool folded;  // slots[fold] stands for all positional arguments
  PyObject* out;
  PyObject* requires_grad;
  // Values are plain data: filled by `bind`, not before.
  alignas(Value) char room[(kMaxOuts + kMaxParams) * sizeof(Value)];
  Value* values = reinterpret_cast<Value*>(room) + kMaxOuts;
};

bool looks_like_int(PyObject* o) {
  int64_t ignored;
  return Py_TYPE(o) != &PyTuple_Type && Py_TYPE(o) != &PyList_Type && as_int(o, ignored);
}

bool bind_positional(const Signature& s, Call& call, Bound& b, Mismatch& why) {
  int self = call.self ? s.self_index : -1;
  if (self >= 0) b.slots[self] = call.self;
  Py_ssize_t room = s.positional - (self >= 0 && self < s.positional ? 1 : 0);
  int fold = call.self ? s.method_fold : s.function_fold;
  if (fold >= 0 && call.nargs && looks_like_int(call.args[0])) {
    b.slots[fold] = call.args[0];
    b.folded = true;
    return true;
  }
  if (FL_UNLIKELY(call.nargs > room)) {
    why = {Mismatch::TooMany, int(room), nullptr};
    return false;
  }
  int at = 0;
  for (Py_ssize_t i = 0; i < call.nargs; i++, at++) {
    if (at == self) at++;
    b.slots[at] = call.args[i];
  }
  return true;
}

int find_param(const SignatureSet& set, const Signature& s, PyObject* name) {
  int count = int(s.params.size());
  for (int i = 0; i < count; i++)
    if (s.params[i].key == name) return i;  // both are interned, as a rule
  if (set.knows(name)) return -1;           // another overload's: no alias of anything here
  for (int i = 0; i < count; i++)
    if (answers_to(s.params[i], name)) return i;
  return -1;
}

// out= and requires_grad= belong to the form, not to the schema.
bool bind_extra(const Signature& s, PyObject* name, PyObject* value, Bound& b) {
  std::string_view text = text_of(name);
  if (text == "out" && s.op->out_function) {
    b.out = value == Py_None ? nullptr : value;
    return true;
  }
  if (text == "requires_grad" && s.factory && PyBool_Check(value)) {
    b.requires_grad = value;
    return true;
  }
  return false;
}

bool bind_keywords(const SignatureSet& set, const Signature& s, const Call& call, Bound& b,
                   Mismatch& why) {
  Py_ssize_t count = PyTuple_Size(call.kwnames);
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject* name = PyTuple_GetItem(call.kwnames, k);
    PyObject* value = call.args[call.nargs + k];
    int index = find_param(set, s, name);
    if (index < 0) {
      if (bind_extra(s, name, value, b)) continue;
      why = {Mismatch::Unexpected, 0, name};
      return false;
    }
    if (b.slots[index]) {
      why = {Mismatch::Duplicate, index, name};
      return false;
    }
    b.slots[index] = value;
  }
  return true;
}

bool fill_values(const Signature& s, Call& call, Bound& b, Mismatch& why) {
  int fold = b.folded ? (call.self ? s.method_fold : s.function_fold) : -1;
  for (int i = 0, n = int(s.params.size()); i < n; i++) {
    const BoundParam& p = s.params[i];
    PyObject* o = b.slots[i];
    if (!o) {
      if (FL_UNLIKELY(p.param->required)) {
        why = {Mismatch::Missing, i, nullptr};
        return false;
      }
      b.values[i] = p.fallback;
      continue;
    }
    bool fits = FL_UNLIKELY(i == fold) ? fold_ints(call.args, call.nargs, b.values[i], call)
                                       : to_value(p, o, b.values[i], call);
    if (FL_UNLIKELY(!fits)) {
      why = {Mismatch::Type, i, o};
      return false;
    }
  }
  return true;
}

bool bind(const SignatureSet& set, const Signature& s, Call& call, Bound& b, Mismatch& why) {
  for (size_t i = 0; i < s.params.size(); i++) b.slots[i] = nullptr;
  b.folded = false;
  b.out = b.requires_grad = nullptr;
  if (call.self && FL_UNLIKELY(s.self_index < 0)) {
    why = {Mismatch::TooMany, 0, nullptr};
    return false;
  }
  if (!bind_positional(s, call, b, why)) return false;
  if (call.kwnames && !bind_keywords(set, s, call, b, why)) return false;
  return fill_values(s, call, b, why);
}

void set_out(const OpInfo& op, Value& v, PyObject* o) {
  FL_CHECK(is_tensor(o), TypeError, "{}: out must be Tensor, got {}", op.name, type_name(o));
  v.kind = Value::TensorRef;
  v.tensor = &tensor_of(o);
}

void run_out(const OpInfo& op, Bound& b, Returns& results) {
  Value* first = b.values - op.out_count;
  if (op.out_count == 1 && is_tensor(b.out)) {
    set_out(op, *first, b.out);
  } else {
    bool sequence = PyTuple_Check(b.out) || PyList_Check(b.out);
    FL_CHECK(sequence && PySequence_Size(b.out) == op.out_count, TypeError,
             "{}: out must be a tuple of {} tensors, got {}", op.name, int(op.out_count),
             type_name(b.out));
    for (int i = 0; i < op.out_count; i++) {
      Ref item = own(PySequence_GetItem(b.out, i));
      set_out(op, first[i], item.get());
    }
  }
  op.call_out(op.out_function, first, results);
}

PyObject* run(const Signature& s, Bound& b) {
  const OpInfo& op = *s.op;
  Returns results;
  if (FL_UNLIKELY(b.out != nullptr))
    run_out(op, b, results);
  else
    op.call(op.function, b.values, results);
  if (b.requires_grad == Py_True) results.tensors[0].set_requires_grad(true);
  return to_python(results, op);
}

// Tries the overloads in order. The first that fits is run.
PyObject* resolve(const SignatureSet& set, Call& call) {
  Bound b;
  Mismatch ignored;
  for (const Signature& s : set.overloads) {
    if (!bind(set, s, call, b, ignored)) continue;
    if (FL_UNLIKELY(call.subclass)) {
      if (PyObject* answer = ask_overrides(*set.op, call)) return answer;
      return as_subclass_results(run(s, b), call);
    }
    return run(s, b);
  }
  return nullptr;
}

// Nothing fitted: numbers for tensors where the op takes them, classes that override, or the error.
[[gnu::noinline, gnu::cold]] PyObject* resolve_again(const SignatureSet& set, Call& call) {
  if (set.numbers) {
    call.numbers = true;
    if (PyObject* result = resolve(set, call)) return result;
    call.numbers = false;
  }
  if (PyObject* answer = ask_overrides(*set.op, call)) return answer;
  std::vector<Mismatch> reasons(set.overloads.size());
  Bound b;
  for (size_t i = 0; i < reasons.size(); i++) bind(set, set.overloads[i], call, b, reasons[i]);
  fail_to_resolve(set, call, reasons);
}

}  // namespace

PyObject* call_set(const OpSet& op, size_t index, PyObject* self, PyObject* const* args,
                   Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const SignatureSet& set = signatures_of(op, index);
    Arena arena;
    Call call{.self = self, .args = args, .nargs = nargs, .kwnames = kwnames, .arena = arena};
    if (modes_active()) return ask_modes(op, call);
    if (PyObject* result = resolve(set, call)) return result;
    return resolve_again(set, call);
  });
}

}  // namespace flambeau::python
