// x + y, -x, x < y: each operator of the table as a slot of the type. Tensors and plain numbers
// call the C++ function directly; everything else takes the slow way round.
#include "python/src/operators.h"

#include "flambeau/generated/operators.h"
#include "python/src/elements.h"
#include "python/src/parse.h"
#include "python/src/recording.h"
#include "python/src/torch_function.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

constexpr bool same(std::string_view a, std::string_view b) { return a == b; }

template <class Op>
concept Binary = requires(const Tensor& t) {
  Op::call(t, t);
};
template <class Op>
concept WithNumber = requires(const Tensor& t, const Scalar& s) {
  Op::call(t, s);
};
template <class Op>
concept NumberFirst = requires(const Tensor& t, const Scalar& s) {
  Op::call(s, t);
};
template <class Op>
concept Inplace = requires(Tensor& t) {
  Op::inplace(t, t);
};
template <class Op>
concept InplaceNumber = requires(Tensor& t, const Scalar& s) {
  Op::inplace(t, s);
};
template <class Op>
concept Unary = !Binary<Op> && requires(const Tensor& t) {
  Op::call(t);
};
template <class Op>
inline constexpr bool kCommutes = same(Op::symbol, "+") || same(Op::symbol, "*") ||
                                  same(Op::symbol, "&") || same(Op::symbol, "|") ||
                                  same(Op::symbol, "^");
// @ takes tensors only.
template <class Op>
inline constexpr bool kNumbers = !same(Op::symbol, "@");

template <class Op>
Tensor with_number(const Tensor& t, const Scalar& s) {
  if constexpr (WithNumber<Op>)
    return Op::call(t, s);
  else
    return Op::call(t, number_tensor(s));
}

template <class Op>
Tensor number_first(const Scalar& s, const Tensor& t) {
  if constexpr (NumberFirst<Op>)
    return Op::call(s, t);
  else if constexpr (same(Op::symbol, "-"))
    return ops::rsub(t, s);
  else if constexpr (same(Op::symbol, "/"))
    return ops::mul(ops::reciprocal(t), s);
  else if constexpr (kCommutes<Op>)
    return with_number<Op>(t, s);
  else
    return Op::call(number_tensor(s), t);
}

// The method that Python calls when the tensor is on the right.
template <class Op>
constexpr const char* reflected() {
  return same(Op::symbol, "-")    ? "__rsub__"
         : same(Op::symbol, "/")  ? "__rtruediv__"
         : same(Op::symbol, "//") ? "__rfloordiv__"
         : same(Op::symbol, "%")  ? "__rmod__"
         : same(Op::symbol, "**") ? "__rpow__"
         : same(Op::symbol, "<<") ? "__rlshift__"
         : same(Op::symbol, ">>") ? "__rrshift__"
                                  : Op::name;
}

// The method of Tensor that an operator is known as: torch's choice of names.
template <class Op>
constexpr const char* method_name() {
  return same(Op::symbol, "//")          ? "__floordiv__"
         : same(Op::symbol, "**")        ? "__pow__"
         : same(Op::symbol, "==")        ? "__eq__"
         : same(Op::symbol, "&")         ? "__and__"
         : same(Op::symbol, "|")         ? "__or__"
         : same(Op::symbol, "^")         ? "__xor__"
         : same(Op::symbol, "<<")        ? "__lshift__"
         : same(Op::symbol, ">>")        ? "__rshift__"
         : same(Op::name, "bitwise_not") ? "__invert__"
                                         : Op::name;
}

// The same where the tensor is on the right.
template <class Op>
constexpr const char* right_name() {
  return kCommutes<Op> ? Op::name : reflected<Op>();
}

PyObject* not_implemented() { return Py_NewRef(Py_NotImplemented); }

// A number on the left may be the first argument, or come after an op on the tensor.
template <class Op>
void note_number(bool on_the_right, PyObject* number) {
  bool first =
      !on_the_right &&
      (NumberFirst<Op> || !(kCommutes<Op> || same(Op::symbol, "-") || same(Op::symbol, "/")));
  bool after = !on_the_right && !NumberFirst<Op> && same(Op::symbol, "/");
  note_sizes(first ? 0 : 1, number, after ? 1 : 0);
}

// Subclasses, NumPy scalars, numbers derived from Python's, objects that override.
template <class Op>
[[gnu::noinline]] PyObject* binary_slow(PyObject* a, PyObject* b) {
  bool first = is_tensor(a), second = is_tensor(b);
  Scalar number;
  bool numeric = kNumbers<Op> && first != second && as_scalar(first ? b : a, number);
  if (!(first && second) && !numeric && !may_override(first ? b : a)) return not_implemented();
  PyObject* answer =
      first ? ask_operands(method_name<Op>(), {a, b}) : ask_operands(right_name<Op>(), {b, a});
  if (answer) return answer;
  if (numeric && is_recording()) note_number<Op>(first, first ? b : a);
  Tensor result = first && second ? Op::call(tensor_of(a), tensor_of(b))
                  : first         ? with_number<Op>(tensor_of(a), number)
                                  : number_first<Op>(number, tensor_of(b));
  return as_operands(wrap(std::move(result)), {a, b});
}

template <class Op>
[[gnu::noinline, gnu::cold]] PyObject* binary_in_mode(PyObject* a, PyObject* b) {
  Scalar ignored;
  PyObject* other = is_tensor(a) ? b : a;
  if (!is_tensor(other) && !as_scalar(other, ignored) && !may_override(other))
    return not_implemented();
  return is_tensor(a) ? ask_modes(method_name<Op>(), {a, b}) : ask_modes(right_name<Op>(), {b, a});
}

template <class Op>
PyObject* binary(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (modes_active()) return binary_in_mode<Op>(a, b);
    if (FL_LIKELY(is_exact_tensor(a))) {
      const Tensor& t = tensor_of(a);
      if (FL_LIKELY(is_exact_tensor(b))) return wrap(Op::call(t, tensor_of(b)));
      if constexpr (kNumbers<Op>) {
        if (Py_TYPE(b) == &PyFloat_Type) return wrap(with_number<Op>(t, PyFloat_AsDouble(b)));
        if (Py_TYPE(b) == &PyLong_Type) return wrap(with_number<Op>(t, int_scalar(b)));
      }
    } else if (kNumbers<Op> && is_exact_tensor(b)) {
      const Tensor& t = tensor_of(b);
      if (Py_TYPE(a) == &PyFloat_Type) return wrap(number_first<Op>(PyFloat_AsDouble(a), t));
      if (Py_TYPE(a) == &PyLong_Type) return wrap(number_first<Op>(int_scalar(a), t));
    }
    return binary_slow<Op>(a, b);
  });
}

template <class Op>
PyObject* power(PyObject* a, PyObject* b, PyObject* modulo) {
  if (modulo != Py_None) return not_implemented();
  return binary<Op>(a, b);
}

template <class Op>
PyObject* inplace(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Tensor& t = mutable_tensor_of(a);
    if (modes_active()) return ask_modes((std::string(Op::name) + "_").c_str(), {a, b});
    if (!is_exact_tensor(a) || (is_tensor(b) && !is_exact_tensor(b))) {
      std::string name = std::string(Op::name) + "_";
      if (PyObject* answer = ask_operands(name.c_str(), {a, b})) return answer;
    }
    Scalar number;
    if (is_recording()) note_sizes(1, b);
    if (is_tensor(b))
      Op::inplace(t, tensor_of(b));
    else if (!as_scalar(b, number))
      return not_implemented();
    else if constexpr (InplaceNumber<Op>)
      Op::inplace(t, number);
    else
      Op::inplace(t, number_tensor(number));
    return Py_NewRef(a);
  });
}

template <class Op>
PyObject* power_inplace(PyObject* a, PyObject* b, PyObject*) {
  return inplace<Op>(a, b);
}

template <class Op>
PyObject* unary(PyObject* a) {
  return guarded([&]() -> PyObject* {
    if (modes_active()) return ask_modes(method_name<Op>(), {a});
    if (FL_LIKELY(is_exact_tensor(a))) return wrap(Op::call(tensor_of(a)));
    if (PyObject* answer = ask_operands(method_name<Op>(), {a})) return answer;
    return as_operands(wrap(Op::call(tensor_of(a))), {a});
  });
}

binaryfunc comparisons[6];  // by Py_LT .. Py_GE

PyObject* compare(PyObject* a, PyObject* b, int op) {
  return comparisons[op] ? comparisons[op](a, b) : not_implemented();
}

PyObject* positive(PyObject* a) {
  return guarded([&] { return modes_active() ? ask_modes("positive", {a}) : Py_NewRef(a); });
}

struct BinarySlot {
  std::string_view symbol;
  int slot, inplace;
};
constexpr BinarySlot kBinary[] = {{"+", Py_nb_add, Py_nb_inplace_add},
                                  {"-", Py_nb_subtract, Py_nb_inplace_subtract},
                                  {"*", Py_nb_multiply, Py_nb_inplace_multiply},
                                  {"/", Py_nb_true_divide, Py_nb_inplace_true_divide},
                                  {"//", Py_nb_floor_divide, Py_nb_inplace_floor_divide},
                                  {"%", Py_nb_remainder, Py_nb_inplace_remainder},
                                  {"@", Py_nb_matrix_multiply, 0},
                                  {"&", Py_nb_and, Py_nb_inplace_and},
                                  {"|", Py_nb_or, Py_nb_inplace_or},
                                  {"^", Py_nb_xor, Py_nb_inplace_xor},
                                  {"<<", Py_nb_lshift, Py_nb_inplace_lshift},
                                  {">>", Py_nb_rshift, Py_nb_inplace_rshift}};
constexpr std::string_view kCompare[] = {"<", "<=", "==", "!=", ">", ">="};
constexpr std::pair<std::string_view, int> kUnary[] = {
    {"neg", Py_nb_negative}, {"bitwise_not", Py_nb_invert}, {"abs", Py_nb_absolute}};

template <class Op>
void append_one(std::vector<PyType_Slot>& slots) {
  if constexpr (Unary<Op>) {
    for (auto [name, id] : kUnary)
      if (name == Op::name) slots.push_back({id, slot(unary<Op>)});
  } else if constexpr (Binary<Op>) {
    for (int i = 0; i < 6; i++)
      if (kCompare[i] == Op::symbol) comparisons[i] = binary<Op>;
    if constexpr (same(Op::symbol, "**")) slots.push_back({Py_nb_power, slot(power<Op>)});
    if constexpr (same(Op::symbol, "**") && Inplace<Op>)
      slots.push_back({Py_nb_inplace_power, slot(power_inplace<Op>)});
    for (const BinarySlot& s : kBinary) {
      if (s.symbol != Op::symbol) continue;
      slots.push_back({s.slot, slot(binary<Op>)});
      if constexpr (Inplace<Op>)
        if (s.inplace) slots.push_back({s.inplace, slot(inplace<Op>)});
    }
  }
}

template <class... Op>
void append_all(TypeList<Op...>, std::vector<PyType_Slot>& slots) {
  (append_one<Op>(slots), ...);
}

}  // namespace

void append_operator_slots(std::vector<PyType_Slot>& slots) {
  append_all(Operators{}, slots);
  slots.push_back({Py_tp_richcompare, slot(compare)});
  slots.push_back({Py_nb_positive, slot(positive)});
}

}  // namespace flambeau::python
