// Nested sequences of numbers, as torch.tensor takes them: one pass for the sizes along the first
// elements, one for the common dtype, one that stores.
#include "python/src/sequences.h"

#include <cmath>
#include <limits>

#include "flambeau/core/promote.h"
#include "python/src/arrays.h"
#include "python/src/elements.h"
#include "python/src/parse.h"
#include "python/src/recording.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

constexpr int kDeepest = 128;  // deeper nesting is a mistake, such as a list that contains itself

// The elements of one sequence; lists and tuples without a call per element beyond the getter.
class Elements {
 public:
  explicit Elements(PyObject* o) : o_(o) {
    kind_ = PyList_Check(o) ? List : PyTuple_Check(o) ? Tuple : Other;
    size_ = kind_ == List ? PyList_Size(o) : kind_ == Tuple ? PyTuple_Size(o) : PySequence_Size(o);
    if (size_ < 0) throw ErrorSet{};
  }
  Py_ssize_t size() const { return size_; }
  // Borrowed: valid until the next call.
  PyObject* operator[](Py_ssize_t i) {
    if (kind_ == List) return checked(PyList_GetItem(o_, i));
    if (kind_ == Tuple) return PyTuple_GetItem(o_, i);
    held_ = own(PySequence_GetItem(o_, i));
    return held_.get();
  }

 private:
  PyObject* o_;
  enum { List, Tuple, Other } kind_;
  Py_ssize_t size_;
  Ref held_;
};

[[noreturn]] void bad_element(const char* op, PyObject* o) {
  if (PyUnicode_Check(o) || PyBytes_Check(o))
    fail<TypeError>("{}: elements must be numbers, got {}", op, type_name(o));
  fail<RuntimeError>("{}: no dtype can be inferred from {}", op,
                     o == Py_None ? std::string("None") : type_name(o));
}

// The dtype of a single element; `known` is the one before, which settles most cases at once.
DType element_dtype(const char* op, PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyFloat_Type) return default_dtype();
  if (type == &PyLong_Type) return DType::Int64;
  if (type == &PyBool_Type) return DType::Bool;
  if (PyComplex_CheckExact(o)) return default_complex();
  if (is_tensor(o)) return tensor_of(o).dtype();
  DType dtype;
  if (numpy_scalar_dtype(o, dtype)) return dtype;
  if (PyFloat_Check(o)) return default_dtype();
  if (PyLong_Check(o)) return DType::Int64;
  if (PyComplex_Check(o)) return default_complex();
  bad_element(op, o);
}

class Inference {
 public:
  explicit Inference(const char* op) : op_(op) {}
  void add(PyObject* o, int depth) {
    if (Py_TYPE(o) == last_) return;
    if (!is_nested(o)) {
      merge(element_dtype(op_, o));
      if (!is_tensor(o)) last_ = Py_TYPE(o);
      return;
    }
    FL_CHECK(depth < kDeepest, ValueError, "{}: nested deeper than {} levels", op_, kDeepest);
    Elements elements(o);
    for (Py_ssize_t i = 0; i < elements.size(); i++) add(elements[i], depth + 1);
  }
  DType get() const { return has_ ? dtype_ : default_dtype(); }

 private:
  void merge(DType t) {
    dtype_ = has_ ? promote_types(dtype_, t) : t;
    has_ = true;
  }
  const char* op_;
  PyTypeObject* last_ = nullptr;  // elements of the same type add nothing
  DType dtype_{};
  bool has_ = false;
};

// ---- storing ----

struct Range {
  int64_t low;
  uint64_t high;
};
Range range_of(DType t) {
  int bits = 8 * int(itemsize(t));
  if (info(t).category == 'u') return {0, ~uint64_t{0} >> (64 - bits)};
  return {std::numeric_limits<int64_t>::min() >> (64 - bits), (uint64_t{1} << (bits - 1)) - 1};
}

// Values must fit: a float in an integer type is cut, one beyond the type's range is an error.
// Negative ints wrap in unsigned types below 64 bits, as in torch.
bool fits(const Scalar& s, DType dtype) {
  Range range = range_of(dtype);
  if (s.is_float()) {
    // The upper bound of 64 bits is no double: compare with the next one.
    double v = s.to_double();
    return v >= double(range.low) &&
           (itemsize(dtype) == 8 ? v < double(range.high) + 1 : v <= double(range.high));
  }
  if (s.kind() == Scalar::Kind::UInt) return uint64_t(s.to_int()) <= range.high;
  int64_t v = s.to_int();
  if (v >= 0) return uint64_t(v) <= range.high;
  return range.low ? v >= range.low : itemsize(dtype) < 8 && -uint64_t(v) <= range.high;
}

void check_fits(const char* op, const Scalar& s, DType dtype) {
  FL_CHECK(!s.is_complex() || is_complex(dtype) || dtype == DType::Bool, TypeError,
           "{}: a complex number cannot be stored as {}", op, dtype);
  if (!is_integer(dtype) || fits(s, dtype)) return;
  if (dtype == DType::UInt64 && !s.is_float())
    fail<OverflowError>("{}: {} does not fit into uint64", op, s);
  if (s.kind() == Scalar::Kind::UInt && dtype == DType::Int64)
    fail<ValueError>("{}: {} does not fit into int64", op, s);
  fail<RuntimeError>("{}: {} does not fit into {}", op, s, dtype);
}

bool fits_64_bits(PyObject* o) {
  int overflow = 0;
  (void)PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return true;
  if (overflow < 0) return false;
  bool fits = !(PyLong_AsUnsignedLongLong(o) == ~0ull && PyErr_Occurred());
  if (!fits) PyErr_Clear();
  return fits;
}

Scalar element_value(const char* op, PyObject* o) {
  Scalar s;
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    if (t.numel() == 1) return read_item(t);
    constexpr std::string_view text =
        "{}: a tensor inside a list must have one element, got shape {}; use stack";
    if (is_integer(t.dtype())) fail<TypeError>(text, op, t.sizes());
    fail<ValueError>(text, op, t.sizes());
  }
  if (PyLong_Check(o) && !fits_64_bits(o))
    fail<ValueError>("{}: {} does not fit into 64 bits", op, repr_text(o));
  if (!as_scalar(o, s)) {
    if (is_nested(o))
      fail<TypeError>("{}: nested sequences must be equally deep, got {} for a number", op,
                      type_name(o));
    bad_element(op, o);
  }
  return s;
}

void store(const char* op, char* to, DType dtype, PyObject* o) {
  Scalar s = element_value(op, o);
  check_fits(op, s, dtype);
  store_element(to, dtype, s);
}

// A row of exact Python floats or ints in the two dtypes that they usually go to.
void store_row(const char* op, char* to, DType dtype, Elements& row) {
  int64_t item = itemsize(dtype);
  for (Py_ssize_t i = 0; i < row.size(); i++, to += item) {
    PyObject* o = row[i];
    if (dtype == DType::Float32 && Py_TYPE(o) == &PyFloat_Type) {
      float v = float(PyFloat_AsDouble(o));
      std::memcpy(to, &v, 4);
    } else if (dtype == DType::Int64 && Py_TYPE(o) == &PyLong_Type) {
      int64_t v = PyLong_AsLongLong(o);
      if (v == -1 && PyErr_Occurred()) throw ErrorSet{};
      std::memcpy(to, &v, 8);
    } else {
      store(op, to, dtype, o);
    }
  }
}

char* fill_level(const char* op, PyObject* data, const Tensor& t, int64_t dim, char* to) {
  if (dim == t.ndim()) {
    store(op, to, t.dtype(), data);
    return to + itemsize(t.dtype());
  }
  FL_CHECK(is_nested(data), TypeError, "{}: expected a sequence at dim {}, got {}", op, dim,
           type_name(data));
  Elements elements(data);
  FL_CHECK(elements.size() == t->sizes[dim], ValueError,
           "{}: sequences at dim {} must have equal lengths, got {} and {}", op, dim, t->sizes[dim],
           int64_t(elements.size()));
  if (dim + 1 == t.ndim()) {
    store_row(op, to, t.dtype(), elements);
    return to + elements.size() * itemsize(t.dtype());
  }
  for (Py_ssize_t i = 0; i < elements.size(); i++) to = fill_level(op, elements[i], t, dim + 1, to);
  return to;
}

}  // namespace

bool is_nested(PyObject* o) {
  if (PyList_Check(o) || PyTuple_Check(o)) return true;
  PyTypeObject* type = Py_TYPE(o);
  if (type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type || PyUnicode_Check(o) ||
      PyBytes_Check(o) || PyDict_Check(o))
    return false;
  if (is_tensor(o)) return false;  // inside a list it stands for its one value
  if (!PySequence_Check(o)) return false;
  if (PySequence_Size(o) >= 0) return true;
  PyErr_Clear();  // a 0-d array
  return false;
}

Ints nested_sizes(const char* op, PyObject* data) {
  Ints sizes;
  Ref at = Ref::borrow(data);
  while (is_nested(at.get())) {
    Elements elements(at.get());
    sizes.push_back(elements.size());
    FL_CHECK(sizes.size() <= kMaxDims, ValueError, "{}: nested deeper than {} dims", op, kMaxDims);
    if (!elements.size()) break;
    at = Ref::borrow(elements[0]);
  }
  return sizes;
}

DType nested_dtype(const char* op, PyObject* data) {
  Inference inference(op);
  inference.add(data, 0);
  return inference.get();
}

void fill_nested(const char* op, PyObject* data, const Tensor& to) {
  fill_level(op, data, to, 0, to->data);
}

}  // namespace flambeau::python
