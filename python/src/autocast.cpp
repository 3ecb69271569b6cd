// Automatic mixed precision: while autocast is on, ops whose row says `autocast = "lower"` run in
// the lower type (products gain from it), those with "float32" in that (losses and decompositions
// would lose), those with "widest" in the widest of their arguments. The rows follow torch's lists
// for CPUs.
#include <unordered_map>

#include "flambeau/generated/autocast.h"
#include "flambeau/generated/ops.h"
#include "flambeau/ops/slow.h"
#include "python/src/arguments.h"
#include "python/src/dtypes.h"
#include "python/src/module.h"

namespace flambeau::python {
namespace {

enum class Rule : uint8_t { None, Lower, Single, Widest };

// The whole rooms fft and linalg (but products) stay in float32.
bool is_single_room(std::string_view name) {
  return name.starts_with("fft_") || (name.starts_with("linalg_") && name != "linalg_vecdot" &&
                                      name != "linalg_vector_norm" && name != "linalg_multi_dot");
}

Rule rule_of(const OpInfo& op) {
  static const std::unordered_map<std::string_view, Rule> known = [] {
    std::unordered_map<std::string_view, Rule> rules;
    for (auto [name, rule] : kAutocast)
      rules[name] = *rule == 'l' ? Rule::Lower : *rule == 'f' ? Rule::Single : Rule::Widest;
    return rules;
  }();
  auto at = known.find(op.name);
  if (at != known.end()) return at->second;
  return is_single_room(op.name) ? Rule::Single : Rule::None;
}

// float64 and integers stay what they are.
bool may_cast(const Tensor& t) {
  return t.defined() && is_float(t.dtype()) && t.dtype() != DType::Float64 &&
         t.device().type != DeviceType::CUDA;
}

template <class F>
void each_tensor(const OpInfo& op, const Value* arguments, F f) {
  for (int i = 0; i < op.param_count; i++) {
    const Value& v = arguments[i];
    if (v.kind == Value::TensorRef) f(*v.tensor);
    for (uint32_t k = 0; v.kind == Value::TensorRun && k < v.count; k++) f(v.tensor[k]);
  }
}

class Autocast : public Level {
 public:
  Autocast() { sees_inner = true; }
  bool handle(const OpInfo& op, const Value* arguments, Returns& results) override;

  bool linked = false;
  DType lower = DType::BFloat16;

 private:
  DType target(Rule rule, const OpInfo& op, const Value* arguments) const;
};

DType Autocast::target(Rule rule, const OpInfo& op, const Value* arguments) const {
  if (rule == Rule::Lower) return lower;
  if (rule == Rule::Single) return DType::Float32;
  DType widest = lower;
  each_tensor(op, arguments, [&](const Tensor& t) {
    if (may_cast(t) && t.dtype() == DType::Float32) widest = DType::Float32;
  });
  return widest;
}

bool Autocast::handle(const OpInfo& op, const Value* arguments, Returns& results) {
  Rule rule = rule_of(op);
  if (rule == Rule::None || op.inplace) return false;
  DType to = target(rule, op, arguments);
  bool any = false;
  each_tensor(op, arguments,
              [&](const Tensor& t) { any = any || (may_cast(t) && t.dtype() != to); });
  if (!any) return false;
  // Copies of the values that hold the cast tensors; both lists keep their places.
  std::vector<Value> values(arguments, arguments + op.param_count);
  std::vector<std::vector<Tensor>> held(op.param_count);
  for (int i = 0; i < op.param_count; i++) {
    Value& v = values[i];
    if (v.kind != Value::TensorRef && v.kind != Value::TensorRun) continue;
    size_t count = v.kind == Value::TensorRef ? 1 : v.count;
    for (size_t k = 0; k < count; k++)
      held[i].push_back(may_cast(v.tensor[k]) ? ops::to(v.tensor[k], to) : v.tensor[k]);
    v.tensor = held[i].data();
  }
  op.call(op.function, values.data(), results);
  return true;
}

thread_local Autocast level;

void link(bool on) {
  if (on == level.linked) return;
  level.linked = on;
  if (on) {
    level.outer = tls.levels;
    tls.levels = &level;
    tls.mode |= kModeLevels;
    return;
  }
  Level** at = &tls.levels;
  while (*at && *at != &level) at = &(*at)->outer;
  if (*at) *at = level.outer;
  if (!tls.levels) tls.mode &= uint8_t(~kModeLevels);
}

// _set_autocast(enabled, dtype): of the CPU, in this thread.
PyObject* set_autocast(PyObject*, PyObject* args) {
  return guarded([&] {
    int enabled;
    PyObject* type;
    if (!PyArg_ParseTuple(args, "pO", &enabled, &type)) throw ErrorSet{};
    DType dtype;
    FL_CHECK(as_dtype(type, dtype) && is_half(dtype), RuntimeError,
             "autocast: dtype must be bfloat16 or float16, got {}", repr_text(type));
    level.lower = dtype;
    link(enabled != 0);
    return Py_NewRef(Py_None);
  });
}
PyObject* is_on(PyObject*, PyObject*) { return to_bool(level.linked); }
PyObject* lower_dtype(PyObject*, PyObject*) { return to_python(level.lower); }

PyMethodDef functions[] = {{"_set_autocast", set_autocast, METH_VARARGS, nullptr},
                           {"_autocast_is_on", is_on, METH_NOARGS, nullptr},
                           {"_autocast_dtype", lower_dtype, METH_NOARGS, nullptr},
                           {}};

}  // namespace

void init_autocast(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
