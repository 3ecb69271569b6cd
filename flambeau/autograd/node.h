// A node of the tape: what an op leaves behind so that its backward can run. The generator emits
// one type per row.
#pragma once
#include "flambeau/autograd/meta.h"
#include "flambeau/core/promote.h"

namespace flambeau {

// Where a gradient goes: to output `nr` of another node, or into a leaf. Neither: nobody wants it.
struct Edge {
  Node* node = nullptr;
  TensorImpl* leaf = nullptr;
  uint16_t nr = 0;
  bool wanted() const { return node || leaf; }
};

struct NodeType {
  const char* name;  // "MulBackward0"
  // grads[nr] (undefined: nobody used that output) -> out[i] for every wanted edge i.
  void (*backward)(Node* node, const Tensor* grads, Tensor* out);
  void (*release)(Node* node);  // drops the saved values
  void (*destroy)(Node* node);  // runs the destructor
  uint16_t size;                // bytes, to know the pool
};

// The source line of an op: a code object and an instruction, resolved only when something fails.
struct Location {
  void* code = nullptr;
  int32_t offset = 0;
};

struct NodeHooks {  // rarely present
  std::vector<Hook> pre, post;
};

class SavedResult;

struct Node {
  const NodeType* type;
  std::atomic<int32_t> refs{1};
  uint16_t edge_count = 0;
  uint16_t output_count = 1;
  bool released = false;  // the saved values are gone: a second backward is an error
  uint8_t queued = 0;
  uint64_t sequence = 0;
  Edge* edges = nullptr;
  Tensor grad;                   // the engine's slot of output 0
  Tensor* more_grads = nullptr;  // of outputs 1 ..., allocated by the engine
  void* pass = nullptr;          // which backward pass the slots belong to
  Location where;
  Location freed_by;  // the backward call that released it
  NodeHooks* hooks = nullptr;
  void* py = nullptr;              // Python object of this node, if one exists
  SavedResult* results = nullptr;  // slots that hold outputs of this node, `result_count` of them
  uint8_t result_count = 0;

  void incref() { refs.fetch_add(1, std::memory_order_relaxed); }
  FL_API void decref();
};

template <int N>
struct NodeOf : Node {
  Edge slots[N > 0 ? N : 1];
  NodeOf() {
    edges = slots;
    edge_count = N;
  }
};

// ---- saved values ----
struct SavedHooks;  // pack/unpack of saved_tensors_hooks

// An input (or another tensor) kept for the backward pass, with the version it had.
class Saved {
 public:
  FL_API void set(const Tensor& t);
  // The tensor, or an error that names the op that saved it and the one that changed it.
  FL_API Tensor get(const Node* node, const char* name) const;
  bool defined() const { return t_.defined() || packed_; }
  FL_API void clear();
  const Tensor& raw() const { return t_; }

 private:
  Tensor t_;
  uint32_t version_ = 0;
  void* packed_ = nullptr;  // a Python object made by a pack hook
};

// An output of the op itself. A counted pointer would be a cycle, so it is a raw one while the
// output lives; when the output dies, or gets another history, the node takes the memory over
// (leave_node).
class SavedResult {
 public:
  FL_API void set(const Tensor& result);
  FL_API Tensor get(Node* node, const char* name) const;
  FL_API void clear();

 private:
  friend FL_API void leave_node(TensorImpl* impl);
  TensorImpl* raw_ = nullptr;
  Tensor owned_;
  uint32_t version_ = 0;
  uint16_t output_nr_ = 0;
};

// Cuts a tensor from its node: its grad_fn is dropped, after the node has taken over what it saved
// of it.
FL_API void leave_node(TensorImpl* impl);

// ---- recording ----
inline bool recording(const Tensor& a) { return tls.grad && a.defined() && a.requires_grad(); }
template <class... T>
bool recording(const Tensor& a, const T&... rest) {
  return recording(a) || recording(rest...);
}
FL_API bool recording_list(TensorList list);

FL_API void* allocate_node(size_t bytes);
FL_API extern void (*locate)(
    Location& where);  // the Python layer's: fills in the running line; may be null

template <class N>
N* new_node(const NodeType& type) {
  N* n = new (allocate_node(sizeof(N))) N;
  n->type = &type;
  if (locate) locate(n->where);
  return n;
}

// Ties edge `i` to what produced `input` and raises the node's sequence number above it.
FL_API void connect(Node* node, int i, const Tensor& input);
// Gives the node to its outputs (those of inexact dtype) and takes the caller's reference.
FL_API void attach(const Tensor& result, Node* node);
FL_API void attach(std::initializer_list<const Tensor*> results, Node* node);
FL_API void attach(TensorList results, Node* node);
// In-place: the node replaces the history of `self`; a view's base is rebuilt too.
FL_API void rebase(const Tensor& self, Node* node);
// Before an in-place op: leaves that require grad, inference tensors, views made in no_grad,
// expanded memory.
FL_API void check_inplace(std::string_view op, const Tensor& self);

// Brings a gradient back to the input it belongs to: sums broadcasts, casts, drops the imaginary
// part.
FL_API Tensor fit_grad(Tensor grad, IntList sizes, DType dtype);

// ---- what generated nodes share ----
// The dtype of an input and, only where they differ from the result's, its sizes.
class InputFit {
 public:
  InputFit() = default;
  InputFit(const InputFit&) = delete;
  ~InputFit() { delete sizes_; }
  void set(const Tensor& input, const Tensor& result) {
    if (!input.defined()) return;
    dtype_ = input.dtype();
    if (FL_UNLIKELY(!(input.sizes() == result.sizes()))) sizes_ = new Ints(input.sizes());
  }
  Tensor operator()(Tensor grad) const {
    if (FL_LIKELY(!grad.defined() || (!sizes_ && grad.dtype() == dtype_))) return grad;
    IntList sizes = sizes_ ? IntList(*sizes_) : grad.sizes();
    return fit_grad(std::move(grad), sizes, dtype_);
  }

 private:
  Ints* sizes_ = nullptr;
  DType dtype_{};
};

}  // namespace flambeau
