// Overload resolution: binds a call's arguments to the parameters of each overload in turn.
#include "python/src/parse.h"

#include "python/src/dispatch.h"
#include "python/src/recording.h"
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
  blocks_.push_back(std::make_unique<char[]>(bytes + 16));
  auto address = reinterpret_cast<uintptr_t>(blocks_.back().get());
  return reinterpret_cast<void*>((address + 15) & ~uintptr_t{15});
}

namespace {

// The arguments of one overload: objects first, then values. Room for out= tensors lies before.
struct Bound {
  Bound() {}
  PyObject* slots[kMaxParams];  // of a call with keywords
  int fold;                     // the parameter that all positional arguments fold into, or -1
  PyObject* out;
  PyObject* requires_grad;
  // Values are plain data: filled by `bind`, not before.
  alignas(Value) char room[(kMaxOuts + kMaxParams) * sizeof(Value)];
  Value* values = reinterpret_cast<Value*>(room) + kMaxOuts;
};

bool looks_like_int(PyObject* o) {
  if (FL_LIKELY(Py_TYPE(o) == &PyLong_Type)) return true;
  int64_t ignored;
  return Py_TYPE(o) != &PyTuple_Type && Py_TYPE(o) != &PyList_Type && as_int(o, ignored);
}

// Which parameter takes a method's object.
int self_of(const Signature& s, const Call& call) { return call.self ? s.self_index : -1; }

// The parameter that all positional arguments fold into, -1 where they do not.
[[gnu::always_inline]] inline int fold_of(const Signature& s, const Call& call) {
  int fold = call.self ? s.method_fold : s.function_fold;
  return fold >= 0 && call.nargs && looks_like_int(call.args[0]) ? fold : -1;
}

bool has_room(const Signature& s, const Call& call, Mismatch& why) {
  int self = self_of(s, call);
  Py_ssize_t room = s.positional - (self >= 0 && self < s.positional ? 1 : 0);
  if (FL_LIKELY(call.nargs <= room)) return true;
  why = {Mismatch::TooMany, int(room), nullptr};
  return false;
}

bool bind_positional(const Signature& s, const Call& call, Bound& b, Mismatch& why) {
  int self = self_of(s, call);
  if (self >= 0) b.slots[self] = call.self;
  if (b.fold >= 0) {
    b.slots[b.fold] = call.args[0];
    return true;
  }
  if (!has_room(s, call, why)) return false;
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

// The value of parameter `i` from its argument, null where none was given.
[[gnu::always_inline]] inline bool fill_one(const Signature& s, int i, PyObject* o, Call& call,
                                            Bound& b, Mismatch& why) {
  const BoundParam& p = s.params[i];
  Value& v = b.values[i];
  if (!o) {
    v = p.fallback;
    if (FL_LIKELY(!p.param->required)) return true;
    why = {Mismatch::Missing, i, nullptr};
    return false;
  }
  if (FL_LIKELY(p.kind == ArgKind::Tensor && is_exact_tensor(o))) {
    v.kind = Value::TensorRef;
    v.tensor = &tensor_of(o);
    return true;
  }
  bool fits = FL_UNLIKELY(i == b.fold) ? fold_ints(call.args, call.nargs, v, call)
                                       : to_value(p, o, v, call);
  if (FL_LIKELY(fits)) return true;
  why = {Mismatch::Type, i, o};
  return false;
}

// The common call: no keywords, a method's object takes the first parameter, and what folds the
// next.
bool fill_first(const Signature& s, Call& call, Bound& b, Mismatch& why) {
  int i = 0, count = int(s.params.size());
  if (call.self) {
    if (FL_UNLIKELY(!fill_one(s, 0, call.self, call, b, why))) return false;
    i = 1;
  }
  PyObject* const* end = call.args + (b.fold < 0 ? call.nargs : 1);
  if (FL_UNLIKELY(b.fold < 0 && call.nargs > s.positional - i)) return has_room(s, call, why);
  for (PyObject* const* o = call.args; o != end; o++, i++)
    if (FL_UNLIKELY(!fill_one(s, i, *o, call, b, why))) return false;
  if (FL_UNLIKELY(i <= s.last_required)) {
    while (!s.params[size_t(i)].param->required) i++;
    why = {Mismatch::Missing, i, nullptr};
    return false;
  }
  for (; i < count; i++) b.values[i] = s.params[size_t(i)].fallback;
  return true;
}

// Without keywords the positional arguments stand in the parameters' order, self aside.
bool fill_in_order(const Signature& s, Call& call, Bound& b, Mismatch& why) {
  int object = self_of(s, call);
  if (FL_LIKELY(object <= 0 && (b.fold < 0 || b.fold == object + 1)))
    return fill_first(s, call, b, why);
  if (b.fold < 0 && !has_room(s, call, why)) return false;
  int self = self_of(s, call);
  PyObject* const* next = call.args;
  PyObject* const* end = b.fold < 0 ? next + call.nargs : next;
  for (int i = 0, n = int(s.params.size()); i < n; i++) {
    PyObject* o = i == self     ? call.self
                  : i == b.fold ? call.args[0]
                  : next != end ? *next++
                                : nullptr;
    if (!fill_one(s, i, o, call, b, why)) return false;
  }
  return true;
}

bool fill_with_keywords(const SignatureSet& set, const Signature& s, Call& call, Bound& b,
                        Mismatch& why) {
  int count = int(s.params.size());
  for (int i = 0; i < count; i++) b.slots[i] = nullptr;
  if (!bind_positional(s, call, b, why) || !bind_keywords(set, s, call, b, why)) return false;
  for (int i = 0; i < count; i++)
    if (!fill_one(s, i, b.slots[i], call, b, why)) return false;
  return true;
}

[[gnu::always_inline]] inline bool bind(const SignatureSet& set, const Signature& s, Call& call,
                                        Bound& b, Mismatch& why) {
  b.out = b.requires_grad = nullptr;
  if (call.self && FL_UNLIKELY(s.self_index < 0)) {
    why = {Mismatch::TooMany, 0, nullptr};
    return false;
  }
  b.fold = fold_of(s, call);
  return call.kwnames ? fill_with_keywords(set, s, call, b, why) : fill_in_order(s, call, b, why);
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
  if (FL_UNLIKELY(tls.mode & kModeBelow) && ask_dispatch_out(op, first, b.values, results)) return;
  op.call_out(op.out_function, first, results);
}

[[gnu::always_inline]] inline PyObject* run(const Signature& s, Bound& b) {
  const OpInfo& op = *s.op;
  Returns results;
  if (FL_UNLIKELY(b.out != nullptr))
    run_out(op, b, results);
  else
    op.call(op.function, b.values, results);
  if (b.requires_grad == Py_True) results.tensors[0].set_requires_grad(true);
  return to_python(results, op);
}

// A recording wants to know which ints are sizes of tensors.
[[gnu::noinline, gnu::cold]] void note_all_sizes(const Signature& s, const Call& call, Bound& b) {
  int self = self_of(s, call);
  Py_ssize_t next = 0;
  for (int i = 0, n = int(s.params.size()); i < n; i++) {
    PyObject* o = nullptr;
    if (call.kwnames) {
      o = b.slots[i];
    } else if (i == b.fold) {
      Ref loose(PyTuple_New(call.nargs));
      for (Py_ssize_t k = 0; k < call.nargs; k++)
        PyTuple_SetItem(loose.get(), k, Py_NewRef(call.args[k]));
      note_sizes(i, loose.get());
    } else if (i != self && b.fold < 0 && next < call.nargs) {
      o = call.args[next++];
    }
    if (o) note_sizes(i, o);
  }
}

// Tries the overloads in order. The first that fits is run. Inlined down to the call of the op:
// five frames of a few steps each would cost more than the steps.
[[gnu::always_inline]] inline PyObject* resolve(const SignatureSet& set, Call& call) {
  Bound b;
  Mismatch ignored;
  for (const Signature& s : set.overloads) {
    if (!bind(set, s, call, b, ignored)) continue;
    if (is_recording()) note_all_sizes(s, call, b);
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

PyObject* call_overload(size_t index, int overload, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  const OpSet& op = *all_ops()[index];
  const SignatureSet& set = signatures_of(op, index);
  Arena arena;
  Call call{.self = nullptr, .args = args, .nargs = nargs, .kwnames = kwnames, .arena = arena};
  Bound b;
  Mismatch ignored;
  for (bool numbers : {false, set.numbers}) {
    call.numbers = numbers;
    const Signature& s = set.overloads[size_t(overload)];
    if (bind(set, s, call, b, ignored)) return run(s, b);
  }
  return call_set(op, index, nullptr, args, nargs, kwnames);
}

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
