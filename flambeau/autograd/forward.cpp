// Carrying tangents through ops.
#include "flambeau/autograd/forward.h"

#include <memory>

#include "flambeau/autograd/batch.h"
#include "flambeau/ops/runtime.h"
#include "flambeau/tape/node.h"

namespace flambeau {

namespace {

void set_tangent(const Tensor& t, Tensor tangent) {
  meta_of(t.impl()).tangent = std::move(tangent);
  t->flags |= kDual;
}

// The op's arguments with fresh tensors in place of the dual ones, recorded on the tape of this
// call alone unless the primal has a history of its own.
class Arguments {
 public:
  Arguments(const OpInfo& op, const Value* given) {
    values_.assign(given, given + op.param_count);
    for (int i = 0; i < op.param_count; i++) {
      if (given[i].kind == Value::TensorRef) {
        singles_.push_back(std::make_unique<Tensor>(replaced(*given[i].tensor)));
        values_[size_t(i)].tensor = singles_.back().get();
      } else if (given[i].kind == Value::TensorRun) {
        auto list = std::make_unique<std::vector<Tensor>>();
        for (uint32_t k = 0; k < given[i].count; k++) list->push_back(replaced(given[i].tensor[k]));
        values_[size_t(i)].tensor = list->data();
        lists_.push_back(std::move(list));
      }
    }
    // An op in place works on a copy: a leaf of the tape must not be written.
    if (op.inplace && singles_[0]->defined()) *singles_[0] = ops::clone(*singles_[0]);
  }
  const Value* values() const { return values_.data(); }
  const Tensor& written() const { return *singles_[0]; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Tensor>& tangents() const { return tangents_; }
  bool outer_history() const { return outer_history_; }

 private:
  Tensor replaced(const Tensor& t) {
    outer_history_ = outer_history_ || (outer_grad_ && t.defined() && t.requires_grad());
    if (!is_dual(t)) return t;
    Tensor fresh = primal_of(t);
    if (!fresh.requires_grad()) fresh.set_requires_grad();
    inputs_.push_back(fresh);
    tangents_.push_back(t->meta->tangent);
    outer_history_ = outer_history_ || (outer_grad_ && t->meta->tangent.requires_grad());
    return fresh;
  }

  bool outer_grad_ = tls.grad;
  EnableGradGuard tape_;
  std::vector<Value> values_;
  std::vector<std::unique_ptr<Tensor>> singles_;
  std::vector<std::unique_ptr<std::vector<Tensor>>> lists_;
  std::vector<Tensor> inputs_, tangents_;
  bool outer_history_ = false;
};

std::vector<Tensor> gradients(std::vector<Tensor> roots, std::vector<Tensor> weights,
                              const std::vector<Tensor>& inputs, bool create_graph) {
  BackwardCall call;
  call.roots = std::move(roots);
  call.grads = std::move(weights);
  call.inputs = inputs;
  call.keep_graph = true;
  call.create_graph = create_graph;
  return run_backward(call);
}

// J t for one result: v J is linear in v, and its derivative along t is J t.
Tensor tangent_of_result(const Tensor& result, const Arguments& arguments) {
  Tensor v = ops::ones_like(result);  // some derivatives take its logarithm on the way
  v.set_requires_grad();
  std::vector<Tensor> back = gradients({result}, {v}, arguments.inputs(), true);
  std::vector<Tensor> roots, weights;
  for (size_t i = 0; i < back.size(); i++) {
    if (!back[i].defined() || !back[i].requires_grad()) continue;
    roots.push_back(back[i]);
    weights.push_back(arguments.tangents()[i]);
  }
  if (roots.empty()) return Tensor();
  return gradients(roots, weights, {v}, arguments.outer_history())[0];
}

// The result as the caller gets it: without the history of this call, with a tangent.
Tensor finished(const Tensor& result, const Arguments& arguments) {
  if (!result.defined() || !result.requires_grad()) return result;
  Tensor tangent = tangent_of_result(result, arguments);
  Tensor plain = arguments.outer_history() ? result : detached(result);
  if (tangent.defined()) set_tangent(plain, std::move(tangent));
  return plain;
}

}  // namespace

bool DualLevel::handle(const OpInfo& op, const Value* arguments, Returns& results) {
  if (!find_tensor(op, arguments, is_dual)) return false;
  Arguments replaced(op, arguments);
  op.call(op.function, replaced.values(), results);
  if (op.inplace) {
    Tensor self = *arguments[0].tensor, written = finished(replaced.written(), replaced);
    {
      NoGradGuard no_grad;
      Tensor target = detached(self);
      ops::copy_(target, written);
    }
    if (is_dual(written)) set_tangent(self, tangent_of(written));
    return true;
  }
  for (int i = 0; i < results.count; i++)
    results.tensors[size_t(i)] = finished(results.tensors[size_t(i)], replaced);
  for (Tensor& t : results.list) t = finished(t, replaced);
  return true;
}

Tensor make_dual(const Tensor& primal, const Tensor& tangent) {
  FL_CHECK(is_inexact(primal.dtype()), ValueError,
           "make_dual: the tensor must be floating or complex, got {}", primal.dtype());
  FL_CHECK(is_inexact(tangent.dtype()), ValueError,
           "make_dual: the tangent must be floating or complex, got {}", tangent.dtype());
  FL_CHECK(primal.sizes() == tangent.sizes(), RuntimeError,
           "make_dual: the tangent must have shape {} like its tensor, got {}", primal.sizes(),
           tangent.sizes());
  Tensor dual = primal_of(primal);
  set_tangent(dual, tangent);
  return dual;
}

Tensor primal_of(const Tensor& t) {
  bool records = tls.grad && t.requires_grad();
  Restore<uint8_t> fast(tls.mode, is_batched(t) ? tls.mode : 0);
  uint8_t dual = t->flags & kDual;  // the view must not be seen by the level
  t->flags = uint8_t(t->flags & ~kDual);
  Tensor view = records ? ops::view_as(t, t) : detached(t);
  t->flags = uint8_t(t->flags | dual);
  return view;
}

Tensor tangent_of(const Tensor& t) { return is_dual(t) ? t->meta->tangent : Tensor(); }

}  // namespace flambeau
