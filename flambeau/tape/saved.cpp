// Saved values: versions, hand-over of dying outputs, and who changed what in place.
#include "flambeau/tape/node.h"

namespace flambeau {

constinit LocationHooks location_hooks;
constinit SavedHooks saved_hooks;
void (*drop_node_object)(Node*);

std::string described(const Location& where) {
  if (!where.code || !location_hooks.describe) return "";
  std::string line = location_hooks.describe(where);
  return line.empty() ? line : " at " + line;
}

namespace {

// The last in-place writer of a memory that some node has saved.
struct Writer {
  std::string op;
  Location where;
};

void drop_writer(void* writer) {
  auto* w = static_cast<Writer*>(writer);
  if (w->where.code && location_hooks.drop) location_hooks.drop(w->where);
  delete w;
}

[[noreturn, gnu::cold]] void changed(const Node* node, const char* name, const Tensor& t,
                                     uint32_t version) {
  std::string by;
  if (auto* w = static_cast<Writer*>(t->counter->writer)) by = " by " + w->op + described(w->where);
  fail<RuntimeError>(
      "{}: `{}` of shape {}, which the op{} saved for its backward, was changed in place "
      "afterwards{} (version {}, was {}); "
      "use an out-of-place op there, or clone() before it",
      node->type->op, name, t.sizes(), described(node->location), by, t->version(), version);
}

[[noreturn, gnu::cold]] void released(const Node* node) {
  fail<RuntimeError>(
      "backward: the graph of {}{} was freed by an earlier backward{}; pass retain_graph=True "
      "there if both are meant, or "
      "compute the shared part again",
      node->type->op, described(node->location), described(node->freed_by));
}

// From now on in-place writers leave their name. Threads may save the same tensor at once.
void watch(const Tensor& t) {
  std::atomic_ref(t->counter->watched).store(true, std::memory_order_relaxed);
}

}  // namespace

void note_writer(std::string_view op, const Tensor& self) {
  Storage* counter = self->counter;
  if (!counter->watched) return;
  core_hooks.drop_writer = drop_writer;
  if (counter->writer) drop_writer(counter->writer);
  auto* w = new Writer{std::string(op), {}};
  if (location_hooks.locate) location_hooks.locate(w->where);
  counter->writer = w;
}

void Saved::set(const Tensor& t) {
  if (!t.defined()) return;
  if (FL_UNLIKELY(saved_hooks.pack != nullptr)) {
    packed_ = saved_hooks.pack(t);
    if (packed_) return;
  }
  FL_CHECK(
      !(t->flags & kInference), RuntimeError,
      "a tensor of shape {} made in inference_mode cannot be saved for backward; clone it first",
      t.sizes());
  t_ = t;
  version_ = t->version();
  watch(t);
}

Tensor Saved::get(const Node* node, const char* name) const {
  if (FL_UNLIKELY(node->released)) released(node);
  if (FL_UNLIKELY(packed_ != nullptr)) return saved_hooks.unpack(packed_);
  if (t_.defined() && FL_UNLIKELY(t_->version() != version_)) changed(node, name, t_, version_);
  return t_;
}

void Saved::clear() {
  t_ = Tensor();
  if (packed_) saved_hooks.drop(std::exchange(packed_, nullptr));
}

void SavedResult::set(const Tensor& result, int output_nr) {
  output_nr_ = uint16_t(output_nr);
  if (FL_UNLIKELY(saved_hooks.pack != nullptr)) {
    packed_ = saved_hooks.pack(alias(result));
    if (packed_) return;
  }
  if (!is_inexact(
          result.dtype())) {  // has no node: nothing tells when it dies, and no cycle arises
    owned_ = result;
    version_ = result->version();
    watch(result);
    return;
  }
  raw_ = result.impl();
  version_ = result->version();
  watch(result);
}

Tensor SavedResult::get(Node* node, const char* name) const {
  if (FL_UNLIKELY(node->released)) released(node);
  if (FL_UNLIKELY(packed_ != nullptr)) return with_history(saved_hooks.unpack(packed_), node);
  if (raw_) {
    Tensor t = Tensor::borrow(raw_);
    if (FL_UNLIKELY(t->version() != version_)) changed(node, name, t, version_);
    return t;
  }
  if (FL_UNLIKELY(owned_->version() != version_)) changed(node, name, owned_, version_);
  return with_history(owned_, node);
}

// The history again, for a graph of the backward itself.
Tensor SavedResult::with_history(const Tensor& value, Node* node) const {
  if (!tls.grad || !is_inexact(value.dtype())) return value;
  Tensor t = alias(value);
  node->incref();
  t->grad_fn = node;
  t->output_nr = output_nr_;
  t->flags |= kRequiresGrad;
  return t;
}

void SavedResult::clear() {
  raw_ = nullptr;
  owned_ = Tensor();
  if (packed_) saved_hooks.drop(std::exchange(packed_, nullptr));
}

void keep_result(Node* node, SavedResult& slot, const Tensor& result, int nr) {
  slot.set(result, nr);
  slot.next_ = std::exchange(node->results, &slot);
}

void leave_node(TensorImpl* impl) {
  Node* node = impl->grad_fn;
  if (FL_UNLIKELY(node->hooks != nullptr)) {
    std::erase_if(node->hooks->retained, [&](auto& r) { return r.first == impl; });
  }
  for (SavedResult* slot = node->results; slot; slot = slot->next_) {
    if (slot->raw_ != impl) continue;
    slot->raw_ = nullptr;
    if (node->refs.load(std::memory_order_acquire) == 1 || node->released) continue;
    impl->refs.up();  // may be dying: the handle must not free it again
    Tensor handle(impl);
    slot->owned_ = alias(handle);
    handle.release();
    (void)impl->refs.down();
  }
  impl->grad_fn = nullptr;
  node->decref();
}

}  // namespace flambeau
