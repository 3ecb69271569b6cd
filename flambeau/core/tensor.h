// Tensor: a counted pointer to a TensorImpl, which is a view of a Storage. No ops here: those come
// from the table.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "flambeau/core/check.h"
#include "flambeau/core/method_args.h"
#include "flambeau/core/storage.h"
#include "flambeau/core/tls.h"
#include "flambeau/generated/methods.h"

namespace flambeau {

struct Node;        // autograd/node.h
struct TensorMeta;  // autograd/meta.h: leaves, views, hooks, levels
class TensorIndex;  // ops/index.h
inline constexpr int kMaxDims = 64;

// Bits of TensorImpl::flags. Any bit of kSlow sends ops on this tensor down the slow path.
enum TensorFlags : uint8_t {
  kRequiresGrad = 1,  // a leaf that wants its gradient, or a tensor with a node
  kContiguous = 2,
  kNoGradView = 4,  // a view made while the tape was off
  kInference = 8,
  kBatched = 16,
  kDual = 32,
  kSparse = 64,    // a shell around strided tensors (ops/sparse.h)
  kForeign = 128,  // of a class that answers for its ops itself (autograd/below.h)
  kSlow = kBatched | kDual | kSparse | kForeign,
};

struct TensorImpl {
  RefCount refs;
  DType dtype = DType::Float32;
  uint8_t ndim = 0;
  uint8_t flags = kContiguous;
  std::atomic<uint8_t> py_owned{0};  // C++ keeps the Python object alive (python/src/tensor.cpp)
  Device device;
  uint16_t history =
      0;  // of a base: how often it was written through a view; of a view: the number it last saw
  uint16_t output_nr = 0;  // which output of grad_fn this is
  Layout layout = Layout::Strided;
  bool is_parameter = false;
  bool is_number = false;  // stands for a Python number in promotion
  int64_t numel = 1;
  char* data = nullptr;  // first element: storage->data + offset * itemsize
  Storage* storage = nullptr;
  Storage* counter = nullptr;  // whose version counts: the storage, or one of our own (.data, set_)
  Node* grad_fn = nullptr;
  TensorImpl* base = nullptr;  // what this is a view of (never itself a view); counted
  TensorMeta* meta = nullptr;
  void* py = nullptr;        // the Python object, if one exists
  int64_t* sizes = inline_;  // ndim sizes, then at `strides` ndim strides
  int64_t* strides = inline_ + kInlineDims;

  static constexpr int kInlineDims = 6;
  int64_t inline_[2 * kInlineDims];

  void incref() { refs.up(); }
  void decref() {
    if (refs.down()) destroy();
  }
  bool requires_grad() const {
    return flags & kRequiresGrad ||
           (FL_UNLIKELY(base != nullptr) && base->flags & kRequiresGrad && !(flags & kNoGradView));
  }
  bool contiguous() const { return flags & kContiguous; }
  uint32_t version() const { return counter->version; }
  void bump_version() { counter->version++; }
  int64_t offset() const {
    // Item sizes are powers of two.
    return storage->data ? (data - storage->data) >> __builtin_ctzll(uint64_t(itemsize(dtype)))
                         : meta_offset;
  }
  int64_t meta_offset = 0;  // element offset where there is no memory

  FL_API void destroy();
  // Room for `count` dims; sizes and strides are undefined afterwards.
  FL_API void reserve_dims(int count);
  // Recomputes numel and the contiguous bit from sizes and strides.
  FL_API void refresh();
};

// The methods of ops come from the table (flambeau/flambeau.h has their bodies); below is what is
// no op.
class Tensor : public TensorMethods<Tensor> {
 public:
  Tensor() = default;
  explicit Tensor(TensorImpl* steal) : p_(steal) {}
  Tensor(const Tensor& o) : p_(o.p_) {
    if (p_) p_->incref();
  }
  Tensor(Tensor&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Tensor& operator=(const Tensor& o) {
    Tensor copy(o);
    std::swap(p_, copy.p_);
    return *this;
  }
  Tensor& operator=(Tensor&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Tensor() {
    if (p_) p_->decref();
  }
  static Tensor borrow(TensorImpl* p) {
    if (p) p->incref();
    return Tensor(p);
  }

  bool defined() const { return p_; }
  explicit operator bool() const { return p_; }
  TensorImpl* impl() const { return p_; }
  TensorImpl* operator->() const { return p_; }
  TensorImpl* release() { return std::exchange(p_, nullptr); }
  bool is(const Tensor& o) const { return p_ == o.p_; }

  DType dtype() const { return p_->dtype; }
  Device device() const { return p_->device; }
  int64_t ndim() const { return p_->ndim; }
  int64_t dim() const { return p_->ndim; }
  int64_t numel() const { return p_->numel; }
  IntList sizes() const { return {p_->sizes, p_->ndim}; }
  IntList strides() const { return {p_->strides, p_->ndim}; }
  int64_t size(int64_t dim) const { return p_->sizes[dim < 0 ? dim + p_->ndim : dim]; }
  int64_t stride(int64_t dim) const { return p_->strides[dim < 0 ? dim + p_->ndim : dim]; }
  bool is_contiguous() const { return p_->contiguous(); }
  bool requires_grad() const { return p_->requires_grad(); }
  template <class T = char>
  T* data() const {
    return reinterpret_cast<T*>(p_->data);
  }
  template <class T>
  T* data_ptr() const {
    return data<T>();
  }

  // The gradient of a leaf, undefined if there is none yet (autograd/meta.cpp).
  FL_API Tensor grad() const;
  FL_API Tensor& set_requires_grad(bool on = true);
  const Tensor& requires_grad_(bool on = true) const {
    return const_cast<Tensor*>(this)->set_requires_grad(on);
  }
  bool is_leaf() const { return !p_->grad_fn; }
  // Runs the tape from here; `gradient` may be left out for a single element (autograd/engine.cpp).
  FL_API void backward() const;
  FL_API void backward(const Tensor& gradient, bool retain_graph = false,
                       bool create_graph = false) const;
  // The value of a one-element tensor (one read, no copy to another tensor).
  FL_API Scalar item() const;
  template <class T>
  T item() const {
    return item().to<T>();
  }

  // x[i] along the first dim; index takes the keys of Python's x[...] (ops/index.h).
  FL_API Tensor operator[](int64_t i) const;
  FL_API Tensor operator[](const TensorIndex& key) const;
  FL_API Tensor index(std::initializer_list<TensorIndex> keys) const;
  FL_API const Tensor& index_put_(std::initializer_list<TensorIndex> keys,
                                  const Tensor& value) const;
  FL_API const Tensor& index_put_(std::initializer_list<TensorIndex> keys,
                                  const Scalar& value) const;
  using TensorMethods<Tensor>::index_put_;

 private:
  TensorImpl* p_ = nullptr;
};

// ---- making tensors: uninitialised memory or a view; no tape, no dispatch ----
struct Geometry {  // what a view op computes
  Ints sizes, strides;
  int64_t offset = 0;  // in elements of the new dtype, from the start of the storage
};

FL_API Tensor new_tensor(IntList sizes, DType dtype, Device device = Device{});
FL_API Tensor new_strided(IntList sizes, IntList strides, DType dtype, Device device = Device{});
// Same sizes as `like`, dims ordered in memory as there when it is dense, else contiguous.
FL_API Tensor new_like(const Tensor& like, DType dtype);
// A TensorImpl on the same storage, sharing the version counter; grad_fn and meta stay empty.
FL_API Tensor alias(const Tensor& of);
FL_API Tensor alias(const Tensor& of, const Geometry& geometry);
// x.data: the same memory without history and with a version counter of its own. And its exchange
// (autograd/data.cpp).
FL_API Tensor data_of(const Tensor& t);
FL_API void set_data(const Tensor& t, const Tensor& source);
// A tensor over memory that somebody else made.
FL_API Tensor from_storage(StoragePtr storage, IntList sizes, IntList strides, int64_t offset,
                           DType dtype);
FL_API Ints contiguous_strides(IntList sizes);
FL_API bool is_contiguous_as(IntList sizes, IntList strides, MemoryFormat format);
FL_API Ints channels_last_strides(IntList sizes);
// May two elements share memory (expanded dims)? Exact for dense and expanded tensors, careful
// otherwise.
FL_API bool has_internal_overlap(const Tensor& t);
// Maybe: the spans cross, but strides may keep the elements apart.
enum class Overlap : uint8_t { None, Same, Maybe, Partial };
FL_API Overlap memory_overlap(const Tensor& a, const Tensor& b);
FL_API void copy_dims(TensorImpl* to, IntList sizes, IntList strides);

// Whoever reads or hands out memory without an op needs a tensor that has its elements there.
FL_API void check_elements(std::string_view what, const Tensor& t);

// Dims as users give them: -ndim <= dim < ndim; a 0-d tensor accepts 0 and -1.
FL_API int64_t wrap_dim(std::string_view op, int64_t dim, int64_t ndim);
FL_API int64_t numel_of(IntList sizes);  // throws on overflow

// Dropping a tensor that Python owns, or its lazily made parts, is the business of higher rooms:
// they set these.
struct CoreHooks {
  void (*leave_node)(TensorImpl*) = nullptr;
  void (*drop_meta)(TensorMeta*) = nullptr;
  void (*drop_writer)(void*) = nullptr;
  bool (*drop_python)(TensorImpl*) = nullptr;  // true: the Python layer takes over
  void (*drop_python_storage)(Storage*) = nullptr;
};
FL_API extern constinit CoreHooks core_hooks;

}  // namespace flambeau
