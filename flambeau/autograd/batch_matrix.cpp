// Batching rules of matrix products.
#include "flambeau/autograd/batch_call.h"

namespace flambeau {

namespace {

// Products with at least two dims per example: matmul broadcasts the batch.
Tensor product(const BatchCall& c, int a, int b) { return ops::matmul(c.values(a), c.values(b)); }

Tensor matrix_vector(const BatchCall& c, int a, int v) {
  if (!c.batched(v)) return ops::matmul(c.values(a), c.values(v));
  if (!c.batched(a)) return ops::matmul(c.values(v), ops::transpose(c.values(a), 0, 1));
  return ops::squeeze(ops::matmul(c.values(a), ops::unsqueeze(c.values(v), -1)), -1);
}

void matrices_rule(BatchCall& c) { c.give(product(c, 0, 1)); }
void mv_rule(BatchCall& c) { c.give(matrix_vector(c, 0, 1)); }

void dot_rule(BatchCall& c) {
  if (!c.batched(1)) return c.give(ops::matmul(c.values(0), c.values(1)));
  if (!c.batched(0)) return c.give(ops::matmul(c.values(1), c.values(0)));
  Tensor one = ops::matmul(ops::unsqueeze(c.values(0), 1), ops::unsqueeze(c.values(1), 2));
  c.give(ops::reshape(one, {c.size()}));
}

// beta * self + alpha * product, which has `ndim` dims in an example.
void added_rule(BatchCall& c, Tensor product, int64_t ndim) {
  const Scalar &beta = c.number(c.find("beta")), &alpha = c.number(c.find("alpha"));
  auto is = [](const Scalar& s, double x) { return !s.is_complex() && s.to_double() == x; };
  if (!is(alpha, 1)) product = product * alpha;
  if (is(beta, 0)) return c.give(product);
  Tensor self = c.padded(0, ndim);
  c.give(product + (is(beta, 1) ? self : self * beta));
}

void addmm_rule(BatchCall& c) { added_rule(c, product(c, 1, 2), c.ndim(1)); }

void addmv_rule(BatchCall& c) {
  bool plain = !c.batched(1) && !c.batched(2);
  added_rule(c, plain ? ops::mv(c.tensor(1), c.tensor(2)) : matrix_vector(c, 1, 2), 1);
}

// B of an example may be a vector, which all of them together are not.
void solve_rule(BatchCall& c) {
  bool vector =
      c.ndim(1) == 1 || (c.ndim(1) == c.ndim(0) - 1 &&
                         IntList(c.tensor(0)->sizes, size_t(c.ndim(1))) == c.tensor(1).sizes());
  int64_t ndim = vector ? c.ndim(0) : std::max(c.ndim(0), c.ndim(1));
  c.set(0, c.padded(0, ndim));
  c.set(1, vector ? ops::unsqueeze(c.full(1), -1) : c.padded(1, ndim));
  c.run();
  if (vector) c.give(ops::squeeze(c.results.tensors[0], -1));
}

void linear_rule(BatchCall& c) {
  bool bias = c.is_tensor(2);
  if (!c.batched(1)) {
    bool inside = bias && !c.batched(2);
    Tensor y = ops::linear(c.values(0), c.values(1), inside ? c.values(2) : Tensor());
    return c.give(bias && !inside ? y + c.padded(2, y.ndim() - 1) : y);
  }
  // One product per example, of a matrix of all rows.
  Tensor weight = c.values(1), x = c.full(0);
  int64_t features = x.size(-1), rows = features ? x.numel() / features / c.size() : 0;
  Tensor matrix = features ? ops::reshape(x, {c.size(), rows, features}) : x;
  bool vector = weight.ndim() == 2;
  Tensor across = vector ? ops::unsqueeze(weight, -1) : ops::transpose(weight, 1, 2);
  Tensor y = ops::matmul(matrix, across);
  if (bias) y = y + c.padded(2, vector ? 1 : 2);
  Ints sizes(x.sizes());
  sizes.erase(sizes.size() - 1);
  if (!vector) sizes.push_back(weight.size(1));
  c.give(ops::reshape(y, sizes));
}

}  // namespace

void add_matrix_rules(BatchRules& rules) {
  add_rules(rules, {"mm", "bmm"}, matrices_rule);
  add_rules(rules, {"addmm", "baddbmm"}, addmm_rule);
  rules["addmv"] = addmv_rule;
  rules["mv"] = mv_rule;
  add_rules(rules, {"linalg_solve"}, solve_rule);
  add_rules(rules, {"matrix_exp", "linalg_matrix_exp"}, same_rule);
  rules["dot"] = dot_rule;
  rules["linear"] = linear_rule;
}

}  // namespace flambeau
