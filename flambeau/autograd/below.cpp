// Asking a level in a kernel's place, and the tape around what it answers.
#include "flambeau/autograd/below.h"

#include "flambeau/ops/runtime.h"
#include "flambeau/ops/sparse.h"
#include "flambeau/tape/view.h"

namespace flambeau {

namespace {

// The call that is about to reach its kernel.
struct Pending {
  BelowLevel* level;
  const OpInfo* op;
  const Value* arguments;
};
thread_local constinit const Pending* pending;
thread_local constinit bool hidden;
thread_local constinit bool outside_recorded;

bool is_recorded(const OpInfo& op, const Value* arguments) {
  return find_tensor(op, arguments, [](const Tensor& t) { return recording(t); });
}

template <class F>
void each_result(Returns& results, F f) {
  for (int i = 0; i < results.count; i++) f(results.tensors[size_t(i)], i);
  for (size_t i = 0; i < results.list.size(); i++) f(results.list[i], int(i));
}

// A view that was made below the tape is a view for the tape as well.
void adopt_view(const Tensor& view, const OpInfo& op, const Value* arguments, bool one_of_several) {
  auto is_source = [&](const Tensor& t) {
    return t->storage == view->storage && !(t->flags & kNoGradView);
  };
  if (!view->base || !find_tensor(op, arguments, is_source)) return;
  view->flags = uint8_t(view->flags & ~kNoGradView);
  if (one_of_several && is_recorded(op, arguments)) meta_of(view.impl()).view_of_multi = true;
}

// The tape gives a history to results: not to tensors that have one, or that the caller holds.
void make_fresh(Tensor& result, const OpInfo& op, const Value* arguments) {
  bool given = find_tensor(op, arguments, [&](const Tensor& t) { return t.is(result); });
  if (given || result.requires_grad()) result = alias(result);
}

bool lie_alike(const Tensor& a, const Tensor& b) {
  return a->storage == b->storage && a->data == b->data && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.dtype() == b.dtype();
}

}  // namespace

namespace detail {

void answer_below(Returns& results) {
  FL_ASSERT(pending);
  const Pending call = *pending;
  {
    Restore<Level*> outside(tls.levels, call.level->outer);
    Restore<bool> recorded(outside_recorded, outside_recorded || tls.grad);
    NoGradGuard no_grad;
    call.level->answer(*call.op, call.arguments, results);
  }
  if (!tls.grad || results.kind == Returns::Written) return;
  bool list = results.kind == Returns::List;
  each_result(results, [&](Tensor& t, int) {
    if (!t.defined()) return;
    if (call.op->taped) make_fresh(t, *call.op, call.arguments);
    adopt_view(t, *call.op, call.arguments, list);
  });
}

}  // namespace detail

bool written_below() {
  Returns results;
  results.kind = Returns::Written;
  detail::answer_below(results);
  return true;
}

// Composites without a derivative are seen as what they call. Those of which torch has kernels are
// not, unless the tape follows and they cannot run twice: they write their argument, or have
// arguments whose memory means nothing. Of sparse tensors the tape follows the values: their ops
// are seen.
bool BelowLevel::is_split_up(const OpInfo& op, const Value* arguments) const {
  if (op.inner || find_tensor(op, arguments, is_sparse)) return true;
  if (op.kind != OpKind::Composite || op.taped || !is_recorded(op, arguments)) return false;
  return op.inplace || find_tensor(op, arguments, is_foreign);
}

bool BelowLevel::handle(const OpInfo& op, const Value* arguments, Returns& results) {
  if (hidden || !below || is_split_up(op, arguments)) return false;
  {
    Pending call{this, &op, arguments};
    Restore<const Pending*> current(pending, &call);
    Restore<Level*> here(tls.levels, this);  // what the op does before it comes to its kernel
    op.call(below, arguments, results);
  }
  bool composite = op.kind == OpKind::Composite && !op.taped && !op.inplace;
  if (composite && is_recorded(op, arguments)) record_composite(op, arguments, results);
  return true;
}

// The op has no node. It runs once more, unseen, and the answer gets the history of its results.
void BelowLevel::record_composite(const OpInfo& op, const Value* arguments, Returns& results) {
  Returns recorded;
  {
    Unseen unseen;
    op.call(op.function, arguments, recorded);
  }
  each_result(results, [&](Tensor& t, int i) {
    const Tensor& r =
        size_t(i) < recorded.list.size() ? recorded.list[size_t(i)] : recorded.tensors[size_t(i)];
    if (!t.defined() || !r.defined() || !r.requires_grad()) return;
    if (lie_alike(t, r)) {  // a view, or the argument itself
      t = r;
    } else if (r->grad_fn) {
      make_fresh(t, op, arguments);
      give_history(t, r->grad_fn, r->output_nr);
    }
  });
}

BelowScope::BelowScope(BelowLevel& level) : outermost_(!(tls.mode & kModeBelow)), scope_(level) {
  tls.mode |= kModeBelow;
}
BelowScope::~BelowScope() {
  if (outermost_) tls.mode &= uint8_t(~kModeBelow);
}

bool recorded_outside() { return outside_recorded || tls.grad; }

Unseen::Unseen() : hidden_(hidden, true) {}

BelowLevel* innermost_below() {
  if (FL_LIKELY(!(tls.mode & kModeBelow)) || hidden) return nullptr;
  for (Level* level = tls.levels; level; level = level->outer)
    if (auto* found = dynamic_cast<BelowLevel*>(level)) return found;
  return nullptr;
}

bool ask_innermost_below(const OpInfo& op, const Value* arguments, Returns& results) {
  BelowLevel* level = innermost_below();
  if (!level && !hidden && find_tensor(op, arguments, is_foreign))
    level = static_cast<BelowLevel*>(foreign_tensors);
  if (!level) return false;
  Restore<Level*> outside(tls.levels, level->outer);
  NoGradGuard no_grad;
  level->answer(op, arguments, results);
  return true;
}

}  // namespace flambeau
