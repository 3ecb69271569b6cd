// A node of the tape: what an op leaves behind so that its backward can run. The generator emits
// one type per row.
#pragma once
#include <span>

#include "flambeau/core/promote.h"
#include "flambeau/tape/meta.h"

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
  const char* op;    // "mul"
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

// A hook of a whole node. `before` may change the gradients that arrive, `after` those that it
// sends.
struct NodeHook {
  int64_t id = 0;
  void (*before)(void* context, std::span<Tensor> grads) = nullptr;
  void (*after)(void* context, std::span<Tensor> sent, std::span<const Tensor> grads) = nullptr;
  void (*drop)(void* context) = nullptr;
  void* context = nullptr;
};

struct NodeHooks {  // rarely present
  std::vector<Hook> pre;
  std::vector<NodeHook> before, after;
  std::vector<std::pair<TensorImpl*, int>>
      retained;  // retain_grad: living outputs that want their gradient
};

class SavedResult;

struct Node {
  const NodeType* type;
  std::atomic<int32_t> refs{1};
  uint16_t edge_count = 0;
  uint16_t output_count = 1;
  bool released = false;  // the saved values are gone: a second backward is an error
  uint8_t queued = 0;
  bool edges_allocated = false;
  uint64_t sequence = 0;
  Edge* edges = nullptr;
  Tensor grad;                                // the engine's slot of output 0
  std::vector<Tensor>* more_grads = nullptr;  // all slots, where there are several outputs
  std::atomic<void*> pass{nullptr};           // which backward pass the slots belong to
  Node* next_dying = nullptr;
  Location where;
  Location freed_by;  // the backward call that released it
  NodeHooks* hooks = nullptr;
  void* py = nullptr;            // Python object of this node, if one exists
  bool py_owned = false;         // the node keeps that object alive, and not the other way round
  SavedResult* results[2] = {};  // slots that hold outputs of this node

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
// saved_tensors_hooks: the Python layer packs a tensor into an object of its own and unpacks it
// again.
struct SavedHooks {
  void* (*pack)(const Tensor& t) = nullptr;  // null result: no hooks are active
  Tensor (*unpack)(void* packed) = nullptr;
  void (*drop)(void* packed) = nullptr;
};
FL_API extern constinit SavedHooks saved_hooks;

// The node is about to be freed and owns its Python object.
FL_API extern void (*drop_node_object)(Node* node);

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
  FL_API void set(const Tensor& result, int output_nr = 0);
  FL_API Tensor get(Node* node, const char* name) const;
  FL_API void clear();

 private:
  friend FL_API void leave_node(TensorImpl* impl);
  Tensor with_history(const Tensor& value, Node* node) const;

  TensorImpl* raw_ = nullptr;
  Tensor owned_;
  void* packed_ = nullptr;  // a Python object made by a pack hook
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

// What the Python layer knows of source lines; each may be null.
struct LocationHooks {
  void (*locate)(Location& where) = nullptr;                 // fills in the running line
  std::string (*describe)(const Location& where) = nullptr;  // "train.py:12"
  void (*drop)(Location& where) = nullptr;
};
FL_API extern constinit LocationHooks location_hooks;
FL_API std::string described(const Location& where);  // " at train.py:12", or nothing

template <class N>
N* new_node(const NodeType& type) {
  N* n = new (allocate_node(sizeof(N))) N;
  n->type = &type;
  if (location_hooks.locate) location_hooks.locate(n->where);
  return n;
}

// Ties edge `i` to what produced `input` and raises the node's sequence number above it.
FL_API void connect(Node* node, int i, const Tensor& input);
// Gives the node to its outputs (those of inexact dtype; null: not differentiable) and takes the
// caller's reference.
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
  void set(const Tensor& input) {  // where the derivative has the input's sizes already
    if (input.defined()) dtype_ = input.dtype();
  }
  void set(const Tensor& input, const Tensor& result) {
    if (!input.defined()) return;
    dtype_ = input.dtype();
    if (FL_UNLIKELY(!(input.sizes() == result.sizes()))) sizes_ = new Ints(input.sizes());
  }
  Tensor operator()(Tensor grad) const {
    if (!grad.defined()) return grad;
    if (FL_LIKELY(!sizes_ && grad.dtype() == dtype_)) return grad;
    IntList sizes = sizes_ ? IntList(*sizes_) : grad.sizes();
    return fit_grad(std::move(grad), sizes, dtype_);
  }

 private:
  Ints* sizes_ = nullptr;
  DType dtype_{};
};

// Several saved tensors.
class SavedList {
 public:
  void set(TensorList list) {
    items_ = std::vector<Saved>(list.size());
    for (size_t i = 0; i < list.size(); i++) items_[i].set(list[i]);
  }
  std::vector<Tensor> get(const Node* node, const char* name) const {
    std::vector<Tensor> list;
    for (const Saved& s : items_) list.push_back(s.get(node, name));
    return list;
  }
  void clear() { items_.clear(); }

 private:
  std::vector<Saved> items_;
};

template <class N>
void destroy_node(Node* node) {
  static_cast<N*>(node)->~N();
}

// Nodes of ops that take lists have as many edges as the lists have tensors.
FL_API void allocate_edges(Node* node, int count);
FL_API void connect_list(Node* node, int first, TensorList inputs);
// Tells the node where its saved results are, so that a dying output can hand its memory over.
FL_API void keep_results(Node* node, std::initializer_list<SavedResult*> slots);

// Drops a node unless it was attached: an op may fail between making its node and finishing.
class NodeGuard {
 public:
  explicit NodeGuard(Node* node) : node_(node) {}
  ~NodeGuard() {
    if (node_) node_->decref();
  }
  NodeGuard(const NodeGuard&) = delete;
  Node* release() { return std::exchange(node_, nullptr); }

 private:
  Node* node_;
};

// ---- the engine ----
struct BackwardCall {
  std::vector<Tensor> roots, grads;  // a grad may be undefined: ones for a single element
  std::vector<Tensor> inputs;        // not empty: return their gradients and accumulate nowhere
  bool accumulate = false;  // with inputs: accumulate into them instead (backward(inputs=))
  bool keep_graph = false, create_graph = false;
};
// Runs the tape. Gradients of `inputs`, undefined where a root does not depend on one.
FL_API std::vector<Tensor> run_backward(const BackwardCall& call);

// Hooks of a tensor: on a leaf before accumulation, else on its node's output. Returns the id to
// remove it by.
FL_API int64_t add_hook(const Tensor& t, Hook hook);
FL_API void remove_hook(const Tensor& t, int64_t id);
FL_API void retain_grad(const Tensor& t);
// The node that stands for accumulation into a leaf: a new reference. It exists while somebody
// holds it, and its hooks with it.
FL_API Node* accumulator_of(const Tensor& leaf);
FL_API extern const NodeType kAccumulateGrad;
FL_API Tensor accumulated_leaf(const Node* accumulator);

}  // namespace flambeau
