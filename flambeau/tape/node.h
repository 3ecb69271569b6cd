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

struct SavedVisitor;  // ops/shown.h

struct NodeType {
  const char* name;  // "MulBackward0"
  const char* op;    // "mul"
  // grads[nr] (undefined: nobody used that output) -> out[i] for every wanted edge i.
  void (*backward)(Node* node, const Tensor* grads, Tensor* out);
  void (*release)(Node* node);  // drops the saved values
  void (*destroy)(Node* node);  // runs the destructor
  uint16_t size;                // bytes, to know the pool
  // Tells what is saved, by name; null: nobody may ask.
  void (*show)(Node* node, const SavedVisitor& visitor) = nullptr;
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
  RefCount refs;
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
  Location location;
  Location freed_by;  // the backward call that released it
  NodeHooks* hooks = nullptr;
  void* py = nullptr;              // Python object of this node, if one exists
  bool py_owned = false;           // the node keeps that object alive, and not the other way round
  SavedResult* results = nullptr;  // slots that hold outputs of this node, each naming the next

  void incref() { refs.up(); }
  FL_API void decref();
  // Does somebody want the gradient of one of these edges?
  template <class... I>
  bool wants(I... edge) const {
    return (edges[edge].wanted() || ...);
  }
  const Edge& edge(int i) const { return edges[i]; }
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
  Saved() = default;
  Saved(Saved&& o) noexcept
      : t_(std::move(o.t_)), version_(o.version_), packed_(std::exchange(o.packed_, nullptr)) {}
  ~Saved() {
    if (FL_UNLIKELY(packed_ != nullptr)) saved_hooks.drop(packed_);
  }
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
  SavedResult() = default;
  SavedResult(const SavedResult&) = delete;
  ~SavedResult() {
    if (FL_UNLIKELY(packed_ != nullptr)) saved_hooks.drop(packed_);
  }
  FL_API void set(const Tensor& result, int output_nr = 0);
  FL_API Tensor get(Node* node, const char* name) const;
  FL_API void clear();

 private:
  friend FL_API void leave_node(TensorImpl* impl);
  friend FL_API void keep_result(Node* node, SavedResult& slot, const Tensor& result, int nr);
  Tensor with_history(const Tensor& value, Node* node) const;

  TensorImpl* raw_ = nullptr;
  Tensor owned_;
  void* packed_ = nullptr;  // a Python object made by a pack hook
  SavedResult* next_ = nullptr;
  uint32_t version_ = 0;
  uint16_t output_nr_ = 0;
};

// Cuts a tensor from its node: its grad_fn is dropped, after the node has taken over what it saved
// of it.
FL_API void leave_node(TensorImpl* impl);

// ---- recording ----
// Do derivatives call ops? Otherwise, where the tape is off and no level watches, those that are
// arithmetic are one loop.
inline bool by_ops() { return tls.grad || tls.mode & kModeBelow; }
inline bool recording(const Tensor& a) { return tls.grad && a.defined() && a.requires_grad(); }
FL_API bool recording(TensorList list);
template <class... T>
requires(sizeof...(T) > 1) bool recording(const T&... inputs) { return (recording(inputs) || ...); }

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
  if (location_hooks.locate) location_hooks.locate(n->location);
  return n;
}

// Ties edge `i` to what produced `input` and raises the node's sequence number above it.
FL_API void connect(Node* node, int i, const Tensor& input);
FL_API void connect(Node* node, int first, TensorList inputs);
// Gives the node to its outputs (those of inexact dtype; null: not differentiable) and takes the
// caller's reference.
FL_API void attach(const Tensor& result, Node* node, int differentiable = 1);
FL_API void attach(std::initializer_list<const Tensor*> results, Node* node);
FL_API void attach(TensorList results, Node* node, int differentiable = 1);
// Of several results the first ones are differentiable.
template <class... T>
void attach(const std::tuple<T...>& results, Node* node, int differentiable) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    attach({I < differentiable ? &std::get<I>(results) : nullptr...}, node);
  }
  (std::make_integer_sequence<int, sizeof...(T)>{});
}
// In-place: the node replaces the history of `self`; a view's base is rebuilt too.
FL_API void rebase(const Tensor& self, Node* node);
// Before an in-place op: leaves that require grad, inference tensors, views made in no_grad,
// expanded memory.
FL_API void check_inplace(std::string_view op, const Tensor& self);

// Brings a gradient back to the input it belongs to: sums broadcasts, casts, drops the imaginary
// part.
FL_API Tensor fit_grad(Tensor grad, IntList sizes, DType dtype);

// A gradient that knows its input only piecewise (a pool's winners): the second derivative is zero,
// not absent. The tape of a backward pass learns it from the input's edge; the input is not kept.
// `sizes` are the input's, where the gradient is not summed back to them yet.
FL_API Tensor tie_to_edge(const Tensor& grad, const Edge& input, IntList sizes);
inline Tensor tied(Tensor grad, const Edge& input, std::optional<IntList> sizes = {}) {
  if (FL_LIKELY(!tls.grad) || !grad.defined() || !input.wanted()) return grad;
  return tie_to_edge(grad, input, sizes.value_or(grad.sizes()));
}

// ---- what generated nodes share ----
// The dtype of an input and, only where they differ from the result's, its sizes.
class InputFit {
 public:
  InputFit() = default;
  InputFit(const InputFit&) = delete;
  ~InputFit() {
    if (FL_UNLIKELY(sizes_ != nullptr)) drop_sizes();
  }
  void set(const Tensor& input) {  // where the derivative has the input's sizes already
    if (input.defined()) dtype_ = input.dtype();
  }
  [[gnu::always_inline]] void set(const Tensor& input, const Tensor& result) {
    if (!input.defined()) return;
    dtype_ = input.dtype();
    if (FL_UNLIKELY(!(input.sizes() == result.sizes()))) keep_sizes(input);
  }
  Tensor operator()(Tensor grad) const {
    if (!grad.defined()) return grad;
    if (FL_LIKELY(!sizes_ && grad.dtype() == dtype_)) return grad;
    IntList sizes = sizes_ ? IntList(*sizes_) : grad.sizes();
    return fit_grad(std::move(grad), sizes, dtype_);
  }

 private:
  FL_API void keep_sizes(const Tensor& input);  // the rare ones, kept out of every node's code
  FL_API void drop_sizes();

  Ints* sizes_ = nullptr;
  DType dtype_{};
};

inline void connect(Node* node, int i, const Tensor& input, InputFit& fit) {
  connect(node, i, input);
  fit.set(input);
}
[[gnu::always_inline]] inline void connect(Node* node, int i, const Tensor& input, InputFit& fit,
                                           const Tensor& result) {
  connect(node, i, input);
  fit.set(input, result);
}

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

// The gradients of a list of inputs.
inline void move_into(Tensor* out, std::vector<Tensor> found) {
  std::move(found.begin(), found.end(), out);
}

// Those of several inputs that one formula gives together.
template <class Found, class... Fit>
requires(sizeof...(Fit) > 0) void move_into(Tensor* out, Found found, const Fit&... fit) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((out[I] = fit(std::move(std::get<I>(found)))), ...);
  }
  (std::index_sequence_for<Fit...>{});
}

template <class N>
void destroy_node(Node* node) {
  static_cast<N*>(node)->~N();
}
// The type of a node whose names, backward and release are members.
template <class N>
inline constexpr NodeType kTypeOf = {
    N::public_name,
    N::op,
    [](Node* n, const Tensor* grads, Tensor* out) { static_cast<N*>(n)->backward(grads, out); },
    [](Node* n) { static_cast<N*>(n)->release(); },
    destroy_node<N>,
    sizeof(N),
    [](Node* n, const SavedVisitor& visitor) { static_cast<N*>(n)->shown(visitor); }};

// What is remembered of tensors instead of the tensors.
inline Ints sizes_of(const Tensor& t) { return t.defined() ? Ints(t.sizes()) : Ints(); }
inline Ints strides_of(const Tensor& t) { return t.defined() ? Ints(t.strides()) : Ints(); }
inline int64_t offset_of(const Tensor& t) { return t.defined() ? t->offset() : 0; }
inline int64_t ndim_of(const Tensor& t) { return t.defined() ? t.ndim() : 0; }
inline int64_t numel_of(const Tensor& t) { return t.defined() ? t.numel() : 0; }
inline DType dtype_of(const Tensor& t) { return t.defined() ? t.dtype() : DType{}; }
inline Device device_of(const Tensor& t) { return t.defined() ? t.device() : Device{}; }
inline std::vector<Ints> sizes_of(TensorList list) {
  std::vector<Ints> found;
  for (const Tensor& t : list) found.push_back(sizes_of(t));
  return found;
}
inline std::vector<DType> dtype_of(TensorList list) {
  std::vector<DType> found;
  for (const Tensor& t : list) found.push_back(dtype_of(t));
  return found;
}

// Nodes of ops that take lists have as many edges as the lists have tensors.
FL_API void allocate_edges(Node* node, int count);
// Saves output `nr` in a slot of the node and notes the slot, so that a dying output can hand its
// memory over.
FL_API void keep_result(Node* node, SavedResult& slot, const Tensor& result, int nr);
// One that is not differentiable makes no cycle.
inline void keep_result(Node*, Saved& slot, const Tensor& result, int = 0) { slot.set(result); }

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

// Result i of an op that has one, a list, or several.
template <int I, class R>
const Tensor& output(const R& results) {
  if constexpr (std::is_same_v<R, Tensor>) {
    return results;
  } else if constexpr (std::is_same_v<R, std::vector<Tensor>>) {
    static const Tensor none;
    return results.empty() ? none : results[I];
  } else {
    return std::get<I>(results);
  }
}

template <class N, class R, class... A>
[[gnu::always_inline]] inline void tape_now(const R& result, int differentiable,
                                            const A&... arguments) {
  N* node = new_node<N>(kTypeOf<N>);
  NodeGuard guard(node);  // a hook that packs saved tensors may fail
  node->record(arguments..., output<0>(result));
  node->keep(result);
  guard.release();
  attach(result, node, differentiable);
}
template <class N, class R, class... A>
[[gnu::noinline, gnu::cold]] void tape_rarely(const R& result, int differentiable,
                                              const A&... arguments) {
  tape_now<N>(result, differentiable, arguments...);
}
// Records a call that has run; its first `differentiable` results get the node. Of the two bodies
// that an op has (ops/slow.h) the one that computes takes this in: a call more would show where a
// number is multiplied.
template <class N, bool rare, class R, class... A>
[[gnu::always_inline]] inline void tape(const R& result, int differentiable,
                                        const A&... arguments) {
  if constexpr (rare)
    tape_rarely<N>(result, differentiable, arguments...);
  else
    tape_now<N>(result, differentiable, arguments...);
}

// Records a call that will write `self`: made before, tied to it afterwards.
template <class N>
class InPlaceTape {
 public:
  template <class... A>
  void record(const A&... arguments) {
    node_ = new_node<N>(kTypeOf<N>);
    node_->record(arguments...);
  }
  void rebase(const Tensor& self) {
    if (!node_) return;
    N* node = std::exchange(node_, nullptr);
    flambeau::rebase(self, node);
    node->keep(self);
  }
  InPlaceTape() = default;
  InPlaceTape(const InPlaceTape&) = delete;
  ~InPlaceTape() {
    if (FL_UNLIKELY(node_ != nullptr)) node_->decref();
  }

 private:
  N* node_ = nullptr;
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
