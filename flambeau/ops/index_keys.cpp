// Keys turned into views and index tensors: what x.index() and its assignment
// share.
#include "flambeau/generated/ops.h"
#include "flambeau/ops/index.h"

namespace flambeau {
namespace {

using namespace indexing;
using Keys = std::initializer_list<TensorIndex>;

// How many dims of the indexed tensor a key takes.
int64_t dims_taken(const TensorIndex& key) {
  if (const Tensor* t = std::get_if<Tensor>(&key.value))
    return t->dtype() == DType::Bool ? t->ndim() : 1;
  return std::holds_alternative<int64_t>(key.value) || std::holds_alternative<Slice>(key.value);
}

// The view that all keys but tensors make, and the tensors at the dims that
// they pick from.
struct Picked {
  Tensor part;
  std::vector<Tensor> indices;
  int64_t dim = 0;

  void operator()(NoneType) { part = ops::unsqueeze(part, dim++); }
  void operator()(int64_t i) { part = ops::select(part, dim, i); }
  void operator()(const Slice& s) {
    part = ops::slice(part, dim, s.start, s.stop, s.step);
    dim++;
  }
  void operator()(const Tensor& index) {
    indices.resize(size_t(dim));
    indices.push_back(index);
    dim += dims_taken(TensorIndex(index));
  }
};

Picked pick(const Tensor& x, Keys keys) {
  int64_t taken = 0, ellipses = 0;
  for (const TensorIndex& key : keys) {
    taken += dims_taken(key);
    ellipses += std::holds_alternative<EllipsisType>(key.value);
  }
  FL_CHECK(taken <= x.ndim(), IndexError, "index: {} dims are indexed, but the shape is {}", taken,
           x.sizes());
  FL_CHECK(ellipses <= 1, IndexError, "index: at most one Ellipsis may stand in a key, got {}",
           ellipses);
  Picked picked{x, {}};
  for (const TensorIndex& key : keys)
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, EllipsisType>)
            picked.dim += x.ndim() - taken;
          else
            picked(value);
        },
        key.value);
  return picked;
}

}  // namespace

TensorIndex::TensorIndex(const char* dots) : value(Ellipsis) {
  FL_CHECK(std::string_view(dots) == "...", ValueError, "index: the only text is \"...\", got {}",
           dots);
}

Tensor Tensor::index(Keys keys) const {
  Picked picked = pick(*this, keys);
  if (!picked.indices.empty()) return ops::index(picked.part, picked.indices);
  return picked.part.is(*this) ? ops::view(*this, sizes()) : picked.part;
}

Tensor Tensor::operator[](int64_t i) const { return ops::select(*this, 0, i); }
Tensor Tensor::operator[](const TensorIndex& key) const { return index({key}); }

const Tensor& Tensor::index_put_(Keys keys, const Tensor& value) const {
  Picked picked = pick(*this, keys);
  if (picked.indices.empty())
    ops::copy_(picked.part, value);
  else
    ops::index_put_(picked.part, picked.indices, value, false);
  return *this;
}

const Tensor& Tensor::index_put_(Keys keys, const Scalar& value) const {
  return index_put_(keys, ops::scalar_tensor(value, dtype(), {}, device()));
}

}  // namespace flambeau
