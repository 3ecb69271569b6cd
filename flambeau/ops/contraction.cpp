// Products summed over chosen dims: each comes down to one batched product.
#include <array>
#include <string>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

// Dims as a mask, each named once.
uint64_t dims_named(std::string_view op, const Tensor& t, IntList dims) {
  uint64_t mask = 0;
  for (int64_t d : dims) {
    uint64_t bit = uint64_t{1} << wrap_dim(op, d, t.ndim());
    FL_CHECK(!(mask & bit), RuntimeError, "{}: a dim may be named once, got {}", op, dims);
    mask |= bit;
  }
  return mask;
}

}  // namespace

Tensor tensordot_impl(const Tensor& self, const Tensor& other, IntList dims_self,
                      IntList dims_other) {
  FL_CHECK(dims_self.size() == dims_other.size(), RuntimeError,
           "tensordot: both need as many dims, got {} and {}", dims_self, dims_other);
  uint64_t gone_a = dims_named("tensordot", self, dims_self);
  uint64_t gone_b = dims_named("tensordot", other, dims_other);
  Tensor a = self, b = other;
  Ints order_a, order_b, sizes;
  int64_t rows = 1, inner = 1, cols = 1;
  for (size_t i = 0; i < dims_self.size(); i++) {
    int64_t da = wrap_dim("tensordot", dims_self[i], self.ndim());
    int64_t db = wrap_dim("tensordot", dims_other[i], other.ndim());
    // A single element meets the sum of the others.
    if (a.size(da) == 1) b = sum(b, IntList(&db, 1), true);
    if (b.size(db) == 1) a = sum(a, IntList(&da, 1), true);
    FL_CHECK(a.size(da) == b.size(db), RuntimeError,
             "tensordot: dims {} and {} must have one size, got {} and {}", da, db, self.sizes(),
             other.sizes());
    inner *= a.size(da);
    order_a.push_back(da);
    order_b.push_back(db);
  }
  size_t place = 0;
  for (int64_t d = 0; d < a.ndim(); d++) {
    if (gone_a >> d & 1) continue;
    order_a.insert(place++, d);
    sizes.push_back(a.size(d));
    rows *= a.size(d);
  }
  for (int64_t d = 0; d < b.ndim(); d++) {
    if (gone_b >> d & 1) continue;
    order_b.push_back(d);
    sizes.push_back(b.size(d));
    cols *= b.size(d);
  }
  a = reshape(permute(a, order_a), {rows, inner});
  b = reshape(permute(b, order_b), {inner, cols});
  return reshape(mm(a, b), sizes);
}

Tensor inner_impl(const Tensor& self, const Tensor& other) {
  if (self.ndim() == 0 || other.ndim() == 0) return self * other;
  FL_CHECK(self.size(-1) == other.size(-1), RuntimeError,
           "inner: the last sizes must match, got {} and {}", self.sizes(), other.sizes());
  int64_t last = -1;
  return tensordot(self, other, IntList(&last, 1), IntList(&last, 1));
}

Tensor kron_impl(const Tensor& self, const Tensor& other) {
  int64_t n = std::max(self.ndim(), other.ndim());
  Ints a, b, sizes;
  for (int64_t d = 0; d < n; d++) {
    int64_t da = d - (n - self.ndim()), db = d - (n - other.ndim());
    a.push_back(da < 0 ? 1 : self.size(da));
    a.push_back(1);
    b.push_back(1);
    b.push_back(db < 0 ? 1 : other.size(db));
    sizes.push_back(a[size_t(2 * d)] * b[size_t(2 * d + 1)]);
  }
  return reshape(reshape(self, a) * reshape(other, b), sizes);
}

namespace {

// beta * self + product; a beta of zero ignores self, NaN and all.
Tensor added(std::string_view op, const Tensor& self, const Tensor& product, const Scalar& beta) {
  Ints sizes = broadcast_sizes(op, {&self, &product});
  FL_CHECK(sizes == Ints(product.sizes()), RuntimeError,
           "{}: self of shape {} does not broadcast to the product's {}", op, self.sizes(),
           product.sizes());
  bool none = !beta.is_complex() && beta.to_double() == 0;
  bool once = !beta.is_complex() && beta.to_double() == 1;
  if (none) return product;
  return once ? self + product : self * beta + product;
}

Tensor scaled(const Tensor& t, const Scalar& alpha) {
  return !alpha.is_complex() && alpha.to_double() == 1 ? t : t * alpha;
}

}  // namespace

Tensor addr_impl(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                 const Scalar& alpha) {
  FL_CHECK(vec1.ndim() == 1 && vec2.ndim() == 1, RuntimeError,
           "addr: two vectors are needed, got {} and {}", vec1.sizes(), vec2.sizes());
  Tensor result = added("addr", self, scaled(outer(vec1, vec2), alpha), beta);
  return to(result, promoted_dtype({&self, &vec1, &vec2}));
}

Tensor addbmm_impl(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                   const Scalar& beta, const Scalar& alpha) {
  // Whole numbers take the whole part of the factors, as in torch.
  if (!is_inexact(batch1.dtype()) && (alpha.is_float() || beta.is_float())) {
    return addbmm_impl(self, batch1, batch2, Scalar(beta.to_int()), Scalar(alpha.to_int()));
  }
  int64_t first = 0;
  Tensor total = sum(bmm(batch1, batch2), IntList(&first, 1), false, batch1.dtype());
  return to(added("addbmm", self, scaled(total, alpha), beta),
            promoted_dtype({&self, &batch1, &batch2}));
}

// ---- einsum ----
namespace {

// Letters are 0 to 51, the dims of an ellipsis 52 and on.
constexpr int kLetters = 52;

// A tensor and the label of each dim.
struct Term {
  Tensor tensor;
  Ints labels;
};

bool has(const Ints& labels, int64_t label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int64_t place_of(const Ints& labels, int64_t label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

int letter(char c) {
  if ('A' <= c && c <= 'Z') return c - 'A';
  FL_CHECK('a' <= c && c <= 'z', RuntimeError, "einsum: labels are letters, got '{}'",
           std::string_view(&c, 1));
  return c - 'a' + 26;
}

// The labels of one side of the equation; an ellipsis stands for `dims` labels that end at 52 +
// all.
Ints read_labels(std::string_view text, int64_t dims, int64_t all) {
  Ints labels;
  bool seen = false;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == ' ') continue;
    if (text[i] != '.') {
      labels.push_back(letter(text[i]));
      continue;
    }
    FL_CHECK(text.substr(i, 3) == "..." && !seen, RuntimeError,
             "einsum: one ellipsis '...' is allowed in each term, got '{}'", text);
    seen = true;
    i += 2;
    for (int64_t d = 0; d < dims; d++) labels.push_back(kLetters + all - dims + d);
  }
  return labels;
}

int64_t count_letters(std::string_view text) {
  int64_t n = 0;
  for (char c : text) n += c != ' ' && c != '.';
  return n;
}

std::vector<std::string_view> split_terms(std::string_view text) {
  std::vector<std::string_view> terms;
  for (size_t at = 0;;) {
    size_t comma = text.find(',', at);
    terms.push_back(text.substr(at, comma - at));
    if (comma == std::string_view::npos) return terms;
    at = comma + 1;
  }
}

// A label that stands twice in a term means its diagonal.
void take_diagonals(Term& term) {
  for (size_t i = 0; i < term.labels.size(); i++) {
    for (size_t j = i + 1; j < term.labels.size(); j++) {
      if (term.labels[i] != term.labels[j]) continue;
      int64_t label = term.labels[i];
      FL_CHECK(term.tensor.size(int64_t(i)) == term.tensor.size(int64_t(j)), RuntimeError,
               "einsum: a label that repeats needs one size, got shape {}", term.tensor.sizes());
      term.tensor = diagonal(term.tensor, 0, int64_t(i), int64_t(j));
      term.labels.erase(j);
      term.labels.erase(i);
      term.labels.push_back(label);
      return take_diagonals(term);
    }
  }
}

// Sums over the labels that nobody needs; sums of integers are int64.
Term sum_unneeded(const Term& term, const Ints& needed) {
  Ints dims, kept;
  for (size_t i = 0; i < term.labels.size(); i++) {
    if (has(needed, term.labels[i]))
      kept.push_back(term.labels[i]);
    else
      dims.push_back(int64_t(i));
  }
  if (dims.empty()) return term;
  return {sum(term.tensor, Dims(dims)), kept};
}

// Dims in the order of `labels`; a label that the term lacks becomes a dim of size 1.
Tensor arranged(const Term& term, const Ints& labels) {
  Ints order, sizes;
  for (int64_t label : labels) {
    int64_t at = place_of(term.labels, label);
    bool found = at < int64_t(term.labels.size());
    if (found) order.push_back(at);
    sizes.push_back(found ? term.tensor.size(at) : 1);
  }
  return reshape(permute(term.tensor, order), sizes);
}

int64_t size_of(const Term& term, int64_t label) {
  return term.tensor.size(place_of(term.labels, label));
}

int64_t product_of(const Term& term, const Ints& labels) {
  int64_t n = 1;
  for (int64_t label : labels) n *= size_of(term, label);
  return n;
}

Ints followed_by(const Ints& a, const Ints& b) {
  Ints all(a);
  for (int64_t label : b) all.push_back(label);
  return all;
}

// Sizes of 1 grow to those of the other term.
void match_sizes(Term& a, Term& b) {
  Ints sizes_a(a.tensor.sizes()), sizes_b(b.tensor.sizes());
  for (size_t i = 0; i < a.labels.size(); i++) {
    if (!has(b.labels, a.labels[i])) continue;
    size_t j = size_t(place_of(b.labels, a.labels[i]));
    FL_CHECK(sizes_a[i] == sizes_b[j] || sizes_a[i] == 1 || sizes_b[j] == 1, RuntimeError,
             "einsum: a label has sizes {} and {}, in shapes {} and {}", sizes_a[i], sizes_b[j],
             a.tensor.sizes(), b.tensor.sizes());
    if (sizes_a[i] == 1) sizes_a[i] = sizes_b[j];
    if (sizes_b[j] == 1) sizes_b[j] = sizes_a[i];
  }
  a.tensor = expand(a.tensor, sizes_a);
  b.tensor = expand(b.tensor, sizes_b);
}

// Integers as int64, beside a factor that was summed.
void widen(Tensor& t) {
  if (!is_inexact(t.dtype())) t = to(t, DType::Int64);
}

// The product of two terms, summed over the labels that only they have.
Term contract(Term a, Term b, const Ints& needed) {
  match_sizes(a, b);
  a = sum_unneeded(a, followed_by(needed, b.labels));
  b = sum_unneeded(b, followed_by(needed, a.labels));
  if (a.tensor.dtype() == DType::Int64 || b.tensor.dtype() == DType::Int64) {
    widen(a.tensor);
    widen(b.tensor);
  }
  Ints batch, rows, cols, inner;
  for (int64_t label : a.labels) {
    bool shared = has(b.labels, label);
    (!shared ? rows : has(needed, label) ? batch : inner).push_back(label);
  }
  for (int64_t label : b.labels) {
    if (!has(a.labels, label)) cols.push_back(label);
  }
  Ints labels = followed_by(followed_by(batch, rows), cols);
  if (inner.empty()) return {arranged(a, labels) * arranged(b, labels), labels};
  int64_t n = product_of(a, batch), k = product_of(a, inner);
  Tensor left = reshape(arranged(a, followed_by(followed_by(batch, rows), inner)),
                        {n, product_of(a, rows), k});
  Tensor right = reshape(arranged(b, followed_by(followed_by(batch, inner), cols)),
                         {n, k, product_of(b, cols)});
  Ints sizes;
  for (int64_t label : labels) sizes.push_back(size_of(has(a.labels, label) ? a : b, label));
  return {reshape(bmm(left, right), sizes), labels};
}

// Without an arrow: the ellipsis, then the letters that stand once, in alphabetical order.
Ints implied_labels(const std::vector<Term>& terms, int64_t dims) {
  Ints labels;
  for (int64_t d = 0; d < dims; d++) labels.push_back(kLetters + d);
  for (int64_t label = 0; label < kLetters; label++) {
    int64_t times = 0;
    for (const Term& t : terms) times += std::count(t.labels.begin(), t.labels.end(), label);
    if (times == 1) labels.push_back(label);
  }
  return labels;
}

std::vector<Term> read_terms(std::string_view left, TensorList tensors, int64_t& dims) {
  std::vector<std::string_view> texts = split_terms(left);
  FL_CHECK(texts.size() == tensors.size(), RuntimeError,
           "einsum: '{}' has {} terms, got {} tensors", left, int64_t(texts.size()),
           int64_t(tensors.size()));
  dims = 0;
  for (size_t i = 0; i < texts.size(); i++) {
    int64_t rest = tensors[i].ndim() - count_letters(texts[i]);
    bool dots = texts[i].find('.') != std::string_view::npos;
    FL_CHECK(rest == 0 || (rest > 0 && dots), RuntimeError,
             "einsum: the term '{}' does not fit a tensor of shape {}", texts[i],
             tensors[i].sizes());
    dims = std::max(dims, rest);
  }
  std::vector<Term> terms;
  for (size_t i = 0; i < texts.size(); i++) {
    int64_t rest = tensors[i].ndim() - count_letters(texts[i]);
    terms.push_back({tensors[i], read_labels(texts[i], rest, dims)});
  }
  return terms;
}

void check_result(const Ints& labels, const std::vector<Term>& terms, std::string_view equation) {
  for (int64_t label : labels) {
    bool known = label >= kLetters;
    for (const Term& t : terms) known = known || has(t.labels, label);
    FL_CHECK(known && std::count(labels.begin(), labels.end(), label) == 1, RuntimeError,
             "einsum: each label of the result must stand in it once and in a term, got '{}'",
             equation);
  }
}

}  // namespace

Tensor einsum_impl(std::string_view equation, TensorList tensors, std::optional<IntList>) {
  FL_CHECK(!tensors.empty(), RuntimeError, "einsum: at least one tensor is needed, got none");
  size_t arrow = equation.find("->");
  int64_t dims = 0;
  std::vector<Term> terms = read_terms(equation.substr(0, arrow), tensors, dims);
  Ints result = arrow == std::string_view::npos
                    ? implied_labels(terms, dims)
                    : read_labels(equation.substr(arrow + 2), dims, dims);
  check_result(result, terms, equation);
  for (Term& term : terms) take_diagonals(term);
  Term total = terms[0];
  for (size_t i = 1; i < terms.size(); i++) {
    Ints needed(result);
    for (size_t j = i + 1; j < terms.size(); j++) needed = followed_by(needed, terms[j].labels);
    total = contract(total, terms[i], needed);
  }
  total = sum_unneeded(total, result);
  return arranged(total, result);
}

}  // namespace flambeau::ops
