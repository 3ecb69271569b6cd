// The keys of x[...]: ints, slices, None, Ellipsis, bools, tensors, arrays and sequences, by
// torch's rules.
#include "python/src/index_keys.h"

#include "flambeau/generated/ops.h"
#include "flambeau/ops/runtime.h"
#include "python/src/arrays.h"
#include "python/src/recording.h"
#include "python/src/sequences.h"
#include "python/src/wrap.h"

namespace flambeau::python {
namespace {

constexpr std::string_view kKinds = "an int, slice, None, Ellipsis, bool, tensor or sequence";

bool is_mask_dtype(DType t) { return t == DType::Bool || t == DType::UInt8; }

// ---- reading keys ----

// An int of Python or NumPy; neither a bool nor a tensor.
bool plain_int(PyObject* o, int64_t& out) {
  if (PyLong_Check(o)) {
    if (PyBool_Check(o)) return false;
    int overflow;
    out = PyLong_AsLongLongAndOverflow(o, &overflow);
    FL_CHECK(!overflow, ValueError, "index: {} does not fit into 64 bits", repr_text(o));
    if (out == -1 && PyErr_Occurred()) throw ErrorSet{};
    return true;
  }
  if (PyTuple_Check(o) || PyList_Check(o) || is_tensor(o) || is_ndarray(o)) return false;
  if (!PyIndex_Check(o)) return false;
  Ref index = own(PyNumber_Index(o));
  return plain_int(index.get(), out);
}

Tensor tensor_of_sequence(PyObject* o) {
  Ints sizes = nested_sizes("index", o);
  bool empty = numel_of(sizes) == 0;
  DType dtype = empty ? DType::Int64 : nested_dtype("index", o);
  FL_CHECK(is_integer(dtype) || dtype == DType::Bool, IndexError,
           "index: a sequence of indices must hold ints or bools, got {}", dtype);
  Tensor t = new_tensor(sizes, dtype == DType::Bool ? dtype : DType::Int64);
  if (!empty) fill_nested("index", o, t);
  return t;
}

Tensor tensor_of_array(PyObject* o) {
  Tensor t = from_array_like(o);
  FL_CHECK(is_integer(t.dtype()) || t.dtype() == DType::Bool, IndexError,
           "index: an array of indices must hold ints or bools, got {}", t.dtype());
  if (t.dtype() == DType::Bool || t.dtype() == DType::Int64) return t;
  return ops::to(t, DType::Int64);
}

Tensor mask_of(bool value, Device device) {
  Tensor t = new_tensor({1}, DType::Bool);
  *t.data<bool>() = value;
  return device.type == DeviceType::CPU ? t : ops::to(t, device);
}

// A list counts as a tuple of keys if it holds something that only a key can be (NumPy's old rule,
// which torch keeps).
bool is_key_list(PyObject* o) {
  if (is_ndarray(o) || !PySequence_Check(o)) return false;
  FL_CHECK(!PyUnicode_Check(o) && !PyBytes_Check(o), TypeError, "index: must be {}, got {}", kKinds,
           type_name(o));
  Py_ssize_t n = PySequence_Size(o);
  if (n < 0) PyErr_Clear();
  if (n < 0 || n >= 32) return false;
  for (Py_ssize_t i = 0; i < n; i++) {
    Ref item = own(PySequence_GetItem(o, i));
    PyObject* p = item.get();
    if (is_tensor(p) || PySlice_Check(p) || p == Py_Ellipsis || p == Py_None ||
        (PySequence_Check(p) && !PyUnicode_Check(p)))
      return true;
  }
  return false;
}

struct Key {
  enum Kind : uint8_t { Int, Slice, NewDim, Rest, Flag, Index } kind;
  int64_t integer = 0;  // of Int and Flag
  Ref object = {};      // a slice, or an int that a recording wants to see
  Tensor tensor = {};   // of Index

  int64_t consumes() const {
    if (kind == Index) return is_mask_dtype(tensor.dtype()) ? tensor.ndim() : 1;
    return kind == Int || kind == Slice;
  }
};

Key tensor_key(Tensor t) {
  Key key{Key::Index, 0, {}, std::move(t)};
  if (key.tensor.ndim()) return key;
  DType dtype = key.tensor.dtype();
  FL_CHECK(is_integer(dtype) || dtype == DType::Bool, IndexError,
           "index: a tensor of indices must be int64, int32, bool or uint8, got {}", dtype);
  if (key.tensor->flags & kBatched && !is_mask_dtype(dtype)) return key;  // differs by example
  key.kind = is_mask_dtype(dtype) ? Key::Flag : Key::Int;
  key.integer = read_item(key.tensor).to_int();
  return key;
}

Key read_key(PyObject* o) {
  int64_t integer;
  if (o == Py_None) return {Key::NewDim};
  if (o == Py_Ellipsis) return {Key::Rest};
  if (PySlice_Check(o)) return {Key::Slice, 0, Ref::borrow(o)};
  if (PyBool_Check(o)) return {Key::Flag, o == Py_True};
  if (plain_int(o, integer)) return {Key::Int, integer, is_recording() ? Ref::borrow(o) : Ref()};
  if (is_tensor(o)) return tensor_key(tensor_of(o));
  if (is_ndarray(o)) return tensor_key(tensor_of_array(o));
  if (PyUnicode_Check(o)) fail<TypeError>("index: must be {}, got str", kKinds);
  if (is_nested(o)) return tensor_key(tensor_of_sequence(o));
  fail<IndexError>("index: must be {}, got {}", kKinds, type_name(o));
}

std::vector<Key> read_keys(PyObject* key) {
  std::vector<Key> keys;
  if (PyTuple_Check(key) || (!is_tensor(key) && is_key_list(key))) {
    Ref tuple = own(PySequence_Tuple(key));
    for (Py_ssize_t i = 0, n = PyTuple_Size(tuple.get()); i < n; i++)
      keys.push_back(read_key(PyTuple_GetItem(tuple.get(), i)));
  } else {
    keys.push_back(read_key(key));
  }
  return keys;
}

// ---- applying them ----

struct Range {
  int64_t start, stop, step, length;
  Py_ssize_t given_start, given_stop;  // as the user wrote them
  PyObject* slice;
  bool everything() const { return given_start == 0 && given_stop == PY_SSIZE_T_MAX && step == 1; }
};

Range range_of(PyObject* slice, int64_t size) {
  Py_ssize_t start, stop, step;
  checked(PySlice_Unpack(slice, &start, &stop, &step));
  FL_CHECK(step > 0, ValueError, "index: the step of a slice must be positive, got {}",
           int64_t(step));
  Py_ssize_t given_start = start, given_stop = stop;
  int64_t length = std::max<Py_ssize_t>(PySlice_AdjustIndices(size, &start, &stop, step), 0);
  return {start, std::max(start, stop), step, length, given_start, given_stop, slice};
}

int64_t checked_int(int64_t index, const Tensor& x, int64_t dim, int64_t size) {
  FL_CHECK(-size <= index && index < size, IndexError,
           "index: {} is out of range for dim {} of size {} (shape {})", index, dim, size,
           x.sizes());
  return index < 0 ? index + size : index;
}

// Two ways to apply a key: as arithmetic on one geometry, or by the ops that a tape or a recorder
// should see.
class Views {
 public:
  explicit Views(const Tensor& x) : x_(x), plain_(is_plain(x)) {
    if (plain_) {
      sizes_ = x.sizes();
      strides_ = x.strides();
    } else {
      now_ = x;
    }
  }
  int64_t size(int64_t dim) const { return plain_ ? sizes_[size_t(dim)] : now_.size(dim); }
  void select(int64_t dim, int64_t index) {
    changed_ = true;
    if (!plain_) return void(now_ = ops::select(now_, dim, index));
    offset_ += index * strides_[size_t(dim)];
    sizes_.erase(size_t(dim));
    strides_.erase(size_t(dim));
  }
  void slice(int64_t dim, const Range& r) {
    if (is_recording()) return slice_as_given(dim, r);
    if (r.step == 1 && r.length == size(dim)) return;
    changed_ = true;
    if (!plain_) return void(now_ = ops::slice(now_, dim, r.start, r.stop, r.step));
    offset_ += r.start * strides_[size_t(dim)];
    sizes_[size_t(dim)] = r.length;
    strides_[size_t(dim)] *= r.step;
  }
  void new_dim(int64_t dim) {
    changed_ = true;
    if (!plain_) return void(now_ = ops::unsqueeze(now_, dim));
    bool last = size_t(dim) == sizes_.size();
    int64_t stride = last ? 1 : sizes_[size_t(dim)] * strides_[size_t(dim)];
    sizes_.insert(size_t(dim), 1);
    strides_.insert(size_t(dim), stride);
  }
  Tensor take() {
    if (!changed_) return x_;
    return plain_ ? view_of(x_, sizes_, strides_, offset_) : now_;
  }

 private:
  // A recording keeps what the user wrote: its replay may see other sizes.
  void slice_as_given(int64_t dim, const Range& r) {
    if (r.everything()) return;
    constexpr const char* kParts[] = {"start", "stop", "step"};
    for (int i = 0; i < 3; i++) {
      Ref part = own(PyObject_GetAttrString(r.slice, kParts[i]));
      note_sizes(i + 2, part.get());
    }
    changed_ = true;
    now_ = ops::slice(now_, dim, r.given_start, r.given_stop, r.step);
  }

  const Tensor& x_;
  bool plain_, changed_ = false;
  Ints sizes_, strides_;
  int64_t offset_ = 0;
  Tensor now_;
};

// Where the keys have got to.
class Cursor {
 public:
  Cursor(const Tensor& x, int64_t used) : x_(x), views_(x), rest_(x.ndim() - used) {}

  void apply(const Key& k) {
    FL_CHECK(!k.consumes() || from_ + k.consumes() <= x_.ndim(), IndexError,
             "index: an index after a second Ellipsis has no dim left, shape {}", x_.sizes());
    switch (k.kind) {
      case Key::Int:
        if (k.object) {
          note_sizes(2, k.object.get());
          views_.select(dim_, k.integer);
        } else {
          views_.select(dim_, checked_int(k.integer, x_, from_, x_.size(from_)));
        }
        from_++;
        break;
      case Key::Slice:
        views_.slice(dim_++, range_of(k.object.get(), x_.size(from_)));
        from_++;
        break;
      case Key::NewDim:
        views_.new_dim(dim_++);
        break;
      case Key::Rest: {
        int64_t kept = std::min(rest_, x_.ndim() - from_);
        dim_ += kept;
        from_ += kept;
        break;
      }
      case Key::Flag:
        views_.new_dim(dim_);
        leave(mask_of(k.integer != 0, x_.device()), 1);
        break;
      case Key::Index:
        leave(k.tensor, k.consumes());
        from_ += k.consumes();
        break;
    }
  }
  Indexed take() { return {views_.take(), std::move(indices_)}; }

 private:
  // An index tensor for the next `dims` dims of the view.
  void leave(const Tensor& index, int64_t dims) {
    for (; covered_ < dim_; covered_++) indices_.emplace_back();
    indices_.push_back(index);
    dim_ += dims;
    covered_ = dim_;
  }

  const Tensor& x_;
  Views views_;
  std::vector<Tensor> indices_;
  int64_t rest_;                              // dims that an Ellipsis stands for
  int64_t dim_ = 0, from_ = 0, covered_ = 0;  // in the view, in x, in the view's index list
};

}  // namespace

Tensor view_of(const Tensor& x, IntList sizes, IntList strides, int64_t offset) {
  Tensor view = alias(x);
  copy_dims(view.impl(), sizes, strides);
  if (view->data) view->data += offset * itemsize(x.dtype());
  view->meta_offset += offset;  // counts only where there is no memory
  view->refresh();
  note_base(view, x);
  return view;
}

bool is_plain(const Tensor& x) { return !recording(x) && !slow_mode(x); }

Indexed apply_keys(const Tensor& x, PyObject* key) {
  std::vector<Key> keys = read_keys(key);
  int64_t used = 0;
  for (const Key& k : keys) used += k.consumes();
  FL_CHECK(used <= x.ndim(), IndexError, "index: {} indices for a tensor of {} dims, shape {}",
           used, x.ndim(), x.sizes());
  Cursor c(x, used);
  for (const Key& k : keys) c.apply(k);
  return c.take();
}

}  // namespace flambeau::python
