// x.data: the same memory without history, and its exchange.
#include "flambeau/autograd/batch.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/sparse.h"

namespace flambeau {
namespace {

// A counter that no view shares: writes are not seen by what was saved of others.
void use_own_counter(TensorImpl* t, uint32_t version) {
  if (t->counter != t->storage) return;
  t->counter = new_storage(0, Device{});
  t->counter->version = version;
}

}  // namespace

Tensor data_of(const Tensor& t) {
  if (is_batched(t)) return detached(t);
  if (is_sparse(t)) return ops::detach(t);
  Tensor result = alias(t);
  if (result->counter != result->storage) {
    result->counter->decref();
    result->counter = result->storage;
  }
  use_own_counter(result.impl(), 0);
  return result;
}

void set_data(const Tensor& t, const Tensor& source) {
  FL_CHECK(!is_batched(t) && !is_batched(source), RuntimeError,
           "data: cannot be exchanged inside vmap");
  FL_CHECK(!is_sparse(t) && !is_sparse(source), RuntimeError,
           "data: that of sparse tensors cannot be exchanged");
  TensorImpl *to = t.impl(), *from = source.impl();
  if (to == from) return;
  FL_CHECK(!to->grad_fn || to->dtype == from->dtype, RuntimeError,
           "data: a result of the tape keeps its dtype {}, got {}", to->dtype, from->dtype);
  uint32_t version = to->version();
  if (to->counter != to->storage) to->counter->decref();
  from->storage->incref();
  to->storage->decref();
  to->storage = to->counter = from->storage;
  use_own_counter(to, version);
  to->dtype = from->dtype;
  to->device = from->device;
  to->layout = from->layout;
  to->data = from->data;
  to->meta_offset = from->meta_offset;
  copy_dims(to, source.sizes(), source.strides());
  to->refresh();
}

}  // namespace flambeau
