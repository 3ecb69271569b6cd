// The level: which rule an op gets, batched tensors, in-place ops.
#include "flambeau/autograd/batch.h"

#include "flambeau/autograd/batch_call.h"

namespace flambeau {

namespace {

std::vector<std::pair<std::string, int64_t>> loops;

int16_t next_id() {
  static std::atomic<int> id{0};
  return int16_t(id.fetch_add(1, std::memory_order_relaxed) & 0x7fff);
}

const BatchRules& rules() {
  static const BatchRules all = [] {
    BatchRules made;
    add_shape_rules(made);
    add_matrix_rules(made);
    add_index_rules(made);
    add_layer_rules(made);
    add_random_rules(made);
    return made;
  }();
  return all;
}

template <class F>
void each_tensor(const OpInfo& op, const Value* arguments, F f) {
  for (int i = 0; i < op.param_count; i++) {
    const Value& v = arguments[i];
    uint32_t count = v.kind == Value::TensorRef ? 1 : v.kind == Value::TensorRun ? v.count : 0;
    for (uint32_t k = 0; k < count; k++)
      if (v.tensor[k].defined()) f(v.tensor[k]);
  }
}

// Makes an existing batched tensor stand for other values.
void reseat(TensorImpl* t, const Tensor& values) {
  copy_dims(t, {values->sizes + 1, size_t(values.ndim() - 1)},
            {values->strides + 1, size_t(values.ndim() - 1)});
  t->refresh();
  meta_of(t).batched_value = values;
  t->flags = uint8_t(values.requires_grad() ? t->flags | kRequiresGrad : t->flags & ~kRequiresGrad);
}

}  // namespace

BatchRule find_batch_rule(std::string_view name) {
  auto at = rules().find(name);
  return at == rules().end() ? nullptr : at->second;
}

bool has_batch_rule(std::string_view name) {
  const OpSet* set = find_op(name);
  OpKind kind = set ? set->overloads[0].kind : OpKind::Other;
  return find_batch_rule(name) || kind == OpKind::Pointwise || kind == OpKind::Reduce;
}

const std::vector<std::pair<std::string, int64_t>>& batch_loops() { return loops; }
void clear_batch_loops() { loops.clear(); }
void count_batch_loop(const char* name) {
  for (auto& [known, count] : loops)
    if (known == name) return void(count++);
  loops.emplace_back(name, 1);
}

// ---- batched tensors ----

const Tensor& batch_values(const Tensor& t) { return t->meta->batched_value; }

Tensor detached(const Tensor& t) { return is_batched(t) ? ops::detach(t) : alias(t); }

const Tensor& unbatched(const Tensor& t) {
  const Tensor* at = &t;
  while (is_batched(*at)) at = &batch_values(*at);
  return *at;
}

BatchLevel* innermost_batch(Level* from) {
  for (; from; from = from->outer)
    if (auto* level = dynamic_cast<BatchLevel*>(from)) return level;
  return nullptr;
}

namespace {

Tensor batched_from(const Tensor& t, Level* from) {
  BatchLevel* level = innermost_batch(from);
  if (!level) return t;
  Restore<Level*> outside(tls.levels, level->outside());
  return level->wrap(batched_from(level->values_of(t), level->outside()));
}

}  // namespace

Tensor batched_everywhere(const Tensor& t) { return batched_from(t, tls.levels); }

BatchLevel::BatchLevel(int64_t size, Randomness randomness)
    : size_(size), randomness_(randomness), id_(next_id()) {
  sees_inner = true;
}

bool BatchLevel::owns(const Tensor& t) const { return is_batched(t) && t->meta->level == id_; }

// It has sizes, but no memory: a kernel that reached it by mistake must not read one example.
Tensor BatchLevel::wrap(const Tensor& values) const {
  FL_ASSERT(values.ndim() > 0 && values.size(0) == size_);
  Tensor t = new_tensor({}, values.dtype(), Device(DeviceType::Meta));
  t->device = values.device();
  TensorMeta& meta = meta_of(t.impl());
  meta.level = id_;
  meta.batch_dim = 0;
  reseat(t.impl(), values);
  t->flags |= kBatched;
  return t;
}

Tensor BatchLevel::values_of(const Tensor& t) const {
  if (owns(t)) return batch_values(t);
  return ops::expand(ops::unsqueeze(t, 0), with_first(size_, t.sizes()));
}

// ---- calls ----

BatchCall::BatchCall(BatchLevel& level, const OpInfo& op, const Value* given, Returns& results)
    : level(level), op(op), given(given), results(results) {
  values_.assign(given, given + op.param_count);
}

int BatchCall::find(std::string_view name) const {
  for (int i = 0; i < op.param_count; i++)
    if (name == op.params[i].name) return i;
  return -1;
}

bool BatchCall::any_batched() const {
  bool any = false;
  each_tensor(op, given, [&](const Tensor& t) { any = any || level.owns(t); });
  return any;
}

Tensor BatchCall::padded(const Tensor& t, int64_t ndim) const {
  if (!level.owns(t) || t.ndim() >= ndim) return values(t);
  const Tensor& all = batch_values(t);
  Ints sizes{all.size(0)};
  sizes.resize(size_t(1 + ndim - t.ndim()), 1);
  for (int64_t n : t.sizes()) sizes.push_back(n);
  return ops::view(all, sizes);
}

void BatchCall::set(int i, Tensor t) {
  tensors_.push_back(std::move(t));
  Boxed<const Tensor&>::set((*this)[i], tensors_.back());
}
void BatchCall::set(int i, Ints list) {
  ints_.push_back(std::move(list));
  Boxed<IntList>::set((*this)[i], ints_.back());
}
void BatchCall::set(int i, int64_t value) { Boxed<int64_t>::set((*this)[i], value); }
void BatchCall::set(int i, std::vector<Tensor> list) {
  lists_.push_back(std::move(list));
  Boxed<TensorList>::set((*this)[i], lists_.back());
}

void BatchCall::load() {
  for (int i = 0; i < count(); i++) {
    if (is_tensor(i)) set(i, values(i));
    if (!is_list(i)) continue;
    std::vector<Tensor> list;
    for (uint32_t k = 0; k < given[i].count; k++) list.push_back(values(given[i].tensor[k]));
    set(i, std::move(list));
  }
}

void BatchCall::clear_results() {
  for (int i = 0; i < results.count; i++) results.tensors[size_t(i)] = Tensor();
  results.list.clear();
  results.count = 0;
  results.kind = Returns::Nothing;
}

void BatchCall::run(const OpInfo& other, const Value* arguments) {
  clear_results();
  other.call(other.function, arguments, results);
}

// ---- the level ----

void BatchLevel::check_alive(const OpInfo& op, const Value* arguments) const {
  each_tensor(op, arguments, [&](const Tensor& t) {
    if (!is_batched(t) || owns(t)) return;
    bool alive = false;
    for (Level* l = outside(); l; l = l->outer) {
      auto* level = dynamic_cast<BatchLevel*>(l);
      alive = alive || (level && level->owns(t));
    }
    FL_CHECK(alive, RuntimeError, "{}: a tensor from inside a vmap that is over was used", op.name);
  });
}

void BatchLevel::decompose(const OpInfo& op, const Value* arguments, Returns& results) {
  Restore<Level*> beyond(beyond_, outside());
  Restore<bool> inside(decomposing_, true);
  Restore<Level*> hidden(outer, nullptr);
  Restore<Level*> active(tls.levels, this);
  Restore<const OpInfo*> pass(passing_, &op);
  op.call(op.function, arguments, results);
}

// Nothing here is batched at this level.
bool BatchLevel::pass_on(const OpInfo& op, const Value* arguments, Returns& results) {
  check_alive(op, arguments);
  if (!decomposing_) return false;
  Restore<Level*> outside(tls.levels, beyond_);
  op.call(op.function, arguments, results);
  return true;
}

namespace {

void apply_rule(BatchCall& c) {
  BatchRule rule = find_batch_rule(c.op.name);
  if (rule) return rule(c);
  switch (c.op.kind) {
    case OpKind::Pointwise:
      return pointwise_rule(c);
    case OpKind::Reduce:
      return dims_rule(c);
    case OpKind::Composite:
      c.level.decompose(c.op, c.given, c.results);
      c.finished = true;
      return;
    default:
      return loop_rule(c);
  }
}

void wrap_results(BatchCall& c) {
  if (c.finished) return;
  FL_CHECK(c.results.kind == Returns::One || c.results.kind == Returns::Tuple ||
               c.results.kind == Returns::List || c.results.kind == Returns::Written,
           RuntimeError,
           "{}: inside vmap a result that is no tensor would depend on the values of each example",
           c.op.name);
  for (int i = 0; i < c.results.count; i++) {
    Tensor& t = c.results.tensors[size_t(i)];
    if (t.defined()) t = c.level.wrap(t);
  }
  for (Tensor& t : c.results.list) t = c.level.wrap(t);
}

const OpInfo& plain_form(const OpInfo& op) {
  std::string_view name(op.name);
  const OpSet* set = find_op(name.substr(0, name.size() - 1));
  for (int i = 0; set && i < set->count; i++)
    if (set->count == 1 || std::string_view(set->overloads[i].overload) == op.overload)
      return set->overloads[i];
  fail<NotImplementedError>("{}: has no form that vmap could use", op.name);
}

bool writes_self(const OpInfo& op) { return op.inplace || std::string_view(op.name).back() == '_'; }

bool changes_geometry(std::string_view name) {
  for (const char* known : {"squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_",
                            "as_strided_", "detach_"})
    if (name == known) return true;
  return false;
}

// x.op_() as x.copy_(x.op()), pointwise ops and those with a rule directly.
void write_rule(BatchCall& c) {
  const Tensor& self = c.tensor(0);
  FL_CHECK(c.batched(0), RuntimeError,
           "{}: inside vmap a tensor that is not mapped cannot take values that differ by example; "
           "make it from a mapped one (x.new_zeros(...)) or use the form that is not in-place",
           c.op.name);
  if (BatchRule rule = find_batch_rule(c.op.name)) {
    rule(c);
  } else if (c.op.kind == OpKind::Pointwise) {
    pointwise_rule(c);
  } else {
    Returns plain;
    {
      Restore<Level*> active(tls.levels, &c.level);
      const OpInfo& form = plain_form(c.op);
      form.call(form.function, c.given, plain);
    }
    Tensor values = c.values(plain.tensors[0]);
    if (changes_geometry(c.op.name)) {
      reseat(self.impl(), values);
    } else {
      Tensor to = c.values(0);
      ops::copy_(to, values);
    }
  }
  reseat(self.impl(), batch_values(self));  // the history may have changed
  c.clear_results();
  c.results.kind = Returns::Written;
  c.results.written = &self;
}

}  // namespace

bool BatchLevel::handle(const OpInfo& op, const Value* arguments, Returns& results) {
  if (passing_ == &op) {
    passing_ = nullptr;
    return false;
  }
  // What rules call is outermost for the levels outside.
  Restore<uint32_t> depth(tls.depth, 0);
  Restore<Level*> levels(tls.levels, outside());
  BatchCall c(*this, op, arguments, results);
  bool any = c.any_batched();
  bool random = draws_random(c);
  if (!any && !(random && randomness_ != Randomness::Same)) return pass_on(op, arguments, results);
  check_alive(op, arguments);
  if (random && random_rule(c)) {
    wrap_results(c);
    return true;
  }
  if (writes_self(op)) {
    write_rule(c);
    return true;
  }
  apply_rule(c);
  wrap_results(c);
  return true;
}

}  // namespace flambeau
