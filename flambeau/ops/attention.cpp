// Attention: shapes and calls of its kernels; put together from products and a softmax where those
// do not serve.
#include <cmath>

#include "flambeau/generated/impl.h"
#include "flambeau/ops/attention.h"
#include "flambeau/ops/operators.h"
#include "flambeau/ops/runtime.h"

namespace flambeau::ops {

namespace {

constexpr double kInfinity = __builtin_inf();

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                     const Tensor& mask, bool is_causal) {
  FL_CHECK(query.ndim() >= 2 && key.ndim() >= 2 && value.ndim() >= 2, RuntimeError,
           "scaled_dot_product_attention: at least 2 dims are needed, got {}, {} and {}",
           query.sizes(), key.sizes(), value.sizes());
  FL_CHECK(query.dtype() == key.dtype() && key.dtype() == value.dtype(), RuntimeError,
           "scaled_dot_product_attention: query, key and value must be of one dtype, got {}, {} "
           "and {}",
           query.dtype(), key.dtype(), value.dtype());
  FL_CHECK(!mask.defined() || !is_causal, RuntimeError,
           "scaled_dot_product_attention: is_causal takes no attn_mask, got one of shape {}",
           mask.defined() ? mask.sizes() : IntList());
  FL_CHECK(!mask.defined() || mask.dtype() == DType::Bool || is_float(mask.dtype()), RuntimeError,
           "scaled_dot_product_attention: attn_mask must be bool or floating, got {}",
           mask.defined() ? mask.dtype() : DType{});
}

// Each head of `t` for as many heads of the query as share it.
Tensor spread_heads(const Tensor& t, int64_t heads) {
  FL_CHECK(t.ndim() >= 3 && t.size(-3) > 0 && heads % t.size(-3) == 0, RuntimeError,
           "scaled_dot_product_attention: {} query heads must be a multiple of those of shape {}",
           heads, t.sizes());
  if (t.size(-3) == heads) return t;
  Ints wide(t.sizes());
  wide.insert(wide.size() - 2, heads / t.size(-3));
  Ints sizes(t.sizes());
  sizes[sizes.size() - 3] = heads;
  return reshape(expand(unsqueeze(t, -3), wide), sizes);
}

// Row i sees columns 0 to i.
Tensor causal_mask(int64_t rows, int64_t cols, Device device) {
  auto count = [&](int64_t n) { return arange(Scalar(n), DType::Int64, {}, device); };
  return ge(unsqueeze(count(rows), 1), count(cols));
}

// A bool mask or one of the query's dtype that wants no gradient, no dropout, and three or four
// equal batch dims.
bool has_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                double dropout_p) {
  if (q.dtype() != DType::Float32 && q.dtype() != DType::Float64) return false;
  if (dropout_p > 0 || q.ndim() < 3 || q.ndim() > 4) return false;
  if (k.ndim() != q.ndim() || v.ndim() != q.ndim()) return false;
  if (k.size(-1) != q.size(-1) || v.size(-2) != k.size(-2)) return false;
  for (int64_t d = 0; d < q.ndim() - 2; d++) {
    if (k.size(d) != q.size(d) || v.size(d) != q.size(d)) return false;
  }
  if (!mask.defined()) return true;
  if (mask.ndim() < 2 || mask.ndim() > q.ndim()) return false;
  if (mask.requires_grad() && tls.grad) return false;
  return mask.dtype() == DType::Bool || mask.dtype() == q.dtype();
}

Tensor with_heads(const Tensor& t, bool lacks) { return lacks ? unsqueeze(t, 0) : t; }

Tensor run_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                  bool is_causal, double scale, bool rounded) {
  const bool lacks = q.ndim() == 3;
  Tensor wide = mask;
  if (mask.defined()) {
    Ints sizes(q.sizes());
    sizes[sizes.size() - 1] = k.size(-2);
    wide = with_heads(expand(mask, sizes), lacks);
  }
  Tensor values = std::get<0>(_attention(with_heads(q, lacks), with_heads(k, lacks),
                                         with_heads(v, lacks), wide, is_causal, scale, rounded));
  values = transpose(values, 1, 2);
  return lacks ? squeeze(values, 0) : values;
}

AttentionOperand operand(const Tensor& t) {
  return {t->data, {t.stride(0), t.stride(1), t.stride(2)}};
}

}  // namespace

// A tensor whose rows are adjacent elements.
Tensor attention_rows_dense(const Tensor& t) {
  if (!t.defined() || t.size(-1) <= 1 || t.stride(-1) == 1) return t;
  return dense_copy(t);
}

AttentionArgs attention_args(const Tensor& query, const Tensor& key, const Tensor& value,
                             const Tensor& mask, bool is_causal, double scale, bool rounded) {
  AttentionArgs a{};
  a.dtype = query.dtype();
  a.batch = query.size(0), a.heads = query.size(1), a.rows = query.size(2);
  a.cols = key.size(2), a.depth = query.size(3), a.width = value.size(3);
  a.scale = scale, a.causal = is_causal, a.rounded = rounded;
  a.q = operand(query), a.k = operand(key), a.v = operand(value);
  if (mask.defined()) a.mask = operand(mask), a.mask_is_bool = mask.dtype() == DType::Bool;
  return a;
}

Ints attention_shape(const Tensor& query, const Tensor& key, const Tensor& value,
                     const Tensor& mask, bool, double, bool) {
  bool fits = query.ndim() == 4 && key.ndim() == 4 && value.ndim() == 4;
  for (int64_t d = 0; fits && d < 2; d++)
    fits = key.size(d) == query.size(d) && value.size(d) == query.size(d);
  fits = fits && key.size(3) == query.size(3) && value.size(2) == key.size(2);
  FL_CHECK(fits, RuntimeError,
           "attention: query (n, h, l, e), key (n, h, s, e) and value (n, h, s, v) are needed, got "
           "{}, {} and {}",
           query.sizes(), key.sizes(), value.sizes());
  FL_CHECK((query.dtype() == DType::Float32 || query.dtype() == DType::Float64) &&
               key.dtype() == query.dtype() && value.dtype() == query.dtype(),
           RuntimeError, "attention: one dtype, float32 or float64, is needed, got {}, {} and {}",
           query.dtype(), key.dtype(), value.dtype());
  Ints scores{query.size(0), query.size(1), query.size(2), key.size(2)};
  FL_CHECK(!mask.defined() || mask.sizes() == IntList(scores), RuntimeError,
           "attention: the mask must have shape {}, got {}", IntList(scores),
           mask.defined() ? mask.sizes() : IntList());
  FL_CHECK(!mask.defined() || mask.dtype() == DType::Bool || mask.dtype() == query.dtype(),
           RuntimeError, "attention: the mask must be bool or {}, got {}", query.dtype(),
           mask.defined() ? mask.dtype() : DType{});
  return {query.size(0), query.size(2), query.size(1), value.size(3)};
}
Ints attention_rows(const Tensor& query, const Tensor&, const Tensor&, const Tensor&, bool, double,
                    bool) {
  return {query.size(0), query.size(1), query.size(2)};
}

void attention_kernel(Tensor& values, Tensor& logsumexp, const Tensor& query, const Tensor& key,
                      const Tensor& value, const Tensor& mask, bool is_causal, double scale,
                      bool rounded) {
  Tensor q = attention_rows_dense(query), k = attention_rows_dense(key),
         v = attention_rows_dense(value), m = attention_rows_dense(mask);
  AttentionArgs a = attention_args(q, k, v, m, is_causal, scale, rounded);
  a.values = values->data, a.logsumexp = logsumexp->data;
  attention_forward(a);
}

namespace {

Tensor attention_of(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                    std::optional<double> scale, bool enable_gqa, bool rounded) {
  Tensor k = key, v = value;
  if (enable_gqa && query.ndim() >= 3) {
    k = spread_heads(key, query.size(-3));
    v = spread_heads(value, query.size(-3));
  }
  double factor = scale.value_or(1 / std::sqrt(double(query.size(-1))));
  if (has_kernel(query, k, v, attn_mask, dropout_p))
    return run_kernel(query, k, v, attn_mask, is_causal, factor, rounded);
  Tensor scores = matmul(query * Scalar(factor), transpose(k, -2, -1));
  Tensor mask = is_causal ? causal_mask(query.size(-2), key.size(-2), query.device()) : attn_mask;
  bool masked = mask.defined();
  if (masked && mask.dtype() == DType::Bool) {
    scores = where(mask, scores, Scalar(-kInfinity));
  } else if (masked) {
    scores = scores + mask;
  }
  Tensor weights = softmax(scores, -1);
  if (masked && !is_causal) {  // a row that sees nothing gets nothing
    int64_t last = -1;
    Tensor blind = all(eq(scores, Scalar(-kInfinity)), last, true);
    weights = masked_fill(weights, blind, Scalar(int64_t{0}));
  }
  if (dropout_p > 0) weights = dropout(weights, dropout_p, true);
  return matmul(weights, v);
}

}  // namespace

Tensor attention_impl(const Tensor& query, const Tensor& key, const Tensor& value,
                      const Tensor& attn_mask, double dropout_p, bool is_causal,
                      std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask, is_causal);
  // Scores rounded to a half type would cost the sums after them most of their digits.
  const DType given = query.dtype();
  auto wide = [&](const Tensor& t) { return is_half(given) ? to(t, DType::Float32) : t; };
  Tensor result = attention_of(wide(query), wide(key), wide(value), attn_mask, dropout_p, is_causal,
                               scale, enable_gqa, given == DType::BFloat16);
  return is_half(given) ? to(result, given) : result;
}

}  // namespace flambeau::ops
