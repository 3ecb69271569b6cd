// Batching rules of indexing. Where indices differ by example, one more index counts the examples.
#include "flambeau/autograd/batch_call.h"

namespace flambeau {

namespace {

bool is_mask(const Tensor& t) {
  return t.defined() && (t.dtype() == DType::Bool || t.dtype() == DType::UInt8);
}

// Where the index tensors stand among the dims of an example.
struct Places {
  std::vector<Tensor> indices;  // as the caller gave them, masks as coordinates; undefined: whole
  int64_t count = 0;            // dims that are indexed
  int64_t first = -1;           // the first of them
  bool adjacent = true;
  bool batched = false;
  int64_t ndim = 0;  // of the indices, broadcast
};

Places places_of(const BatchCall& c, const Value& list) {
  Places p;
  for (uint32_t k = 0; k < list.count; k++) {
    const Tensor& t = list.tensor[k];
    if (!is_mask(t)) {
      p.indices.push_back(t);
      continue;
    }
    FL_CHECK(!c.level.owns(t), RuntimeError,
             "{}: inside vmap a mask that differs by example gives results of different sizes; use "
             "where(...)",
             c.op.name);
    Tensor coordinates = ops::nonzero(t);
    for (const Tensor& column : ops::unbind(coordinates, 1)) p.indices.push_back(column);
  }
  int64_t last = -1;
  for (size_t d = 0; d < p.indices.size(); d++) {
    const Tensor& t = p.indices[d];
    if (!t.defined()) continue;
    if (p.first < 0) p.first = int64_t(d);
    p.adjacent = p.adjacent && (last < 0 || last == int64_t(d) - 1);
    last = int64_t(d);
    p.count++;
    p.batched = p.batched || c.level.owns(t);
    p.ndim = std::max(p.ndim, t.ndim());
  }
  return p;
}

Tensor counted(const BatchCall& c, int64_t ndim) {
  Tensor numbers = ops::arange(Scalar(c.size()));
  Ints sizes{c.size()};
  sizes.resize(size_t(1 + ndim), 1);
  return ops::reshape(numbers, sizes);
}

// Indices of all values: the examples counted in front, or all of them kept whole.
std::vector<Tensor> all_indices(const BatchCall& c, const Places& p, bool count) {
  std::vector<Tensor> all{count ? counted(c, p.ndim) : Tensor()};
  for (const Tensor& t : p.indices) all.push_back(t.defined() ? c.padded(t, p.ndim) : t);
  return all;
}

// With the examples counted, indexed dims come first unless they follow the batch at once.
bool moves_front(const Places& p) { return p.adjacent && p.first > 0; }

// (B, indexed.., whole.., rest) <- (B, whole.., indexed.., rest), or back.
Tensor moved(const Tensor& t, const Places& p, bool to_front) {
  Ints dims{0};
  int64_t before = to_front ? p.first : p.ndim, after = to_front ? p.ndim : p.first;
  for (int64_t d = 0; d < after; d++) dims.push_back(1 + before + d);
  for (int64_t d = 0; d < before; d++) dims.push_back(1 + d);
  for (int64_t d = 1 + before + after; d < t.ndim(); d++) dims.push_back(d);
  return ops::permute(t, dims);
}

void index_rule(BatchCall& c) {
  Places p = places_of(c, c.given[1]);
  if (p.count == 0) return c.give(ops::clone(c.full(0)));
  Tensor self = c.values(0);
  if (!p.batched) {
    Tensor found = ops::index(self, all_indices(c, p, false));
    return c.give(p.adjacent ? found : ops::movedim(found, p.ndim, 0));
  }
  if (c.batched(0)) {
    Tensor found = ops::index(self, all_indices(c, p, true));
    return c.give(moves_front(p) ? moved(found, p, false) : found);
  }
  std::vector<Tensor> indices;
  for (const Tensor& t : p.indices) indices.push_back(t.defined() ? c.padded(t, p.ndim) : t);
  Tensor found = ops::index(self, indices);
  c.give(p.adjacent && p.first > 0 ? ops::movedim(found, p.first, 0) : found);
}

// x[mask] = number, where masks differ.
bool put_by_mask(BatchCall& c) {
  const Value& list = c.given[1];
  if (list.count != 1 || !is_mask(list.tensor[0]) || !c.level.owns(list.tensor[0])) return false;
  if (c.tensor(2).numel() != 1 || c.integer(3)) return false;
  Tensor mask = c.values(list.tensor[0]);
  while (mask.ndim() < c.ndim(0) + 1) mask = ops::unsqueeze(mask, -1);
  Tensor value = ops::reshape(c.full(2), {c.size()});
  while (value.ndim() < c.ndim(0) + 1) value = ops::unsqueeze(value, -1);
  if (mask.dtype() != DType::Bool) mask = ops::to(mask, DType::Bool);
  c.give(ops::where(mask, value, c.full(0)));
  return true;
}

void index_put_rule(BatchCall& c) {
  if (put_by_mask(c)) return;
  Places p = places_of(c, c.given[1]);
  int64_t ndim = p.ndim + c.ndim(0) - p.count;
  Tensor values = c.tensor(2);
  bool batched = c.batched(2);
  values = c.padded(2, ndim);
  if (!batched) {
    while (values.ndim() < ndim) values = ops::unsqueeze(values, 0);
    while (values.ndim() > ndim && values.size(0) == 1) values = ops::squeeze(values, 0);
    values = ops::unsqueeze(values, 0);
  }
  if (moves_front(p)) values = moved(values, p, true);
  c.give(ops::index_put(c.full(0), all_indices(c, p, true), values, c.integer(3) != 0));
}

// ---- one index along one dim ----

std::vector<Tensor> along(const BatchCall& c, int index) {
  int64_t dim = wrap_dim(c.op.name, c.integer(1), c.ndim(0));
  std::vector<Tensor> indices(static_cast<size_t>(dim));
  const Tensor& t = c.tensor(index);
  indices.push_back(t.ndim() ? t : ops::unsqueeze(t, 0));
  return indices;
}

// The same places in every example.
void shared_index_rule(BatchCall& c, int index) {
  int64_t ndim = c.ndim(0);
  bool lift = ndim == 0;
  for (int i = 0; i < c.count(); i++) {
    if (!c.is_tensor(i) || i == index) continue;
    bool value = std::string_view(c.op.params[i].name) == "value";
    Tensor t = value ? c.tensor(i) : c.full(i);
    if (!value && t.ndim() == 1 && (lift || c.ndim(i) == 0)) t = ops::unsqueeze(t, 1);
    c.set(i, t);
  }
  c.set(1, wrap_dim(c.op.name, c.integer(1), ndim) + 1);
  c.run();
  if (lift) c.give(ops::reshape(c.results.tensors[0], {c.size()}));
}

void index_select_rule(BatchCall& c) {
  if (!c.batched(2)) return shared_index_rule(c, 2);
  if (c.ndim(0) == 0) return loop_rule(c);
  c.give_from_examples([&] { return ops::index(c.tensor(0), along(c, 2)); });
}

void index_write_rule(BatchCall& c) {
  std::string_view name(c.op.name);
  int value = c.find("value");
  bool differs = c.batched(2) || (value >= 0 && c.batched(value));
  if (!differs) return shared_index_rule(c, 2);
  if (name.starts_with("index_reduce") || c.ndim(0) == 0) return loop_rule(c);
  c.give_from_examples([&] {
    const Tensor& self = c.tensor(0);
    bool add = name.starts_with("index_add");
    Tensor source;
    if (int i = c.find("source"); i >= 0)
      source = add ? c.tensor(i) * c.number(c.find("alpha")) : c.tensor(i);
    else
      source = c.is_tensor(value) ? c.tensor(value) : ops::full({}, c.number(value), self.dtype());
    if (source.dtype() != self.dtype()) source = ops::to(source, self.dtype());
    return ops::index_put(self, along(c, 2), source, add);
  });
}

void take_rule(BatchCall& c) {
  c.give_from_examples([&] {
    const Tensor& index = c.tensor(1);
    return ops::index(ops::reshape(c.tensor(0), {-1}), {&index, 1});
  });
}

// ---- rows of a table ----

void embedding_rule(BatchCall& c) {
  if (!c.batched(0)) {
    c.load();
    return c.run();
  }
  if (c.integer(c.find("scale_grad_by_freq"))) return loop_rule(c);
  int64_t padding = c.integer(c.find("padding_idx"));
  c.give_from_examples([&] {
    const Tensor& index = c.tensor(1);
    Tensor rows = ops::index(c.tensor(0), {&index, 1});
    if (padding < 0) return rows;
    return ops::where(ops::unsqueeze(index == Scalar(padding), -1), ops::detach(rows), rows);
  });
}

void embedding_grad_rule(BatchCall& c) {
  if (c.integer(c.find("scale_grad_by_freq"))) return loop_rule(c);
  int64_t rows = c.integer(2), padding = c.integer(3);
  c.give_from_examples([&] {
    Tensor grad = c.tensor(0), index = c.tensor(1);
    if (padding >= 0)
      grad = ops::where(ops::unsqueeze(index == Scalar(padding), -1), Scalar(0.0), grad);
    Tensor empty = ops::new_zeros(grad, {rows, grad.size(-1)});
    if (!c.batched(0)) empty = c.level.wrap(c.full(empty));
    return ops::index_put(empty, {&index, 1}, grad, true);
  });
}

}  // namespace

void add_index_rules(BatchRules& rules) {
  rules["index"] = index_rule;
  rules["index_put"] = index_put_rule;
  rules["index_select"] = index_select_rule;
  rules["take"] = take_rule;
  rules["embedding"] = embedding_rule;
  rules["embedding_dense_backward"] = embedding_grad_rule;
  add_rules(rules, {"gather", "scatter", "scatter_add", "scatter_reduce"}, dims_rule);
  add_rules(rules, {"index_add", "index_copy", "index_fill", "index_reduce"}, index_write_rule);
}

}  // namespace flambeau
