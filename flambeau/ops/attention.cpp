// Attention put together from products and a softmax.
#include <cmath>

#include "flambeau/generated/impl.h"
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

}  // namespace

Tensor attention_impl(const Tensor& query, const Tensor& key, const Tensor& value,
                      const Tensor& attn_mask, double dropout_p, bool is_causal,
                      std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask, is_causal);
  if (query.dtype() == DType::Float16 || query.dtype() == DType::BFloat16) {
    // Scores rounded to a half type would cost the sums after them most of their digits.
    DType wide = DType::Float32;
    Tensor result = attention_impl(to(query, wide), to(key, wide), to(value, wide), attn_mask,
                                   dropout_p, is_causal, scale, enable_gqa);
    return to(result, query.dtype());
  }
  Tensor k = key, v = value;
  if (enable_gqa && query.ndim() >= 3) {
    k = spread_heads(key, query.size(-3));
    v = spread_heads(value, query.size(-3));
  }
  double factor = scale.value_or(1 / std::sqrt(double(query.size(-1))));
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

}  // namespace flambeau::ops
