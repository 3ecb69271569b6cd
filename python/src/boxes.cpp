// Boxed arguments as Python objects.
#include "python/src/boxes.h"

#include <cstring>
#include <unordered_map>

#include "python/src/dtypes.h"
#include "python/src/generator.h"
#include "python/src/parse.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

// A list of what `item` makes of every index.
template <class F>
PyObject* list_of(uint32_t count, F item) {
  Ref list = own(PyList_New(Py_ssize_t(count)));
  for (uint32_t i = 0; i < count; i++) PyList_SetItem(list.get(), Py_ssize_t(i), checked(item(i)));
  return list.release();
}

bool is_none(const Value& v) {
  return v.kind == Value::None || (v.kind == Value::TensorRef && !v.tensor->defined());
}

bool same_scalar(const Scalar& a, const Scalar& b) {
  return a.is_bool() == b.is_bool() && a.to_complex() == b.to_complex();
}

// Does an argument have the value that stands in the schema?
bool equals(const Value& a, const Value& fallback) {
  if (is_none(a) || is_none(fallback)) return is_none(a) && is_none(fallback);
  bool number = a.kind == Value::Int || a.kind == Value::Double;
  if (number && (fallback.kind == Value::Int || fallback.kind == Value::Double))
    return Boxed<double>::get(a) == Boxed<double>::get(fallback);
  if (a.kind != fallback.kind || a.count != fallback.count) return false;
  auto same_run = [&](const auto* x, const auto* y) { return std::equal(x, x + a.count, y); };
  switch (a.kind) {
    case Value::Number:
      return same_scalar(*a.scalar, *fallback.scalar);
    case Value::Text:
      return same_run(a.text, fallback.text);
    case Value::IntRun:
    case Value::BoolRun:
      return same_run(a.ints, fallback.ints);
    case Value::DoubleRun:
      return same_run(a.doubles, fallback.doubles);
    case Value::Bool:
    case Value::Type:
    case Value::LayoutOf:
    case Value::Format:
      return a.integer == fallback.integer;
    case Value::Place:
      return a.device == fallback.device;
    default:
      return a.count == 0 && a.kind != Value::TensorRef && a.kind != Value::Random;
  }
}

}  // namespace

PyObject* to_python(const Value& v, ArgKind kind) {
  if (is_none(v)) return Py_NewRef(Py_None);
  switch (v.kind) {
    case Value::TensorRef:
      return wrap(*v.tensor);
    case Value::TensorRun:
      return list_of(v.count, [&](uint32_t i) { return wrap(v.tensor[i]); });
    case Value::Number:
      return to_python(*v.scalar);
    case Value::NumberRun:
      return list_of(v.count, [&](uint32_t i) { return to_python(v.scalar[i]); });
    case Value::Int:
      return kind == ArgKind::Double ? checked(PyFloat_FromDouble(double(v.integer)))
                                     : checked(PyLong_FromLongLong(v.integer));
    case Value::Bool:
      return to_bool(v.integer != 0);
    case Value::Double:
      return checked(PyFloat_FromDouble(v.real));
    case Value::IntRun:
    case Value::BoolRun:
      return list_of(v.count, [&](uint32_t i) {
        return kind == ArgKind::BoolList ? to_bool(v.ints[i] != 0) : PyLong_FromLongLong(v.ints[i]);
      });
    case Value::DoubleRun:
      return list_of(v.count, [&](uint32_t i) { return PyFloat_FromDouble(v.doubles[i]); });
    case Value::Text:
      return to_str({v.text, v.count});
    case Value::Type:
      return to_python(DType(v.integer));
    case Value::Place:
      return to_python(v.device);
    case Value::LayoutOf:
      return to_python(Layout(v.integer));
    case Value::Format:
      return to_python(MemoryFormat(v.integer));
    default:
      return to_python(v.generator);
  }
}

std::pair<int, int> place_of(const OpInfo& op) {
  static const auto* places = [] {
    auto* made = new std::unordered_map<const OpInfo*, std::pair<int, int>>;
    auto ops = all_ops();
    for (size_t i = 0; i < ops.size(); i++)
      for (int k = 0; k < ops[i]->count; k++) (*made)[&ops[i]->overloads[k]] = {int(i), k};
    return made;
  }();
  auto at = places->find(&op);
  return at == places->end() ? std::pair(-1, -1) : at->second;
}

std::pair<Ref, Ref> unboxed_call(const OpInfo& op, const Value* arguments) {
  auto [set, overload] = place_of(op);
  const SignatureSet* known =
      set < 0 ? nullptr : &signatures_of(*all_ops()[size_t(set)], size_t(set));
  const Signature* signature = known ? &known->overloads[size_t(overload)] : nullptr;
  bool numbers = known && known->numbers;
  auto is_default = [&](int i) {
    return signature && !op.params[i].required &&
           equals(arguments[i], signature->params[size_t(i)].fallback);
  };
  // A number in a tensor's place (torch.add(1, x)) is shown as it was given.
  auto object = [&](int i) {
    const Value& v = arguments[i];
    bool number =
        numbers && v.kind == Value::TensorRef && v.tensor->defined() && (*v.tensor)->is_number;
    return number ? to_python(v.tensor->item()) : to_python(v, op.params[i].kind);
  };
  int given = op.positional;
  while (given > 0 && is_default(given - 1)) given--;
  Ref args = own(PyTuple_New(given)), kwargs = own(PyDict_New());
  for (int i = 0; i < given; i++) PyTuple_SetItem(args.get(), i, object(i));
  for (int i = op.positional; i < op.param_count; i++) {
    if (is_default(i)) continue;
    Ref value(object(i));
    checked(PyDict_SetItemString(kwargs.get(), op.params[i].name, value.get()));
  }
  return {std::move(args), std::move(kwargs)};
}

Ref unboxed_outs(const Value* outs, int count) {
  if (count == 1) return Ref(wrap(*outs[0].tensor));
  Ref tuple = own(PyTuple_New(count));
  for (int i = 0; i < count; i++) PyTuple_SetItem(tuple.get(), i, wrap(*outs[i].tensor));
  return tuple;
}

}  // namespace flambeau::python
