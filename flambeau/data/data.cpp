// Loading: an epoch draws what Python's DataLoader draws, in the same order.
#include "flambeau/data/data.h"

#include "flambeau/generated/ops.h"

namespace flambeau::data {
namespace {

int64_t drawn_seed(Generator* generator) {
  Tensor seed = ops::empty({}, DType::Int64);
  ops::random_(seed, generator);
  return seed.item().to_int();
}

}  // namespace

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  FL_CHECK(!tensors_.empty(), ValueError, "TensorDataset: needs at least one tensor");
  for (const Tensor& t : tensors_)
    FL_CHECK(t.ndim() > 0 && t.size(0) == size(), ValueError,
             "TensorDataset: the tensors' first sizes must be equal, got "
             "shapes {} and {}",
             tensors_[0].sizes(), t.sizes());
}

DataLoader::DataLoader(TensorDataset dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)), options_(options) {
  FL_CHECK(options_.batch_size > 0, ValueError, "DataLoader: batch_size must be positive, got {}",
           options_.batch_size);
}

int64_t DataLoader::size() const {
  int64_t rows = dataset_.size(), batch = options_.batch_size;
  return options_.drop_last ? rows / batch : (rows + batch - 1) / batch;
}

DataLoader::Iterator::Iterator(const DataLoader& loader) : loader_(&loader) {
  // Python's loader draws a seed for its workers first, whether it has any or
  // not.
  drawn_seed(loader.options_.generator);
  if (loader.options_.shuffle) {
    int64_t rows = loader.dataset_.size();
    if (Generator* given = loader.options_.generator) {
      order_ = ops::randperm(rows, given);
    } else {
      Generator fresh{uint64_t(drawn_seed(nullptr))};
      order_ = ops::randperm(rows, &fresh);
    }
  }
  fetch();
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  at_++;
  fetch();
  return *this;
}

void DataLoader::Iterator::fetch() {
  batch_.clear();
  if (at_ >= loader_->size()) {
    // torch's sampler draws once more when it runs dry.
    Generator* given = loader_->options_.generator;
    if (order_.defined() && given) ops::randperm(loader_->dataset_.size(), given);
    return;
  }
  NoGradGuard no_grad;
  int64_t from = at_ * loader_->options_.batch_size;
  int64_t to = std::min(from + loader_->options_.batch_size, loader_->dataset_.size());
  for (const Tensor& t : loader_->dataset_.tensors()) {
    Tensor rows = order_.defined() ? ops::index_select(t, 0, ops::slice(order_, 0, from, to))
                                   : ops::slice(t, 0, from, to);
    batch_.push_back(rows);
  }
}

}  // namespace flambeau::data
