// Batching rules of layers with a batch of their own: the examples join it, or become groups and
// channels where the weights differ by example.
#include "flambeau/autograd/batch_call.h"

namespace flambeau {

namespace {

// (B, N, C, *) <-> (N, B * C, *)
Tensor as_channels(const Tensor& values) {
  Ints sizes{values.size(1), values.size(0) * values.size(2)};
  for (int64_t d = 3; d < values.ndim(); d++) sizes.push_back(values.size(d));
  return ops::reshape(ops::transpose(values, 0, 1), sizes);
}
Tensor from_channels(const Tensor& t, int64_t batch) {
  Ints sizes{t.size(0), batch, t.size(1) / batch};
  for (int64_t d = 2; d < t.ndim(); d++) sizes.push_back(t.size(d));
  return ops::transpose(ops::reshape(t, sizes), 0, 1);
}

// Numbers per channel, against (B, N, C, *).
Tensor channel_column(const BatchCall& c, int i, int64_t ndim) {
  Tensor t = c.values(i);
  Ints sizes(static_cast<size_t>(ndim), 1);
  sizes[0] = c.batched(i) ? c.size() : 1;
  sizes[2] = c.tensor(i).size(0);
  return ops::reshape(t, sizes);
}

Ints first_times(IntList sizes, int64_t factor) {
  return with_first(sizes[0] * factor, {sizes.data() + 1, sizes.size() - 1});
}

// The examples join the batch; other arguments are the same for all.
void fold_rule(BatchCall& c) {
  for (int i = 0; i < c.count(); i++)
    if (c.is_tensor(i)) c.set(i, folded(c.full(i)));
  int size = c.find("size");
  if (size >= 0) {
    c.set(size, first_times(c.ints(size), c.size()));  // of all that was pooled
  }
  c.run();
  for (int i = 0; i < c.results.count; i++) {
    Tensor& t = c.results.tensors[size_t(i)];
    t = unfolded(t, c.size());
  }
}

void convolution_rule(BatchCall& c) {
  bool bias = c.is_tensor(2), bias_apart = bias && c.batched(2) && !c.batched(1);
  int groups = c.find("groups");
  if (!c.batched(1)) {
    c.set(0, folded(c.full(0)));
    if (bias_apart) c.clear(2);
    c.run();
    Tensor y = unfolded(c.results.tensors[0], c.size());
    return c.give(bias_apart ? y + channel_column(c, 2, y.ndim()) : y);
  }
  bool shared = !c.batched(0) && c.integer(groups) == 1 && !c.integer(c.find("transposed"));
  c.set(0, shared ? c.tensor(0) : as_channels(c.full(0)));
  c.set(1, folded(c.values(1)));
  if (bias) c.set(2, ops::reshape(c.full(2), {c.size() * c.tensor(2).size(0)}));
  if (!shared) c.set(groups, c.integer(groups) * c.size());
  c.run();
  c.give(from_channels(c.results.tensors[0], c.size()));
}

void convolution_weight_rule(BatchCall& c) {
  int size = c.find("size"), groups = c.find("groups");
  c.set(0, as_channels(c.full(0)));
  c.set(1, as_channels(c.full(1)));
  c.set(size, first_times(c.ints(size), c.size()));
  c.set(groups, c.integer(groups) * c.size());
  c.run();
  c.give(unfolded(c.results.tensors[0], c.size()));
}

// ---- normalisation: weights that differ by example are applied afterwards ----

bool affine_differs(const BatchCall& c) {
  int w = c.find("weight"), b = c.find("bias");
  return (c.is_tensor(w) && c.batched(w)) || (c.is_tensor(b) && c.batched(b));
}

template <class F>
void apply_affine(BatchCall& c, F against) {
  Tensor& values = c.results.tensors[0];
  int w = c.find("weight"), b = c.find("bias");
  if (c.is_tensor(w)) values = values * against(w);
  if (c.is_tensor(b)) values = values + against(b);
}

void without_affine(BatchCall& c) {
  static const Tensor none;
  Boxed<const Tensor&>::set(c[c.find("weight")], none);
  Boxed<const Tensor&>::set(c[c.find("bias")], none);
}

void layer_norm_rule(BatchCall& c) {
  c.load();
  c.set(0, c.full(0));
  bool apart = affine_differs(c);
  if (apart) without_affine(c);
  c.run();
  if (apart) apply_affine(c, [&](int i) { return c.padded(i, c.ndim(0)); });
}

void group_norm_rule(BatchCall& c) {
  c.load();
  c.set(0, folded(c.full(0)));
  bool apart = affine_differs(c);
  if (apart) without_affine(c);
  c.run();
  for (int i = 0; i < c.results.count; i++)
    c.results.tensors[size_t(i)] = unfolded(c.results.tensors[size_t(i)], c.size());
  int64_t ndim = c.ndim(0) + 1;
  if (apart) apply_affine(c, [&](int i) { return channel_column(c, i, ndim); });
}

void batch_norm_rule(BatchCall& c) {
  int mean = c.find("running_mean"), var = c.find("running_var");
  bool written = c.integer(c.find("training")) && c.is_tensor(mean);
  FL_CHECK(!written || (c.batched(mean) && c.batched(var)), RuntimeError,
           "batch_norm: inside vmap the running statistics would differ by example; map over them "
           "too, or use func.replace_all_batch_norm_modules_");
  c.set(0, as_channels(c.full(0)));
  for (int i = 1; i < c.count(); i++)
    if (c.is_tensor(i)) c.set(i, ops::reshape(c.full(i), {c.size() * c.tensor(i).size(0)}));
  c.run();
  c.results.tensors[0] = from_channels(c.results.tensors[0], c.size());
  for (size_t i : {1, 2}) c.results.tensors[i] = unfolded(c.results.tensors[i], c.size());
}

// ---- losses over classes ----

// The weight of each target, zero where it is ignored.
Tensor target_weights(const Tensor& self, const Tensor& target, const Tensor& weight,
                      int64_t ignore) {
  Tensor valid = target != Scalar(ignore);
  Tensor shares = ops::to(valid, self.dtype());
  if (!weight.defined()) return shares;
  Tensor classes = ops::where(valid, target, Scalar(int64_t{0}));
  return shares * ops::index(weight, {&classes, 1});
}

// Each target's own loss, then one sum or mean per example.
void class_loss_rule(BatchCall& c) {
  int reduction = c.find("reduction"), ignore = c.find("ignore_index");
  if (c.is_tensor(2) && c.batched(2)) return loop_rule(c);
  int64_t wanted = c.integer(reduction);
  Tensor self = c.full(0), target = c.full(1);
  c.set(0, folded(self));
  c.set(1, folded(target));
  if (c.is_tensor(2)) c.set(2, c.tensor(2));
  c.set(reduction, 0);
  c.run();
  Tensor each = ops::reshape(c.results.tensors[0], {c.size(), c.tensor(1).numel()});
  int64_t along = 1;
  IntList over(&along, 1);
  Tensor total = ops::zeros({c.size()}, self.dtype());
  if (wanted == 1) {
    Tensor shares = target_weights(self, target, c.tensor(2), c.integer(ignore));
    total = ops::sum(ops::reshape(shares, each.sizes()), over);
  }
  Tensor loss = wanted == 0   ? ops::reshape(each, target.sizes())
                : wanted == 1 ? ops::sum(each, over) / total
                              : ops::sum(each, over);
  int last = c.results.count - 1;
  if (last == 2) c.results.tensors[1] = ops::reshape(c.results.tensors[1], target.sizes());
  c.results.tensors[0] = loss;
  c.results.tensors[size_t(last)] = total;
}

// ---- recurrent layers ----

// (B, rows, *) <-> (rows * B, *)
Tensor within_rows(const Tensor& t) {
  return t.defined() ? ops::flatten(ops::transpose(t, 0, 1), 0, 1) : t;
}
Tensor from_rows(const Tensor& t, int64_t batch) {
  return ops::transpose(ops::unflatten(t, 0, IntList{-1, batch}), 0, 1);
}

// The examples join the batch of every step, unless weights differ by example.
void recurrent_layer_rule(BatchCall& c) {
  if (c.batched(3) || c.batched(4) || c.batched(5)) return loop_rule(c);
  const int at = c.find("sizes");
  Ints sizes = c.ints(at);
  for (int i = 0; i < 3; i++) c.set(i, within_rows(c.full(i)));
  for (int64_t& n : sizes) n *= c.size();
  c.set(at, sizes);
  c.run();
  for (int i = 0; i < c.results.count; i++) {
    Tensor& t = c.results.tensors[size_t(i)];
    t = t.ndim() == 1 ? ops::zeros({c.size(), 0}, t.dtype()) : from_rows(t, c.size());
  }
}

}  // namespace

void add_layer_rules(BatchRules& rules) {
  add_rules(rules,
            {"_adaptive_avg_pool", "_adaptive_avg_pool_grad", "_adaptive_max_indices", "_attention",
             "_avg_pool", "_avg_pool_grad", "_fractional_max_indices", "_max_pool",
             "_max_pool_gather", "_max_pool_grad"},
            fold_rule);
  add_rules(rules, {"_cross_entropy", "_nll_loss"}, class_loss_rule);
  add_rules(rules, {"embedding_bag", "ctc_loss"}, loop_rule);
  rules["convolution"] = convolution_rule;
  rules["_convolution_weight"] = convolution_weight_rule;
  rules["_recurrent_layer"] = recurrent_layer_rule;
  rules["_layer_norm"] = layer_norm_rule;
  rules["_group_norm"] = group_norm_rule;
  rules["_batch_norm"] = batch_norm_rule;
}

}  // namespace flambeau
